package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// TestOpenFileAsTarget: a link that leads over /proc to an open file of a process is no target, though that file is a regular one; other links are.
func TestOpenFileAsTarget(t *testing.T) {
	dir := t.TempDir()
	file := must.Get(os.Create(filepath.Join(dir, "file")))(t)
	defer file.Close()
	for link, to := range map[string]string{
		"stdout": fmt.Sprintf("/proc/self/fd/%d", file.Fd()),
		"twice":  "stdout",
		"round":  "round",
		"plain":  "file",
		"up":     "../" + filepath.Base(dir) + "/stdout",
	} {
		must.Do(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	for name, refused := range map[string]bool{"stdout": true, "twice": true, "up": true, "plain": false, "round": false, "file": false, "new": false} {
		err := notSpecial(must.Get(location.Parse(dir))(t), name)
		if refused != errors.Is(err, mover.ErrUsage) || !refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := notSpecial(must.Get(location.Parse(fmt.Sprintf("/proc/self/fd/%d", file.Fd())))(t), ""); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("a path of procfs itself: %v", err)
	}
}
