package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
)

// draft is an object that is being written: memory while it is one part, else a
// multipart upload; or a copy that the server will make.
type draft struct {
	place *Backend
	entry mover.Entry // as it was begun; after Finish, as it is to be
	key   string
	ready bool // Finish was called
	seen  seen // what has the name, as the run knows it

	upload     s3api.Upload // of a multipart upload
	begun      s3api.Put    // what the upload was begun with
	adopted    bool
	encryption string // that the upload was asked to have; "" is none

	from     s3api.Source   // what Publish copies; key "" is nothing
	fromSize int64          //
	copied   []s3api.Stored // parts that Clone had the server copy; nil is none

	mu     sync.Mutex      // guards all below
	data   []byte          // of one part; nil when nothing is written yet
	pooled bool            // Data is of the place's buffers
	sums   []mover.Receipt // after Finish
	state  draftState
	asked  bool // Complete was called, and its answer was none

	outcome mover.Outcome // once published
}

type draftState uint8

const (
	drafting draftState = iota
	published
	suspended
	dropped
)

var _ mover.Cloner = (*draft)(nil)

// Draft implements mover.Target.
func (p *Backend) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	d, err := p.draft(ctx, e, h)
	if err != nil {
		return nil, p.wrap("draft", e.Name, err)
	}
	return d, nil
}

func (p *Backend) draft(ctx context.Context, e mover.Entry, h mover.Hints) (d *draft, err error) {
	d = &draft{place: p, entry: e, seen: seenOf(h.Seen)}
	if d.key, err = p.key(e.Name); err == nil {
		err = p.takes(d.key)
	}
	if err != nil {
		return nil, err
	}
	switch _, raw := rawKey(e.Name); {
	case raw && e.Key == "": // a file elsewhere: its name may not lead to what no name leads to
		return nil, fmt.Errorf("its name is taken by the key of another object: %w", mover.ErrUnsupported)
	case e.Name == "":
		return nil, fmt.Errorf("the root is always there: %w", mover.ErrUsage)
	case h.In != nil:
		return nil, fmt.Errorf("no directory drafts: %w", mover.ErrUnsupported)
	case e.Size < 0 || e.Size > maxBytes:
		return nil, fmt.Errorf("%d bytes; objects have up to %d: %w", e.Size, int64(maxBytes), mover.ErrUnsupported)
	case e.Kind == mover.Dir:
		d.key, err = p.marker(e.Name)
		return d, err
	case e.Kind == mover.Symlink:
		d.data = []byte(e.Target)
		return d, checkTarget(e.Target)
	case e.Kind != mover.File:
		return nil, fmt.Errorf("S3 has no %v; only a manifest keeps it: %w", e.Kind, mover.ErrUnsupported)
	case h.Link != "":
		return d, d.linkTo(ctx, h.Link)
	}
	part := h.PartBytes
	if part <= 0 {
		part = partUsual
	}
	if e.Size <= min(part, partUsual) {
		return d, nil
	}
	return d, d.begin(ctx)
}

// object is what the draft is to be, but for its content.
func (d *draft) object() s3api.Put {
	w := s3api.Put{Key: d.key, Metadata: encodeMeta(&d.entry), ReplaceTags: true}
	if d.entry.Kind == mover.File && !d.entry.Known.Has(mover.FactHeaders) {
		w.ContentType = mover.TypeOfName(d.entry.Name)
	}
	d.place.beside(&w, &d.entry)
	return w
}

func checkTarget(target string) error {
	if target == "" || len(target) > targetBytes || strings.IndexByte(target, 0) >= 0 {
		return fmt.Errorf("%q is not the target of a symlink: %w", target, mover.ErrUsage)
	}
	return nil
}

// linkTo makes the draft a copy of another entry: S3 has no hard links.
func (d *draft) linkTo(ctx context.Context, leader string) error {
	key, err := d.place.key(leader)
	if err != nil {
		return err
	}
	o, err := d.place.store.Head(ctx, key, "")
	if err != nil {
		return fmt.Errorf("link to %s: %w", mover.Printable(leader), err)
	}
	d.from, d.fromSize = s3api.Source{Bucket: d.place.bucket, Key: key, IfMatch: o.ETag}, o.Size
	return nil
}

// WritePart implements mover.Draft.
func (d *draft) WritePart(ctx context.Context, part mover.Part, feed mover.Feed) (mover.Receipt, error) {
	var etag string
	var err error
	if d.upload.ID == "" {
		err = d.keep(ctx, part, feed)
	} else {
		etag, err = d.send(ctx, part, feed)
	}
	if err != nil {
		return mover.Receipt{}, d.place.wrap("write", d.entry.Name, err)
	}
	return mover.Receipt{Part: part, CRC: feed.Sum(), ETag: etag}, nil
}

