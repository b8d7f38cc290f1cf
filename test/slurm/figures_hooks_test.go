package slurm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// Numbers of jobs that Slurm does not know: hooks are called beside it.
const (
	plainJob  = 900_000
	heldJob   = 910_000
	stopJob   = 920_000
	epilogJob = 930_000
)

// heldSets are the datasets of a job, and crowd how many jobs begin at once.
var heldSets = []string{"one", "two", "three"}

const (
	crowd = 32
	each  = 5                     // at any time on each node, where nobody answers
	apart = 80 * time.Millisecond // their first ones
)

// prologs measures how long a prolog takes.
func (f *figures) prologs() {
	runs := f.of(320, crowd)
	f.say("\n## Prolog\n\nFrom the start of `datamove hook prolog` to its end, beside Slurm, with the environment that slurmd gives. Each run makes the directory of the job anew.\n\n" +
		"| what | runs | p50 s | p99 s | max s | p99 ≤ 2 s | max ≤ deadline (5 s) |\n|---|---|---|---|---|---|---|\n")
	var s sample
	for i := range runs {
		s = append(s, f.alone("prolog", plainJob+i))
	}
	f.prolog("nothing is staged", s, true)

	for _, name := range heldSets {
		f.dataset(Anna, name, "archive:"+name, "/opt/archive/"+name, 4, 10_000)
	}
	f.hold()
	s = nil
	for i := range runs {
		s = append(s, f.alone("prolog", heldJob+i%crowd))
		f.begun(heldJob + i%crowd)
	}
	f.prolog("three datasets are held for the job", s, true)
	s = nil
	for range runs / crowd {
		s = append(s, f.atOnce("prolog", heldJob, crowd)...)
		for i := range crowd {
			f.begun(heldJob + i)
		}
	}
	f.prolog(fmt.Sprintf("the same, %d jobs at once on one node", crowd), s, true)

	all := []*Daemon{f.head}
	for _, d := range f.agents {
		all = append(all, d)
	}
	for _, d := range all {
		must.Do(f.t, d.Signal(syscall.SIGSTOP))
	}
	s = f.steadily("prolog", stopJob, max(1, runs/(f.o.Nodes*each)))
	for _, d := range all {
		must.Do(f.t, d.Signal(syscall.SIGCONT))
	}
	f.prolog(fmt.Sprintf("agents and coordinator are stopped (SIGSTOP), %d at any time on each node", each), s, false)
	f.agentsReady(f.o.Nodes)
	f.say("\nAll of them ended with 0. A call without an answer is waited for 3 s, three fifths of the deadline.\n")
}

func (f *figures) prolog(what string, s sample, hasTarget bool) {
	soon := "–"
	if hasTarget {
		soon = met(s.at(99) <= 2*time.Second)
	}
	f.say("| %s | %d | %s | %s | %s | %s | %s |\n", what, len(s), inSeconds(s.at(50)), inSeconds(s.at(99)), inSeconds(s.at(100)), soon, met(s.at(100) <= config.DefaultDeadline))
}

// steadily runs a hook so many rounds for some jobs on each node, which have not begun all together: nobody waits for the processor.
func (f *figures) steadily(name string, first, rounds int) (s sample) {
	f.t.Helper()
	results := make(chan result)
	for i := range f.o.Nodes * each {
		node, job := 1+i%f.o.Nodes, first+i*rounds
		time.AfterFunc(time.Duration(i)*apart, func() {
			for r := range rounds {
				results <- f.timed(node, name, job+r)
			}
		})
	}
	return f.taken(results, f.o.Nodes*each*rounds)
}

// hold stages datasets on node 1, and holds them there for jobs.
func (f *figures) hold() {
	f.t.Helper()
	script := `for i in $(seq "$2" "$3"); do datamove stage -q "dataset:$1" --to scratch --node node1 --ttl 1h --holder "slurm:$i:$1" >/dev/null || exit; done`
	for _, name := range heldSets {
		if out, err := f.As(Anna, Controller, "", "sh", "-c", script, "sh", name, fmt.Sprint(heldJob), fmt.Sprint(heldJob+crowd-1)); err != nil {
			f.t.Fatalf("%v: %s", err, out)
		}
	}
}

