package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/checkpointer"
)

// saver is a Slurm job on some nodes, whose checkpoints go to shared:run.
type saver struct {
	*rig.Cluster
	t        *testing.T
	job      slurm.Job
	now      time.Time
	carriers map[string]*checkpointer.Carrier
	over     map[string]bool
	others   []slurm.Present // jobs without anything
}

func newSaver(t *testing.T, profile string, nodes ...string) *saver {
	t.Helper()
	c := rig.New(t, nodes...)
	s := &saver{Cluster: c, t: t, job: slurm.Job{ID: 7, UID: uint32(os.Geteuid()), GID: uint32(os.Geteuid())}, now: time.Now(), carriers: map[string]*checkpointer.Carrier{}, over: map[string]bool{}}
	for _, node := range nodes {
		must.Do(t, os.MkdirAll(s.at(node, ""), 0o755))
		s.watch(profile, node)
		s.begin(node)
	}
	t.Cleanup(func() {
		for _, x := range s.carriers {
			must.Tell(t, x.Close())
		}
	})
	return s
}

// watch is what Slurm's controller asks of a node.
func (s *saver) watch(profile, node string) {
	s.t.Helper()
	_, err := s.SubmitTask(context.Background(), &pb.SubmitTaskRequest{Paused: true, Spec: &pb.TaskSpec{
		Kind: pb.TaskKind_TASK_KIND_COPY, Source: "scratch:jobs/" + s.job.Dir() + "/ckpt", Target: "shared:run", Node: node,
		Labels: map[string]string{slurm.Label: "7", slurm.Leaves: node, slurm.PartLabel: slurm.Watch, slurm.CheckpointLabel: kept(profile)}}})
	must.Do(s.t, err)
}

// kept is a profile with how many stay: all, where nothing is said.
func kept(profile string) string {
	if strings.Contains(profile, ",") {
		return profile
	}
	return profile + ",0"
}

// begin is a carrier that remembers nothing, as after a kill.
func (s *saver) begin(node string) {
	if old := s.carriers[node]; old != nil {
		_ = old.Close()
	}
	s.carriers[node] = &checkpointer.Carrier{
		Site: &slurm.Site{Tier: "scratch", Scratch: s.ConfOf(node)().Tiers["scratch"].Path, State: filepath.Join(s.Dir, "run", node)}, Node: node, Quiet: 30 * time.Second,
		Dial: s.Dial, Log: slog.New(slog.DiscardHandler)}
}

func (s *saver) at(node, name string) string {
	return filepath.Join(s.ConfOf(node)().Tiers["scratch"].Path, "jobs", s.job.Dir(), "ckpt", name)
}

// saves writes files of a node's part.
func (s *saver) saves(node string, names ...string) {
	s.t.Helper()
	for _, name := range names {
		at := s.at(node, name)
		must.Do(s.t, os.MkdirAll(filepath.Dir(at), 0o755))
		must.Do(s.t, os.WriteFile(at, []byte(node+" "+name+" "+s.now.String()), 0o644))
	}
}

// looks has carriers look some times, with a while between, and all that they begin end.
func (s *saver) looks(times int, nodes ...string) {
	s.t.Helper()
	for range times {
		for _, node := range nodes {
			time.Sleep(20 * time.Second)
			s.now = time.Now()
			must.Do(s.t, s.carriers[node].Look(context.Background(), s.present(node), nil, s.now))
		}
		s.Until("copies end", func() bool {
			for t, err := range s.Tasks(context.Background(), &pb.ListTasksRequest{}) {
				if err != nil || !api.Ended(t.GetState()) && t.GetState() != pb.TaskState_TASK_STATE_PAUSED {
					return false
				}
			}
			return true
		})
	}
}

// present is the job, where it has a directory.
func (s *saver) present(node string) []slurm.Present {
	if _, err := os.Stat(filepath.Dir(s.at(node, ""))); err != nil {
		return nil
	}
	return append(s.others, slurm.Present{Job: s.job, Over: s.over[node]})
}

// target is what has come, in order.
func (s *saver) target() string {
	s.t.Helper()
	var all []string
	root := filepath.Join(s.Dir, "shared", "run")
	_ = filepath.WalkDir(root, func(at string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all = append(all, strings.TrimPrefix(at, root+"/"))
		}
		return nil
	})
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (s *saver) has(what, want string) {
	s.t.Helper()
	if got := s.target(); got != want {
		s.t.Errorf("%s:\n%s\nwant %s", what, got, want)
	}
}

// waiting are the nodes that something is to leave still.
func (s *saver) waiting() (nodes []string) {
	for t, err := range s.Tasks(context.Background(), &pb.ListTasksRequest{States: []pb.TaskState{pb.TaskState_TASK_STATE_PAUSED}}) {
		must.Do(s.t, err)
		nodes = append(nodes, t.GetSpec().GetNode()+" "+t.GetSpec().GetLabels()[slurm.PartLabel])
	}
	slices.Sort(nodes)
	return nodes
}

