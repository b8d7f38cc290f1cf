package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy/run"
)

const (
	complete = pb.CheckpointState_CHECKPOINT_STATE_COMPLETE
	verified = pb.CheckpointState_CHECKPOINT_STATE_VERIFIED
)

// saving is a desk at which two tiers are looked at for checkpoints.
type saving struct {
	*desk
	leads map[string]string // tasks that look, by tier
	most  int               // tasks that did something with a checkpoint at one time
	made  map[string]int64  // when checkpoints were saved, by name; ns
}

func newSaving(t *testing.T, text string) *saving {
	t.Helper()
	d := catalogued(t, authz.Input{})
	d.withPolicy(t, text)
	d.started = d.wall
	for _, name := range []string{"project", "archive"} {
		tier := d.conf.Tiers[name]
		tier.Checkpoints = &config.Checkpoints{Folders: []string{"runs/*"}, Quiet: time.Second}
		d.conf.Tiers[name] = tier
	}
	s := &saving{desk: d, leads: map[string]string{}}
	s.begin(t)
	return s
}

func (s *saving) begin(t *testing.T) {
	t.Helper()
	wants(t, "keep", s.catalog.KeepCheckpointTasks(t.Context()), nil)
	s.give()
	for id, l := range s.taken {
		if l.GetSpec().GetKind() == pb.TaskKind_TASK_KIND_CHECKPOINTS {
			s.leads[strings.TrimSuffix(l.GetSpec().GetSource(), ":")] = id
		}
	}
	if len(s.leads) != 2 {
		t.Fatalf("%v", s.leads)
	}
}

func (s *saving) tells(r *agentv1.TellCheckpointsRequest, tier string) (*agentv1.TellCheckpointsResponse, error) {
	id := s.leads[tier]
	r.Task, r.Epoch = id, s.taken[id].GetEpoch()
	return s.catalog.TellCheckpoints(asAgent(s.led[id]), r)
}

// saw tells of the checkpoints of a run: NAME:STATE, with a save of the same name.
func (s *saving) saw(t *testing.T, tier, folder string, sets ...string) {
	t.Helper()
	f := &agentv1.CheckpointFolder{Name: []byte(folder)}
	for _, set := range sets {
		name, state, _ := strings.Cut(set, ":")
		c := &pb.Checkpoint{Name: []byte(name), Save: fmt.Sprintf("of %q", name), Step: int64(len(f.GetCheckpoints())), MadeNs: s.made[name]}
		for _, word := range strings.Split(state, "+") {
			switch word {
			case "seen":
				c.State, c.Save = pb.CheckpointState_CHECKPOINT_STATE_SEEN, ""
			case "settling":
				c.State = pb.CheckpointState_CHECKPOINT_STATE_SETTLING
			case "complete":
				c.State = complete
			case "verified":
				c.State = verified
			case "named":
				c.Named = true
			case "tagged":
				c.Tagged = true
			case "again":
				c.Save += " again"
			case "tracker":
				c.Tracker, c.Save = true, ""
			}
		}
		f.Checkpoints = append(f.Checkpoints, c)
	}
	_, err := s.tells(&agentv1.TellCheckpointsRequest{Folder: f}, tier)
	wants(t, "tell", err, nil)
}

// savedTree has two files in each checkpoint of a run, a tracker, and a file beside it.
func savedTree(made int64, names ...string) *mem.Tree {
	tree := mem.NewTree()
	put := func(name string) {
		tree.Put(mover.Entry{Name: name, Kind: mover.File, Known: mover.FactOwner | mover.FactMtime, UID: 1001, Mtime: mover.Time{Sec: made}}, make([]byte, 1000))
	}
	put("runs/a/latest")
	put("runs/a/notes")
	for _, name := range names {
		put("runs/a/" + name + "/data")
		put("runs/a/" + name + "/deep/more")
	}
	return tree
}