// keep holds the content of a draft of one part in memory.
func (d *draft) keep(ctx context.Context, part mover.Part, feed mover.Feed) error {
	if d.entry.Kind != mover.File || part.Off != 0 || part.Length != d.entry.Size {
		return fmt.Errorf("part %d of %d bytes at %d, of one that has %d: %w", part.Index, part.Length, part.Off, d.entry.Size, mover.ErrUsage)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state != drafting {
		return errOver
	}
	if d.data == nil {
		if err := d.allocate(ctx); err != nil {
			return err
		}
	}
	_, err := io.ReadFull(feed, d.data)
	return err
}

var errOver = fmt.Errorf("the draft was published, suspended or closed: %w", mover.ErrUsage)

// allocate makes room for the content; mu is held. A small one is ordinary memory: a batch holds many of
// them at once, and a holder of one buffer of the pool must not wait for another.
func (d *draft) allocate(ctx context.Context) (err error) {
	if d.entry.Size <= s3api.SmallBytes {
		d.data = make([]byte, d.entry.Size)
		return nil
	}
	d.data, err = d.place.opts.Buffers.Get(ctx, int(d.entry.Size))
	d.pooled = err == nil
	return err
}

// release gives the memory back; mu is held.
func (d *draft) release() {
	if d.pooled {
		d.place.opts.Buffers.Put(d.data)
	}
	d.data, d.pooled = nil, false
}

// send uploads one part. One that fits a buffer is read first, so that its
// checksum goes before it. A larger one is read twice where the server compares
// checksums: such a server (MinIO) refuses a part without one, and a checksum that
// follows the body is understood by few. Elsewhere it streams.
func (d *draft) send(ctx context.Context, part mover.Part, feed mover.Feed) (etag string, err error) {
	if part.Index < 0 || part.Index >= maxParts || part.Length <= 0 || part.Length > copyMax {
		return "", fmt.Errorf("part %d of %d bytes; S3 takes %d parts of up to %d: %w", part.Index, part.Length, maxParts, int64(copyMax), mover.ErrUsage)
	}
	w := s3api.Put{Size: part.Length}
	broken := &firstError{Reader: io.LimitReader(feed, part.Length)}
	switch {
	case part.Length <= partUsual:
		buf, done, err := d.buffer(ctx, int(part.Length))
		if err != nil {
			return "", err
		}
		defer done()
		if _, err := io.ReadFull(feed, buf); err != nil {
			return "", err
		}
		w.Data, w.CRC = buf, s3api.EncodeCRC(feed.Sum())
	case d.place.profile.ChecksPart:
		if w.CRC, err = sumBefore(feed, part.Length); err != nil {
			return "", err
		}
		fallthrough
	default:
		w.Body = broken
	}
	got, err := d.place.store.UploadPart(ctx, d.upload, part.Index+1, w)
	switch {
	case broken.err != nil:
		return "", broken.err // the feed's own reason, not what the connection made of it
	case err != nil:
		return "", err
	}
	sum := s3api.EncodeCRC(feed.Sum())
	if got.CRC != "" && got.CRC != sum {
		return "", fmt.Errorf("part %d has checksum %s there, %s here: %w", part.Index, got.CRC, sum, mover.ErrCorrupt)
	}
	return got.ETag, nil
}

// buffer returns memory for a part, until done is called. A small one is not of the pool: the connection may read it after the call has ended.
func (d *draft) buffer(ctx context.Context, n int) (buf []byte, done func(), err error) {
	if n <= s3api.SmallBytes {
		return make([]byte, n), func() {}, nil
	}
	buf, err = d.place.opts.Buffers.Get(ctx, n)
	return buf, func() { d.place.opts.Buffers.Put(buf) }, err
}

// sumBefore reads a part for its checksum alone, and begins it again.
func sumBefore(feed mover.Feed, length int64) (crc string, err error) {
	if n, err := io.Copy(io.Discard, io.LimitReader(feed, length)); err != nil {
		return "", err
	} else if n < length {
		return "", io.ErrUnexpectedEOF
	}
	crc = s3api.EncodeCRC(feed.Sum())
	return crc, feed.Rewind()
}

// firstError remembers why a reader failed.
type firstError struct {
	io.Reader
	err error
}

func (r *firstError) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// Clone implements mover.Cloner: the server copies an object of the same endpoint
// by itself. It does so at Publish, or, in parts, now when it is large.
func (d *draft) Clone(ctx context.Context, from mover.Content) (bool, error) {
	c, ok := mover.As[*content](from)
	if !ok || !d.place.profile.MatchesCopy { // then it would copy what the source has become
		return false, nil
	}
	if !d.place.client.Copies(c.place.client) || c.entry.Kind != mover.File || d.entry.Kind != mover.File {
		return false, nil
	}
	src := s3api.Source{Bucket: c.place.bucket, Key: c.key, IfMatch: c.etag}
	if c.entry.Size <= d.place.copies.whole {
		d.from, d.fromSize = src, c.entry.Size
		c.mu.Lock()
		c.bound = src.IfMatch != ""
		c.mu.Unlock()
		return true, nil
	}
	if d.upload.ID == "" || !d.place.profile.CopiesParts {
		return false, nil
	}
	copied, err := d.place.copyParts(ctx, d.upload, src, c.entry.Size, s3api.Put{FullObject: d.place.profile.ChecksWhole, CRC: sumOfEntry(&c.entry)})
	if errors.Is(err, errNoSums) { // the upload is filled in the usual way
		return false, nil
	}
	d.copied = copied
	return err == nil, d.place.wrap("clone", d.entry.Name, err)
}

// sumOfEntry is the checksum of an entry's content, as S3 writes it; "" is not known.
func sumOfEntry(e *mover.Entry) string {
	if !e.Known.Has(mover.FactCRC) {
		return ""
	}
	return s3api.EncodeCRC(e.CRC)
}

// errNoSums is the error of a store that tells no checksums of the parts that it copies, or that of the whole object for each (versitygw 1.8): an
// upload that was begun with a checksum can not be completed with those. MinIO refuses to copy into such an upload.
var errNoSums = fmt.Errorf("the store tells no checksums of parts that it copies: %w", mover.ErrUnsupported)

// copyParts fills an upload from another object, of which to has the checksum where it is known.
func (p *Backend) copyParts(ctx context.Context, u s3api.Upload, from s3api.Source, size int64, to s3api.Put) (parts []s3api.Stored, err error) {
	step := max(p.copies.part, (size+maxParts-1)/maxParts)
	for off := int64(0); off < size; off += step {
		part, err := p.store.CopyPart(ctx, u, len(parts)+1, from, off, min(step, size-off))
		if to.FullObject && (errors.Is(err, mover.ErrUsage) || err == nil && (part.CRC == "" || part.CRC == to.CRC)) {
			return nil, errNoSums
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// Finish implements mover.Draft.
func (d *draft) Finish(ctx context.Context, e mover.Entry, receipts []mover.Receipt) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.finish(e, receipts)
	return d.place.wrap("finish", d.entry.Name, err)
}

// finish checks the receipts; mu is held.
func (d *draft) finish(e mover.Entry, receipts []mover.Receipt) error {
	switch {
	case d.state != drafting:
		return errOver
	case e.Name != d.entry.Name || e.Kind != d.entry.Kind:
		return fmt.Errorf("finished as %v %q: %w", e.Kind, e.Name, mover.ErrUsage)
	}
	if e.Kind == mover.File && !d.copies() {
		var off int64
		for i, r := range receipts {
			if r.Index != i || r.Off != off || d.upload.ID != "" && r.ETag == "" {
				return fmt.Errorf("receipt %d is of part %d at %d: %w", i, r.Index, r.Off, mover.ErrUsage)
			}
			off += r.Length
		}
		if off != e.Size || d.upload.ID == "" && off > 0 && int64(len(d.data)) != off {
			return fmt.Errorf("%d of %d bytes were written: %w", off, e.Size, mover.ErrUsage)
		}
		if len(receipts) == 1 && e.Known.Has(mover.FactCRC) && e.CRC != receipts[0].CRC {
			return fmt.Errorf("the content has checksum %016x, expected %016x: %w", receipts[0].CRC, e.CRC, mover.ErrCorrupt)
		}
	}
	d.entry, d.sums, d.ready = e, slices.Clone(receipts), true
	return nil
}

// copies reports whether the server copies the content from another object.
func (d *draft) copies() bool { return d.from.Key != "" || d.copied != nil }

// Suspend implements mover.Draft. A draft in memory is gone with it.
func (d *draft) Suspend() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == drafting {
		d.state = suspended
		d.release()
	}
	return nil
}

// Close implements mover.Draft.
func (d *draft) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state != drafting {
		return nil
	}
	d.state = dropped
	d.release()
	if d.upload.ID == "" {
		return nil
	}
	err := d.place.abortAnyway(d.upload)
	for try := 0; try < abortTries && errors.Is(err, mover.ErrTransient); try++ { // a part that was cancelled may be in its way still
		time.Sleep(abortPause << try)
		err = d.place.abortAnyway(d.upload)
	}
	return d.place.wrap("drop", d.entry.Name, err)
}

const (
	abortTries = 5
	abortPause = 50 * time.Millisecond // before the second try; each further one is twice as long
)
