// Package backendtest is the contract of a place, as tests.
//
// [Run] walks through what package mover promises of every [mover.Backend], one
// subtest per promise, and adapts to the traits of the place: what it does not
// keep is not asked for. A place runs it against the real thing; a wrapper runs
// it around a place in memory. Nothing is asserted that package mover does not say.
//
// [Feed], [Put] and [Read] are also of use to other tests.
package backendtest

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/minio/crc64nvme"

	"datamove.dev/mover"
)

// Fresh makes one empty tree. Each call of open opens one more place on that
// same tree, as another process would; the suite closes it.
type Fresh func(t *testing.T) (open func() mover.Backend)

// Run tests the place. Each subtest has a tree of its own.
func Run(t *testing.T, fresh Fresh) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Walk", walkTests},
		{"Content", contentTests},
		{"Draft", draftTests},
		{"Publish", publishTests},
		{"Directory", directoryTests},
		{"Change", changeTests},
		{"Names", nameTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, row := range group.tests {
				t.Run(row.promise, func(t *testing.T) { row.run(newBed(t, fresh)) })
			}
		})
	}
}

// test is one promise and what shows it.
type test struct {
	promise string
	run     func(*bed)
}

// owner drafts everything here.
var owner = mover.WriterID{Task: "placetest", Epoch: 7}

// bed is what one test works with.
type bed struct {
	*testing.T
	open   func() mover.Backend // another place on the same tree
	place  mover.Backend
	traits mover.Capabilities
	part   int64 // a small size of parts that the place takes
}

func newBed(t *testing.T, fresh Fresh) *bed {
	openOne := fresh(t)
	open := func() mover.Backend {
		p := openOne()
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		return p
	}
	b := &bed{T: t, open: open, place: open()}
	b.traits = b.place.Capabilities()
	align := max(1, b.traits.PartAlign)
	b.part = (max(b.traits.PartMin, 4096) + align - 1) / align * align
	return b
}

func (b *bed) keeps(f mover.Facts) bool { return b.traits.Keeps.Has(f) }

// need skips the test when the place has not what it is about.
func (b *bed) need(have bool, what string) {
	b.Helper()
	if !have {
		b.Skip("not applicable: the place has no " + what)
	}
}

// ok ends the test on an error.
func (b *bed) ok(err error, what string, args ...any) {
	b.Helper()
	if err != nil {
		b.Fatalf("%s: %v", fmt.Sprintf(what, args...), err)
	}
}

// is reports an error that is not of the kind.
func (b *bed) is(err, kind error, what string, args ...any) {
	b.Helper()
	if !errors.Is(err, kind) {
		b.Errorf("%s: got error %v, want one that is %q", fmt.Sprintf(what, args...), err, kind)
	}
}

// file is the entry of a new file with that content.
func (b *bed) file(name string, data []byte) mover.Entry {
	return mover.Entry{
		Name: name, Kind: mover.File, Size: int64(len(data)),
		Known: mover.FactMode | mover.FactMtime | mover.FactCRC,
		Mode:  0o640, Mtime: mover.Time{Sec: 1_234_567_890, Nsec: 123_456_789},
		CRC: Sum(data),
	}
}

func dirEntry(name string) mover.Entry {
	return mover.Entry{Name: name, Kind: mover.Dir, Known: mover.FactMode, Mode: 0o750}
}

func (b *bed) put(name, data string) {
	b.Helper()
	Put(b.T, b.place, b.file(name, []byte(data)), []byte(data))
}

func (b *bed) mkdir(names ...string) {
	b.Helper()
	for _, name := range names {
		b.ok(b.place.Mkdir(b.Context(), dirEntry(name)), "mkdir %q", name)
	}
}

func (b *bed) stat(name string) mover.Entry {
	b.Helper()
	e, err := b.place.Stat(b.Context(), name)
	b.ok(err, "stat %q", name)
	return e
}

// holds asserts the content of a file.
func (b *bed) holds(name, want string) {
	b.Helper()
	if got := Read(b.T, b.place, name); string(got) != want {
		b.Errorf("%q holds %s, want %s", name, short(string(got)), short(want))
	}
}

// absent asserts that nothing has the name.
func (b *bed) absent(name string) {
	b.Helper()
	_, err := b.place.Stat(b.Context(), name)
	b.is(err, mover.ErrNotExist, "stat %q, which must not be visible", name)
	if names := b.names(mover.WalkOptions{}); slices.Contains(names, name) || slices.Contains(names, name+"/") {
		b.Errorf("a walk shows %q, which must not be visible: %q", name, names)
	}
}

// walk collects entries.
func (b *bed) walk(opts mover.WalkOptions) []mover.Entry {
	b.Helper()
	var all []mover.Entry
	for e, err := range b.place.Walk(b.Context(), opts) {
		b.ok(err, "walk of %q at %q", opts.Dir, e.Name)
		all = append(all, e)
	}
	return all
}