const keeping2 = `kind: TierPolicy
metadata: {name: cold}
spec:
  mode: enforce
  scope: {roots: ["project:runs"]}
  trigger: [{event: checkpoint.complete}, {event: task.done}]
  rules:
    - {name: copy, match: {checkpoint: complete}, action: {type: replicate, to: [archive]}}
    - {name: thin, match: {checkpoint: verified}, action: {type: retain, keepLast: 2}}
    - {name: rest, match: {name: ["latest", "notes"]}, action: {type: replicate, to: [archive]}}
`

// TestTellCheckpoints: the lead alone tells what is there, of its own tier; what it does not tell of any more is forgotten, and names are hostile.
//
//safety:5/jobs with tiering/checkpoint/replicate TestExpire
func TestTellCheckpoints(t *testing.T) {
	s := newSaving(t, keeping2)
	asked, err := s.tells(&agentv1.TellCheckpointsRequest{}, "project")
	if wants(t, "ask", err, nil); !slices.Equal(asked.GetFolders(), []string{"runs/*"}) || asked.GetSettle().AsDuration() != time.Second {
		t.Errorf("%v", asked)
	}
	id := s.leads["project"]
	for what, r := range map[string]*agentv1.TellCheckpointsRequest{
		"another epoch": {Task: id, Epoch: s.taken[id].GetEpoch() + 1}, "no task": {Task: "x", Epoch: 1},
	} {
		_, err := s.catalog.TellCheckpoints(asAgent(s.led[id]), r)
		wants(t, what, err, mover.ErrHeld)
	}
	for _, name := range []string{"../x", "a/../b", "/x", "a//b"} {
		_, err := s.tells(&agentv1.TellCheckpointsRequest{Folder: &agentv1.CheckpointFolder{Name: []byte(name)}}, "project")
		wants(t, "the folder "+name, err, mover.ErrUsage)
	}
	for _, name := range []string{"", "..", ".", "a/b", "/"} {
		_, err := s.tells(&agentv1.TellCheckpointsRequest{Folder: &agentv1.CheckpointFolder{Name: []byte("runs/a"), Checkpoints: []*pb.Checkpoint{{Name: []byte(name)}}}}, "project")
		wants(t, "the checkpoint "+name, err, mover.ErrUsage)
	}
	s.saw(t, "project", "runs/a", "one:complete", "two:seen")
	s.saw(t, "project", "runs/b", "x\xff:complete")
	s.saw(t, "archive", "runs/a", "one:verified")
	has := func() string {
		var all []string
		wants(t, "look", s.ledger.View(func(tx *state.Tx) error {
			for c, err := range state.Checkpoints.All(tx, state.Range{}) {
				wants(t, "row", err, nil)
				all = append(all, fmt.Sprintf("%s:%s/%q", c.GetTier(), c.GetFolder(), c.GetName()))
			}
			return nil
		}), nil)
		return strings.Join(all, " ")
	}
	const all = `archive:runs/a/"one" project:runs/a/"one" project:runs/a/"two" project:runs/b/"x\xff"`
	if has() != all {
		t.Error(has())
	}
	s.saw(t, "project", "runs/a", "one:complete")
	_, err = s.tells(&agentv1.TellCheckpointsRequest{Round: &agentv1.CheckpointRound{Folders: [][]byte{[]byte("runs/a")}}}, "project")
	if wants(t, "round", err, nil); has() != `archive:runs/a/"one" project:runs/a/"one"` {
		t.Error(has())
	}
	tier := s.conf.Tiers["archive"]
	tier.Checkpoints = nil
	s.conf.Tiers["archive"] = tier
	wants(t, "keep", s.catalog.KeepCheckpointTasks(t.Context()), nil)
	if l := s.Service.scheduler.leads[s.leads["archive"]]; l != nil && l.want != task.Cancelled {
		t.Error("it is looked at still")
	}
	wants(t, "forget", s.catalog.ForgetCheckpoints(t.Context()), nil)
	if has() != `project:runs/a/"one"` {
		t.Error(has())
	}
}

// under is how many tasks do something with a checkpoint at this moment.
func (s *saving) under() (n int) {
	for _, l := range s.taken {
		if l.GetSpec().GetTiering().GetCheckpoint() != nil {
			n++
		}
	}
	return n
}

