package service

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/fairshare"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
)

// BenchmarkFairness has one agent work for three projects of the same weight at once: one
// with many small files, one with ten huge ones, one with files of 1 MiB. Then a restore
// comes, of a fourth project.
//
// What is divided is what the scheduler charges: bytes, and 64 KiB for each file, as moved
// by the tasks' own count, each at the time at which it was counted. jain is Jain's index
// of what the three got in the two seconds after all had begun. The restore is due 32 parts
// of 36, by the weights of the classes: restore-s is how long after its request the first
// half second begins in which it gets at least 95 % of that, and restore-part what it got,
// of all that was moved, from one second after its request until it had nine tenths of what
// it wants, or all others had ended.
//
// FAIR_DIR says where, FAIR_FILES how many small files, FAIR_ROUNDS how often.
func BenchmarkFairness(b *testing.B) {
	if os.Getenv("FAIR_DIR") == "" {
		b.Skip("FAIR_DIR is not set: a directory with room for the copies")
	}
	small, rounds := number("FAIR_FILES", 200_000), number("FAIR_ROUNDS", 3)
	dir := must.Get(os.MkdirTemp(os.Getenv("FAIR_DIR"), "fair-"))(b)
	defer os.RemoveAll(dir)
	fill(b, filepath.Join(dir, "small"), small, 4<<10)
	fill(b, filepath.Join(dir, "huge"), 10, 300<<20)
	fill(b, filepath.Join(dir, "medium"), 3000, 1<<20)
	c := newCluster(b, "n1")
	conf, projects := *c.Conf.Load(), map[string]config.Project{}
	for _, name := range []string{"small", "huge", "medium", "urgent"} {
		projects[name] = config.Project{Roots: []string{dir}, Members: []string{"root"}}
	}
	conf.Projects = projects
	c.Conf.Store(&conf)
	var jains, waits, parts []float64
	for i := range max(b.N, rounds) {
		f := &fairness{cluster: c, dir: dir, target: filepath.Join(dir, fmt.Sprintf("target%d", i))}
		jain, wait, part := f.run()
		jains, waits, parts = append(jains, jain), append(waits, wait.Seconds()), append(parts, part)
		b.Logf("Jain %.3f; the restore has its share after %v, and from one second on %.2f of what is moved", jain, wait, part)
	}
	for name, xs := range map[string][]float64{"jain": jains, "restore-s": waits, "restore-part": parts} {
		slices.Sort(xs)
		b.ReportMetric(xs[len(xs)/2], name)
	}
	b.ReportMetric(jains[0], "jain-least")
	b.ReportMetric(waits[len(waits)-1], "restore-max-s")
	b.ReportMetric(parts[0], "restore-part-least")
}

// number is what a variable of the environment says.
func number(name string, otherwise int) (n int) {
	if _, err := fmt.Sscan(os.Getenv(name), &n); err != nil {
		return otherwise
	}
	return n
}

// fill makes files of random-looking content.
func fill(b *testing.B, dir string, n, size int) {
	b.Helper()
	block := make([]byte, size)
	for i := range block {
		block[i] = byte(i*7 + i>>8)
	}
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("d%04d/f%06d", i/100, i))
		if i%100 == 0 {
			must.Do(b, os.MkdirAll(filepath.Dir(path), 0o755))
		}
		must.Do(b, os.WriteFile(path, block, 0o644))
	}
}

// fairness is one round: three projects, then a restore.
type fairness struct {
	*cluster
	dir, target string
	counts      map[string]*count // by project
}

// count is how much a task has moved, as it was told.
type count struct {
	id      string
	state   pb.TaskState
	began   bool
	samples []sample // in order of time
}

type sample struct {
	at    time.Time
	price float64
}

// price is what was moved, in the scheduler's words: bytes, and 64 KiB for each file.
func price(p *pb.Progress) float64 { return float64(p.GetBytesDone() + 64<<10*p.GetFilesDone()) }

// submit begins the task of a project.
func (f *fairness) submit(project, source string, class pb.TaskClass) {
	f.t.Helper()
	t, err := f.SubmitTask(context.Background(), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Project: project, Class: class,
		Source: filepath.Join(f.dir, source), Target: filepath.Join(f.target, project)}})
	must.Do(f.t, err)
	f.counts[project] = &count{id: t.GetId()}
}

