package posix

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/test/must"
)

// formatted makes a file system of a few MiB and mounts it.
func formatted(t *testing.T, bytes int64, mkfs ...string) (dir string) {
	t.Helper()
	needRoot(t)
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	must.Do(t, os.WriteFile(image, nil, 0o600))
	must.Do(t, os.Truncate(image, bytes))
	for _, command := range [][]string{append(mkfs, image), {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%s: %v %s", command[0], err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

// TestTimesThatAreCut: what file systems make of times is what the traits say, to the
// second, and a file with such a time is found equal.
func TestTimesThatAreCut(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes int64
		mkfs  []string
		want  mover.TimeRange
	}{
		{"ext4 of 128 bytes", 16 << 20, []string{"mkfs.ext4", "-q", "-I", "128"}, mover.TimeRange{First: math.MinInt32, Last: math.MaxInt32, Grain: time.Second}},
		{"ext4 of 256 bytes", 16 << 20, []string{"mkfs.ext4", "-q", "-I", "256"}, mover.TimeRange{First: math.MinInt32, Last: math.MinInt32 + 1<<34 - 1}},
		{"xfs as it was", 320 << 20, []string{"mkfs.xfs", "-q", "-m", "bigtime=0"}, mover.TimeRange{First: math.MinInt32, Last: math.MaxInt32}},
		{"xfs as it is", 320 << 20, []string{"mkfs.xfs", "-q", "-m", "bigtime=1"}, mover.TimeRange{First: math.MinInt32, Last: math.MinInt32 + math.MaxUint64/1_000_000_000&^3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := opened(t, formatted(t, c.bytes, c.mkfs...), Options{})
			keeps := p.Capabilities().Times
			if keeps != c.want {
				t.Fatalf("it keeps %+v, want %+v", keeps, c.want)
			}
			path := filepath.Join(p.String(), "ends")
			must.Do(t, os.WriteFile(path, nil, 0o644))
			must.Do(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{{Sec: math.MinInt64}, {Sec: math.MaxInt64, Nsec: 999_999_999}}, 0))
			e := statOf(t, p, "ends")
			if e.Atime != (mover.Time{Sec: keeps.First}) || e.Mtime != (mover.Time{Sec: keeps.Last}) {
				t.Errorf("the ends are %v and %v; it keeps %+v", e.Atime, e.Mtime, keeps)
			}
			for _, sec := range []int64{math.MinInt64, -1 << 40, math.MinInt32 - 1, math.MinInt32, -1, 0, 1, math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32, keeps.Last, keeps.Last + 1, math.MaxInt64} {
				for _, nsec := range []int32{0, 1, 999_999_999} {
					f := fileEntry("f", "x")
					f.Mtime, f.Known = mover.Time{Sec: sec, Nsec: nsec}, f.Known|mover.FactMtime
					backendtest.Put(t, p, f, []byte("x"))
					if got := statOf(t, p, "f").Mtime; !keeps.Same(f.Mtime, got) {
						t.Errorf("%v became %v, which differs", f.Mtime, got)
					}
				}
			}
		})
	}
}

// TestTimesOfMemory: where nothing is cut, nothing is equal that differs.
func TestTimesOfMemory(t *testing.T) {
	if keeps := opened(t, memoryDir(t), Options{}).Capabilities().Times; keeps != (mover.TimeRange{}) {
		t.Errorf("it keeps %+v", keeps)
	}
}