// whole does what the tasks of a run ask for with checkpoints, and says what that was.
func (s *saving) whole(t *testing.T, kept int64) (did []string) {
	t.Helper()
	for range 20 {
		wants(t, "tend", s.policy.Tend(context.Background()), nil)
		s.give()
		s.most = max(s.most, s.under())
		busy := false
		for id, l := range s.taken {
			work := l.GetSpec().GetTiering().GetCheckpoint()
			if l.GetSpec().GetTiering() == nil {
				continue
			}
			busy = true
			r := &agentv1.FinishRequest{Task: id, Epoch: l.GetEpoch(), Report: &pb.Report{Kept: kept}}
			if work != nil {
				what := strings.TrimPrefix(l.GetSpec().GetKind().String(), "TASK_KIND_") + " " + string(work.GetFolder()) + "/" + string(work.GetName())
				if to := l.GetSpec().GetTarget(); to != "" {
					what += " to " + to
				}
				for _, one := range work.GetRelies() {
					what += " relying on " + string(one.GetName())
				}
				did = append(did, what)
			} else {
				x := &itemStream{ctx: asAgent(s.led[id])}
				wants(t, "items", s.policy.ReadItems(&agentv1.ReadItemsRequest{Task: id, Epoch: l.GetEpoch()}, x), nil)
				did = append(did, x.names...)
				r.Report.Files = int64(len(x.names))
			}
			who := s.led[id]
			delete(s.taken, id)
			_, err := s.scheduler.Finish(asAgent(who), r)
			wants(t, "finish", err, nil)
		}
		if !busy {
			break
		}
	}
	return did
}

// TestCheckpointsByPolicy: what is complete is copied as one, and what is not stays, as does a tracker; each event is one run; and what retention lets go goes as one, relies
// on those that stay, and comes back.
//
//safety:5/jobs with tiering/checkpoint/replicate TestExpire
func TestCheckpointsByPolicy(t *testing.T) {
	s := newSaving(t, keeping2)
	made := s.wall.Unix() - 86400*100
	names := []string{"step_1", "step_2", "step_3", "step_4"}
	s.scans(t, "project", savedTree(made, names...))
	s.pass(2 * day)
	s.begin(t)
	s.saw(t, "project", "runs/a", "step_1:complete", "step_2:complete", "step_3:complete", "step_4:seen", "latest:tracker")
	if did := s.whole(t, 0); len(did) != 0 {
		t.Fatalf("with facts of before it: %v", did)
	}
	scan := func() {
		t.Helper()
		s.pass(time.Minute)
		s.scans(t, "project", savedTree(made, names...))
	}
	scan()
	got := s.whole(t, 0)
	slices.Sort(got)
	if want := []string{"TIER runs/a/step_1 to archive:", "TIER runs/a/step_2 to archive:", "TIER runs/a/step_3 to archive:", "runs/a/notes"}; !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
	if s.most != 3 {
		t.Errorf("%d at one time: they wait for each other", s.most)
	}
	if r := s.runsThat(t); len(r) != 1 || r[0].GetBy() != "event" || r[0].GetDone().GetFiles() != 7 || r[0].GetState() != run.Done {
		t.Fatalf("%v", r)
	}
	if did := s.whole(t, 0); len(did) != 0 || len(s.runsThat(t)) != 1 {
		t.Errorf("nothing has happened, and it runs: %v", did)
	}

	s.saw(t, "archive", "runs/a", "step_1:verified", "step_2:verified", "step_3:verified")
	s.pass(time.Minute)
	s.saw(t, "project", "runs/a", "step_1:complete", "step_2:complete", "step_3:complete", "step_4:complete+named", "latest:tracker")
	scan()
	got = s.whole(t, 0)
	slices.Sort(got)
	if want := []string{"TIER runs/a/step_1 relying on step_3 relying on step_2", "TIER runs/a/step_4 to archive:", "runs/a/notes"}; !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
	r := s.runsThat(t)[0]
	if r.GetDone().GetFiles() != 5 || r.GetKeptUntil() == nil {
		t.Fatalf("%v", r)
	}
	_, err := s.policy.UndoRun(root, &pb.UndoRunRequest{Id: r.GetId()})
	wants(t, "undo", err, nil)
	if got := s.whole(t, 0); !slices.Equal(got, []string{"UNDO runs/a/step_1"}) {
		t.Errorf("%q", got)
	}
	if r := s.runsThat(t)[0]; r.GetState() != run.Undone || r.GetRestored() != 2 {
		t.Errorf("%v", r)
	}
}

