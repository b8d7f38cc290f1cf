package posix

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestReadingIsNoUse: a scan and a copy of what this process owns leave no trace in times of access, by which policies decide what nobody reads.
func TestReadingIsNoUse(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "d"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, "d/f"), []byte("content"), 0o644))
	long := unix.NsecToTimespec(1_600_000_000_000_000_000) // before the changes: with relatime, too, the next read is noted
	names := []string{"d/f", "d", ""}
	for _, name := range names {
		must.Do(t, unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(dir, name), []unix.Timespec{long, {Nsec: unix.UTIME_OMIT}}, 0))
	}
	p := must.Get(Open(dir, Options{}))(t)
	defer p.Close()
	var file mover.Entry
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
		if e.Kind == mover.File {
			file = e
		}
	}
	c := must.Get(p.Open(t.Context(), file))(t)
	r := must.Get(c.Range(t.Context(), 0, 7))(t)
	if b := must.Get(io.ReadAll(r))(t); string(b) != "content" {
		t.Errorf("%q", b)
	}
	must.Do(t, r.Close())
	must.Do(t, c.Close())
	for _, name := range names {
		var st unix.Stat_t
		must.Do(t, unix.Stat(filepath.Join(dir, name), &st))
		if st.Atim.Sec != long.Sec {
			t.Errorf("%q was accessed at %d", name, st.Atim.Sec)
		}
	}
}
