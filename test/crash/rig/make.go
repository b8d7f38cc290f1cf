package rig

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// Shape is what a tree has. The same shape and seed give the same tree.
type Shape struct {
	Seed       uint64
	Small      int   // files of up to 8 KiB, 40 to a directory
	Large      int   // files of LargeBytes
	LargeBytes int64 // 0 is 12 MiB and a bit
	Odd        bool  // links, special files, a sparse one, attributes, odd names
	OddBytes   int64 // size of the sparse one, at least 8 MiB; 0 is 64 MiB
	Special    bool  // devices and sockets too, which need root
}

// Make makes a tree below dir.
func Make(t testing.TB, dir string, s Shape) {
	t.Helper()
	m := &maker{t: t, dir: dir, random: rand.NewChaCha8(seedOf(s.Seed))}
	for i := range s.Small {
		m.file(fmt.Sprintf("small/%03d/file-%05d.bin", i/40, i), int64(m.random.Uint64()%(8<<10)))
	}
	if s.LargeBytes == 0 {
		s.LargeBytes = 12<<20 + 4321
	}
	for i := range s.Large {
		m.file(fmt.Sprintf("large/weights-%d.bin", i), s.LargeBytes)
	}
	if s.Odd {
		m.odd(cmp.Or(s.OddBytes, 64<<20))
	}
	if s.Special {
		m.special()
	}
	m.times()
}

func seedOf(seed uint64) (key [32]byte) {
	binary.LittleEndian.PutUint64(key[:], seed)
	return key
}

type maker struct {
	t      testing.TB
	dir    string
	random *rand.ChaCha8
}

func (m *maker) path(name string) string {
	path := filepath.Join(m.dir, name)
	m.check(os.MkdirAll(filepath.Dir(path), 0o755))
	return path
}

func (m *maker) check(err error) {
	m.t.Helper()
	must.Do(m.t, err)
}

// file writes a file that nothing can compress.
func (m *maker) file(name string, size int64) string {
	path := m.path(name)
	f, err := os.Create(path)
	m.check(err)
	block := make([]byte, min(size, 1<<20))
	for left := size; left > 0; left -= int64(len(block)) {
		block = block[:min(int64(len(block)), left)]
		_, _ = m.random.Read(block) // never fails
		_, err := f.Write(block)
		m.check(err)
	}
	m.check(f.Close())
	return path
}

func (m *maker) odd(sparseBytes int64) {
	for _, name := range []string{
		"odd/new\nline", "odd/\xff\xfe not UTF-8", "odd/ leading and trailing ", "odd/%41 %2F", "odd/a\\b", "odd/ünïcødé",
		"odd/-rf", "odd/" + strings.Repeat("n", 255), "odd/.datamove", "order/a", "order/a.b", "order/a-b/x", "order/a!",
	} {
		m.file(name, 300)
	}
	m.file("odd/empty", 0)
	m.check(os.Mkdir(m.path("odd/empty directory"), 0o700))
	m.sparse("odd/sparse", sparseBytes)
	m.check(os.Symlink("../large/weights-0.bin", m.path("odd/link")))
	m.check(os.Symlink("/nowhere/\xff", m.path("odd/dangling")))
	first := m.file("odd/twin-1", 5000)
	m.check(os.Link(first, m.path("odd/twin-2")))
	m.check(os.Link(first, m.path("other/twin-3")))
	m.check(unix.Setxattr(first, "user.project", []byte("seven\x00teen"), 0))
	m.check(os.Chmod(m.file("odd/read only", 77), 0o400))
	m.check(unix.Chmod(m.file("odd/setuid", 77), 0o6755))
	m.check(os.Mkdir(m.path("odd/sticky"), 0o755))
	m.check(unix.Chmod(m.path("odd/sticky"), 0o1777))
}

// sparse makes a file of which only three pieces are stored.
func (m *maker) sparse(name string, size int64) {
	f, err := os.Create(m.path(name))
	m.check(err)
	piece := make([]byte, 64<<10)
	for _, at := range []int64{1 << 20, size / 2, size - 5<<20} {
		_, _ = m.random.Read(piece) // never fails
		_, err := f.WriteAt(piece, at)
		m.check(err)
	}
	m.check(f.Truncate(size))
	m.check(f.Close())
}

func (m *maker) special() {
	m.check(unix.Mkfifo(m.path("special/fifo"), 0o640))
	m.check(unix.Mknod(m.path("special/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	m.check(unix.Mknod(m.path("special/socket"), unix.S_IFSOCK|0o600, 0))
	m.check(os.Lchown(m.file("special/of others", 99), 1234, 4321))
}

// times gives every file a time of its own, with nanoseconds, and then every
// directory, the deepest first.
func (m *maker) times() {
	var names []string
	m.check(filepath.WalkDir(m.dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	}))
	epoch := time.Date(2023, 4, 5, 6, 7, 8, 0, time.UTC)
	for i := len(names) - 1; i >= 0; i-- {
		when := epoch.Add(time.Duration(m.random.Uint64() % uint64(10000*time.Hour)))
		ts := unix.NsecToTimespec(when.UnixNano())
		m.check(unix.UtimesNanoAt(unix.AT_FDCWD, names[i], []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW))
	}
}