// TestCheckpointStays: nothing is done to a checkpoint that is another one than the plan lists, of which the policy does not mean every file, or that has to stay by now.
//
//safety:5/jobs with tiering/checkpoint/replicate TestExpire
func TestCheckpointStays(t *testing.T) {
	first := []string{"step_1:complete", "step_2:complete", "step_3:complete", "latest:tracker"}
	for _, row := range []struct {
		what      string
		meanwhile func(*saving, int64)
		did       string
	}{
		{"nothing", func(*saving, int64) {}, "TIER runs/a/step_1 relying on step_3 relying on step_2"},
		{"saved again", func(s *saving, _ int64) {
			s.saw(t, "project", "runs/a", "step_1:complete+again", first[1], first[2], first[3])
		}, ""},
		{"gone", func(s *saving, _ int64) { s.saw(t, "project", "runs/a", first[1], first[2], first[3]) }, ""},
		{"torn", func(s *saving, _ int64) { s.saw(t, "project", "runs/a", "step_1:seen", first[1], first[2], first[3]) }, ""},
		{"tagged", func(s *saving, _ int64) {
			s.saw(t, "project", "runs/a", "step_1:complete+tagged", first[1], first[2], first[3])
		}, ""},
		{"named by a tracker", func(s *saving, _ int64) {
			s.saw(t, "project", "runs/a", "step_1:complete+named", first[1], first[2], first[3])
		}, ""},
		{"a newer one is gone", func(s *saving, _ int64) { s.saw(t, "project", "runs/a", first[0], first[1], first[3]) }, ""},
		{"its copy is gone", func(s *saving, _ int64) { s.saw(t, "archive", "runs/a", "step_2:verified", "step_3:verified") }, ""},
		{"grown", func(s *saving, made int64) {
			tree := savedTree(made, "step_1", "step_2", "step_3")
			tree.Put(mover.Entry{Name: "runs/a/step_1/new", Kind: mover.File, Known: mover.FactMtime, Mtime: mover.Time{Sec: made}}, make([]byte, 10))
			s.scans(t, "project", tree)
		}, ""},
	} {
		t.Run(row.what, func(t *testing.T) {
			s := newSaving(t, strings.Replace(keeping2, "  trigger: [{event: checkpoint.complete}, {event: task.done}]\n", "", 1))
			made := s.wall.Unix() - 86400*100
			s.saw(t, "project", "runs/a", first...)
			s.saw(t, "archive", "runs/a", "step_1:verified", "step_2:verified", "step_3:verified")
			s.scans(t, "project", savedTree(made, "step_1", "step_2", "step_3"))
			s.pass(2 * day)
			s.scans(t, "project", savedTree(made, "step_1", "step_2", "step_3"))
			plan, err := s.policy.PlanPolicy(root, &pb.PlanPolicyRequest{Policy: "cold"})
			wants(t, "plan", err, nil)
			s.pass(time.Second)
			s.begin(t)
			row.meanwhile(s, made)
			_, err = s.policy.RunPlan(root, &pb.RunPlanRequest{Plan: plan.GetId()})
			wants(t, "run", err, nil)
			did := slices.DeleteFunc(s.whole(t, 0), func(name string) bool { return name == "runs/a/notes" })
			if got := strings.Join(did, ", "); got != row.did {
				t.Errorf("%q", got)
			}
			if r := s.runsThat(t)[0]; r.GetState() != run.Done || (r.GetSkipped() == 2) != (row.did == "") {
				t.Errorf("%v", r)
			}
		})
	}
}

