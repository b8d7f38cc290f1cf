package posix

import (
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/test/must"
)

// cached is how many bytes of a file are in the page cache.
func cached(t *testing.T, path string) int64 {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	var now unix.Cachestat_t
	if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &now, 0); err != nil {
		t.Skip("nobody tells what is cached: ", err)
	}
	return int64(now.Cache) * int64(os.Getpagesize())
}

// TestLargeCopiesLeaveTheCache writes and reads a file as if it were large, and
// finds little of it in the page cache; what others had there stays.
func TestLargeCopiesLeaveTheCache(t *testing.T) {
	dir := t.TempDir()
	p := opened(t, dir, Options{})
	if p.system.Durable == fstype.Volatile {
		t.Skip("the temporary directory is in memory")
	}
	p.washBytes = 1
	const part, parts = 1 << 20, 16
	e := mover.Entry{Name: "f", Kind: mover.File, Size: part * parts}
	d, err := p.Draft(t.Context(), e, mover.Hints{By: testOwner})
	must.Do(t, err)
	defer d.Close()
	var receipts []mover.Receipt
	for _, part := range backendtest.Parts(e.Size, part) {
		r := must.Get(d.WritePart(t.Context(), part, backendtest.NewFeed(make([]byte, part.Length))))(t)
		receipts = append(receipts, r)
	}
	must.Do(t, d.Finish(t.Context(), e, receipts))
	must.Do(t, p.Publish(t.Context(), []mover.Draft{d})[0].Err)
	if n := cached(t, dir+"/f"); n > 4*part {
		t.Errorf("after writing %d bytes %d are cached", e.Size, n)
	}
	read := func() {
		c := must.Get(p.Open(t.Context(), statOf(t, p, "f")))(t)
		defer c.Close()
		for off := int64(0); off < e.Size; off += part {
			r, err := c.Range(t.Context(), off, part)
			must.Do(t, err)
			_, err = io.Copy(io.Discard, r)
			must.Do(t, err)
			must.Do(t, r.Close())
		}
	}
	f := must.Get(os.Open(dir + "/f"))(t)
	defer f.Close()
	must.Do(t, f.Sync())
	kernel.LetGo(int(f.Fd()), 0, e.Size) // on a busy machine some was still on its way to the disk
	before := cached(t, dir+"/f")
	if !kernel.Cold(int(f.Fd()), e.Size) {
		t.Fatalf("%d bytes stay in the cache", before)
	}
	read()
	if n := cached(t, dir+"/f"); n > before+4*part {
		t.Errorf("after reading, %d bytes are cached, before it %d", n, before)
	}
	_, err = os.ReadFile(dir + "/f") // somebody else
	must.Do(t, err)
	read()
	if n := cached(t, dir+"/f"); n < e.Size {
		t.Errorf("of what somebody else had in the cache, %d bytes are left", n)
	}
}
