package cluster

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// mark is what tells a file from one that was published in its place.
type mark struct {
	inode uint64
	size  int64
	ctime syscall.Timespec // a write, a change of facts, and a rename move it
}

// marks are those of the files below a directory; temporary ones are told apart.
func marks(t *testing.T, dir string) (all map[string]mark, temporary []string) {
	t.Helper()
	all = map[string]mark{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) { // removed meanwhile, or not there yet
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if strings.Contains(name, mover.TempPrefix) {
			temporary = append(temporary, name)
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			st := info.Sys().(*syscall.Stat_t)
			all[name] = mark{st.Ino, st.Size, st.Ctim}
		}
		return nil
	})
	must.Tell(t, err)
	return all, temporary
}

// freight is a copy of a tree from and to the tier "shared", and a witness of its target: a
// file that was seen there is whole, and stays that file.
type freight struct {
	t      *testing.T
	c      *rig.Cluster
	id     string
	source string
	target string
	end    chan struct{} // nil when the witness has ended
	ended  chan struct{}
}

// begun is how far a copy is when it is disturbed.
const begun = 2 << 20

// carry begins a copy that takes two agents some seconds, and waits until it has moved something.
func carry(t *testing.T, c *rig.Cluster, target string) *freight {
	t.Helper()
	f := &freight{t: t, c: c, source: filepath.Join(c.Dir, "shared/source"), target: filepath.Join(c.Dir, "shared", target)}
	if _, err := os.Stat(f.source); err != nil {
		c.Tree("shared/source", 60, 8, 3<<20)
	}
	f.watch()
	f.id = c.Slow("shared:source", "shared:"+target, 2<<20).GetId()
	c.Passed(f.id, begun)
	return f
}

// watch looks at the target from now on.
func (f *freight) watch() {
	f.end, f.ended = make(chan struct{}), make(chan struct{})
	want, _ := marks(f.t, f.source)
	end, ended := f.end, f.ended
	go func() {
		defer close(ended)
		for seen := map[string]mark{}; ; {
			now, _ := marks(f.t, f.target)
			for name, m := range now {
				if was, known := seen[name]; known && was != m {
					f.t.Errorf("%s was published twice: %+v, and then %+v", name, was, m)
				}
				if m.size != want[name].size {
					f.t.Errorf("%s has %d of %d bytes", name, m.size, want[name].size)
				}
				seen[name] = m
			}
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	f.t.Cleanup(f.stop)
}

func (f *freight) stop() {
	if f.end != nil {
		close(f.end)
		<-f.ended
		f.end = nil
	}
}

// victim is an agent that has a part in the copy.
func (f *freight) victim(part func(*pb.Task) string) (name string) {
	f.t.Helper()
	f.c.Until("an agent has that part", func() bool {
		now := f.c.Now(f.id)
		if task.Ended(now.GetState()) {
			f.t.Fatalf("it has ended before: %v", now)
		}
		name = part(now)
		return now.GetState() == task.Running && name != "" && len(f.c.Working(name, f.id)) > 0
	})
	return name
}

// parts that an agent has in a task.
var parts = map[string]func(*pb.Task) string{
	"lead": (*pb.Task).GetAgent,
	"helper": func(t *pb.Task) string {
		for _, name := range t.GetHelpers() {
			return name
		}
		return ""
	},
}

// arrives waits for the end of the copy: all is there, and nothing else.
func (f *freight) arrives() *pb.Task {
	f.t.Helper()
	done := f.c.Done(f.id)
	f.stop()
	f.c.Same(f.source, f.target)
	return done
}

// cancelled waits until the task is: files that are whole are there, and nothing unfinished.
func (f *freight) cancelled() {
	f.t.Helper()
	if end := f.c.Ends(f.c.Now(f.id), nil); end.GetState() != task.Cancelled {
		f.t.Errorf("it is %s: %s", task.Word(end.GetState()), end.GetError())
	}
	f.stop()
	if _, left := marks(f.t, f.target); len(left) > 0 {
		f.t.Errorf("a task that was cancelled has left %q", left)
	}
}