// TestTaskDone: what somebody has brought to a tier is an event, and what runs do is none.
func TestTaskDone(t *testing.T) {
	s := newSaving(t, strings.Replace(keeping2, "{event: checkpoint.complete}, ", "", 1))
	s.scans(t, "project", savedTree(s.wall.Unix()-86400*100))
	s.pass(time.Minute)
	for _, row := range []struct {
		spec *pb.TaskSpec
		runs int
	}{
		{&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:x", Target: "archive:x"}, 0},
		{&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "archive:x", Target: "project:x"}, 1},
	} {
		done, err := s.SubmitTask(root, &pb.SubmitTaskRequest{Spec: row.spec})
		wants(t, "submit", err, nil)
		s.give()
		wants(t, "finish", s.finish(done.GetId(), 0, nil), nil)
		s.pass(time.Minute)
		s.scans(t, "project", savedTree(s.wall.Unix()-86400*100))
		s.whole(t, 0)
		if r := s.runsThat(t); len(r) != row.runs {
			t.Errorf("%v: %v", row.spec, r)
		}
	}
}

// TestRetainRequests: who asks for checkpoints to go says whose they are, and that two stay.
//
//safety:5/jobs with tiering/checkpoint/replicate TestExpire
func TestRetainRequests(t *testing.T) {
	s := newSaving(t, keeping2)
	good := func() *pb.TaskSpec {
		return &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_RETAIN, Target: "project:runs/a", Retention: &pb.Retention{Profile: "dcp", Arrived: []byte("step_1"), Last: 2}}
	}
	for what, row := range map[string]struct {
		spoil func(*pb.TaskSpec)
		want  error
	}{
		"nothing":           {func(*pb.TaskSpec) {}, nil},
		"no retention":      {func(x *pb.TaskSpec) { x.Retention = nil }, mover.ErrUsage},
		"no target":         {func(x *pb.TaskSpec) { x.Target = "" }, mover.ErrUsage},
		"nobody's":          {func(x *pb.TaskSpec) { x.Retention.Profile = "tensorflow" }, mover.ErrUsage},
		"one":               {func(x *pb.TaskSpec) { x.Retention.Last = 1 }, mover.ErrUsage},
		"fewer than none":   {func(x *pb.TaskSpec) { x.Retention.Every = -1 }, mover.ErrUsage},
		"another directory": {func(x *pb.TaskSpec) { x.Retention.Arrived = []byte("../b") }, mover.ErrUsage},
		"another node":      {func(x *pb.TaskSpec) { x.SourceNode = "n2" }, mover.ErrUsage},
		"for a run":         {func(x *pb.TaskSpec) { x.Tiering = &pb.Tiering{Remove: true} }, mover.ErrUsage},
		"a source":          {func(x *pb.TaskSpec) { x.Source = "project:x" }, mover.ErrUsage},
	} {
		spec := good()
		row.spoil(spec)
		_, err := s.SubmitTask(root, &pb.SubmitTaskRequest{Spec: spec})
		wants(t, what, err, row.want)
	}
}

// TestEventAgain: a run for an event of which something failed is run again, each time later, until nothing fails.
func TestEventAgain(t *testing.T) {
	s := newSaving(t, strings.Replace(keeping2, ", {event: task.done}", "", 1))
	made := s.wall.Unix() - 86400*100
	s.saw(t, "project", "runs/a", "step_1:complete", "latest:tracker")
	s.pass(time.Minute)
	s.scans(t, "project", savedTree(made, "step_1"))
	s.begin(t)
	fails := func() {
		t.Helper()
		for range 4 {
			wants(t, "tend", s.policy.Tend(context.Background()), nil)
			s.give()
			for id, l := range s.taken {
				if l.GetSpec().GetTiering() != nil {
					s.refuse(id, mover.ErrUnreachable)
				}
			}
		}
	}
	fails()
	const eventRest = 10 * time.Second // of policyserver
	for i, wait := range []time.Duration{eventRest, 2 * eventRest, 4 * eventRest} {
		if n := len(s.runsThat(t)); n != i+1 || s.runsThat(t)[0].GetFailed() == 0 {
			t.Fatalf("%v", s.runsThat(t))
		}
		s.pass(wait - time.Second)
		if fails(); len(s.runsThat(t)) != i+1 {
			t.Fatalf("it runs again before %v", wait)
		}
		s.pass(2 * time.Second)
		fails()
	}
	s.pass(10 * eventRest)
	s.whole(t, 0)
	if r := s.runsThat(t); len(r) != 5 || r[0].GetFailed() != 0 || r[0].GetDone().GetFiles() != 3 {
		t.Errorf("%v", r)
	}
	s.pass(time.Hour)
	if s.whole(t, 0); len(s.runsThat(t)) != 5 {
		t.Error("it runs again although nothing failed")
	}
}

