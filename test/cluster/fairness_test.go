package cluster

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
	"datamove.dev/mover/share"
	"datamove.dev/mover/task"
)

// BenchmarkFairness has one agent work for three projects of the same weight at once:
// one with many small files, one with ten huge ones, one with files of 1 MiB. It reports
// Jain's index of what each has got while all three had work, and how long a restore that
// comes then waits until it gets more than half of what is done. FAIR_DIR says where, FAIR_FILES how many
// small files.
func BenchmarkFairness(b *testing.B) {
	if os.Getenv("FAIR_DIR") == "" {
		b.Skip("FAIR_DIR is not set: a directory with room for the copies")
	}
	small := 200_000
	if _, err := fmt.Sscan(os.Getenv("FAIR_FILES"), &small); err != nil {
		small = 200_000
	}
	dir, err := os.MkdirTemp(os.Getenv("FAIR_DIR"), "fair-")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	fill(b, filepath.Join(dir, "small"), small, 4<<10)
	fill(b, filepath.Join(dir, "huge"), 10, 200<<20)
	fill(b, filepath.Join(dir, "medium"), 2000, 1<<20)
	c := newCluster(b, "n1")
	conf, projects := *c.conf.Load(), map[string]config.Project{}
	for _, name := range []string{"small", "huge", "medium", "urgent"} {
		projects[name] = config.Project{Roots: []string{dir}, Members: []string{"root"}}
	}
	conf.Projects = projects
	c.conf.Store(&conf)
	var jains, waits []float64
	for i := range max(b.N, 3) {
		jain, wait := c.fairness(dir, fmt.Sprint(i))
		jains, waits = append(jains, jain), append(waits, wait.Seconds())
		b.Logf("Jain %.3f, the restore has its share after %v", jain, wait)
	}
	slices.Sort(jains)
	slices.Sort(waits)
	b.ReportMetric(jains[0], "jain-least")
	b.ReportMetric(jains[len(jains)/2], "jain")
	b.ReportMetric(waits[len(waits)/2], "restore-s")
	b.ReportMetric(waits[len(waits)-1], "restore-max-s")
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
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(path, block, 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

// price is what a task has got, in the scheduler's words: bytes, and 64 KiB for each file.
func price(t *pb.Task) float64 {
	return float64(t.GetProgress().GetBytesDone() + 64<<10*t.GetProgress().GetFilesDone())
}

func (c *cluster) fairness(dir, round string) (jain float64, wait time.Duration) {
	c.t.Helper()
	target := filepath.Join(dir, "target"+round)
	var ids []string
	for _, project := range []string{"small", "huge", "medium"} {
		t, err := c.SubmitTask(context.Background(), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Project: project,
			Source: filepath.Join(dir, project), Target: filepath.Join(target, project)}})
		if err != nil {
			c.t.Fatal(err)
		}
		ids = append(ids, t.GetId())
	}
	got := func() (prices []float64, all bool) {
		all = true
		for _, id := range ids {
			t := c.now(id)
			prices, all = append(prices, price(t)), all && t.GetState() == task.Running && t.GetFirstByteTime() != nil
		}
		return prices, all
	}
	c.eventually("all are at work", func() bool { _, all := got(); return all })
	first, _ := got()
	last := first
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		now, all := got()
		if !all {
			c.t.Log("one has ended early: more files are needed")
			break
		}
		last = now
	}
	for i := range last {
		last[i] -= first[i]
	}
	wait = c.restored(dir, target, ids)
	for _, id := range ids {
		c.done(id)
	}
	if err := os.RemoveAll(target); err != nil {
		c.t.Fatal(err)
	}
	return share.Jain(last), wait
}

// restored submits a restore beside others, and says how long it takes until it gets more than
// they together.
func (c *cluster) restored(dir, target string, others []string) time.Duration {
	c.t.Helper()
	begun := time.Now()
	t, err := c.SubmitTask(context.Background(), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Project: "urgent", Class: pb.TaskClass_TASK_CLASS_RESTORE,
		Source: filepath.Join(dir, "medium"), Target: filepath.Join(target, "urgent")}})
	if err != nil {
		c.t.Fatal(err)
	}
	sum := func() (all float64) {
		for _, id := range others {
			all += price(c.now(id))
		}
		return all
	}
	mine, theirs := 0.0, sum()
	var took time.Duration
	c.eventually("the restore gets its share", func() bool {
		m, o := price(c.now(t.GetId())), sum()
		took = time.Since(begun)
		has := m-mine > o-theirs && m > mine
		mine, theirs = m, o
		return has
	})
	c.done(t.GetId())
	return took
}