// begun looks whether a job has all that is held for it on node 1, and takes its directory away.
func (f *figures) begun(job int) {
	f.t.Helper()
	dir := f.Path(1, fmt.Sprintf("/local_nvme/jobs/%d.%d", job, UID(Anna)))
	var errs []error
	for _, name := range heldSets {
		_, err := os.Lstat(filepath.Join(dir, name))
		errs = append(errs, err)
	}
	must.Do(f.t, errors.Join(append(errs, os.RemoveAll(dir))...))
}

// epilogs measures how long an epilog takes, by how many files the job has left.
func (f *figures) epilogs() {
	f.say("\n## Epilog\n\nFrom the start of `datamove hook epilog` to its end, where the job's directory has so many files, empty and in directories of 1,000; and `rm -rf` of what it has moved to the trash.\n" +
		"In memory: a disk makes `rm` slower, and one rename not.\n\n| files | runs | p50 s | max s | max ≤ 1 s | `rm -rf` p50 s | max s |\n|---|---|---|---|---|---|---|\n")
	job := epilogJob
	for _, row := range []struct{ files, runs int }{{0, f.of(20, 3)}, {f.of(100_000, 1000), f.of(5, 2)}, {f.of(1_000_000, 10_000), f.of(3, 2)}} {
		var ours, rm sample
		for range row.runs {
			ours = append(ours, f.epilog(job, row.files))
			began := time.Now()
			f.said(1, "rm", "-rf", f.item())
			rm = append(rm, time.Since(began))
			job++
		}
		f.say("| %d | %d | %s | %s | %s | %s | %s |\n", row.files, row.runs, inSeconds(ours.at(50)), inSeconds(ours.at(100)), met(ours.at(100) <= time.Second), inSeconds(rm.at(50)), inSeconds(rm.at(100)))
	}
	files := f.of(100_000, 20_000)
	f.epilog(job, files)
	began, ended := f.emptied()
	f.say("\nWhat lies in the trash is removed by the agent, at most 10,000 entries a second, at the lowest priority: %d files took %.1f s (%.0f a second).\n",
		files, ended.Sub(began).Seconds(), float64(files)/ended.Sub(began).Seconds())
}

// epilog makes a job's directory, fills it, and ends the job.
func (f *figures) epilog(job, files int) time.Duration {
	f.t.Helper()
	f.alone("prolog", job)
	dir := f.Path(1, fmt.Sprintf("/local_nvme/jobs/%d.%d", job, UID(Anna)))
	must.Do(f.t, fill(dir, files))
	took := f.alone("epilog", job)
	if _, err := os.Lstat(dir); err == nil {
		f.t.Fatalf("the directory of job %d is there", job)
	}
	return took
}

// fill makes empty files in a directory.
func fill(dir string, files int) error {
	for i := 0; i < files; {
		at := filepath.Join(dir, fmt.Sprintf("d%04d", i/1000))
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		for end := min(i+1000, files); i < end; i++ {
			fd, err := unix.Open(fmt.Sprintf("%s/f%07d", at, i), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
			if err != nil {
				return err
			}
			_ = unix.Close(fd)
		}
	}
	return nil
}

// item is the one in the trash of node 1.
func (f *figures) item() string {
	f.t.Helper()
	trash := "/local_nvme/" + mover.TrashName
	items := must.Get(os.ReadDir(f.Path(1, trash)))(f.t)
	var names []string
	for _, i := range items {
		if strings.Contains(i.Name(), ".job-") {
			names = append(names, i.Name())
		}
	}
	if len(names) != 1 {
		f.t.Fatalf("in the trash are %q, and not one job", names)
	}
	return trash + "/" + names[0]
}

// emptied is when the agent of node 1, which begins again, began to empty the trash, and when it had.
func (f *figures) emptied() (began, ended time.Time) {
	f.t.Helper()
	item := f.Path(1, f.item())
	full := f.inodes()
	must.Do(f.t, f.agents[1].Stop())
	f.startAgent(1)
	patience.Until(f.t, "the trash is emptied", nil, func() bool {
		if began.IsZero() && f.inodes() > full {
			began = time.Now()
		}
		_, err := os.Lstat(item)
		return err != nil
	})
	return began, time.Now()
}

// inodes is how many are free in /local_nvme of node 1.
func (f *figures) inodes() uint64 {
	f.t.Helper()
	var st unix.Statfs_t
	must.Do(f.t, unix.Statfs(f.Path(1, "/local_nvme"), &st))
	return st.Ffree
}