// TestCheckpointOfNodes: the mark of a checkpoint comes when the parts of all nodes have, whoever is killed meanwhile; of one that was torn when the
// job ended all that there is comes under another name, and then nothing waits any more.
//
//safety:5/jobs with tiering/checkpoint TestHostile
func TestCheckpointOfNodes(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := newSaver(t, "dcp", "n1", "n2")
		s.saves("n1", "step_1/__0_0.distcp", "step_1/.metadata")
		s.saves("n2", "step_1/__1_0.distcp")
		s.looks(2, "n1")
		s.has("it was seen to change a while ago only", "")
		s.looks(6, "n1")
		s.has("the other node has not been heard of", "step_1/__0_0.distcp")
		s.begin("n1")
		s.looks(6, "n2", "n1")
		one := "step_1/.metadata step_1/__0_0.distcp step_1/__1_0.distcp"
		s.has("its part is there", one)

		s.saves("n1", "step_2/__0_0.distcp", "step_2/.metadata")
		s.looks(8, "n1", "n2")
		two := one + " step_2/.metadata step_2/__0_0.distcp"
		s.has("one of which the other node has nothing", two)

		s.saves("n1", "step_3/__0_0.distcp", "step_3/.metadata", "step_4/__0_0.distcp", "log")
		s.saves("n2", "step_3/__1_0.distcp", "step_4/__1_0.distcp")
		s.over["n2"] = true // its epilog was the first
		s.looks(4, "n2")
		s.has("a node that may have parts still keeps them", two)
		s.over["n1"] = true
		s.begin("n2")
		s.looks(12, "n1", "n2")
		s.has("the end", "log "+two+" step_3/.metadata step_3/__0_0.distcp step_3/__1_0.distcp step_4.incomplete-7/__0_0.distcp step_4.incomplete-7/__1_0.distcp")
		if left := s.waiting(); len(left) > 0 {
			t.Errorf("%q wait still", left)
		}
		if text, err := os.ReadFile(s.at("n1", "step_1/.metadata")); err != nil || len(text) == 0 {
			t.Errorf("what is the user's: %v", err)
		}
	})
}

// TestCheckpointAgain: a name that is saved again is not mixed with what is whole at the target, also by who remembers nothing; it comes at the end.
//
//safety:5/jobs with tiering/checkpoint TestHostile
func TestCheckpointAgain(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := newSaver(t, "dcp", "n1")
		s.saves("n1", "last/__0_0.distcp", "last/.metadata")
		s.looks(8, "n1")
		s.has("the first one", "last/.metadata last/__0_0.distcp")
		first := must.Get(os.ReadFile(filepath.Join(s.Dir, "shared/run/last/__0_0.distcp")))(t)
		s.saves("n1", "last/__0_0.distcp", "last/.metadata")
		s.looks(4, "n1")
		s.begin("n1")
		s.looks(8, "n1")
		if now, err := os.ReadFile(filepath.Join(s.Dir, "shared/run/last/__0_0.distcp")); err != nil || string(now) != string(first) {
			t.Errorf("a target was made a mix of two saves: %q, %v", now, err)
		}
		s.over["n1"] = true
		s.looks(8, "n1")
		want := must.Get(os.ReadFile(s.at("n1", "last/__0_0.distcp")))(t)
		if now, err := os.ReadFile(filepath.Join(s.Dir, "shared/run/last/__0_0.distcp")); err != nil || string(now) != string(want) || string(now) == string(first) {
			t.Errorf("%q, %v", now, err)
		}
		if left := s.waiting(); len(left) > 0 {
			t.Errorf("%q wait still", left)
		}
	})
}

// TestCheckpointTracker: what names the newest comes when that is there, and never names what is torn.
//
//safety:5/jobs with tiering/checkpoint TestHostile
func TestCheckpointTracker(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := newSaver(t, "megatron", "n1")
		tracker := "latest_checkpointed_iteration.txt"
		write := func(step int) {
			must.Do(t, os.WriteFile(s.at("n1", tracker), fmt.Append(nil, step), 0o644))
		}
		s.saves("n1", "iter_0000100/mp_rank_00/model")
		write(100)
		s.looks(8, "n1")
		s.has("tracked", "iter_0000100/mp_rank_00/model "+tracker)
		s.saves("n1", "iter_0000200/mp_rank_00/model")
		must.Do(t, os.WriteFile(s.at("n1", "iter_0000200/mp_rank_00/torn"), nil, 0o644))
		write(200)
		s.looks(8, "n1")
		s.over["n1"] = true
		s.looks(8, "n1")
		s.has("the end", "iter_0000100/mp_rank_00/model iter_0000200.incomplete-7/mp_rank_00/model iter_0000200.incomplete-7/mp_rank_00/torn "+tracker)
		if text, err := os.ReadFile(filepath.Join(s.Dir, "shared/run", tracker)); err != nil || string(text) != "100" {
			t.Errorf("it names %q, %v", text, err)
		}
	})
}

