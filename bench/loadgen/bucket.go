package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/checksum"
)

// bucket is a store of objects: a place below the prefix of the run. What is measured is what the mover does: checksums go with what is sent.
type bucket struct {
	place mover.Backend
	by    mover.WriterID
}

// entry is that of a file.
func entry(name string, bytes int64) mover.Entry {
	return mover.Entry{Name: name, Kind: mover.File, Size: bytes}
}

// Mkdir implements store: a bucket has no directories.
func (b *bucket) Mkdir(context.Context, string) error { return nil }

// Create implements store.
func (b *bucket) Create(ctx context.Context, name string, t *Tree) (file, error) {
	e := entry(name, t.Bytes)
	d, err := b.place.Draft(ctx, e, mover.Hints{By: b.by, PartBytes: t.block()})
	if err != nil {
		return nil, err
	}
	return &sent{place: b.place, draft: d, entry: e, block: t.block()}, nil
}

// Share implements store.
func (b *bucket) Share(_ context.Context, name string, _ *Tree) (file, error) {
	return nil, fmt.Errorf("%w: %s: many ranks can not write one object", mover.ErrUnsupported, mover.Join(b.place.String(), name))
}

// Open implements store. A small object comes with the answer; of a larger one it is seen how large it is, and ranges are asked for.
func (b *bucket) Open(ctx context.Context, name string, t *Tree) (file, error) {
	c, err := b.place.Open(ctx, entry(name, t.Bytes))
	if err != nil {
		return nil, err
	}
	return &received{c}, nil
}

// Stat implements store.
func (b *bucket) Stat(ctx context.Context, name string, _ *Tree) error {
	_, err := b.place.Stat(ctx, name)
	return err
}

// Rename implements store.
func (b *bucket) Rename(_ context.Context, from, _ string) error {
	return fmt.Errorf("%w: %s: an object has no other name", mover.ErrUnsupported, mover.Join(b.place.String(), from))
}

// Unlink implements store.
func (b *bucket) Unlink(ctx context.Context, name string, t *Tree) error {
	return b.place.Remove(ctx, entry(name, t.Bytes), b.by)
}

// List implements store.
func (b *bucket) List(ctx context.Context, name string, _ bool) (found int64, err error) {
	for e, err := range b.place.Walk(ctx, mover.WalkOptions{Dir: name}) {
		if err != nil {
			return found, err
		}
		if e.Kind == mover.File {
			found++
		}
	}
	return found, nil
}

// Ready implements store.
func (b *bucket) Ready(_ context.Context, w *Work) (string, error) {
	least := b.place.Capabilities().PartMin
	if w.Do == Write && w.Tree.perFile() > 1 && w.Tree.block() < least {
		return "", mover.Usagef("parts of %d bytes; %s takes no smaller ones than %d", w.Tree.block(), b.place, least)
	}
	return "none: a store of objects", nil
}

// Sync implements store.
func (b *bucket) Sync(ctx context.Context) error { return b.place.Sync(ctx) }

// removers are how many objects are removed at the same time.
const removers = 16

// Clean implements store.
func (b *bucket) Clean(ctx context.Context) error { return b.Remove(ctx, "") }

// Remove implements store.
func (b *bucket) Remove(ctx context.Context, name string) error {
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed error // under mu
	slots := make(chan struct{}, removers)
	for e, err := range b.place.Walk(ctx, mover.WalkOptions{Dir: name}) {
		if err != nil {
			failed = errors.Join(failed, err)
			break
		}
		if e.Kind == mover.Dir { // it ends with what is in it
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if err := b.place.Remove(ctx, e, b.by); err != nil && !errors.Is(err, mover.ErrNotExist) {
				mu.Lock()
				failed = cmp.Or(failed, err)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return failed
}

// Close implements store.
func (b *bucket) Close() error { return b.place.Close() }

// sent is an object that is being written.
type sent struct {
	place    mover.Backend
	draft    mover.Draft
	entry    mover.Entry
	block    int64
	receipts []mover.Receipt
}

// WriteAt implements file. Blocks come in order.
func (f *sent) WriteAt(ctx context.Context, b []byte, off int64) error {
	r, err := f.draft.WritePart(ctx, mover.Part{Index: int(off / f.block), Off: off, Length: int64(len(b))}, &feed{bytes: b})
	if err == nil {
		f.receipts = append(f.receipts, r)
	}
	return err
}

// ReadAt implements file.
func (f *sent) ReadAt(context.Context, []byte, int64) error { return mover.ErrUnsupported }

// Close implements file. An object of which not all was sent, because the time was over, is not there afterwards.
func (f *sent) Close(ctx context.Context) error {
	whole := int64(len(f.receipts))*f.block >= f.entry.Size
	if !whole {
		return f.draft.Close()
	}
	e := f.entry
	for _, r := range f.receipts {
		e.CRC = checksum.Combine(e.CRC, r.CRC, r.Length)
	}
	e.Known |= mover.FactCRC
	err := f.draft.Finish(ctx, e, f.receipts)
	if err == nil {
		err = f.place.Publish(ctx, []mover.Draft{f.draft})[0].Err
	}
	return errors.Join(err, f.draft.Close())
}

// received is an object that is read.
type received struct{ mover.Content }

// WriteAt implements file.
func (f *received) WriteAt(context.Context, []byte, int64) error { return mover.ErrUnsupported }

// ReadAt implements file.
func (f *received) ReadAt(ctx context.Context, b []byte, off int64) error {
	r, err := f.Range(ctx, off, int64(len(b)))
	if err != nil {
		return err
	}
	_, err = io.ReadFull(r, b)
	return errors.Join(err, r.Close())
}

// Close implements file.
func (f *received) Close(context.Context) error { return f.Content.Close() }

// feed gives a block to a place.
type feed struct {
	bytes []byte
	off   int
	sum   uint64
}

// Read implements mover.Feed.
func (f *feed) Read(p []byte) (int, error) {
	if f.off == len(f.bytes) {
		return 0, io.EOF
	}
	n := copy(p, f.bytes[f.off:])
	f.sum = checksum.Update(f.sum, p[:n])
	f.off += n
	return n, nil
}

// Hole implements mover.Feed: noise has none.
func (f *feed) Hole() int64 { return 0 }

// Sum implements mover.Feed.
func (f *feed) Sum() uint64 { return f.sum }

// Rewind implements mover.Feed.
func (f *feed) Rewind() error {
	f.off, f.sum = 0, 0
	return nil
}