// look takes a sample of every task.
func (f *fairness) look() {
	f.t.Helper()
	for _, c := range f.counts {
		t := f.Now(c.id)
		c.state, c.began = t.GetState(), t.GetFirstByteTime() != nil
		p := t.GetProgress()
		at := p.GetTime().AsTime()
		if p == nil || len(c.samples) > 0 && !at.After(c.samples[len(c.samples)-1].at) {
			continue
		}
		c.samples = append(c.samples, sample{at, price(p)})
	}
}

// atWork reports whether all of these move, and none has ended.
func (f *fairness) atWork(projects ...string) bool {
	for _, p := range projects {
		if c := f.counts[p]; c.state != task.Running || !c.began {
			return false
		}
	}
	return true
}

// at is how much was moved by then: between two samples a part of what was moved between them.
func (c *count) at(when time.Time) float64 {
	was := sample{}
	for _, s := range c.samples {
		if s.at.After(when) {
			if was.at.IsZero() {
				return 0
			}
			return was.price + (s.price-was.price)*float64(when.Sub(was.at))/float64(s.at.Sub(was.at))
		}
		was = s
	}
	return was.price
}

// reached is when so large a part of all samples was moved.
func (c *count) reached(part float64) time.Time {
	last := c.samples[len(c.samples)-1]
	for _, s := range c.samples {
		if s.price >= part*last.price {
			return s.at
		}
	}
	return last.at
}

// moved is how much a project has moved between two times.
func (f *fairness) moved(project string, from, to time.Time) float64 {
	return f.counts[project].at(to) - f.counts[project].at(from)
}

// part is how much of all a project has moved between two times.
func (f *fairness) part(project string, from, to time.Time) float64 {
	all := 0.0
	for p := range f.counts {
		all += f.moved(p, from, to)
	}
	return f.moved(project, from, to) / max(all, 1)
}

const lookEvery = 20 * time.Millisecond

func (f *fairness) run() (jain float64, wait time.Duration, part float64) {
	f.t.Helper()
	f.counts = map[string]*count{}
	three := []string{"small", "huge", "medium"}
	for _, p := range three {
		f.submit(p, p, pb.TaskClass_TASK_CLASS_REPLICATE)
	}
	f.Until("all are at work", func() bool { f.look(); return f.atWork(three...) })
	begun := time.Now()
	for time.Since(begun) < 2*time.Second && f.atWork(three...) {
		time.Sleep(lookEvery)
		f.look()
	}
	end := time.Now()
	if !f.atWork(three...) {
		f.t.Logf("one has ended after %v: more files are needed", end.Sub(begun))
	}
	came := time.Now()
	f.submit("urgent", "medium", pb.TaskClass_TASK_CLASS_RESTORE)
	f.Until("the restore is done, or all others are", func() bool {
		f.look()
		return f.counts["urgent"].began && (!f.atWork("urgent") || !f.atWork("small") && !f.atWork("huge") && !f.atWork("medium"))
	})
	var got []float64
	for _, p := range three {
		got = append(got, f.moved(p, begun, end))
	}
	wait, part = f.restored(came)
	for _, c := range f.counts {
		f.Done(c.id)
	}
	must.Do(f.t, os.RemoveAll(f.target))
	return fairshare.Jain(got), wait, part
}

// restored says how long the restore waited until it had its share, and what it had from
// one second after it came.
func (f *fairness) restored(came time.Time) (wait time.Duration, part float64) {
	f.t.Helper()
	const due, half = 32.0 / (32 + 4), 500 * time.Millisecond
	last := f.counts["urgent"].reached(0.9)
	part = f.part("urgent", came.Add(time.Second), last)
	for at := came; !at.Add(half).After(last); at = at.Add(lookEvery) {
		if f.part("urgent", at, at.Add(half)) >= 0.95*due {
			return at.Sub(came), part
		}
	}
	f.t.Log("the restore never had its share")
	return last.Sub(came), part
}
