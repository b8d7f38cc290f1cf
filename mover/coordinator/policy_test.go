package coordinator

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/config"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/run"
)

// policed is a desk with policies, and a catalog of old files.
func policed(t *testing.T, text string) *desk {
	d := catalogued(t, authz.Input{Roles: map[string]authz.Role{"storage": {Members: []string{"opal"}, May: []string{"policy.run"}}}})
	d.withPolicy(t, text)
	d.started = d.wall
	d.servePolicies()
	d.scans(t, "project", aged(d.wall, 20))
	d.pass(2 * day) // grace
	d.scans(t, "project", aged(d.wall.Add(-2*day), 20))
	return d
}

func (d *desk) withPolicy(t *testing.T, text string) {
	t.Helper()
	programs, err := policy.Read("p.yaml", []byte(text))
	wants(t, "policies", err, nil)
	d.policies.Policies = func() []*policy.Program { return programs }
	d.servePolicies()
}

func (d *desk) planFile(id string) string { return filepath.Join(d.dir, "plans", id) }

// aged is a tree of files that were changed long ago, and of two that were not.
func aged(now time.Time, n int) *mem.Tree {
	tree := mem.NewTree()
	for i := range n {
		tree.Put(mover.Entry{Name: fmt.Sprintf("runs/old-%02d", i), Kind: mover.File, Known: mover.FactOwner | mover.FactMtime, UID: 1001 + uint32(i%2), Mtime: mover.Time{Sec: now.Add(-100 * day).Unix()}}, make([]byte, 1000+i))
	}
	tree.Put(mover.Entry{Name: "runs/keep.txt", Kind: mover.File, Known: mover.FactOwner, UID: 1001}, make([]byte, 10))
	return tree
}

// cold is a policy, of the mode and with more in its spec.
func cold(mode, more string) string {
	return `kind: TierPolicy
metadata: {name: cold}
spec:
  mode: ` + mode + `
  scope: {roots: ["project:"]}
  rules:
    - {name: text, match: {name: ["*.txt"]}, action: keep}
    - {name: data, match: {kind: file, size: ">=1KB"}, action: {type: migrate, to: archive}}
  order: {by: size}
` + more
}

// dump is all that the catalog has, and how many changes the ledger has seen.
func (d *desk) dump(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d\n", d.ledger.Sequence())
	states, err := d.policies.Catalog.Trees()
	wants(t, "trees", err, nil)
	for _, s := range states {
		fmt.Fprintf(&b, "%+v\n", s)
		for f, err := range d.policies.Catalog.Below(t.Context(), s.Tree, "") {
			wants(t, "below", err, nil)
			fmt.Fprintf(&b, "%+v\n", f)
		}
	}
	return b.String()
}

// planStream collects a plan.
type planStream struct {
	grpc.ServerStream
	ctx   context.Context
	items []*pb.PlanItem
}

func (p *planStream) Context() context.Context { return p.ctx }
func (p *planStream) Send(m *pb.GetPlanResponse) error {
	p.items = append(p.items, m.GetItems()...)
	return nil
}

func (d *desk) planItems(t *testing.T, ctx context.Context, id string) []*pb.PlanItem {
	t.Helper()
	s := &planStream{ctx: ctx}
	wants(t, "get plan", d.policy.GetPlan(&pb.GetPlanRequest{Id: id}, s), nil)
	return s.items
}

// itemStream collects what a lead is given.
type itemStream struct {
	grpc.ServerStream
	ctx   context.Context
	names []string
	held  int64
}

func (s *itemStream) Context() context.Context { return s.ctx }
func (s *itemStream) Send(m *agentv1.ReadItemsResponse) error {
	for _, item := range m.GetItems() {
		s.names = append(s.names, string(item.GetName()))
	}
	s.held = m.GetHeld()
	return nil
}

