package browser

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	datamovev1 "datamove.dev/api/datamove/v1"
)

const gib = 1 << 30

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(-d)) }

// task makes a task in a state, with what it has done of what is planned.
func task(state datamovev1.TaskState, source, target string, filesDone, files, bytesDone, bytes int64) *datamovev1.Task {
	t := &datamovev1.Task{
		State: state, Owner: &datamovev1.Account{Name: "ada", Uid: 1000}, CreateTime: ago(12 * time.Minute),
		Spec:     &datamovev1.TaskSpec{Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: source, Target: target, Project: "vision"},
		Progress: &datamovev1.Progress{PlanComplete: true, Planned: &datamovev1.Totals{Files: files, Bytes: bytes}, FilesDone: filesDone, BytesDone: bytesDone},
	}
	switch state {
	case running:
		t.Phase, t.Agent, t.Epoch, t.Tries, t.StartTime, t.FirstByteTime = "moving", "n01", 1700, 1, ago(10*time.Minute), ago(599*time.Second)
		t.Progress.BytesPerSecond, t.Progress.FilesPerSecond, t.Progress.InFlight = 512<<20, 41.5, 24
		t.Progress.SourceWait, t.Progress.TargetWait = durationpb.New(412*time.Second), durationpb.New(90*time.Second)
		t.Progress.LimitWait, t.Progress.QueueWait = durationpb.New(31*time.Second), durationpb.New(4*time.Second)
	case done, failed, cancelled:
		t.StartTime, t.EndTime, t.Tries = ago(10*time.Minute), ago(2*time.Minute), 1
	}
	return t
}

func slow(name string, since time.Duration, agent string) *datamovev1.SlowItem {
	return &datamovev1.SlowItem{Name: []byte(name), Since: durationpb.New(since), Agent: agent}
}

// tieredBy has policies, runs of them, and what is in the tiers.
func tieredBy(s *service) {
	amount := func(files, bytes int64) *datamovev1.RunTotals {
		return &datamovev1.RunTotals{Files: files, Bytes: bytes}
	}
	last := &datamovev1.Run{Id: "01m8bd0yp9fk7w51aama", Policy: "project-to-cold", State: datamovev1.RunState_RUN_STATE_DONE, By: "schedule", StartTime: ago(9 * time.Hour), EndTime: ago(8 * time.Hour),
		Planned: amount(120_443, 81<<40), Done: amount(120_431, 80<<40), Skipped: 12, KeptUntil: ago(-6 * 24 * time.Hour)}
	s.policies = []*datamovev1.Policy{
		{Name: "scratch-clean", Mode: "plan", Roots: []string{"scratch:"}, Triggers: []string{"above 85% of tier scratch", "at task.done"}},
		{Name: "project-to-cold", Owner: "storage-team", Mode: "enforce", Roots: []string{"project:"}, NextTime: ago(-15 * time.Hour), Last: last,
			Announced: &datamovev1.Plan{Id: "01m8bd0yp9fk7w51plan", Total: amount(20_111, 9<<40), Removes: amount(19_000, 8<<40)}},
	}
	s.runs = []*datamovev1.Run{last,
		{Id: "01m8bd0yp9fk7w51aaaa", Policy: "scratch-clean", State: datamovev1.RunState_RUN_STATE_STOPPED, By: "ada", StartTime: ago(30 * time.Hour), Planned: amount(100, 1<<30), Done: amount(40, 1<<29), Failed: 12,
			Why: "12 of 52 files failed, and the policy lets 5 % (limits.errorPct)"}}
	s.scans = []*datamovev1.Scan{{Tier: "archive", Began: ago(time.Minute)}, {Tier: "project", Time: ago(3 * time.Hour), Files: 41_000_000, Dirs: 120_000, Bytes: 900 << 40}, {Tier: "scratch", Node: "n01", Time: ago(time.Hour), Files: 5}}
	s.sums = []*datamovev1.FileSum{{Group: []string{"ada"}, Files: 30_000_000, Dirs: 100_000, Bytes: 800 << 40, StoredBytes: 801 << 40}, {Group: []string{""}, Files: 11_000_000, Dirs: 20_000, Bytes: 100 << 40, StoredBytes: 99 << 40}}
}

