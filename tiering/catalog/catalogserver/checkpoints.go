package catalogserver

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/tiering/catalog"
)

const (
	complete = pb.CheckpointState_CHECKPOINT_STATE_COMPLETE
	verified = pb.CheckpointState_CHECKPOINT_STATE_VERIFIED
)

// TellCheckpoints implements agentv1.LinkServiceServer.
func (s *Server) TellCheckpoints(ctx context.Context, r *agentv1.TellCheckpointsRequest) (*agentv1.TellCheckpointsResponse, error) {
	t, err := s.c.Assigned(ctx, r.GetTask(), r.GetEpoch())
	spec := t.GetSpec()
	if err != nil {
		return nil, err
	}
	if spec.GetKind() != checkpoints {
		return nil, mover.Usagef("task %s looks at no checkpoints", r.GetTask())
	}
	tree, err := s.treeOf(spec)
	if err != nil {
		return nil, err
	}
	out := &agentv1.TellCheckpointsResponse{}
	switch conf := s.conf().Tiers[tree.Tier].Checkpoints; {
	case r.GetFolder() != nil:
		err = s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error { return s.sawFolder(tx, tree, r.GetFolder()) })
		s.checkpointsSeen()
	case r.GetRound() != nil:
		err = s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error { return forgetFolders(tx, tree, r.GetRound().GetFolders()) })
	case conf != nil:
		out.Folders, out.Settle = conf.Folders, durationpb.New(conf.Quiet)
	}
	return out, err
}

// sawFolder notes what a folder has. What it has not any more is forgotten.
func (s *Server) sawFolder(tx *state.Tx, tree catalog.Tree, f *agentv1.CheckpointFolder) error {
	folder := string(f.GetName())
	if !mover.ValidName(folder) {
		return mover.Usagef("a folder of checkpoints has no such name")
	}
	had := map[string]*pb.Checkpoint{}
	for c, err := range state.Checkpoints.All(tx, state.Range{Prefix: []string{tree.Tier, tree.Node, folder}}) {
		if err != nil {
			return err
		}
		had[string(c.GetName())] = c
	}
	now := timestamppb.New(s.now())
	for _, c := range f.GetCheckpoints() {
		name := string(c.GetName())
		if name == "" || strings.Contains(name, "/") || !mover.ValidName(name) {
			return mover.Usagef("a checkpoint has no such name")
		}
		c.Tier, c.Node, c.Folder = tree.Tier, tree.Node, f.GetName()
		c.CompleteTime, c.VerifiedTime = nil, nil
		was := had[name]
		if was.GetSave() == c.GetSave() {
			if was.GetState() >= complete && c.GetState() == pb.CheckpointState_CHECKPOINT_STATE_SETTLING { // the observing task has restarted: an earlier one saw that the files had settled
				c.State = complete
			}
			if c.GetState() >= complete {
				c.CompleteTime, c.VerifiedTime = was.GetCompleteTime(), was.GetVerifiedTime()
			}
		}
		if c.GetState() >= complete && c.CompleteTime == nil {
			c.CompleteTime = now
		}
		if c.GetState() == verified && c.VerifiedTime == nil {
			c.VerifiedTime = now
		}
		if err := state.Checkpoints.Put(tx, c); err != nil {
			return err
		}
		delete(had, name)
	}
	return forget(tx, slices.Collect(maps.Values(had)))
}

func forget(tx *state.Tx, gone []*pb.Checkpoint) error {
	for _, c := range gone {
		if err := state.Checkpoints.Delete(tx, c.GetTier(), c.GetNode(), string(c.GetFolder()), string(c.GetName())); err != nil {
			return err
		}
	}
	return nil
}

// forgetFolders forgets what was in folders that are not among some.
func forgetFolders(tx *state.Tx, tree catalog.Tree, names [][]byte) error {
	there := map[string]bool{}
	for _, name := range names {
		there[string(name)] = true
	}
	var gone []*pb.Checkpoint
	for c, err := range state.Checkpoints.All(tx, state.Range{Prefix: []string{tree.Tier, tree.Node}}) {
		if err != nil {
			return err
		}
		if !there[string(c.GetFolder())] {
			gone = append(gone, c)
		}
	}
	return forget(tx, gone)
}

// KeepCheckpointTasks keeps one checkpoint task for each reachable tree of a tier with checkpoints in its configuration. It cancels the others.
func (s *Server) KeepCheckpointTasks(ctx context.Context) error {
	over, begun, err := s.sightseers()
	if err != nil {
		return err
	}
	for _, t := range over {
		err = errors.Join(err, s.c.Cancel(ctx, t))
	}
	for name, t := range s.conf().Tiers {
		if t.Checkpoints == nil {
			continue
		}
		for _, tree := range s.reached(name) {
			if begun[tree] || s.now().Sub(s.sightsAsked[tree]) < scanRest {
				continue
			}
			if s.sightsAsked == nil {
				s.sightsAsked = map[catalog.Tree]time.Time{}
			}
			s.sightsAsked[tree] = s.now()
			_, terr := s.treeTask(ctx, checkpoints, tree.Tier, tree.Node, "")
			err = errors.Join(err, terr)
		}
	}
	return err
}

// sightseers returns the checkpoint tasks that the configuration does not ask for any more, and the trees of the others.
func (s *Server) sightseers() (over []*pb.Task, begun map[catalog.Tree]bool, err error) {
	begun = map[catalog.Tree]bool{}
	return over, begun, s.ledger.View(func(tx *state.Tx) error {
		for t, err := range state.FindTasks(tx, s.c.OwnTasks()) {
			if err != nil {
				return err
			}
			if t.GetSpec().GetKind() != checkpoints {
				continue
			}
			tree, err := s.treeOf(t.GetSpec())
			if err != nil || s.conf().Tiers[tree.Tier].Checkpoints == nil || tree.Node != t.GetSpec().GetNode() {
				over = append(over, t)
				continue
			}
			begun[tree] = true
		}
		return nil
	})
}

// ForgetCheckpoints forgets checkpoints of tiers without checkpoints in the configuration, and of nodes without an agent record.
func (s *Server) ForgetCheckpoints(ctx context.Context) error {
	return s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error {
		var gone []*pb.Checkpoint
		for c, err := range state.Checkpoints.All(tx, state.Range{}) {
			if err != nil {
				return err
			}
			t := s.conf().Tiers[c.GetTier()]
			if t.Checkpoints != nil && t.NodeLocal == (c.GetNode() != "") {
				if _, err := state.Agents.Get(tx, c.GetNode()); c.GetNode() == "" || !errors.Is(err, mover.ErrNotExist) {
					continue
				}
			}
			gone = append(gone, c)
		}
		return forget(tx, gone)
	})
}