// works has agents do what a run asks for, each file with success but those that fail.
func (d *desk) works(t *testing.T, fail int64) (names []string) {
	t.Helper()
	for range 20 {
		wants(t, "tend", d.policy.Tend(t.Context()), nil)
		d.give()
		busy := false
		for id, l := range d.taken {
			kind := l.GetSpec().GetKind()
			if kind != pb.TaskKind_TASK_KIND_TIER && kind != pb.TaskKind_TASK_KIND_UNDO {
				continue
			}
			busy = true
			s := &itemStream{ctx: asAgent(d.led[id])}
			wants(t, "items", d.policy.ReadItems(&agentv1.ReadItemsRequest{Task: id, Epoch: l.GetEpoch()}, s), nil)
			names = append(names, s.names...)
			done := int64(len(s.names)) - fail
			r := &agentv1.FinishRequest{Task: id, Epoch: l.GetEpoch(), Report: &pb.Report{Files: done, Bytes: 1000 * done, Kept: s.held, Failed: fail}}
			if fail > 0 {
				r.Error, r.ErrorKind = "some failed", "PERMISSION"
			}
			who := d.led[id]
			delete(d.taken, id)
			_, err := d.scheduler.Finish(asAgent(who), r)
			wants(t, "finish", err, nil)
		}
		if !busy {
			break
		}
	}
	wants(t, "tend", d.policy.Tend(t.Context()), nil)
	return names
}

func (d *desk) runsThat(t *testing.T) []*pb.Run {
	t.Helper()
	answer, err := d.policy.ListRuns(root, &pb.ListRunsRequest{Policy: "cold"})
	wants(t, "runs", err, nil)
	return answer.GetRuns()
}

// TestPlansChangeNothing: what is planned, simulated, explained and listed leaves ledger and catalog as they are.
//
//safety:5 planning changes neither ledger nor catalog; a run is run once, across restarts and clocks that jump; what fails too often stops
func TestPlansChangeNothing(t *testing.T) {
	d := policed(t, cold("enforce", ""))
	before := d.dump(t)
	plan, err := d.policy.PlanPolicy(root, &pb.PlanPolicyRequest{Policy: "cold"})
	wants(t, "plan", err, nil)
	if plan.GetTotal().GetFiles() != 20 || plan.GetScope().GetFiles() != 21 || plan.GetRemoves().GetFiles() != 20 || plan.GetRules()[0].GetKept().GetFiles() != 1 || plan.GetStale() {
		t.Errorf("%v", plan)
	}
	again, err := d.policy.PlanPolicy(root, &pb.PlanPolicyRequest{Text: cold("enforce", "")})
	wants(t, "plan of a text", err, nil)
	if again.GetDigest() != plan.GetDigest() || again.GetPolicyDigest() != plan.GetPolicyDigest() {
		t.Errorf("the same plan is another one: %v", again)
	}
	for _, item := range d.planItems(t, root, plan.GetId()) {
		if !strings.HasPrefix(item.GetReason(), "migrate by rule data: ") || item.GetTarget() != "archive" {
			t.Errorf("%v", item)
		}
	}
	_, err = d.policy.SimulatePolicy(root, &pb.SimulatePolicyRequest{Policy: "cold", Days: 3, From: timestamppb.New(d.wall.Add(time.Hour))})
	wants(t, "simulate", err, nil)
	explained, err := d.policy.ExplainFile(root, &pb.ExplainFileRequest{Location: "project:runs/keep.txt"})
	wants(t, "explain", err, nil)
	if len(explained.GetPolicies()) != 1 || !strings.HasPrefix(explained.GetPolicies()[0].GetReason(), "keep by rule text: name") {
		t.Errorf("%v", explained)
	}
	_, err = d.policy.ListPolicies(root, &pb.ListPoliciesRequest{})
	wants(t, "list", err, nil)
	if d.dump(t) != before {
		t.Error("something has changed")
	}

	// Owners see their own files in a plan, and nobody else's.
	own := d.planItems(t, as("ada", 1001), plan.GetId())
	if len(own) != 10 || slices.ContainsFunc(own, func(i *pb.PlanItem) bool { return i.GetUid() != 1001 }) {
		t.Errorf("ada sees %d", len(own))
	}
	if len(d.planItems(t, as("eve", 1009), plan.GetId())) != 0 {
		t.Error("eve sees something")
	}
	for _, id := range []string{"", "../ledger", task.NewID(d.wall)} {
		wants(t, "a plan that is none", d.policy.GetPlan(&pb.GetPlanRequest{Id: id}, &planStream{ctx: root}), mover.ErrNotExist)
	}
}

