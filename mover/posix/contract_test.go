package posix

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/placetest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdLock); dir != "" {
		os.Exit(holdOnly(dir))
	}
	if fromTo := os.Getenv(copyFromTo); fromTo != "" {
		os.Exit(copyOnly(fromTo))
	}
	goleak.VerifyTestMain(m)
}

// TestContract runs the contract of a place on a file system in memory, on the one
// that holds temporary files, and in the ways that other systems need.
func TestContract(t *testing.T) {
	for _, medium := range []struct {
		name   string
		dir    func(t testing.TB) string
		adjust func(p *Place)
	}{
		{"memory", memoryDir, func(*Place) {}},
		{"disk", testing.TB.TempDir, func(*Place) {}},
		{"syncing each file", memoryDir, func(p *Place) { p.system.durable = eachFile }},
		{"without openat2", memoryDir, func(p *Place) { p.plain = true }},
		{"with a backup", memoryDir, func(p *Place) {
			p.opts.Backup = p.address + "/.backup"
			if err := p.openBackup(); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(medium.name, func(t *testing.T) {
			placetest.Run(t, func(t *testing.T) func() mover.Place {
				dir := medium.dir(t)
				return func() mover.Place {
					p := open(t, dir, Options{})
					medium.adjust(p)
					return p
				}
			})
		})
	}
}

// memoryDir is a directory on a file system in memory.
func memoryDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "posix-")
	if err != nil {
		t.Skip("no file system in memory: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// open opens dir. Whoever calls it closes it.
func open(t testing.TB, dir string, opts Options) *Place {
	t.Helper()
	p, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// opened opens dir for one test.
func opened(t testing.TB, dir string, opts Options) *Place {
	t.Helper()
	p := open(t, dir, opts)
	t.Cleanup(func() { p.Close() })
	return p
}
