package slurm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"datamove.dev/bench/compare"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// figuresKey has the version that is measured; scaleKey how much of the full size, to try it: then nothing is written.
const (
	figuresKey = "DATAMOVE_FIGURES"
	scaleKey   = "DATAMOVE_FIGURES_SCALE"
)

// figures are measured in one site, one after the other, and told in one report.
type figures struct {
	*site
	scale float64
	text  strings.Builder
}

// TestFigures measures how long hooks take and what jobs wait for, and writes bench/SLURM.md. It judges nothing: that is on the page.
func TestFigures(t *testing.T) {
	version := os.Getenv(figuresKey)
	if version == "" {
		loopfs.Skip(t, "elsewhere: make bench-slurm: takes minutes, and a machine for itself")
	}
	f := &figures{scale: 1}
	if text := os.Getenv(scaleKey); text != "" {
		var err error
		if f.scale, err = strconv.ParseFloat(text, 64); err != nil || f.scale <= 0 || f.scale > 1 {
			t.Fatalf("%s is %s: want a number above 0, and at most 1", scaleKey, text)
		}
	}
	needRsync(t)
	f.site = deployed(t, Options{Nodes: 8, NVMeBytes: 6 << 30}, func(files fstest.MapFS) {
		files["datamove/prolog"] = &fstest.MapFile{Data: []byte(eitherProlog), Mode: 0o755}
		files["datamove/prolog-slurmctld"] = &fstest.MapFile{Data: []byte(notingProlog), Mode: 0o755}
	})
	f.begin(version)
	f.prologs()
	f.epilogs()
	f.waits()
	if f.scale == 1 {
		must.Do(t, os.WriteFile("../../bench/SLURM.md", []byte(f.text.String()), 0o644))
	}
}

// say writes, and prints it at once for who waits.
func (f *figures) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	f.text.WriteString(text)
	fmt.Print(text)
}

func (f *figures) begin(version string) {
	m := compare.ThisMachine(".")
	f.say("# The hooks of Slurm in figures\n\n%s, %d cores, %.0f GiB, %s, kernel %s, %s; Slurm %s.\n%s (%s), `make bench-slurm`", m.CPU, runtime.NumCPU(), float64(m.Memory)/(1<<30), m.System, m.Kernel, m.Go,
		strings.TrimPrefix(strings.TrimSpace(f.said(Controller, "sinfo", "--version")), "slurm-wlm "), time.Now().Format(time.DateOnly), version)
	if f.scale != 1 {
		f.say(", at %g of the full size", f.scale)
	}
	f.say(`.

A real Slurm: slurmctld and %d nodes, each a machine of namespaces with a slurmd and an agent of datamove, the coordinator beside slurmctld
(test/slurm), all on the cores above. /local_nvme of a node is memory.
`, f.o.Nodes)
}

// of is so much of a number as is to be measured, and at least some.
func (f *figures) of(full, least int) int { return max(least, int(float64(full)*f.scale)) }

// said is what a program prints that has to succeed.
func (f *figures) said(n int, program ...string) string {
	f.t.Helper()
	out := must.Get(f.On(n, program...))(f.t)
	return out
}

// sample is how long each of some runs took.
type sample []time.Duration

// at is the value that so many of a hundred do not exceed.
func (s sample) at(percent float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, int(math.Ceil(percent/100*float64(len(sorted))))-1)]
}

// met says whether what has a target keeps it.
func met(is bool) string {
	if is {
		return "met"
	}
	return "**missed**"
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// hook runs one of ours on a node for a job of Anna, as slurmd does, and returns how long it took: it has to end well.
func (f *figures) hook(n int, name string, job int) (time.Duration, error) {
	uid := strconv.Itoa(UID(Anna))
	cmd, err := f.machines[n].enter("env", "-i", "SLURM_JOB_ID="+strconv.Itoa(job), "SLURM_JOB_UID="+uid, "SLURM_JOB_GID="+uid, "SLURM_JOB_USER="+Anna, "SLURMD_NODENAME="+MachineName(n),
		"/usr/local/bin/datamove", "hook", name)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	_, err = run(cmd)
	return time.Since(began), err
}

// result is one run of a hook.
type result struct {
	took time.Duration
	err  error
}

func (f *figures) timed(n int, name string, job int) (r result) {
	r.took, r.err = f.hook(n, name, job)
	return r
}

// taken is how long so many runs took, all of which have to end well.
func (f *figures) taken(results <-chan result, runs int) (s sample) {
	f.t.Helper()
	var errs []error
	for range runs {
		r := <-results
		s, errs = append(s, r.took), append(errs, r.err)
	}
	must.Do(f.t, errors.Join(errs...))
	return s
}

// alone runs a hook on node 1.
func (f *figures) alone(name string, job int) time.Duration {
	f.t.Helper()
	r := f.timed(1, name, job)
	must.Do(f.t, r.err)
	return r.took
}

// atOnce runs a hook on node 1 for so many jobs at once, whose numbers follow first.
func (f *figures) atOnce(name string, first, jobs int) sample {
	f.t.Helper()
	results := make(chan result)
	for i := range jobs {
		go func() { results <- f.timed(1, name, first+i) }()
	}
	return f.taken(results, jobs)
}