// TestRunPlan: a run does what its plan lists, once, and of that what is still true.
//
//safety:5 with tiering/policy/run TestDecisions
func TestRunPlan(t *testing.T) {
	d := policed(t, cold("enforce", "  limits: {files: 15}\n"))
	plan, err := d.policy.PlanPolicy(root, &pb.PlanPolicyRequest{Policy: "cold"})
	wants(t, "plan", err, nil)
	if plan.GetTotal().GetFiles() != 15 {
		t.Fatalf("%v", plan)
	}
	tree := aged(d.wall.Add(-2*day), 20)
	tree.Delete("runs/old-19") // the largest, and so the first
	d.scans(t, "project", tree)
	d.add(root, "set", "project:runs/old-18", 1) // it is a part of something by now

	first, err := d.policy.RunPlan(root, &pb.RunPlanRequest{Plan: plan.GetId()})
	wants(t, "run", err, nil)
	_, err = d.policy.RunPlan(root, &pb.RunPlanRequest{Plan: plan.GetId()})
	wants(t, "run again", err, nil)
	other, err := d.policy.PlanPolicy(root, &pb.PlanPolicyRequest{Policy: "cold"})
	wants(t, "plan", err, nil)
	_, err = d.policy.RunPlan(root, &pb.RunPlanRequest{Plan: other.GetId()})
	wants(t, "another run beside it", err, mover.ErrHeld)

	names := d.works(t, 0)
	if len(names) != 13 || slices.Contains(names, "runs/old-19") || slices.Contains(names, "runs/old-18") {
		t.Errorf("%q", names)
	}
	r := d.runsThat(t)[0]
	if r.GetId() != first.GetId() || r.GetState() != run.Done || r.GetDone().GetFiles() != 13 || r.GetSkipped() != 2 || r.GetKeptUntil() == nil {
		t.Errorf("%v", r)
	}
	explained, err := d.policy.ExplainFile(root, &pb.ExplainFileRequest{Location: "project:runs/old-17"})
	wants(t, "explain", err, nil)
	if len(explained.GetRuns()) != 1 {
		t.Errorf("%v", explained)
	}

	_, err = d.policy.UndoRun(root, &pb.UndoRunRequest{Id: r.GetId()})
	wants(t, "undo", err, nil)
	if names := d.works(t, 0); len(names) != 15 {
		t.Errorf("%q", names)
	}
	if r := d.runsThat(t)[0]; r.GetState() != run.Undone || r.GetRestored() != 15 {
		t.Errorf("%v", r)
	}
}

// TestChanges: files get the layout of the policy, or are released, and nothing of them is taken away.
func TestChanges(t *testing.T) {
	for action, want := range map[string]*pb.Tiering{"{type: setLayout, layout: advised}": {Layout: "advised"}, "{type: release, hsm: true}": {Release: true}} {
		d := policed(t, strings.Replace(cold("enforce", ""), "{type: migrate, to: archive}", action, 1))
		plan, err := d.policy.PlanPolicy(root, &pb.PlanPolicyRequest{Policy: "cold"})
		wants(t, "plan", err, nil)
		_, err = d.policy.RunPlan(root, &pb.RunPlanRequest{Plan: plan.GetId()})
		wants(t, "run", err, nil)
		wants(t, "tend", d.policy.Tend(t.Context()), nil)
		d.give()
		for _, l := range d.taken {
			spec := l.GetSpec()
			if is := spec.GetTiering(); is.GetLayout() != want.GetLayout() || is.GetRelease() != want.GetRelease() || is.GetRemove() || spec.GetTarget() != "" {
				t.Errorf("%s: %v", action, spec)
			}
		}
		if names := d.works(t, 0); len(names) != 20 {
			t.Errorf("%s: %q", action, names)
		}
		_, err = d.policy.UndoRun(root, &pb.UndoRunRequest{Id: plan.GetId()})
		wants(t, "undo", err, mover.ErrRefused)
	}
}

