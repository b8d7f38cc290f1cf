package siege

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/patience"
)

// order is a waiting command and its task.
type order struct {
	site *site
	run  *rig.Run
	id   string
}

// order starts a command at the coordinator that waits for its task, and returns when
// it has one.
func (s *site) order(args ...string) *order {
	s.t.Helper()
	o := &order{site: s, run: s.tool.Start(s.t, args...)}
	o.run.Until("it has a task", func() bool {
		_, after, begun := strings.Cut(o.run.Complained(), ": task ")
		if begun && len(after) > 20 {
			o.id = after[:20]
		}
		return o.id != ""
	})
	return o
}

// now is the task as it is now; nil while the coordinator does not answer.
func (o *order) now() *pb.Task {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	t, err := o.site.GetTask(ctx, &pb.GetTaskRequest{Id: o.id})
	if err != nil {
		return nil
	}
	return t
}

// until waits until the task is so.
func (o *order) until(what string, is func(*pb.Task) bool) {
	o.site.t.Helper()
	o.site.eventually(what, func() bool {
		t := o.now()
		if task.Ended(t.GetState()) && !is(t) {
			o.site.t.Fatalf("the task ended before %s: %v", what, t)
		}
		return t != nil && is(t)
	})
}

// moving waits until a task has moved so much.
func (o *order) moving(bytes int64) {
	o.site.t.Helper()
	o.until("bytes have passed", func(t *pb.Task) bool { return t.GetProgress().GetBytesDone() >= bytes })
}

// done waits for the command, which must have done all.
func (o *order) done() {
	o.site.t.Helper()
	o.ends(0, task.Done)
}

// ends waits for the command, and for the task, which must have ended so.
func (o *order) ends(exit int, state pb.TaskState) {
	o.site.t.Helper()
	patience.Until(o.site.t, "it ends", func() string { return o.now().String() }, func() bool {
		select {
		case <-o.run.Ended():
			return true
		default:
			return false
		}
	})
	o.run.Want(exit)
	o.until("its task has ended", func(t *pb.Task) bool { return task.Ended(t.GetState()) })
	if t := o.now(); t.GetState() != state {
		o.site.t.Errorf("task %s is %s: %s", o.id, task.Word(t.GetState()), t.GetError())
	}
}

// freight is a tree at the site, and where it is copied to.
type freight struct {
	site           *site
	source, target string // names below the tier "shared"
	*witness
}

// files copies a tree to the tier "shared".
func (s *site) files(target string) *freight {
	s.t.Helper()
	f := &freight{site: s, source: s.tree(), target: target}
	f.witness = watch(s.t, f.from(), f.to())
	return f
}

// tree makes the tree that tests copy: small files in several directories, and large
// ones. Its name below the tier is returned.
func (s *site) tree() string {
	s.t.Helper()
	const name = "source"
	if len(marks(s.t, s.shared)) == 0 {
		rig.Make(s.t, filepath.Join(s.shared, name), rig.Shape{Seed: 1, Small: 400, Large: 2, LargeBytes: 17<<20 + 4321})
	}
	return name
}

// slowly makes a task of a tree take a few seconds on one node, and slowlyOnTwo on two:
// it leaves something for helpers.
var (
	slowly      = []string{"--bwlimit=8MiB/s", "--jobs=2"}
	slowlyOnTwo = []string{"--bwlimit=16MiB/s", "--jobs=2"}
)

func (f *freight) from() string { return filepath.Join(f.site.shared, f.source) }
func (f *freight) to() string   { return filepath.Join(f.site.shared, f.target) }

// copy has it copied by a command that waits.
func (f *freight) copy(more ...string) *order {
	f.site.t.Helper()
	return f.site.order(append([]string{"copy", "shared:" + f.source, "shared:" + f.target}, more...)...)
}

// arrived looks at the target.
func (f *freight) arrived() {
	f.site.t.Helper()
	f.finish()
	rig.SameTrees(f.site.t, f.from(), f.to(), false)
}

// upload copies the tree to a prefix of the tier "store" by a command that waits.
func (s *site) upload(prefix string, more ...string) *order {
	s.t.Helper()
	return s.order(append([]string{"copy", "shared:" + s.tree(), "store:" + prefix}, more...)...)
}

// stored looks at a prefix of the store: the tree is there, each object was made
// once, and nothing else is left.
func (s *site) stored(prefix string) {
	s.t.Helper()
	want, _ := rig.Look(s.t, filepath.Join(s.shared, s.tree()))
	for _, line := range rig.Differences(rig.Objects(want), s.store.Look(s.t, prefix)) {
		s.t.Error(line)
	}
	if own := s.store.Own(s.t, prefix); len(own) != 1 || own[0] != "manifest-v1.jsonl.zst" {
		s.t.Errorf("the program left %q below %s", own, prefix)
	}
	if n := s.store.Uploads(s.t); n > 0 {
		s.t.Errorf("%d uploads are open", n)
	}
	for key, n := range s.store.Made() {
		if n > 1 && strings.HasPrefix(key, "/"+s.store.Bucket()+"/"+prefix+"/") && !strings.Contains(key, "/.datamove/") {
			s.t.Errorf("%s was made %d times", key, n)
		}
	}
}
