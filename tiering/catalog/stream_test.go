package catalog_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
)

// sent is what is sent of a source.
func sent(t *testing.T, src catalog.Source) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, catalog.Send(t.Context(), &b, src, mover.WalkOptions{}))
	return b.Bytes()
}

// A catalog that scans what was sent has what one that scans the tree has; one that could not be read in part is known in part.
func TestStream(t *testing.T) {
	tree := mem.NewTree()
	for i := range 3000 {
		tree.Files(map[string]string{fmt.Sprintf("d%02d/e%d/f%04d", i%20, i%3, i): "x"})
	}
	for i := range 500 {
		tree.Files(map[string]string{fmt.Sprintf("many/%04d", i): ""})
	}
	tree.Put(mover.Entry{Name: "old", Kind: mover.File, Known: mover.FactMtime, Mtime: mover.Time{Sec: -5, Nsec: 7}}, nil)
	src := mem.New(tree, mem.Options{})
	c := fresh(t)
	text := sent(t, src)
	_, err := c.Scan(t.Context(), project, catalog.Receive(bytes.NewReader(text)), catalog.ScanOptions{})
	must.Do(t, err)
	equal(t, c, project, src)
	for reads := range mover.ReadsUnseen + 1 {
		text := sent(t, mem.New(tree, mem.Options{Adjust: func(t *mover.Capabilities) { t.Reads = reads }}))
		_, err := c.Scan(t.Context(), project, catalog.Receive(bytes.NewReader(text)), catalog.ScanOptions{})
		must.Do(t, err)
		if s := must.Get(c.State(project))(t); s.Reads != reads {
			t.Errorf("reads are recorded as %d, and known as %d", reads, s.Reads)
		}
	}

	tree.Delete("d03/e0")
	tree.Delete("d04/e1")
	broken := broken{src, map[string]error{"d03": errors.New("input/output error")}}
	tally, err := c.Scan(t.Context(), project, catalog.Receive(bytes.NewReader(sent(t, broken))), catalog.ScanOptions{})
	must.Do(t, err)
	if tally.Unread != 1 {
		t.Errorf("%+v", tally)
	}
	if _, err := c.Get(project, "d03/e0"); err != nil {
		t.Errorf("of a directory that could not be read something is gone: %v", err)
	}
	if _, err := c.Get(project, "d04/e1"); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("what is gone is known: %v", err)
	}
}

// Wherever a walk is cut, it is no whole one: nothing counts as scanned.
//
//safety:4 with TestEmpty
func TestStreamCut(t *testing.T) {
	tree := mem.NewTree()
	for i := range 40 {
		tree.Files(map[string]string{fmt.Sprintf("d%d/f%d", i%4, i): "x"})
	}
	text := sent(t, mem.New(tree, mem.Options{}))
	c := fresh(t)
	for n := range text {
		_, err := c.Scan(t.Context(), project, catalog.Receive(bytes.NewReader(text[:n])), catalog.ScanOptions{})
		if !errors.Is(err, mover.ErrCorrupt) {
			t.Fatalf("after %d of %d bytes: %v", n, len(text), err)
		}
	}
	state := must.Get(c.State(project))(t)
	if !state.Scanned.IsZero() {
		t.Errorf("%+v", state)
	}
}

// Who sends is believed in nothing.
//
//safety:4 with TestEmpty
func FuzzReceive(f *testing.F) {
	tree := mem.NewTree().Files(map[string]string{"a/b/c": "1", "a/d": "2", "e": "3"})
	var b bytes.Buffer
	if err := catalog.Send(f.Context(), &b, mem.New(tree, mem.Options{}), mover.WalkOptions{}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("p\x03../\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var last mover.Entry
		for e, err := range catalog.Receive(bytes.NewReader(text)).Walk(t.Context(), mover.WalkOptions{}) {
			if err != nil {
				if e.Kind == 0 && !errors.Is(err, mover.ErrCorrupt) {
					t.Fatal(err)
				}
				continue
			}
			if !mover.ValidName(e.Name) || e.Name == "" || last.Name != "" && mover.Compare(&last, &e) >= 0 {
				t.Fatalf("%q after %q", e.Name, last.Name)
			}
			last = e
		}
	})
}