// TestNotify: what a rule has to tell is said in the record of a run.
func TestNotify(t *testing.T) {
	d := policed(t, strings.Replace(cold("enforce", ""), "action: keep}", "action: {type: notify, who: [ada, opal], message: look at these}}", 1))
	plan, err := d.policy.PlanPolicy(root, &pb.PlanPolicyRequest{Policy: "cold"})
	wants(t, "plan", err, nil)
	r, err := d.policy.RunPlan(root, &pb.RunPlanRequest{Plan: plan.GetId()})
	wants(t, "run", err, nil)
	if n := r.GetNotices(); len(n) != 1 || n[0] != "to ada, opal: rule text: 1 file, 10 B: look at these" {
		t.Errorf("%q", n)
	}
}

// TestMayRun: what was planned under other rules, or by facts that are too old, is not run.
//
//safety:5 with tiering/policy/run TestDecisions
func TestMayRun(t *testing.T) {
	for _, row := range []struct {
		what, text string
		then       func(*desk)
		kind       error
	}{
		{"as it was planned", cold("enforce", ""), func(*desk) {}, nil},
		{"in the mode plan", cold("plan", ""), func(*desk) {}, mover.ErrRefused},
		{"changed since", cold("enforce", ""), func(d *desk) { d.withPolicy(t, cold("enforce", "  limits: {files: 3}\n")) }, mover.ErrConflict},
		{"gone since", cold("enforce", ""), func(d *desk) { d.policies.Policies = nil; d.servePolicies() }, mover.ErrNotExist},
		{"by facts that are too old", cold("enforce", ""), func(d *desk) { d.pass(25 * time.Hour) }, mover.ErrRefused},
		{"what nobody can do", strings.Replace(cold("enforce", ""), "{type: migrate, to: archive}", "release", 1), func(*desk) {}, nil}, // none is released: there are no copies
		{"with several targets", strings.Replace(cold("enforce", ""), "to: archive", "to: [archive, scratch]", 1), func(*desk) {}, mover.ErrRefused},
	} {
		t.Run(row.what, func(t *testing.T) {
			d := policed(t, row.text)
			plan, err := d.policy.PlanPolicy(root, &pb.PlanPolicyRequest{Policy: "cold"})
			wants(t, "plan", err, nil)
			row.then(d)
			_, err = d.policy.RunPlan(root, &pb.RunPlanRequest{Plan: plan.GetId()})
			wants(t, row.what, err, row.kind)
		})
	}
	d := policed(t, cold("enforce", ""))
	plan, err := d.policy.PlanPolicy(root, &pb.PlanPolicyRequest{Policy: "cold"})
	wants(t, "plan", err, nil)
	_, err = d.policy.RunPlan(root, &pb.RunPlanRequest{Plan: plan.GetId()})
	wants(t, "run", err, nil)
	text, err := os.ReadFile(d.planFile(plan.GetId()))
	wants(t, "read", err, nil)
	text[len(text)/2] ^= 1
	wants(t, "damage", os.WriteFile(d.planFile(plan.GetId()), text, 0o600), nil)
	if names := d.works(t, 0); len(names) > 0 {
		t.Errorf("a damaged plan is run: %q", names)
	}
	if r := d.runsThat(t)[0]; r.GetState() != run.Stopped || !strings.Contains(r.GetWhy(), "its plan can not be read") {
		t.Errorf("%v", r)
	}
}

// TestPlanHasRoom: a plan that brings more to a tier than that takes does not begin. It brings 19.7 KiB.
func TestPlanHasRoom(t *testing.T) {
	for _, row := range []struct {
		what         string
		free         int64
		keep         config.Percent
		local, cache bool
		kind         error
	}{
		{"there is room", 20_190, 0, false, false, nil},
		{"a byte is missing", 20_189, 0, false, false, mover.ErrRefused},
		{"what stays free is not for it", 30_000, 10, false, false, mover.ErrRefused},
		{"it makes room by itself", 100, 0, false, true, nil},
		{"each node has its own", 100, 0, true, false, nil},
		{"nobody says how much there is", 0, 0, false, false, nil},
	} {
		t.Run(row.what, func(t *testing.T) {
			d := policed(t, strings.Replace(cold("enforce", ""), "to: archive", "to: vault", 1))
			vault := config.Tier{Level: "cold", Path: "/vault", NodeLocal: row.local, KeepFree: row.keep}
			if row.cache {
				vault.Cache = &config.Cache{High: 90, Low: 80}
			}
			d.conf.Tiers["vault"] = vault
			plan, err := d.policy.PlanPolicy(root, &pb.PlanPolicyRequest{Policy: "cold"})
			wants(t, "plan", err, nil)
			if row.free > 0 {
				d.scheduler.agents["n1"].room["vault"] = &agentv1.Room{Tier: "vault", TotalBytes: 200_000, FreeBytes: row.free}
			}
			_, err = d.policy.RunPlan(root, &pb.RunPlanRequest{Plan: plan.GetId()})
			wants(t, "run", err, row.kind)
			if err != nil && !strings.Contains(err.Error(), "it brings 19.7 KiB to vault, which has room for") {
				t.Error(err)
			}
		})
	}
}