// names collects names, those of directories with '/' behind them.
func (b *bed) names(opts mover.WalkOptions) []string {
	b.Helper()
	names := []string{}
	for _, e := range b.walk(opts) {
		names = append(names, slashed(e))
	}
	return names
}

func slashed(e mover.Entry) string {
	if e.Kind == mover.Dir {
		return e.Name + "/"
	}
	return e.Name
}

// draft begins a file of that content in parts of b.part.
func (b *bed) draft(name string, data []byte) mover.Draft {
	b.Helper()
	d, err := b.place.Draft(b.Context(), b.file(name, data), mover.Hints{By: owner, PartBytes: b.part})
	b.ok(err, "draft %q", name)
	b.Cleanup(func() { _ = d.Close() }) // what became of it is what the test is about
	return d
}

// write writes one part of data.
func (b *bed) write(d mover.Draft, p mover.Part, data []byte) mover.Receipt {
	b.Helper()
	feed := NewFeed(data[p.Off : p.Off+p.Length])
	r, err := d.WritePart(b.Context(), p, feed)
	b.ok(err, "write part %d", p.Index)
	if r.Part != p || r.CRC != feed.Sum() {
		b.Errorf("receipt %+v of part %+v with CRC %x", r, p, feed.Sum())
	}
	return r
}

// publish publishes one finished draft.
func (b *bed) publish(d mover.Draft) mover.Outcome {
	b.Helper()
	out := b.place.Publish(b.Context(), []mover.Draft{d})
	if len(out) != 1 {
		b.Fatalf("Publish of 1 draft has %d outcomes", len(out))
	}
	b.ok(out[0].Err, "publish")
	return out[0]
}

// Parts cuts size bytes; an empty content has no parts.
func Parts(size, partBytes int64) []mover.Part {
	var parts []mover.Part
	for off := int64(0); off < size; off += partBytes {
		parts = append(parts, mover.Part{Index: len(parts), Off: off, Length: min(partBytes, size-off)})
	}
	return parts
}

// Put publishes a file with the facts of e. Its parts have the place's usual size.
func Put(t testing.TB, to mover.Target, e mover.Entry, data []byte) {
	t.Helper()
	if err := TryPut(t.Context(), to, e, data); err != nil {
		t.Fatalf("put %q: %v", e.Name, err)
	}
}

// TryPut is Put that returns why it failed.
func TryPut(ctx context.Context, to mover.Target, e mover.Entry, data []byte) error {
	d, err := to.Draft(ctx, e, mover.Hints{By: owner})
	if err != nil {
		return err
	}
	defer d.Close()
	var receipts []mover.Receipt
	for _, p := range Parts(e.Size, to.Capabilities().PartBytes) {
		r, err := d.WritePart(ctx, p, NewFeed(data[p.Off:p.Off+p.Length]))
		if err != nil {
			return err
		}
		receipts = append(receipts, r)
	}
	if err := d.Finish(ctx, e, receipts); err != nil {
		return err
	}
	return to.Publish(ctx, []mover.Draft{d})[0].Err
}

// Read returns the whole content of a file.
func Read(t testing.TB, from mover.Source, name string) []byte {
	t.Helper()
	data, err := read(t.Context(), from, name)
	if err != nil {
		t.Fatalf("read %q: %v", name, err)
	}
	return data
}

func read(ctx context.Context, from mover.Source, name string) ([]byte, error) {
	e, err := from.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	c, err := from.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	data, err := readRange(ctx, c, 0, e.Size)
	if changed := c.Check(ctx); changed != nil { // it says whether what was read counts
		return nil, changed
	}
	return data, err
}

// readRange reads a range to its end, and tells which bytes there were before an error.
func readRange(ctx context.Context, c mover.Content, off, n int64) ([]byte, error) {
	r, err := c.Range(ctx, off, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data := bytes.NewBuffer(make([]byte, 0, n+bytes.MinRead)) // at once: it is not bounded by n
	_, err = data.ReadFrom(r)
	return data.Bytes(), err
}

// Pattern returns n bytes in which no two places look alike.
func Pattern(n int64) []byte {
	data := make([]byte, n)
	var seed [aes.BlockSize]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(n))
	block, _ := aes.NewCipher(seed[:])                     // never fails: the key is long enough
	cipher.NewCTR(block, seed[:]).XORKeyStream(data, data) // by the processor: nothing is faster, with the race detector, too
	return data
}

// Sum is the CRC-64/NVME of data.
func Sum(data []byte) uint64 { return crc64nvme.Checksum(data) }

// short prints long contents by length and checksum.
func short(s string) string {
	if len(s) <= 64 {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%d bytes %q… with CRC %016x", len(s), s[:16], Sum([]byte(s)))
}

// someone is a uid and gid that we may give away.
func someone() (uid, gid uint32) {
	if os.Geteuid() == 0 {
		return 1234, 2345
	}
	return uint32(os.Geteuid()), uint32(os.Getegid())
}
