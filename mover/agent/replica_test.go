package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestReplicaIsReadAs: who may not read a file of a replica is not given it by its node, and nobody is given what is not in it.
//
//safety:7 with test/cluster TestSwarmLies
func TestReplicaIsReadAs(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	must.Do(t, os.WriteFile(outside, []byte("secret"), 0o644))
	root := filepath.Join(dir, "replica")
	for name, mode := range map[string]os.FileMode{"open/all": 0o644, "open/own": 0o600, "open/group": 0o640, "open/notgroup": 0o604, "closed/deep/all": 0o644, "none": 0o044} {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(root, name), []byte("bytes"), mode))
		must.Do(t, os.Chmod(filepath.Join(root, name), mode))
	}
	must.Do(t, os.Chmod(filepath.Join(root, "closed"), 0o700))
	must.Do(t, os.Symlink(outside, filepath.Join(root, "link")))
	must.Do(t, os.Symlink("open", filepath.Join(root, "other")))
	must.Do(t, unix.Mkfifo(filepath.Join(root, "fifo"), 0o644))
	self := uint32(os.Geteuid())
	for _, row := range []struct {
		name  string
		owner bool
		want  bool
	}{
		{"open/all", true, true},
		{"open/all", false, true},
		{"open/own", true, true},
		{"open/own", false, false},
		{"open/group", false, false},
		{"open/notgroup", false, false},
		{"closed/deep/all", true, true},
		{"closed/deep/all", false, false},
		{"none", true, self == 0}, // root reads everything
		{"link", true, false},
		{"other/all", true, false},
		{"../outside", true, false},
		{"fifo", true, false},
		{"absent", true, false},
	} {
		fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY, 0)
		must.Do(t, err)
		r := replica{fd: fd, uid: self}
		if !row.owner {
			r.uid = self + 1000
		}
		into := make([]byte, 4)
		err = r.read(row.name, 1, into)
		if got := err == nil && string(into) == "ytes"; got != row.want {
			t.Errorf("%s, the owner: %v, is read: %v, %v", row.name, row.owner, got, err)
		}
		if err := r.read("open/all", 2, into); !errors.Is(err, mover.ErrNotExist) {
			t.Errorf("more than there is: %v", err)
		}
		must.Do(t, unix.Close(fd))
	}
}
