package posix

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/test/must"
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
// that holds temporary files, and in the ways that other systems need, and on those that
// the environment names.
func TestContract(t *testing.T) {
	type medium struct {
		name   string
		dir    func(t testing.TB) string
		adjust func(p *Backend)
	}
	media := []medium{
		{"memory", memoryDir, func(*Backend) {}},
		{"disk", testing.TB.TempDir, func(*Backend) {}},
		{"syncing each file", memoryDir, func(p *Backend) { p.system.Durable = fstype.EachFile }},
		{"without openat2", memoryDir, func(p *Backend) { p.plain = true }},
		{"with a backup", memoryDir, func(p *Backend) {
			p.opts.Backup = p.address + "/.backup"
			must.Tell(t, p.openBackup())
		}},
	}
	for i, dir := range filepath.SplitList(os.Getenv(testDirs)) {
		media = append(media, medium{fmt.Sprint("elsewhere ", i+1), func(t testing.TB) string { return below(t, dir) }, func(*Backend) {}})
	}
	for _, medium := range media {
		t.Run(medium.name, func(t *testing.T) {
			backendtest.Run(t, func(t *testing.T) func() mover.Backend {
				dir := medium.dir(t)
				return func() mover.Backend {
					p := open(t, dir, Options{})
					medium.adjust(p)
					return p
				}
			})
		})
	}
}

// testDirs names a variable of the environment: directories, with a colon between them,
// of file systems that the contract is to be tried on as well. test/e2e-ceph and
// the guest with NFS set it.
const testDirs = "DATAMOVE_TEST_DIRS"

// below is a new directory in dir.
func below(t testing.TB, dir string) string {
	t.Helper()
	dir = must.Get(os.MkdirTemp(dir, "posix-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// memoryDir is a directory on a file system in memory.
func memoryDir(t testing.TB) string {
	if _, err := os.Stat("/dev/shm"); err != nil {
		t.Skip("no file system in memory: ", err)
	}
	return below(t, "/dev/shm")
}

// open opens dir. Whoever calls it closes it.
func open(t testing.TB, dir string, opts Options) *Backend {
	t.Helper()
	p := must.Get(Open(dir, opts))(t)
	return p
}

// opened opens dir for one test.
func opened(t testing.TB, dir string, opts Options) *Backend {
	t.Helper()
	p := open(t, dir, opts)
	t.Cleanup(func() { p.Close() })
	return p
}