// cluster is a service in the middle of a working day.
func cluster() *service {
	s := newService()
	tieredBy(s)
	s.started = time.Now().Add(-76 * time.Hour)
	restored := task(running, "dataset:imagenet@4f1c77aa20be", "scratch:imagenet", 310_442, 1_281_167, 34*gib, 138*gib)
	restored.Spec.Kind, restored.Spec.Class, restored.Spec.Staging = datamovev1.TaskKind_TASK_KIND_STAGE, datamovev1.TaskClass_TASK_CLASS_STAGE, &datamovev1.Staging{Tier: "scratch"}
	restored.Helpers, restored.Spec.Labels, restored.Spec.Node = []string{"n02", "n04"}, map[string]string{"slurm_job": "81234"}, "n01"
	restored.Spec.Options = &datamovev1.Options{Verify: datamovev1.Level_LEVEL_READ, Jobs: 64, BytesPerSecond: 1 << 30, Rules: []*datamovev1.Rule{{Exclude: true, Pattern: "*.tmp"}}}
	restored.Progress.Slowest = []*datamovev1.SlowItem{slow("train/n01440764/shard-000041.tar", 42300*time.Millisecond, "n01"), slow("train/n02007558/shard-000977.tar", 18900*time.Millisecond, "n04"), slow("val/shard-000003.tar", 7200*time.Millisecond, "n02")}
	scanning := task(running, "/lustre/project/genomics/cohort-b", "s3://archive/genomics/cohort-b", 120, 48_211, 210<<20, 912*gib)
	scanning.Progress.PlanComplete, scanning.Agent, scanning.Owner, scanning.Spec.Project = false, "n02", &datamovev1.Account{Name: "grace", Uid: 1001}, "genomics"
	scanning.Progress.BytesPerSecond = 96 << 20
	full := task(running, "/lustre/project/llm/checkpoints/step-120000", "archive:llm/step-120000", 18, 64, 220*gib, 812*gib)
	full.Phase, full.Why, full.Agent, full.Spec.Project = "paused", "archive is full: waits for room", "n03", "llm"
	full.Progress.BytesPerSecond = 0
	broken := task(failed, "/home/linus/old", "s3://archive/linus/old", 8999, 9002, 3*gib, 3*gib)
	broken.Error, broken.ExitCode, broken.Owner, broken.Spec.Project = "3 of 9,002 files failed", 6, &datamovev1.Account{Name: "linus", Uid: 1002}, "kernel"
	broken.Progress.Failed = 3
	broken.Report = &datamovev1.Report{Planned: &datamovev1.Totals{Files: 9002, Bytes: 3 * gib, Kept: 12}, Files: 8999, Bytes: 3*gib - 4096, Kept: 12, Failed: 3, Elapsed: durationpb.New(481 * time.Second),
		Levels: []*datamovev1.LevelCount{{Level: datamovev1.Level_LEVEL_SERVER, Files: 8999}}, Notes: []string{"12 hard links became files of their own."},
		Failures: []*datamovev1.Failure{{Name: []byte("mail/2003/inbox"), Op: "create", Kind: "file", Error: "read: input/output error", ErrorKind: "OTHER"},
			{Name: []byte("mail/2003/sent\xff"), Op: "create", Kind: "file", Error: "permission denied", ErrorKind: "PERMISSION"},
			{Name: []byte("notes.txt"), Op: "replace", Kind: "file", Error: "changed while it was read", ErrorKind: "CHANGED"}}}
	for i := range 160 {
		state := []datamovev1.TaskState{done, done, done, cancelled, done, queued, done}[i%7]
		t := task(state, fmt.Sprintf("/lustre/project/%s/run-%03d", []string{"vision", "llm", "genomics"}[i%3], i), fmt.Sprintf("s3://archive/runs/%03d", i), 1000, 1000, int64(i+1)<<28, int64(i+1)<<28)
		t.Spec.Project, t.CreateTime = []string{"vision", "llm", "genomics"}[i%3], ago(time.Duration(200-i)*7*time.Minute)
		if state == queued {
			t.Progress = nil
		}
		s.add(t)
	}
	held := task(paused, "/lustre/project/vision/raw", "s3://cloud/vision/raw", 512, 2048, 40*gib, 160*gib)
	held.Why = "paused by ada"
	s.add(broken, held, full, scanning, restored)
	s.why = &datamovev1.Explanation{Bottleneck: datamovev1.Bottleneck_BOTTLENECK_SOURCE, Text: "The workers wait for the source most of the time.",
		Evidence: []string{"source 77% of all waiting, target 17%", "s3.site:9000 answers in 210 ms; 64 calls are in flight"}, Advice: "Give the task more calls in flight (--jobs 128), or look at the store."}
	for i := range 8 {
		a := &datamovev1.Agent{Name: fmt.Sprintf("n%02d", i+1), State: datamovev1.AgentState_AGENT_STATE_READY, Version: "v0.3.0", Address: fmt.Sprintf("10.1.0.%d:41822", i+1), Root: true,
			Reaches: []string{"scratch", "project", "archive"}, Leads: int32(i % 3), Helps: int32(i % 5), BytesPerSecond: float64(i*97) * (1 << 20), JoinTime: ago(70 * time.Hour), SeenTime: ago(time.Second)}
		s.agents = append(s.agents, a)
		s.tiers = append(s.tiers, &datamovev1.Tier{Name: "scratch", Level: "hot", Location: "/local_nvme", Node: a.Name, Ephemeral: true, HighPercent: 90, LowPercent: 75, TotalBytes: 3500 * gib, FreeBytes: int64(3300-400*i) * gib,
			ReplicaBytes: int64(150+300*i) * gib, LeasedBytes: int64(100+90*i) * gib, Agents: []string{a.Name}})
	}
	s.agents[4].State, s.agents[4].SeenTime, s.agents[4].BytesPerSecond = datamovev1.AgentState_AGENT_STATE_LOST, ago(96*time.Second), 0
	s.agents[6].State = datamovev1.AgentState_AGENT_STATE_DRAINING
	all := []string{"n01", "n02", "n03", "n04", "n06", "n07", "n08"}
	s.tiers = append(s.tiers,
		&datamovev1.Tier{Name: "project", Level: "warm", Location: "/lustre/project", TotalBytes: 2 << 50, FreeBytes: 700 << 40, ReplicaBytes: 512 << 40, LeasedBytes: 80 << 40, Agents: all},
		&datamovev1.Tier{Name: "archive", Level: "cold", Location: "s3://archive", ReplicaBytes: 3 << 50, Agents: all},
		&datamovev1.Tier{Name: "cloud", Level: "cold", Location: "s3://team-burst"})
	for i, name := range []string{"cohort-b", "fineweb-edu", "imagenet", "laion-aesthetic", "the-stack"} {
		digest := strings.Repeat(fmt.Sprintf("%x4c7", i+3), 16)
		s.datasets = append(s.datasets, &datamovev1.Dataset{Name: name, Project: "vision", Owner: &datamovev1.Account{Name: "ada"}, CreateTime: ago(400 * time.Hour),
			Versions: []*datamovev1.Version{{Digest: digest, Entries: int64(1_281_167 * (i + 1)), Bytes: int64(i+1) * 138 * gib, CreateTime: ago(300 * time.Hour)}}})
		s.replicas = append(s.replicas, &datamovev1.Replica{Dataset: name, Digest: digest, Tier: "archive", Location: "s3://archive/" + name, State: datamovev1.ReplicaState_REPLICA_STATE_WHOLE, Level: datamovev1.Level_LEVEL_SERVER, Bytes: 138 * gib})
		if i%2 == 0 {
			s.replicas = append(s.replicas, &datamovev1.Replica{Dataset: name, Digest: digest, Tier: "project", Location: "/lustre/project/" + name, State: datamovev1.ReplicaState_REPLICA_STATE_WHOLE, Level: datamovev1.Level_LEVEL_WRITTEN, Bytes: 138 * gib, PinnedUntil: timestamppb.New(time.Now().Add(240 * time.Hour))})
		}
		for n := range i {
			state := []datamovev1.ReplicaState{datamovev1.ReplicaState_REPLICA_STATE_WHOLE, datamovev1.ReplicaState_REPLICA_STATE_STAGING}[n%2]
			s.replicas = append(s.replicas, &datamovev1.Replica{Dataset: name, Digest: digest, Tier: "scratch", Node: all[n], Location: "/local_nvme/" + name, State: state, Level: datamovev1.Level_LEVEL_READ, Bytes: 138 * gib, Leases: int32(n)})
		}
	}
	s.leases = []*datamovev1.Lease{{Id: "l1", Dataset: "imagenet", Digest: s.datasets[2].Versions[0].Digest, Tier: "scratch", Node: "n01", Holder: "slurm:81234", Owner: &datamovev1.Account{Name: "ada"}, ExpireTime: timestamppb.New(time.Now().Add(5 * time.Hour))}}
	s.pins = []*datamovev1.PinInfo{{Dataset: "imagenet", Tier: "project", Until: timestamppb.New(time.Now().Add(240 * time.Hour)), Reason: "paper deadline", Owner: &datamovev1.Account{Name: "ada"}}}
	return s
}