// TestEventClockSetBack: an event has one run, also where an earlier one has a later id because the clock was ahead.
func TestEventClockSetBack(t *testing.T) {
	s := newSaving(t, strings.Replace(keeping2, ", {event: task.done}", "", 1))
	made := s.wall.Unix() - 86400*100
	s.saw(t, "project", "runs/a", "step_1:complete", "latest:tracker")
	s.wall = s.wall.Add(3 * time.Hour)
	s.pass(time.Minute)
	s.scans(t, "project", savedTree(made, "step_1"))
	s.whole(t, 0)
	first := len(s.runsThat(t))
	s.wall = s.wall.Add(-3 * time.Hour)
	s.saw(t, "project", "runs/a", "step_1:complete", "step_2:complete", "latest:tracker")
	s.pass(time.Minute)
	for range 3 {
		s.scans(t, "project", savedTree(made, "step_1", "step_2"))
		s.whole(t, 0)
	}
	if n := len(s.runsThat(t)); first != 1 || n != 2 {
		t.Errorf("two events had %d runs, the first one %d", n, first)
	}
}

// TestThere: what is at a place already is not copied there again, and a copy on one node is not brought back to the node that it came from.
//
//safety:5/jobs with tiering/checkpoint/replicate TestExpire
func TestThere(t *testing.T) {
	s := newSaving(t, keeping2)
	rows := []*pb.Checkpoint{
		{Tier: "scratch", Node: "n1", State: complete}, {Tier: "scratch", Node: "n2", State: verified}, {Tier: "archive", State: complete}, {Tier: "project", State: verified},
	}
	tier := s.conf.Tiers["scratch"]
	tier.Checkpoints = &config.Checkpoints{Folders: []string{"runs/*"}}
	s.conf.Tiers["scratch"] = tier
	wants(t, "put", s.ledger.Update(t.Context(), state.Soon, func(tx *state.Tx) error {
		for _, c := range rows {
			c.Folder, c.Name, c.Save = []byte("runs/a"), []byte("step_1"), "x"
			if err := state.Checkpoints.Put(tx, c); err != nil {
				return err
			}
		}
		return state.Checkpoints.Put(tx, &pb.Checkpoint{Tier: "archive", Folder: []byte("more/runs/a"), Name: []byte("step_1"), Save: "x", State: verified})
	}), nil)
	for _, row := range []struct {
		node, to string
		there    bool
	}{
		{"n1", "scratch@peer", true}, {"n2", "scratch@peer", true}, {"n1", "scratch@peer:copies", false}, {"n1", "project", true}, {"n2", "project:", true}, {"n1", "project:other", false},
		{"n1", "archive", false}, {"n1", "archive:more", true}, {"n1", "scratch", false}, {"n1", "nowhere", false},
	} {
		g, err := s.datasets.Tree(catalog.Tree{Tier: "scratch", Node: row.node})
		wants(t, "tree", err, nil)
		if got := g.Ground().At(&dataset.File{Dir: "runs/a/step_1", Base: "data"}).Set.There(row.to); got != row.there {
			t.Errorf("from %s, at %s: %v", row.node, row.to, got)
		}
	}
}

