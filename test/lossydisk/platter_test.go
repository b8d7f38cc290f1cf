package lossydisk

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/test/must"
)

const (
	sectors = 64
	bytesOf = sectors * sectorBytes
)

func fill(n int, b byte) []byte { return bytes.Repeat([]byte{b}, n*sectorBytes) }

func disk(t *testing.T, seed uint64) (*Disk, string) {
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	must.Do(t, os.WriteFile(image, fill(sectors, 'o'), 0o600))
	d := must.Get(New(image, rand.New(rand.NewPCG(seed, 1))))(t)
	t.Cleanup(func() {
		must.Tell(t, d.Close())
		if left, _ := filepath.Glob(image + ".safe-*"); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	})
	return d, filepath.Join(dir, "cut")
}

func write(t *testing.T, d *Disk, sector, n int, b byte) {
	t.Helper()
	if _, err := d.WriteAt(fill(n, b), int64(sector*sectorBytes)); err != nil {
		t.Fatal(err)
	}
}

// TestCut: what was flushed survives every cut; of what was not, each sector is as it
// was or as it was written, and with many seeds both happen, and a torn write.
func TestCut(t *testing.T) {
	kept, lost, torn := 0, 0, 0
	for seed := range uint64(64) {
		d, cut := disk(t, seed)
		write(t, d, 0, 8, 's')
		must.Do(t, d.Flush())
		write(t, d, 4, 8, 'p') // the half of it above what is safe
		write(t, d, 32, 16, 'q')
		must.Do(t, d.Cut(cut))
		got, err := os.ReadFile(cut)
		if err != nil || len(got) != bytesOf {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		came := 0
		for i := range sectors {
			sector := got[i*sectorBytes : (i+1)*sectorBytes]
			may := map[bool]string{true: "s", false: "o"}[i < 8]
			switch {
			case i >= 4 && i < 12:
				may += "p"
			case i >= 32 && i < 48:
				may += "q"
			}
			if bytes.Count(sector, sector[:1]) != sectorBytes || !bytes.Contains([]byte(may), sector[:1]) {
				t.Fatalf("seed %d: sector %d has %q, may have one of %q", seed, i, sector[:1], may)
			}
			if sector[0] == 'q' {
				came++
			}
		}
		switch came {
		case 0:
			lost++
		case 16:
			kept++
		default:
			torn++
		}
	}
	if kept == 0 || lost == 0 || torn == 0 {
		t.Errorf("a write came through %d times, was lost %d times, and torn %d times", kept, lost, torn)
	}
}

// TestGoOn: a reader sees what was written last, before and after a cut.
func TestGoOn(t *testing.T) {
	d, cut := disk(t, 7)
	write(t, d, 3, 1, 'n')
	for range 2 {
		got := make([]byte, bytesOf)
		if n, err := d.ReadAt(got, 0); n != bytesOf || err != nil {
			t.Fatal(n, err)
		}
		want := fill(sectors, 'o')
		copy(want[3*sectorBytes:], fill(1, 'n'))
		if !bytes.Equal(got, want) || d.Bytes() != bytesOf {
			t.Error("the disk does not have what was written")
		}
		must.Do(t, d.Cut(cut))
	}
}
