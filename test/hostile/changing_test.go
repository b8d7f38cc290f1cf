package hostile

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

// version is the content of one version of a file: each line says which.
func version(n int) []byte {
	line := fmt.Sprintf("version %09d\n", n)
	return []byte(strings.Repeat(line, 1000+n*37%60000))
}

// oneVersion reports whether a content is one version, from its first line to its last.
func oneVersion(content []byte) bool {
	n := 0
	if _, err := fmt.Sscanf(string(content[:min(len(content), 18)]), "version %d\n", &n); err != nil {
		return false
	}
	return bytes.Equal(content, version(n))
}

// pattern is what truncated and grown files have at each offset.
var pattern = bytes.Repeat([]byte("0123456789abcdef\n"), 1<<17)

// churn changes one file in its way.
type churn func(random *rand.Rand, path string, n int) error

func replaced(_ *rand.Rand, path string, n int) error {
	fresh := filepath.Join(filepath.Dir(filepath.Dir(path)), "fresh") // beside the tree, on the same file system
	if err := os.WriteFile(fresh, version(n), 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

func resized(random *rand.Rand, path string, _ int) error {
	if random.IntN(2) == 0 {
		return os.Truncate(path, 0)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	left := len(pattern) - int(st.Size())
	_, err = f.Write(pattern[st.Size() : int(st.Size())+random.IntN(left+1)])
	return err
}

func comesAndGoes(_ *rand.Rand, path string, n int) error {
	if n%2 == 0 {
		return os.RemoveAll(path)
	}
	return os.WriteFile(path, []byte("here"), 0o644)
}

// A source that is being changed gives whole versions or failures that are told,
// and never a mixture. When it is quiet again, one run makes everything equal.
//
//safety:4 files that are overwritten, grown, cut, replaced or deleted while they are read, seen from outside: exit code, words, files
func TestChangingSource(t *testing.T) {
	random := kill.Random(t)
	base := rig.Memory(t)
	source, target := filepath.Join(base, "source"), filepath.Join(base, "target")
	kinds := map[string]churn{"replaced": replaced, "resized": resized, "comes": comesAndGoes}
	var paths []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		for i := range 5 {
			paths = append(paths, write(t, source, fmt.Sprintf("%s-%d", kind, i), ""))
		}
	}
	for _, path := range paths {
		if strings.HasPrefix(filepath.Base(path), "replaced") {
			must.Do(t, replaced(random, path, 0))
		}
	}
	n := 0
	quiet := meanwhile(func() {
		n++
		path := paths[random.IntN(len(paths))]
		kind, _, _ := strings.Cut(filepath.Base(path), "-")
		must.Tell(t, kinds[kind](random, path, n))
	})
	p, codes := rig.New(t), map[int]int{}
	runs := 6
	if testing.Short() {
		runs = 2
	}
	for range runs {
		r := p.Start(t, "copy", "-q", source, target).Wait()
		codes[r.Exit]++
		if r.Exit != 0 && r.Exit != 5 && r.Exit != 6 {
			t.Errorf("exit code %d: %s", r.Exit, r.Stderr())
		}
		wholeVersions(t, target)
	}
	quiet()
	t.Logf("%d changes, exit codes %v", n, codes)
	p.Do(t, 0, "sync", "--delete", "-q", source, target)
	rig.SameTrees(t, source, target, false)
}

func wholeVersions(t *testing.T, dir string) {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		content := must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		switch kind, _, _ := strings.Cut(e.Name(), "-"); kind {
		case "replaced":
			if !oneVersion(content) {
				t.Errorf("%s is a mixture: %d bytes", e.Name(), len(content))
			}
		case "resized":
			if !bytes.HasPrefix(pattern, content) {
				t.Errorf("%s has bytes that the source never had, in %d", e.Name(), len(content))
			}
		}
	}
}

// A large file that is cut short while its parts are read is a failure that is told,
// and what was at the target stays.
//
//safety:4 with TestChangingSource
func TestLargeSourceShrinks(t *testing.T) {
	base := rig.Memory(t)
	source, target := filepath.Join(base, "source"), filepath.Join(base, "target")
	rig.Make(t, source, rig.Shape{Seed: 1, Large: 1, LargeBytes: 48 << 20})
	p := rig.New(t)
	p.Do(t, 0, "copy", "-q", source, target)
	was, _ := rig.Look(t, target)
	path := filepath.Join(source, "large", "weights-0.bin")
	must.Do(t, os.Chtimes(path, was.Time("large/weights-0.bin"), was.Time("large/weights-0.bin").AddDate(0, 0, 1)))
	r := p.Start(t, "copy", "-q", "--bwlimit", "8MiB/s", source, target)
	r.Until("the copy is under way", func() bool { _, temps := rig.Look(t, target); return len(temps) > 1 })
	shorter := time.NewTicker(20 * time.Millisecond)
	defer shorter.Stop()
	for size := int64(48 << 20); size > 0; { // each try finds it shorter
		select {
		case <-r.Ended():
			size = 0
		case <-shorter.C:
			size -= 64 << 10
			must.Do(t, os.Truncate(path, size))
		}
	}
	r.Wait()
	if r.Exit != 5 && r.Exit != 6 || !strings.Contains(r.Stderr(), "weights-0.bin") {
		t.Errorf("exit code %d, and it said: %s", r.Exit, r.Stderr())
	}
	now, temps := rig.Look(t, target)
	if now["large/weights-0.bin"].Content() != was["large/weights-0.bin"].Content() {
		t.Errorf("the target is %v", now["large/weights-0.bin"])
	}
	if len(temps) > 0 {
		t.Errorf("left behind: %q", temps)
	}
}
