package coordinator

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/server/authz"
	"datamove.dev/tiering/policy/run"
)

// TestReleaseReplicas: what is to be released or evicted is a replica with another copy, whole, by the service's own rules; one of which the policy does not mean every file stays, and
// so does one that somebody holds by then.
//
//safety:5 with tiering/policy/run TestDecisions
func TestReleaseReplicas(t *testing.T) {
	const text = `kind: TierPolicy
metadata: {name: cold}
spec:
  mode: enforce
  scope: {roots: ["project:"]}
  rules:
    - {name: idle, match: {kind: file, name: ["f*"], idle: ">1d"}, action: VERB}
`
	old := func(now int64, more ...string) *mem.Tree {
		tree := mem.NewTree()
		for _, name := range append([]string{"sets/vision/f1", "sets/vision/f2", "alone/f3"}, more...) {
			tree.Put(mover.Entry{Name: name, Kind: mover.File, Known: mover.FactOwner | mover.FactMtime, UID: 1001, Mtime: mover.Time{Sec: now}}, make([]byte, 1000))
		}
		return tree
	}
	for _, row := range []struct {
		what, verb string
		more       []string
		meanwhile  func(*desk)
		planned    int64
		done       int64
		skipped    int64
	}{
		{"all of it", "release", nil, nil, 2, 2, 0},
		{"evicted", "evict", nil, nil, 2, 2, 0},
		{"a file is not meant", "release", []string{"sets/vision/other"}, nil, 2, 0, 2},
		{"pinned meanwhile", "release", nil, func(d *desk) {
			_, err := d.datasets.Pin(root, &pb.PinRequest{Source: "dataset:vision", Until: timestamppb.New(d.wall.Add(day))})
			wants(t, "pin", err, nil)
		}, 2, 0, 2},
		{"grown meanwhile", "release", nil, func(d *desk) { d.scans(t, "project", old(d.wall.Unix()-1000*86400, "sets/vision/f9")) }, 2, 0, 2},
		{"its other copy is gone", "evict", nil, func(d *desk) {
			a, err := d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:vision", Tier: "archive"})
			d.done(a, err, 1)
		}, 2, 0, 2},
	} {
		t.Run(row.what, func(t *testing.T) {
			d := catalogued(t, authz.Input{})
			d.withPolicy(t, strings.Replace(text, "VERB", row.verb, 1))
			d.add(root, "vision", "project:sets/vision", 1)
			d.staged(root, &pb.StageRequest{Source: "dataset:vision", Tier: "archive"}, 1)
			made := d.wall.Unix() - 1000*86400
			d.scans(t, "project", old(made, row.more...))
			d.pass(3 * day)
			d.scans(t, "project", old(made, row.more...))
			plan, err := d.policy.PlanPolicy(root, &pb.PlanPolicyRequest{Policy: "cold"})
			wants(t, "plan", err, nil)
			if plan.GetTotal().GetFiles() != row.planned {
				t.Fatalf("%v", plan)
			}
			for _, item := range d.planItems(t, root, plan.GetId()) {
				if item.GetWhole() != "sets/vision" {
					t.Errorf("%v", item)
				}
			}
			if row.meanwhile != nil {
				row.meanwhile(d)
			}
			_, err = d.policy.RunPlan(root, &pb.RunPlanRequest{Plan: plan.GetId()})
			wants(t, "run", err, nil)
			for range 3 {
				wants(t, "tend", d.policy.Tend(context.Background()), nil)
				d.give()
				for id, l := range d.taken {
					if l.GetSpec().GetKind() == pb.TaskKind_TASK_KIND_RELEASE {
						wants(t, "finish", d.finish(id, 1, nil), nil)
					}
				}
			}
			r := d.runsThat(t)[0]
			if r.GetState() != run.Done || r.GetDone().GetFiles() != row.done || r.GetSkipped() != row.skipped || r.GetFailed() != 0 {
				t.Errorf("%v", r)
			}
			if there := d.row("vision", digestOf(1), "project", "") != nil; there != (row.done == 0) {
				t.Errorf("the replica is there: %v", there)
			}
			_, err = d.policy.UndoRun(root, &pb.UndoRunRequest{Id: r.GetId()})
			wants(t, "undo", err, mover.ErrRefused)
		})
	}
}
