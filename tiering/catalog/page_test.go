package catalog

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	"datamove.dev/tiering/dataset"
)

// anyFile is an entry as a place could have it, or a hostile one.
func anyFile(t *rapid.T) dataset.File {
	number := rapid.Int64Range(0, math.MaxInt64)
	moment := rapid.OneOf(rapid.Int64Range(1.7e18, 1.8e18), rapid.Int64())
	e := mover.Entry{
		Name: rapid.StringMatching(`[a-z0-9\x80-\xff]{1,12}`).Draw(t, "name"),
		Kind: mover.Kind(rapid.IntRange(1, 7).Draw(t, "kind")), Known: mover.Facts(rapid.Uint16().Draw(t, "known")),
		Size: number.Draw(t, "size"), Stored: number.Draw(t, "stored"),
		Mode: rapid.Uint32().Draw(t, "mode"), UID: rapid.Uint32().Draw(t, "uid"), GID: rapid.Uint32().Draw(t, "gid"),
		Nlink: rapid.Uint32().Draw(t, "links"), Ino: rapid.Uint64().Draw(t, "ino"),
		ETag: rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[0-9a-fA-F]{32}`), rapid.StringMatching(`[0-9a-f]{32}-[0-9]{1,3}`), rapid.String()).Draw(t, "etag"),
	}
	f := dataset.FileOf(&e, rapid.Int64().Draw(t, "seen"))
	f.Mtime, f.Ctime = moment.Draw(t, "mtime"), moment.Draw(t, "ctime")
	f.Atime = rapid.Int64Range(math.MinInt64/1_000_000_000, math.MaxInt64/1_000_000_000).Draw(t, "atime") * 1e9
	return f
}

// What is read from a page is what was written, whatever it is.
func TestPage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SliceOfN(rapid.Custom(anyFile), 0, 20).Draw(t, "files")
		for i := range files {
			files[i].Dir = "dir"
		}
		page := appendPage(nil, files)
		got := must.Get(readPage(nil, page, "dir"))(t)
		if !slices.Equal(got, files) {
			t.Fatalf("%+v\nis not\n%+v", got, files)
		}
		// The page is not kept.
		for i := range page {
			page[i] = 0xff
		}
		if !slices.Equal(got, files) {
			t.Fatal("the page is kept")
		}
	})
}

// A page that was cut or written over is damage, or other entries; never a panic, and never more than there can be.
func FuzzPage(f *testing.F) {
	one := dataset.File{Base: "part-0001.bin", Kind: mover.File, Size: 1 << 20, Stored: 1 << 20, Mode: 0o644, UID: 1000, GID: 100, Links: 1,
		Ino: 4711, Mtime: 1.7e18, Ctime: 1.7e18 + 5, Atime: 1.7e18, Seen: 1.7e9}
	two := one
	two.Base, two.Ino = "part-0002.bin", 4712
	f.Add(appendPage(nil, []dataset.File{one, two}))
	f.Add([]byte{pageFormat, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, page []byte) {
		files, err := readPage(nil, page, "d")
		if err != nil && (!errors.Is(err, mover.ErrCorrupt) || len(files) > 0) {
			t.Fatalf("%d entries, %v", len(files), err)
		}
		if err == nil && len(files) > 0 {
			again, err := readPage(nil, appendPage(nil, files), "d")
			if err != nil || !slices.Equal(again, files) {
				t.Fatalf("%+v became %+v, %v", files, again, err)
			}
		}
	})
}

// Entries that resemble each other take little.
func TestPageSize(t *testing.T) {
	files := make([]dataset.File, pageEntries)
	for i := range files {
		at := int64(1.7e18) + int64(i)*1_234_567
		files[i] = dataset.File{Base: "shard-" + strings.Repeat("0", 3) + string(rune('a'+i/26)) + string(rune('a'+i%26)) + ".tar", Kind: mover.File,
			Known: mover.FactMode, Size: 1<<20 + int64(i*i), Stored: blocks(1<<20 + int64(i*i)), Mode: 0o644, UID: 1000, GID: 100, Links: 1,
			Ino: uint64(1000 + i), Mtime: at, Ctime: at, Atime: at - at%1e9, Seen: 1.7e9}
	}
	if each := len(appendPage(nil, files)) / len(files); each > 30 {
		t.Errorf("%d bytes for each", each)
	}
}
