package burstbuffer

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/location"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/slurm/directive"
)

// TestSeen: all nodes see paths and tiers on file systems, and neither tiers of one node nor objects.
func TestSeen(t *testing.T) {
	c := &Controller{Config: &config.Config{Tiers: map[string]config.Tier{
		"project": {Path: "/lustre/project"}, "scratch": {Path: "/local_nvme", NodeLocal: true}, "archive": {S3: &config.S3{Bucket: "archive"}},
	}}}
	for at, want := range map[string]string{
		"/lustre/other/x": "/lustre/other/x", "project:a/b": "/lustre/project/a/b", "scratch:a": "", "archive:a": "", "lost:a": "", "s3://bucket/a": "", "dataset:words": "",
	} {
		if got := c.seen(must.Get(location.Parse(at))(t)); got != want {
			t.Errorf("%s is seen at %q, want %q", at, got, want)
		}
	}
}

// TestRoom: what is to go where nothing more can be written is refused at submit, also where the rest of the name is known only later.
func TestRoom(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := unserved(t)
		var asked []string
		full := ""
		w.Room = func(_ context.Context, dir string) error {
			asked = append(asked, strings.TrimPrefix(dir, w.path("")))
			if full != "" && strings.Contains(dir, full) {
				return fmt.Errorf("%w: %s", mover.ErrFull, dir)
			}
			return nil
		}
		process := func(lines ...string) error {
			_, err := w.Process(t.Context(), directive.Text{Script: script(lines...)})
			return err
		}
		lines := []string{"stage-in=results:in to=scratch:in", "stage-out=scratch:out to=results:run1/%j/out", "stage-out=scratch:more to=results:run2", "checkpoint=scratch:ckpt to=results:run4/%u,results:run3 profile=dcp"}
		must.Do(t, process(lines...))
		slices.Sort(asked)
		if len(asked) != 4 || !strings.HasSuffix(asked[0], "/run1/") || !strings.HasSuffix(asked[1], "/run2") || !strings.HasSuffix(asked[2], "/run3") || !strings.HasSuffix(asked[3], "/run4/") {
			t.Errorf("it was looked at %q", asked)
		}
		full = "/run2"
		err := process(lines...)
		wantsError(t, err, mover.ErrFull, "/run2")
		if strings.Contains(err.Error(), "/run1") {
			t.Error(err)
		}
		must.Do(t, process(lines[:2]...))
	})
}

// TestCapacity: space that a job asks for on its nodes is refused where no node is as large, and waited for where it is not there, or is another job's.
func TestCapacity(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.Config.Slurm.Most = 0
		var line *datamovev1.Tier
		w.service.Until("the node has said how full it is", func() bool {
			line = must.Get(w.service.ListTiers(t.Context(), &datamovev1.ListTiersRequest{Name: "scratch"}))(t).GetTiers()[0]
			return line.GetTotalBytes() > 0
		})
		asks := func(bytes int64) directive.Text {
			return directive.Text{Script: fmt.Sprintf("#!/bin/sh\n#DATAMOVE dw\n#DW jobdw type=scratch access_mode=private capacity=%dB\ntrue\n", bytes)}
		}
		begins := func(id uint32, bytes int64) error {
			time.Sleep(time.Nanosecond)
			must.Do(t, w.Setup(w.job(id), asks(bytes)))
			must.Do(t, w.In(t.Context(), id))
			w.nodes(id, "n1")
			return w.Before(t.Context(), id)
		}
		_, err := w.Process(t.Context(), asks(line.GetTotalBytes()+1))
		wantsError(t, err, mover.ErrRefused, "on each node, and scratch takes")
		must.Get(w.Process(t.Context(), asks(line.GetTotalBytes())))(t)
		wantsError(t, begins(7, line.GetTotalBytes()), mover.ErrConflict, "n1 has room for", "it waits for room") // the disk of this machine has something
		must.Do(t, w.Teardown(t.Context(), 7, true))

		must.Do(t, begins(8, line.GetFreeBytes()/4))
		wantsError(t, begins(9, line.GetTotalBytes()-line.GetFreeBytes()/4+1), mover.ErrConflict, "n1 has room for")
		must.Do(t, w.Teardown(t.Context(), 9, true)) // as Slurm does
		must.Do(t, begins(10, 1))
		must.Do(t, w.Setup(w.job(11), asks(line.GetTotalBytes()))) // it is pending, and has no node
		must.Do(t, begins(12, 1))
		w.kill()
		must.Do(t, w.Setup(w.job(13), asks(line.GetTotalBytes())))
		w.nodes(13, "n1")
		must.Do(t, w.Before(w.within(time.Minute), 13)) // how full it is can not be said
		w.start()
	})
}

