package trash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
)

// fewFiles are all that it may have open: beside a clearing's, what the runtime has.
const fewFiles = deepest + 16

// empties empties the trash of a root.
func empties(dir string) error {
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: fewFiles, Max: fewFiles})
	}
	if err == nil {
		_, err = Empty(context.Background(), root, Rate{})
	}
	return err
}

// TestKill: whenever an emptying is killed, the next one goes on, and in the end nothing is left, and nothing else is gone.
//
//safety:5/jobs a kill in the middle of emptying; a trash that another account could own
func TestKill(t *testing.T) {
	const files = 200
	everywhere(t, func(t *testing.T, dir string) {
		random := kill.Random(t)
		made(t, dir, "outside/precious")
		root := opened(t, dir)
		for round := range kill.Times(3, 20) {
			for i := range 2 {
				for j := range files / 2 {
					made(t, dir, fmt.Sprintf("in/%d/%d", i, j))
				}
				deep(t, filepath.Join(dir, "in", fmt.Sprint(i)), 3*deepest)
			}
			_, err := Move(root, "in", "test")
			must.Do(t, err)
			if _, killed := kill.AtCall(t, "empty", dir, 1+random.IntN(files)); !killed || len(items(t, dir)) == 0 {
				t.Fatalf("killed %v, and %d items are left", killed, len(items(t, dir)))
			}
			if round%4 == 3 { // an image has few inodes
				_, err := Empty(t.Context(), root, Rate{})
				must.Do(t, err)
			}
		}
		if done, err := Empty(t.Context(), root, Rate{}); done.Left != 0 || err != nil || len(items(t, dir)) > 0 {
			t.Errorf("%+v, %v", done, err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "outside/precious")); string(got) != "outside/precious" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestRandom: of any tree nothing is left, and what its links lead to is as it was.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("/dev/shm", "trash-")
		must.Do(t, err)
		defer os.RemoveAll(dir)
		made(t, dir, "outside/precious")
		dirs, entries := []string{filepath.Join(dir, "in")}, int64(1)
		must.Do(t, os.Mkdir(dirs[0], 0o755))
		for i := range rapid.IntRange(0, 60).Draw(rt, "entries") {
			at := rapid.SampledFrom(dirs).Draw(rt, "at")
			path := filepath.Join(at, fmt.Sprint(i, "-", rapid.StringMatching(`[^/\x00]{0,20}`).Draw(rt, "name")))
			switch kind := rapid.SampledFrom([]string{"dir", "file", "link", "hard", "pipe"}).Draw(rt, "kind"); kind {
			case "dir":
				err = os.Mkdir(path, 0o755)
				dirs = append(dirs, path)
			case "file":
				err = os.WriteFile(path, nil, 0)
			case "link":
				err = os.Symlink(rapid.SampledFrom([]string{dir + "/outside", "..", "nowhere", at}).Draw(rt, "to"), path)
			case "hard":
				err = os.Link(dir+"/outside/precious", path)
			case "pipe":
				err = unix.Mkfifo(path, 0o600)
			}
			must.Do(t, err)
			entries++
		}
		for _, d := range dirs[1:] {
			must.Do(t, os.Chmod(d, os.FileMode(rapid.SampledFrom([]uint32{0o755, 0o700, 0o1777}).Draw(rt, "mode"))))
		}
		root := held(t, dir)
		defer unix.Close(root)
		_, err = Move(root, "in", "test")
		must.Do(t, err)
		done, err := Empty(t.Context(), root, Rate{})
		if done != (Report{Items: 1, Entries: entries}) || err != nil {
			rt.Errorf("%+v of %d, %v", done, entries, err)
		}
		if left := items(t, dir); len(left) > 0 {
			rt.Errorf("%q", left)
		}
		if info, err := os.Stat(dir + "/outside/precious"); err != nil || info.Mode() != 0o644 || info.Size() == 0 {
			rt.Errorf("%v, %v", info, err)
		}
	})
}

// BenchmarkMove moves a directory with a million files, there and back; b.N does not change how many there are.
func BenchmarkMove(b *testing.B) {
	dir := inMemory(b)
	at := filepath.Join(dir, "in")
	for i := range 1_000_000 {
		if i%10_000 == 0 {
			must.Do(b, os.MkdirAll(fmt.Sprintf("%s/%d", at, i/10_000), 0o755))
		}
		fd := must.Get(unix.Open(fmt.Sprintf("%s/%d/%d", at, i/10_000, i), unix.O_CREAT|unix.O_WRONLY, 0o600))(b)
		must.Do(b, unix.Close(fd))
	}
	root := opened(b, dir)
	for b.Loop() {
		item := must.Get(Move(root, "in", "bench"))(b)
		must.Do(b, os.Rename(filepath.Join(dir, Folder, item), at))
	}
}
