package policyserver

import (
	"errors"
	"slices"
	"strings"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/run"
	"datamove.dev/tiering/policy/treecontext"
)

// checkpointFor makes the task that copies a checkpoint for a run, or has it go, or brings it back, if all files of it are in the plan, and the policy means each of
// them still; nil where there is nothing to undo.
func (s *Server) checkpointFor(tx *state.Tx, one *pb.Run, r *planReading, items wholeItems) (*pb.Task, error) {
	a := &r.program.Policy.Spec.Rules[items.rule].Action
	goes, undo := a.Type == policy.Retain, one.GetState() == run.Undoing
	if undo && !goes {
		return nil, nil
	}
	folder, name := mover.Parent(items.name)
	work := &pb.CheckpointWork{Folder: []byte(folder), Name: []byte(name)}
	spec := runSpec(items.tree.Tier+":", items.tree.Node, undo)
	spec.Labels = map[string]string{runLabel: one.GetId(), policyLabel: one.GetPolicy()}
	spec.Options = &pb.Options{Verify: levelFor(a.Verify)}
	spec.Tiering = &pb.Tiering{Run: one.GetId(), Checkpoint: work, Remove: goes}
	if rate := int64(r.program.Policy.Spec.Limits.Rate); rate > 0 {
		spec.Options.BytesPerSecond = max(1, rate/run.WholesMost)
	}
	if goes {
		s.willKeep(one, r.program, &pb.PlanItem{Tier: items.tree.Tier, Node: items.tree.Node}, spec)
	} else {
		to, peer := policy.OnPeer(items.target)
		spec.Target = policy.Target(to)
		if peer && !undo {
			var err error
			if spec.Node, err = s.partner(tx, items.tree, spec.GetTarget(), folder); err != nil {
				return nil, err
			}
			spec.SourceNode = items.tree.Node
		}
	}
	if !goes {
		spec.Class = pb.TaskClass_TASK_CLASS_CHECKPOINT
	}
	spec.Class = classFor(a, spec)
	if !undo {
		if err := s.isStill(tx, r, items, work); err != nil {
			return nil, err
		}
	}
	t := s.c.NewTask(spec)
	return t, state.Tasks.Put(tx, t)
}

// partner is the node that gets a checkpoint of another one on its disk. It is one that has others of the run, or else the next one.
func (s *Server) partner(tx *state.Tx, tree catalog.Tree, target, folder string) (string, error) {
	l, err := location.Parse(target)
	if err != nil {
		return "", err
	}
	fail := func(why string) (string, error) {
		return "", &mover.Error{Op: "copy to", Location: target, Err: mover.Because(mover.ErrRefused, "%s", why)}
	}
	if tree.Node == "" || !s.conf().Tiers[l.Tier].NodeLocal {
		return fail("only from the disk of a node something is copied to that of another one")
	}
	nodes := slices.DeleteFunc(s.c.Reaching(l.Tier), func(node string) bool { return node == tree.Node })
	if len(nodes) == 0 {
		return fail("no other node that has this tier is there")
	}
	slices.Sort(nodes)
	next := nodes[0]
	for _, node := range slices.Backward(nodes) {
		if node > tree.Node {
			next = node
		}
	}
	for _, node := range nodes {
		for c, err := range state.Checkpoints.All(tx, state.Range{Prefix: []string{l.Tier, node, mover.Join(strings.Trim(l.Path, "/"), folder)}}) {
			if err != nil {
				return "", err
			}
			if c.GetState() == verified {
				return node, nil
			}
		}
	}
	return next, nil
}

// isStill says why a checkpoint is not the one any more that a plan lists, and fills in what of it has to be so when something is done to it.
func (s *Server) isStill(tx *state.Tx, r *planReading, items wholeItems, work *pb.CheckpointWork) error {
	fail := func(why string) error {
		return &mover.Error{Op: "use the checkpoint", Location: items.tree.Tier + ":" + items.name, Err: mover.Because(mover.ErrChanged, "%s", why)}
	}
	c, err := state.Checkpoints.Get(tx, items.tree.Tier, items.tree.Node, string(work.GetFolder()), string(work.GetName()))
	switch {
	case errors.Is(err, mover.ErrNotExist):
		return fail("it is not there any more")
	case err != nil:
		return err
	case c.GetState() < complete:
		return fail("it is not complete")
	case c.GetCompleteTime().AsTime().After(r.made):
		return fail("it was saved again after the plan was made")
	}
	all, err := s.meansAll(r.program, items)
	if err != nil {
		return err
	}
	if !all {
		return fail("the policy does not mean all of its files, and it goes as one")
	}
	work.Save = c.GetSave()
	if a := &r.program.Policy.Spec.Rules[items.rule].Action; a.Type == policy.Retain {
		g, err := s.o.Datasets.Tree(items.tree)
		if err != nil {
			return err
		}
		work.Relies = treecontext.Relies(g.Folders[string(work.GetFolder())], a, string(work.GetName()))
	}
	return nil
}
