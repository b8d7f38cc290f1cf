// Package hostile runs the real program in a world that does not mean well: sources
// that change, vanish or fail while they are read, targets that are full, locked
// against us or swapped under our hands, stores that answer wrongly. What it looks
// at is what a user would: the exit code, what is said, and what is there then.
//
// DATAMOVE_SEED decides what is random. With DATAMOVE_SOAK=1 a directory of the target is
// swapped for a link a million times, and not 10,000, and stores are busy, or fall silent,
// too, which takes minutes.
package hostile

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/cmd/datamove/root"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Commands{"datamove": root.Main}) }

// write makes a file, and the directories above it.
func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// meanwhile calls do again and again until the returned function is called.
func meanwhile(do func()) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			default:
				do()
			}
		}
	}()
	return func() { close(over); <-ended }
}

// untouched fails the test when a tree is not what it was.
func untouched(t testing.TB, dir string, was rig.Tree) {
	t.Helper()
	now, _ := rig.Look(t, dir)
	for _, line := range rig.Differences(was, now) {
		t.Errorf("%s: %s", dir, line)
	}
}

// exchange swaps two names in one step.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
