package service

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// TestRootsAreSwapped: a folder of a project becomes a symbolic link to the outside while tasks of its members, and of root for it, begin and run: nothing comes from
// there, and nothing goes there.
//
//safety:6 with mover/coordinator TestOutsideRoots
func TestRootsAreSwapped(t *testing.T) {
	const secret = "the secret of the site"
	c := newTown(t)
	next := *c.Conf.Load()
	next.Projects = map[string]config.Project{"vision": {Members: []string{"alice"}, Roots: []string{"shared:vision"}}}
	c.Conf.Store(&next)
	c.Join("n1")
	shared := filepath.Join(c.Dir, "shared")
	write := func(name, text string, mode fs.FileMode) {
		t.Helper()
		path := filepath.Join(shared, name)
		for _, err := range []error{os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)} {
			must.Do(t, err)
		}
	}
	write("vision/in/file", "mine", 0o644)
	write("vision/out/file", "mine", 0o644)
	c.giveTo("alice", filepath.Join(shared, "vision"))
	outside := map[string]fs.FileMode{"roots-own": 0o700, "everybodys": 0o777}
	for name, mode := range outside {
		write(name+"/file", secret, mode&0o666)
		must.Do(t, os.Chmod(filepath.Join(shared, name), mode))
	}
	alice := rig.As("alice")
	for to := range outside {
		for _, name := range []string{"in", "out"} {
			quiet := swaps(t, filepath.Join(shared, "vision", name), filepath.Join(shared, to))
			for range 3 { // each may end in many ways, and must not escape
				for _, x := range []struct {
					as   context.Context
					spec *pb.TaskSpec
				}{
					{alice, &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: name, Target: "copied"}},
					{alice, &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_SYNC, Source: "in", Target: name, Options: &pb.Options{RemoveExtra: true}}},
					{context.Background(), &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Project: "vision", Source: name, Target: "by-root"}},
					{context.Background(), &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Project: "vision", Source: "in", Target: name}},
				} {
					x.spec.Source, x.spec.Target = "shared:vision/"+x.spec.Source, "shared:vision/"+x.spec.Target
					if begun, err := c.SubmitTask(x.as, &pb.SubmitTaskRequest{Spec: x.spec}); err == nil {
						c.Ends(begun, nil)
					}
				}
			}
			quiet()
		}
	}
	seen := 0
	err := filepath.WalkDir(shared, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		inside := strings.HasPrefix(path, filepath.Join(shared, "vision")+"/")
		if !inside {
			seen++
		}
		if inside && strings.Contains(string(text), secret) || !inside && string(text) != secret {
			t.Errorf("%s has %q", path, text)
		}
		return err
	})
	if err != nil || seen != len(outside) {
		t.Errorf("%d files are outside: %v", seen, err)
	}
}

// swaps exchanges a folder with a link to another one, again and again, until quiet
// is called. Then the folder is where it was.
func swaps(t *testing.T, dir, to string) (quiet func()) {
	t.Helper()
	link := dir + "-link"
	must.Do(t, os.Symlink(to, link))
	stop, stopped := make(chan struct{}), make(chan struct{})
	exchange := func() { _ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE) }
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(300 * time.Microsecond): // both ways are met
				exchange()
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		if st, err := os.Lstat(link); err == nil && st.IsDir() {
			exchange()
		}
		must.Do(t, os.Remove(link))
	}
}
