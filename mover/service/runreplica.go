package service

import (
	"cmp"
	"context"
	"errors"
	"slices"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/ledger"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/run"
)

// replicaItems are the items of a plan that are a part of one replica, which goes as one.
type replicaItems struct {
	tree         catalog.Tree
	rule         int
	name         string // below the root of the tier
	count, bytes int64
}

// replicasOf reads a plan once more, for the replicas of which items are to be released or evicted.
func (s *Service) replicasOf(id string, p *policy.Program) (all []replicaItems, err error) {
	f, err := s.openPlan(id)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	type key struct {
		tree catalog.Tree
		rule int
		name string
	}
	sums := map[key]*replicaItems{}
	for item, err := range f.Items() {
		if err != nil {
			return nil, err
		}
		if !run.OfReplicas(&p.Policy.Spec.Rules[item.GetRuleIndex()].Action) {
			continue
		}
		k := key{catalog.Tree{Tier: item.GetTier(), Node: item.GetNode()}, int(item.GetRuleIndex()), item.GetReplica()}
		sum := sums[k]
		if sum == nil {
			sum = &replicaItems{tree: k.tree, rule: k.rule, name: k.name}
			sums[k] = sum
		}
		sum.count, sum.bytes = sum.count+1, sum.bytes+item.GetBytes()
	}
	for _, sum := range sums {
		all = append(all, *sum)
	}
	slices.SortFunc(all, func(a, b replicaItems) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.tree.String(), b.tree.String()), cmp.Compare(a.name, b.name))
	})
	return all, nil
}

// nextReplica begins what is to be done to the next replica of a run, after its other items: t is nil where it has to stay. more says that there was one.
func (s *Service) nextReplica(tx *ledger.Tx, one *pb.Run, r *planReading) (t *pb.Task, more bool, err error) {
	if one.GetState() != run.Running { // what was released can be staged again
		return nil, false, nil
	}
	if r.replicas == nil {
		if r.replicas, err = s.replicasOf(one.GetId(), r.program); err != nil {
			return nil, false, err
		}
	}
	if one.GetReplicas() >= int64(len(r.replicas)) {
		return nil, false, nil
	}
	items := r.replicas[one.GetReplicas()]
	one.Replicas++
	t, err = s.releaseFor(tx, one, r.program, items)
	switch {
	case refused(err), errors.Is(err, mover.ErrChanged):
		one.Skipped += items.count
		s.log.Info("a replica stays", "run", one.GetId(), "tier", items.tree.String(), "replica", items.name, "why", err)
		return nil, true, nil
	case err != nil:
		return nil, true, err
	}
	one.Parts = append(one.GetParts(), &pb.RunPart{First: one.GetNext(), Count: items.count, Bytes: items.bytes, Task: t.GetId()})
	return t, true, nil
}

// releaseFor makes the task that removes a replica for a run, if all files of it are in the plan, and the policy means each of them still.
func (s *Service) releaseFor(tx *ledger.Tx, one *pb.Run, p *policy.Program, items replicaItems) (*pb.Task, error) {
	fail := func(why string) (*pb.Task, error) {
		return nil, &mover.Error{Op: "release", Place: items.tree.Tier + ":" + items.name, Err: because(mover.ErrChanged, "%s", why)}
	}
	var x *pb.Replica
	for r, err := range ledger.ReplicasByTier.All(tx, ledger.Range{Prefix: []string{items.tree.Tier, items.tree.Node}}) {
		if err != nil {
			return nil, err
		}
		if r.GetLocation() == items.tree.Tier+":"+items.name {
			x = r
		}
	}
	if x == nil || items.name == "" {
		return fail("there is no replica at this place any more")
	}
	all, err := s.meansAll(p, items)
	if err != nil {
		return nil, err
	}
	if !all {
		return fail("the policy does not mean all of its files, and it goes as one")
	}
	labels, may := map[string]string{runLabel: one.GetId(), policyLabel: one.GetPolicy()}, s.mayRelease
	if p.Policy.Spec.Rules[items.rule].Action.Type == policy.Evict {
		labels[evictedLabel], may = x.GetTier(), s.mayEvict
	}
	if err := may(tx, x, ""); err != nil {
		return nil, err
	}
	t := s.byMaker(x, labels)
	if labels[evictedLabel] != "" && s.conf().Tiers[x.GetTier()].Ephemeral {
		return s.removes(tx, t, x)
	}
	return s.releases(tx, t, x, func(string) error { return nil })
}

// meansAll says whether a policy means all files of a replica, and as many as its plan lists.
func (s *Service) meansAll(p *policy.Program, items replicaItems) (bool, error) {
	g, err := s.groundOf(items.tree)
	if err != nil {
		return false, err
	}
	judge, at, n := p.Judge(s.now(), s.o.People), g.stand(), int64(0)
	for f, err := range s.o.Catalog.Below(context.Background(), items.tree, items.name) {
		if err != nil {
			return false, err
		}
		if f.Kind == mover.Dir {
			continue
		}
		n++
		if v := judge.Decide(&f, at.At(&f)); v.Rule != items.rule || v.Held != "" || v.Err != nil {
			return false, nil
		}
	}
	return n == items.count, nil
}

// released counts, in the change in which it ends, a task that has removed a replica for a run.
func (s *Service) released(tx *ledger.Tx, t *pb.Task) error {
	id := t.GetSpec().GetLabels()[runLabel]
	if id == "" {
		return nil
	}
	one, err := ledger.Runs.Get(tx, id)
	if err != nil {
		return ignoreGone(err)
	}
	i := slices.IndexFunc(one.GetParts(), func(p *pb.RunPart) bool { return p.GetTask() == t.GetId() })
	if i < 0 {
		return nil
	}
	part := one.GetParts()[i]
	one.Parts = slices.Delete(one.GetParts(), i, i+1)
	if t.GetState() == task.Done {
		one.Done.Files, one.Done.Bytes = one.GetDone().GetFiles()+part.GetCount(), one.GetDone().GetBytes()+part.GetBytes()
	} else {
		one.Failed += part.GetCount()
		one.Error = cmp.Or(one.GetError(), t.GetError())
	}
	s.stir()
	return ledger.Runs.Put(tx, one)
}
