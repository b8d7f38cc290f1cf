package policyserver

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/run"
)

// wholeItems are the items of a plan that are a part of one replica, or checkpoint, which goes as one.
type wholeItems struct {
	tree         catalog.Tree
	rule         int
	name         string // below the root of the tier
	target       string
	count, bytes int64
}

// wholesOf reads a plan once more, for what goes as one.
func (s *Server) wholesOf(id string, p *policy.Program) (all []wholeItems, err error) {
	f, err := s.openPlan(id)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	type key struct {
		tree         catalog.Tree
		rule         int
		name, target string
	}
	sums := map[key]*wholeItems{}
	for item, err := range f.Items() {
		if err != nil {
			return nil, err
		}
		if item.GetWhole() == "" && !run.Together(&p.Policy.Spec.Rules[item.GetRuleIndex()].Action) {
			continue
		}
		k := key{catalog.Tree{Tier: item.GetTier(), Node: item.GetNode()}, int(item.GetRuleIndex()), item.GetWhole(), item.GetTarget()}
		sum := sums[k]
		if sum == nil {
			sum = &wholeItems{tree: k.tree, rule: k.rule, name: k.name, target: k.target}
			sums[k] = sum
		}
		sum.count, sum.bytes = sum.count+1, sum.bytes+item.GetBytes()
	}
	for _, sum := range sums {
		all = append(all, *sum)
	}
	slices.SortFunc(all, func(a, b wholeItems) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.tree.String(), b.tree.String()), cmp.Compare(a.name, b.name), cmp.Compare(a.target, b.target))
	})
	return all, nil
}

// nextWhole begins what is to be done to the next whole of a run, after its other items: t is nil where it has to stay. more says that there was one.
func (s *Server) nextWhole(tx *state.Tx, one *pb.Run, r *planReading) (t *pb.Task, more bool, err error) {
	if r.wholes == nil {
		if r.wholes, err = s.wholesOf(one.GetId(), r.program); err != nil {
			return nil, false, err
		}
	}
	if one.GetWholes() >= int64(len(r.wholes)) {
		return nil, false, nil
	}
	items := r.wholes[one.GetWholes()]
	one.Wholes++
	t, err = s.wholeFor(tx, one, r, items)
	switch {
	case refused(err), errors.Is(err, mover.ErrChanged):
		one.Skipped += items.count
		s.log.Info("what goes as one stays as it is", "run", one.GetId(), "tier", items.tree.String(), "name", mover.Printable(items.name), "why", err)
		return nil, true, nil
	case err != nil || t == nil:
		return nil, true, err
	}
	one.Parts = append(one.GetParts(), &pb.RunPart{First: one.GetNext(), Count: items.count, Bytes: items.bytes, Task: t.GetId()})
	return t, true, nil
}

// wholeFor makes the task that does something to a whole for a run; nil where there is nothing to do, or to undo.
func (s *Server) wholeFor(tx *state.Tx, one *pb.Run, r *planReading, items wholeItems) (*pb.Task, error) {
	a := &r.program.Policy.Spec.Rules[items.rule].Action
	switch {
	case a.Type == policy.Retain || a.Copies():
		return s.checkpointFor(tx, one, r, items)
	case one.GetState() == run.Undoing: // what was released can be staged again
		return nil, nil
	}
	return s.releaseFor(tx, one, r.program, items)
}

// releaseFor makes the task that removes a replica for a run, if all files of it are in the plan, and the policy means each of them still.
func (s *Server) releaseFor(tx *state.Tx, one *pb.Run, p *policy.Program, items wholeItems) (*pb.Task, error) {
	fail := func(why string) (*pb.Task, error) {
		return nil, &mover.Error{Op: "release", Location: items.tree.Tier + ":" + items.name, Err: mover.Because(mover.ErrChanged, "%s", why)}
	}
	var x *pb.Replica
	for r, err := range state.ReplicasByTier.All(tx, state.Range{Prefix: []string{items.tree.Tier, items.tree.Node}}) {
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
	labels := map[string]string{runLabel: one.GetId(), policyLabel: one.GetPolicy()}
	return s.o.Datasets.RemoveReplica(tx, x, labels, p.Policy.Spec.Rules[items.rule].Action.Type == policy.Evict)
}

// meansAll says whether a policy means all files of a whole, and as many as its plan lists.
func (s *Server) meansAll(p *policy.Program, items wholeItems) (bool, error) {
	g, err := s.o.Datasets.Tree(items.tree)
	if err != nil {
		return false, err
	}
	judge, at, n := p.Judge(s.now(), s.o.People), g.Ground(), int64(0)
	for f, err := range s.filesOf(items.tree, items.name) {
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

// filesOf is what the catalog has below a name, or that name itself.
func (s *Server) filesOf(tree catalog.Tree, name string) iter.Seq2[dataset.File, error] {
	f, err := s.o.Catalog.Get(tree, name)
	if err == nil && f.Kind == mover.Dir {
		return s.o.Catalog.Below(context.Background(), tree, name)
	}
	return func(yield func(dataset.File, error) bool) {
		if !errors.Is(err, mover.ErrNotExist) {
			yield(f, err)
		}
	}
}

// wholeDone counts, in the change in which it ends, a task that has done something to a whole for a run.
func (s *Server) wholeDone(tx *state.Tx, t *pb.Task) error {
	id := t.GetSpec().GetLabels()[runLabel]
	if id == "" {
		return nil
	}
	one, err := state.Runs.Get(tx, id)
	if err != nil {
		return mover.IgnoreNotExist(err)
	}
	i := slices.IndexFunc(one.GetParts(), func(p *pb.RunPart) bool { return p.GetTask() == t.GetId() })
	if i < 0 {
		return nil
	}
	part := one.GetParts()[i]
	one.Parts = slices.Delete(one.GetParts(), i, i+1)
	switch {
	case t.GetState() == task.Done && t.GetReport().GetKept() > 0:
		one.Skipped += part.GetCount()
	case t.GetState() == task.Done && undoes(t.GetSpec()):
		one.Restored += part.GetCount()
	case t.GetState() == task.Done:
		one.Done.Files, one.Done.Bytes = one.GetDone().GetFiles()+part.GetCount(), one.GetDone().GetBytes()+part.GetBytes()
	default:
		one.Failed += part.GetCount()
		if t.GetState() == task.Cancelled && one.GetWhy() == "" {
			one.Why = "its task " + t.GetId() + " was cancelled"
		}
		one.Error = cmp.Or(one.GetError(), t.GetError())
	}
	s.wake()
	return state.Runs.Put(tx, one)
}