// TestErrorsStop: a run of which too much fails begins nothing more.
//
//safety:5 with TestPlansChangeNothing
func TestErrorsStop(t *testing.T) {
	d := policed(t, cold("enforce", ""))
	plan, err := d.policy.PlanPolicy(root, &pb.PlanPolicyRequest{Policy: "cold"})
	wants(t, "plan", err, nil)
	_, err = d.policy.RunPlan(root, &pb.RunPlanRequest{Plan: plan.GetId()})
	wants(t, "run", err, nil)
	d.works(t, 12)
	r := d.runsThat(t)[0]
	if r.GetState() != run.Stopped || r.GetFailed() != 12 || !strings.Contains(r.GetWhy(), "12 of 20 files failed") || r.GetError() != "some failed" {
		t.Errorf("%v", r)
	}
}

// TestSchedule: a policy runs at its time, once, also when this service begins anew, and a run that was missed is made up for.
//
//safety:5 with TestPlansChangeNothing
func TestSchedule(t *testing.T) {
	const nightly = "  schedule: {cron: '0 1 * * *', tz: UTC}\n  source: {maxStaleness: 300d}\n"
	runs := func(d *desk, want int) []*pb.Run {
		t.Helper()
		d.works(t, 0)
		all := d.runsThat(t)
		if len(all) != want {
			t.Fatalf("%d runs at %v, and not %d: %v", len(all), d.wall, want, all)
		}
		return all
	}
	d := policed(t, cold("enforce", nightly)) // it is noon
	d.started = d.wall
	d.servePolicies()
	runs(d, 0)
	d.pass(12*time.Hour + 59*time.Minute)
	runs(d, 0)
	d.pass(2 * time.Minute)
	first := runs(d, 1)[0]
	if first.GetBy() != "schedule" || first.GetState() != run.Done || first.GetDueTime().AsTime().Hour() != 1 || first.GetDone().GetFiles() != 20 {
		t.Errorf("%v", first)
	}
	runs(d, 1)
	d.close()
	d.open()
	d.withPolicy(t, cold("enforce", nightly))
	runs(d, 1)
	d.pass(3 * day) // three nights with nobody there
	d.started = d.wall
	d.servePolicies()
	runs(d, 2)
	runs(d, 2)
	d.pass(-7 * day) // the clock was set back
	runs(d, 2)
	d.pass(8 * day)
	runs(d, 3)
}