// TestReserved: a node makes the directory of a job that asks for space, and its directories, before anything comes there, and the job hears whether it is held to its capacity.
func TestReserved(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: agents make directories of jobs as root")
	}
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		begins := func(id uint32, more string) {
			time.Sleep(time.Nanosecond)
			must.Do(t, w.Setup(w.job(id), directive.Text{Script: "#!/bin/sh\n#DATAMOVE dw\n#DW jobdw type=scratch access_mode=private capacity=1MiB\n" + more + "true\n"}))
			must.Do(t, w.In(t.Context(), id))
			w.nodes(id, "n1")
			must.Do(t, w.Before(t.Context(), id))
		}
		begins(7, "#DW copy_in source="+w.path("shared/notes")+" destination=$DW_JOB_PRIVATE/notes\n")
		w.wants("scratch/jobs/"+w.job(7).Dir()+"/DW_JOB_PRIVATE/notes/note", "a note")
		w.prolog(7)
		w.wants("scratch/jobs/"+w.job(7).Dir()+"/DW_JOB_PRIVATE/notes/note", "a note") // all of it is of this run
		if lines := w.node().Tasks(w.job(7), nil); !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "export DATAMOVE_CAPACITY") }) {
			t.Errorf("%q", lines)
		}

		begins(8, "")
		w.prolog(8)
		w.wrote(8, "DW_JOB_PRIVATE/old")
		must.Get(w.node().Epilog(t.Context(), w.job(8)))(t)
		must.Do(t, w.Teardown(t.Context(), 8, false))
		begins(8, "")
		w.prolog(8)
		if left := must.Get(os.ReadDir(w.path("scratch/jobs/" + w.job(8).Dir() + "/DW_JOB_PRIVATE")))(t); len(left) > 0 {
			t.Errorf("of an earlier run it has %v", left)
		}
	})
}

// TestAccounted: what was staged for a run, and by it, is told once where Slurm keeps it, by the task of an array alone.
func TestAccounted(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		var told []string
		fails := fmt.Errorf("%w: no scontrol", mover.ErrNotExist)
		w.Comment = func(_ context.Context, job, text string, _ bool) error {
			told = append(told, job+": "+text)
			return fails
		}
		run := func(id uint32, p Place) {
			w.setup(id, "stage-in=shared:notes to=scratch:notes required", "stage-out=scratch:out to=results:%j")
			must.Do(t, w.In(t.Context(), id))
			must.Do(t, w.Nodes(id, p))
			must.Do(t, w.Before(t.Context(), id))
			must.Do(t, w.Before(t.Context(), id)) // Slurm tries again
			w.prolog(id)
			w.wrote(id, "out/a", "out/b")
			must.Do(t, w.Ended(id, End{}))
			must.Do(t, w.Out(t.Context(), id, 0))
			must.Do(t, w.Out(t.Context(), id, 0))
			must.Get(w.node().Epilog(t.Context(), w.job(id)))(t)
			must.Do(t, w.Teardown(t.Context(), id, false))
		}
		run(7, Place{Nodes: []string{"n1"}})
		run(7, Place{Nodes: []string{"n1"}, Count: 1})
		run(7, Place{Nodes: []string{"n1"}, Count: commentRuns})
		run(9, Place{Nodes: []string{"n1"}, Array: "9", Task: "3"})
		want := []string{
			"7: datamove staged in: 6 bytes in 1 files", "7: datamove staged out: 14 bytes in 2 files",
			"7: datamove staged in: 6 bytes in 1 files (restart 1)", "7: datamove staged out: 14 bytes in 2 files (restart 1)",
			"9_3: datamove staged in: 6 bytes in 1 files", "9_3: datamove staged out: 14 bytes in 2 files",
		}
		if !slices.Equal(told, want) {
			t.Errorf("%q", told)
		}
		if !w.heard("Slurm's comment of the job does not say") {
			t.Error("that it failed is not told")
		}
	})
}
