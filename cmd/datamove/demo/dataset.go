package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// amount is how much there is.
type amount struct{ files, bytes int64 }

// makeData makes a tree of small files, two large ones, a sparse one of four times their size, and links.
// It is the same every time, and no storage can compress it.
func makeData(dir string, small, largeMB int) (amount, error) {
	random := rand.NewChaCha8([32]byte{7})
	var made amount
	write := func(name string, size int64) error {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		made.files++
		made.bytes += size
		return writeRandom(file, size, random)
	}
	for i := range small {
		size := int64(1<<10 + random.Uint64()%(24<<10))
		if err := write(fmt.Sprintf("samples/%03d/sample-%05d.bin", i%50, i), size); err != nil {
			return made, err
		}
	}
	for i := range 2 {
		if err := write(fmt.Sprintf("large/weights-%d.bin", i), int64(largeMB)<<20); err != nil {
			return made, err
		}
	}
	hollow := 4 * int64(largeMB) << 20
	if err := sparse(filepath.Join(dir, "large/index.sparse"), hollow); err != nil {
		return made, err
	}
	made.files, made.bytes = made.files+1, made.bytes+hollow
	return made, errors.Join(
		os.Symlink("large/weights-1.bin", filepath.Join(dir, "latest")),
		os.Link(filepath.Join(dir, "large/weights-0.bin"), filepath.Join(dir, "large/best.bin")),
		os.Mkdir(filepath.Join(dir, "empty"), 0o755))
}

func writeRandom(file string, size int64, random *rand.ChaCha8) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	block := make([]byte, min(size, 1<<20))
	for left := size; left > 0 && err == nil; left -= int64(len(block)) {
		block = block[:min(int64(len(block)), left)]
		_, _ = random.Read(block) // never fails
		_, err = f.Write(block)
	}
	return errors.Join(err, f.Close())
}

// sparse makes a file with little in it: a block at its beginning, in its middle and at its end.
func sparse(file string, size int64) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	for _, off := range []int64{0, size / 2, size - 4096} {
		_, werr := f.WriteAt(make([]byte, 4095), off)
		_, lerr := f.WriteAt([]byte{1}, off+4095)
		err = errors.Join(err, werr, lerr)
	}
	return errors.Join(err, f.Close())
}

// breakByte flips a bit in the middle of a file and puts its times back.
func breakByte(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var before unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &before); err != nil {
		return err
	}
	one := make([]byte, 1)
	if _, err := f.ReadAt(one, before.Size/2); err != nil {
		return err
	}
	one[0] ^= 1
	if _, err := f.WriteAt(one, before.Size/2); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, file, []unix.Timespec{before.Atim, before.Mtim}, 0)
}

// stored is what is on disk below a folder, drafts too, by the file that holds it.
type stored struct {
	stored int64
	files  map[identity]int64 // bytes on disk
}

// identity is a file, whatever its name: an inode number may be used again, but not
// with the same time of birth.
type identity struct {
	ino  uint64
	born unix.StatxTimestamp
}

// tree looks at what is below dir. What vanishes while it looks is not counted.
func tree(dir string) stored {
	s := stored{files: map[identity]int64{}}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		var st unix.Statx_t
		if err != nil || d.IsDir() || unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st) != nil {
			return nil
		}
		id := identity{st.Ino, st.Btime}
		if _, seen := s.files[id]; !seen {
			n := min(int64(st.Blocks)*512, int64(st.Size)) // neither holes, nor room that is reserved beyond the end
			s.files[id] = n
			s.stored += n
		}
		return nil
	})
	return s
}

// common is how many of the bytes that were there before are there still.
func (s stored) common(before stored) (bytes int64) {
	for id, n := range before.files {
		if _, kept := s.files[id]; kept {
			bytes += min(n, s.files[id])
		}
	}
	return bytes
}