// TestScheduledModes: what a schedule does where the policy is in the mode plan, wants somebody's approval, announces its runs, or knows too little.
//
//safety:5 with TestPlansChangeNothing
func TestScheduledModes(t *testing.T) {
	const nightly = "  schedule: {cron: '0 1 * * *', tz: UTC, window: 2h}\n"
	night := func(t *testing.T, text string) *desk {
		d := policed(t, text)
		d.started = d.wall
		d.servePolicies()
		d.pass(13 * time.Hour)
		return d
	}
	t.Run("plan", func(t *testing.T) {
		d := night(t, cold("plan", nightly))
		d.works(t, 0)
		r := d.runsThat(t)
		if len(r) != 1 || r[0].GetState() != run.Done || r[0].GetDone().GetFiles() != 0 || r[0].GetPlanned().GetFiles() != 20 || !strings.Contains(r[0].GetWhy(), "nothing was done") {
			t.Errorf("%v", r)
		}
		if len(d.planItems(t, root, r[0].GetId())) != 20 {
			t.Error("its plan can not be looked at")
		}
	})
	t.Run("approval", func(t *testing.T) {
		d := night(t, strings.Replace(cold("enforce", nightly+"  safety: {approval: {whenDeleting: 5KB, by: owner}}\n"), "name: cold", "name: cold, owner: storage", 1))
		d.works(t, 0)
		d.works(t, 0)
		r := d.runsThat(t)
		if len(r) != 1 || r[0].GetState() != run.Stopped || !strings.Contains(r[0].GetWhy(), "policy run --plan ") {
			t.Fatalf("%v", r)
		}
		_, id, _ := strings.Cut(r[0].GetWhy(), "--plan ")
		_, err := d.policy.RunPlan(root, &pb.RunPlanRequest{Plan: id})
		wants(t, "approve", err, mover.ErrPermission)
		_, err = d.policy.RunPlan(as("opal", 1042), &pb.RunPlanRequest{Plan: id})
		wants(t, "approve", err, nil)
		if names := d.works(t, 0); len(names) != 20 {
			t.Errorf("%q", names)
		}
	})
	t.Run("announced", func(t *testing.T) {
		d := policed(t, cold("enforce", nightly+"  report: {preview: 6h}\n"))
		d.started = d.wall
		d.servePolicies()
		d.works(t, 0)
		list := func() *pb.Policy {
			answer, err := d.policy.ListPolicies(root, &pb.ListPoliciesRequest{})
			wants(t, "list", err, nil)
			return answer.GetPolicies()[0]
		}
		if p := list(); p.GetAnnounced() != nil || p.GetNextTime().AsTime().Hour() != 1 {
			t.Errorf("%v", p)
		}
		d.pass(8 * time.Hour)
		d.works(t, 0)
		p := list()
		if p.GetAnnounced().GetTotal().GetFiles() != 20 {
			t.Fatalf("%v", p)
		}
		wants(t, "old plans", os.Chtimes(d.planFile(p.GetAnnounced().GetId()), time.Time{}, time.Now().Add(-2*7*day)), nil)
		wants(t, "sweep", d.policy.SweepPlans(t.Context()), nil)
		started := d.started
		d.close()
		d.open()
		d.started = started
		d.servePolicies()
		if again := list(); again.GetAnnounced().GetId() != p.GetAnnounced().GetId() {
			t.Fatalf("after a new beginning %v is announced", again.GetAnnounced())
		}
		more := aged(d.wall.Add(-3*day), 20)
		more.Put(mover.Entry{Name: "runs/not-announced", Kind: mover.File}, make([]byte, 5000))
		d.scans(t, "project", more)
		d.pass(5 * time.Hour)
		if names := d.works(t, 0); len(names) != 20 || slices.Contains(names, "runs/not-announced") {
			t.Errorf("%q", names)
		}
		if r := d.runsThat(t)[0]; r.GetId() != p.GetAnnounced().GetId() {
			t.Errorf("%v", r)
		}
	})
	t.Run("too old", func(t *testing.T) {
		d := night(t, cold("enforce", nightly+"  source: {maxStaleness: 1h}\n"))
		wants(t, "tend", d.policy.Tend(t.Context()), nil)
		d.give()
		var scan string
		for id, l := range d.taken {
			if l.GetSpec().GetKind() == pb.TaskKind_TASK_KIND_SCAN {
				scan = id
			}
		}
		if scan == "" || len(d.runsThat(t)) != 0 {
			t.Fatalf("no scan first: %v", d.runsThat(t))
		}
		wants(t, "walk", d.walks(scan, walkOf(aged(d.wall.Add(-3*day), 5))), nil)
		wants(t, "finish", d.finish(scan, 0, nil), nil)
		if names := d.works(t, 0); len(names) != 5 {
			t.Errorf("%q", names)
		}
	})
	t.Run("too old, and its window is over", func(t *testing.T) {
		d := night(t, cold("enforce", nightly+"  source: {maxStaleness: 1h, onStale: refuse}\n"))
		d.works(t, 0)
		d.works(t, 0)
		if r := d.runsThat(t); len(r) != 1 || r[0].GetState() != run.Stopped || !strings.Contains(r[0].GetWhy(), "too old") {
			t.Errorf("%v", r)
		}
	})
}