// TestDiskNotScanned: a checkpoint on the disk of a node that no scan has seen yet is an event of which a run begins when one has.
//
//safety:5/jobs with tiering/checkpoint/replicate TestExpire
func TestDiskNotScanned(t *testing.T) {
	text := strings.Replace(strings.ReplaceAll(keeping2, "project:runs", "scratch:runs"), ", {event: task.done}", "", 1)
	s := newSaving(t, text)
	made := s.wall.Unix() - 86400*100
	tier := s.conf.Tiers["scratch"]
	tier.Checkpoints = &config.Checkpoints{Folders: []string{"runs/*"}}
	s.conf.Tiers["scratch"] = tier
	wants(t, "put", s.ledger.Update(t.Context(), state.Soon, func(tx *state.Tx) error {
		for _, node := range []string{"n1", "n2"} {
			err := state.Checkpoints.Put(tx, &pb.Checkpoint{Tier: "scratch", Node: node, Folder: []byte("runs/a"), Name: []byte("step_1"), Save: "of " + node, State: complete, CompleteTime: timestamppb.New(s.wall)})
			if err != nil {
				return err
			}
		}
		return nil
	}), nil)
	s.pass(time.Minute)
	answer, err := s.catalog.ScanTier(root, &pb.ScanTierRequest{Tier: "scratch"})
	wants(t, "scan", err, nil)
	s.give()
	scanned := func(node string) {
		t.Helper()
		for _, scan := range answer.GetTasks() {
			if scan.GetSpec().GetNode() == node {
				wants(t, "walk", s.walks(scan.GetId(), walkOf(savedTree(made, "step_1"))), nil)
				wants(t, "finish", s.finish(scan.GetId(), 0, nil), nil)
			}
		}
	}
	scanned("n1")
	if did := s.whole(t, 0); len(did)+len(s.runsThat(t)) > 0 {
		t.Errorf("a run has begun, and n2 is not scanned: %q, %v", did, s.runsThat(t))
	}
	scanned("n2")
	did := s.whole(t, 0)
	if n := len(slices.DeleteFunc(slices.Clone(did), func(what string) bool { return what != "TIER runs/a/step_1 to archive:" })); n != 2 {
		t.Errorf("it did %q", did)
	}
}

// TestLookedAtAnew: a checkpoint settles once more when who looks has begun anew. While it is the same save it is complete still, for what is tried again meanwhile, and
// is no event; saved again it is left out until it is complete, and an event.
//
//safety:5/jobs with tiering/checkpoint/replicate TestExpire
func TestLookedAtAnew(t *testing.T) {
	s := newSaving(t, strings.Replace(keeping2, ", {event: task.done}", "", 1))
	made := s.wall.Unix() - 86400*100
	tells := func(set string) {
		t.Helper()
		s.begin(t)
		s.saw(t, "project", "runs/a", set, "latest:tracker")
		s.pass(time.Minute)
		s.scans(t, "project", savedTree(made, "step_1"))
		s.begin(t)
	}
	copied := func(want bool, when string) {
		t.Helper()
		if did := s.whole(t, 0); slices.Contains(did, "TIER runs/a/step_1 to archive:") != want {
			t.Fatalf("%s: %q", when, did)
		}
	}
	tells("step_1:complete")
	for range 2 {
		wants(t, "tend", s.policy.Tend(context.Background()), nil)
		s.give()
		for id, l := range s.taken {
			if l.GetSpec().GetTiering() != nil {
				s.refuse(id, mover.ErrUnreachable)
			}
		}
	}
	tells("step_1:settling")
	copied(false, "that has failed")
	s.pass(time.Minute)
	copied(true, "who looks has begun anew, and it is to be tried again")
	runs := len(s.runsThat(t))
	s.pass(time.Minute)
	tells("step_1:complete")
	if copied(false, "nothing is new"); len(s.runsThat(t)) != runs {
		t.Errorf("it was an event once more: %v", s.runsThat(t))
	}
	s.pass(time.Minute)
	tells("step_1:settling+again")
	copied(false, "it is saved again")
	s.pass(time.Minute)
	tells("step_1:complete+again")
	copied(true, "it was saved again")
}
