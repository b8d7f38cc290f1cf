package coordinator

import (
	"fmt"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/policy/policyserver"
)

// TestObjectives: where a policy says how long a checkpoint may wait, the age is told of the oldest that it means, and that is newer than what is verified at the target.
func TestObjectives(t *testing.T) {
	const text = `kind: TierPolicy
metadata: {name: cold}
spec:
  mode: enforce
  scope: {roots: ["project:runs"]}
  rules:
    - {name: mine, match: {checkpoint: [complete, verified], path: "runs/b/**"}, action: keep}
    - {name: copy, match: {checkpoint: [complete, verified]}, action: {type: replicate, to: [archive], rpo: 5m}}
`
	s := newSaving(t, text)
	s.scans(t, "project", savedTree(s.wall.Unix(), "step_1", "step_2", "step_3", "step_4"))
	now := s.now()
	s.made = map[string]int64{}
	for i := range 5 {
		s.made[fmt.Sprintf("step_%d", i)] = now.Add(time.Duration(i-10) * time.Minute).UnixNano()
	}
	waits := func(what string, longest, objective time.Duration) {
		t.Helper()
		hops, err := s.policy.Objectives(t.Context())
		wants(t, what, err, nil)
		got, told := hops[policyserver.Hop{Source: "project", Target: "archive"}]
		if told != (objective > 0) || got != (policyserver.Waiting{Longest: longest, Objective: objective}) || told && len(hops) != 1 {
			t.Errorf("%s: %v", what, hops)
		}
	}
	waits("nothing is there", 0, 5*time.Minute)
	s.saw(t, "project", "runs/a", "step_1:complete", "step_2:complete", "step_3:complete", "step_4:settling", "latest:tracker")
	waits("three are", 9*time.Minute, 5*time.Minute)
	s.saw(t, "archive", "runs/a", "step_1:complete", "step_2:verified")
	waits("the middle one is there: the one before is of no use", 7*time.Minute, 5*time.Minute)
	s.saw(t, "project", "runs/a", "step_1:complete", "step_2:complete", "step_3:complete", "step_4:complete", "latest:tracker")
	s.saw(t, "archive", "runs/a", "step_2:verified", "step_3:verified", "step_4:verified+again")
	waits("another save of the newest is there", 6*time.Minute, 5*time.Minute)
	s.saw(t, "archive", "runs/a", "step_4:verified")
	waits("all", 0, 5*time.Minute)
	tree := savedTree(s.wall.Unix(), "step_1", "step_2", "step_3", "step_4")
	tree.Put(mover.Entry{Name: "runs/b/step_0/data", Kind: mover.File}, []byte("x"))
	s.scans(t, "project", tree)
	s.saw(t, "project", "runs/b", "step_0:complete")
	waits("another rule means it", 0, 5*time.Minute)
	s.saw(t, "project", "runs/c", "step_0:complete")
	waits("the catalog has no file of it yet", 10*time.Minute, 5*time.Minute)

	off := newSaving(t, text)
	off.conf.Tiers["project"] = s.conf.Tiers["project"]
	off.policies.Policies = nil
	off.servePolicies()
	s = off
	waits("without policies", 0, 0)
}
