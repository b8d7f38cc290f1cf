package posix

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/test/must"
)

// TestInUse: a file that is open or mapped is in use, and is not when it was closed.
func TestInUse(t *testing.T) {
	dir := t.TempDir()
	p := must.Get(Open(dir, Options{}))(t)
	defer p.Close()
	path := filepath.Join(dir, "f")
	must.Do(t, os.WriteFile(path, []byte("content"), 0o600))
	is := func(when string, want bool) {
		t.Helper()
		e := must.Get(p.Stat(t.Context(), "f"))(t)
		if used, err := p.InUse(t.Context(), e); used != want || err != nil {
			t.Errorf("%s: in use %v, %v", when, used, err)
		}
	}
	is("closed", false)
	f := must.Get(os.Open(path))(t)
	is("open", true)
	m := must.Get(unix.Mmap(int(f.Fd()), 0, 7, unix.PROT_READ, unix.MAP_SHARED))(t)
	must.Do(t, f.Close())
	is("mapped", true)
	must.Do(t, unix.Munmap(m))
	is("closed again", false)
}

// TestReadsOf: what a mount says of the recording of reads.
func TestReadsOf(t *testing.T) {
	for flags, want := range map[int64]mover.Reads{
		0: mover.ReadsSeen, unix.ST_RDONLY: mover.ReadsSeen, unix.ST_RELATIME: mover.ReadsDaily, unix.ST_NOATIME: mover.ReadsUnseen, unix.ST_NOATIME | unix.ST_RELATIME: mover.ReadsUnseen,
	} {
		if got := fstype.ReadsOf(flags); got != want {
			t.Errorf("%#x: %d", flags, got)
		}
	}
}