// TestWatermark: a tier that is too full has its policy run, when it has been so for long enough, and not again at once.
func TestWatermark(t *testing.T) {
	d := policed(t, cold("enforce", "  trigger: [{tier: project, high: 85, low: 70, holdFor: 10m}]\n  source: {maxStaleness: 300d}\n"))
	full := func(free int64) {
		for _, n := range d.scheduler.agents {
			n.room = map[string]*agentv1.Room{"project": {Tier: "project", TotalBytes: 100, FreeBytes: free}}
		}
	}
	expect := func(want int) {
		t.Helper()
		d.works(t, 0)
		if r := d.runsThat(t); len(r) != want {
			t.Fatalf("%d runs, and not %d", len(r), want)
		}
	}
	full(50)
	expect(0)
	full(10)
	expect(0)
	d.pass(9 * time.Minute)
	expect(0)
	full(50)
	expect(0)
	full(10)
	expect(0)
	d.pass(11 * time.Minute)
	expect(1)
	if n := d.runsThat(t)[0].GetPlanned().GetFiles(); n != 1 {
		t.Errorf("%d files go, and one is enough", n)
	}
	expect(1)
	d.pass(11 * time.Minute)
	expect(2)
}

// TestEndKept: what a run has moved aside is removed when it was kept for long enough, and plans that nobody needs go.
func TestEndKept(t *testing.T) {
	d := catalogued(t, authz.Input{})
	d.withPolicy(t, strings.Replace(strings.ReplaceAll(cold("enforce", ""), "project:", "scratch:"), "{type: migrate, to: archive}", "purge", 1))
	d.scans(t, "scratch", aged(d.wall, 4))
	d.pass(2 * day)
	d.scans(t, "scratch", aged(d.wall.Add(-2*day), 4))
	plan, err := d.policy.PlanPolicy(root, &pb.PlanPolicyRequest{Policy: "cold"})
	wants(t, "plan", err, nil)
	_, err = d.policy.RunPlan(root, &pb.RunPlanRequest{Plan: plan.GetId()})
	wants(t, "run", err, nil)
	if names := d.works(t, 0); len(names) != 8 { // on two nodes
		t.Fatalf("%q", names)
	}
	r := d.runsThat(t)[0]
	if len(r.GetPlaces()) != 2 {
		t.Errorf("%v", r)
	}
	wants(t, "keep", d.policy.EndKept(t.Context()), nil)
	d.give()
	if len(d.taken) != 0 {
		t.Errorf("%v", d.taken)
	}
	d.pass(8 * day)
	wants(t, "end", d.policy.EndKept(t.Context()), nil)
	wants(t, "end", d.policy.EndKept(t.Context()), nil)
	d.give()
	var gone []string
	for _, l := range d.taken {
		gone = append(gone, l.GetSpec().GetTarget()+" "+l.GetSpec().GetNode())
	}
	slices.Sort(gone)
	at := "scratch:" + mover.KeptName + "/" + plan.GetId()
	if !slices.Equal(gone, []string{at + " n1", at + " n2"}) {
		t.Errorf("%q", gone)
	}
	_, err = d.policy.UndoRun(root, &pb.UndoRunRequest{Id: r.GetId()})
	wants(t, "undo", err, mover.ErrRefused)

	unused, err := d.policy.PlanPolicy(root, &pb.PlanPolicyRequest{Policy: "cold"})
	wants(t, "plan", err, nil)
	long := time.Now().Add(-7*day - time.Hour)
	for _, id := range []string{plan.GetId(), unused.GetId()} {
		wants(t, "age", os.Chtimes(d.planFile(id), long, long), nil)
	}
	wants(t, "sweep", d.policy.SweepPlans(t.Context()), nil)
	left, _ := filepath.Glob(filepath.Join(filepath.Join(d.dir, "plans"), "*"))
	if len(left) != 1 || filepath.Base(left[0]) != plan.GetId() {
		t.Errorf("%q", left)
	}
}