// TestCheckpointAbsent: a node that the job never came to is not waited for when it has ended, and is before.
func TestCheckpointAbsent(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := newSaver(t, "dcp", "n1")
		must.Do(t, os.RemoveAll(filepath.Dir(s.at("n1", ""))))
		mark, err := s.SubmitTask(context.Background(), &pb.SubmitTaskRequest{Paused: true, Spec: &pb.TaskSpec{
			Kind: pb.TaskKind_TASK_KIND_COPY, Source: "scratch:jobs/" + s.job.Dir() + "/ckpt", Target: "shared:run", Labels: map[string]string{slurm.Label: "7", slurm.Leaves: slurm.AllNodes}}})
		must.Do(t, err)
		s.looks(4, "n1")
		if left := s.waiting(); !slices.Contains(left, "n1 "+slurm.Watch) {
			t.Errorf("a job that is to begin is not watched any more: %q", left)
		}
		if _, err := s.CancelTask(context.Background(), &pb.CancelTaskRequest{Id: mark.GetId()}); err != nil {
			t.Fatal(err)
		}
		s.looks(4, "n1")
		if left := s.waiting(); len(left) > 0 {
			t.Errorf("%q wait still", left)
		}
	})
}

// TestCheckpointJobs: however many jobs have a directory on a node, root has one connection for all of them: a prolog needs one, too.
//
//safety:8 directories of 300 jobs on a node: the agent has one connection for all of them, and hooks find room
func TestCheckpointJobs(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := newSaver(t, "dcp", "n1")
		c, dials := s.carriers["n1"], 0
		dial := c.Dial
		c.Dial = func(ctx context.Context) (*api.Client, error) {
			dials++
			return dial(ctx)
		}
		for id := range uint32(300) {
			s.others = append(s.others, slurm.Present{Job: slurm.Job{ID: 1000 + id, UID: s.job.UID, GID: s.job.GID}})
		}
		s.saves("n1", "step_1/__0_0.distcp", "step_1/.metadata")
		s.looks(8, "n1")
		s.has("the only one that has a checkpoint", "step_1/.metadata step_1/__0_0.distcp")
		if dials != 1 {
			t.Errorf("it has dialled %d times", dials)
		}
	})
}

// TestCheckpointKeep: when another checkpoint is whole, with the parts of all nodes, older ones go from the target: never the last two, nor one that is not whole.
//
//safety:5/jobs with tiering/checkpoint/replicate TestExpire
func TestCheckpointKeep(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := newSaver(t, "dcp,2", "n1", "n2")
		for i := 1; i <= 4; i++ {
			name := fmt.Sprintf("step_%d/", i)
			s.saves("n1", name+"__0_0.distcp", name+".metadata")
			s.saves("n2", name+"__1_0.distcp")
			s.looks(5, "n1", "n2")
		}
		s.saves("n1", "step_5/__0_0.distcp")
		s.over["n1"], s.over["n2"] = true, true
		s.looks(8, "n1", "n2")
		s.has("kept", "step_3/.metadata step_3/__0_0.distcp step_3/__1_0.distcp step_3/datamove-commit.json "+
			"step_4/.metadata step_4/__0_0.distcp step_4/__1_0.distcp step_4/datamove-commit.json step_5.incomplete-7/__0_0.distcp")
		kept := 0
		for one, err := range s.Tasks(context.Background(), &pb.ListTasksRequest{Labels: map[string]string{slurm.Label: "7"}}) {
			must.Do(t, err)
			if one.GetSpec().GetKind() == pb.TaskKind_TASK_KIND_RETAIN {
				if kept++; one.GetState() != pb.TaskState_TASK_STATE_DONE {
					t.Errorf("%v", one)
				}
			}
		}
		if kept != 4 {
			t.Errorf("%d times, for four checkpoints", kept)
		}
	})
}

// TestCheckpointKeepReads: an older checkpoint does not go for one that was verified long ago, and was damaged since, before it was ever read again.
func TestCheckpointKeepReads(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := newSaver(t, "dcp,2", "n1")
		save := func(i int) {
			s.saves("n1", fmt.Sprintf("step_%d/__0_0.distcp", i), fmt.Sprintf("step_%d/.metadata", i))
			s.looks(8, "n1")
		}
		save(1)
		save(2)
		record := filepath.Join(s.Dir, "shared", "run", "step_2", checkpoint.Committed)
		c := checkpoint.ParseCommit(must.Get(os.ReadFile(record))(t))
		c.Created = c.Created.Add(-48 * time.Hour)
		shard := filepath.Join(filepath.Dir(record), "__0_0.distcp")
		was := must.Get(os.Stat(shard))(t)
		must.Do(t, os.WriteFile(shard, []byte(strings.Repeat("x", int(was.Size()))), 0o644))
		must.Do(t, os.Chtimes(shard, was.ModTime(), was.ModTime()))
		must.Do(t, os.WriteFile(record, must.Get(c.Encode())(t), 0o644))
		save(3)
		if got := s.target(); !strings.Contains(got, "step_1/datamove-commit.json") || !strings.Contains(got, "step_3/datamove-commit.json") {
			t.Errorf("there is %s", got)
		}
		save(4)
		if got := s.target(); strings.Contains(got, "step_1/") || !strings.Contains(got, "step_4/datamove-commit.json") {
			t.Errorf("of those that are whole two are newer: there is %s", got)
		}
	})
}
