package treecontext

import (
	"slices"
	"strings"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/policy"
)

// Checkpoint is a checkpoint in a tree.
type Checkpoint struct {
	*pb.Checkpoint
	verified bool // here, or a copy of it elsewhere
	second   bool // a copy of it on another tier, or node, is verified
	copies   []*pb.Checkpoint
}

func (c *Checkpoint) folder() string { return string(c.GetFolder()) }

// Path is where it is, below the root of the tier.
func (c *Checkpoint) Path() string { return mover.Join(c.folder(), string(c.GetName())) }

// addCheckpoints notes the checkpoints of a tree.
func (g *Context) addCheckpoints(tx *state.Tx) error {
	g.sets, g.Folders = map[string]*Checkpoint{}, map[string][]*Checkpoint{}
	for c, err := range state.Checkpoints.All(tx, state.Range{Prefix: []string{g.tree.Tier, g.tree.Node}}) {
		if err != nil {
			return err
		}
		copies, err := CopiesOf(tx, c)
		if err != nil {
			return err
		}
		at := &Checkpoint{Checkpoint: c, copies: copies}
		at.second = slices.ContainsFunc(copies, func(o *pb.Checkpoint) bool {
			return o.GetState() == verified && (o.GetTier() != c.GetTier() || o.GetNode() != c.GetNode())
		})
		at.verified = c.GetState() == verified || c.GetState() == complete && at.second
		g.sets[at.Path()] = at
		g.Folders[at.folder()] = append(g.Folders[at.folder()], at)
	}
	return nil
}

// state is the one that policies know it by.
func (c *Checkpoint) state() string {
	switch {
	case c.verified:
		return string(checkpoint.Verified)
	case c.GetState() == complete:
		return string(checkpoint.Complete)
	case c.GetState() == pb.CheckpointState_CHECKPOINT_STATE_SETTLING:
		return string(checkpoint.Settling)
	}
	return string(checkpoint.Seen)
}

// checkpointAround is the checkpoint that a directory is, or lies in; nil is none.
func (h *Here) checkpointAround(dir string) *Checkpoint {
	for len(h.sets) > 0 && dir != "" {
		if at := h.sets[dir]; at != nil && !at.GetTracker() {
			return at
		}
		dir, _ = mover.Parent(dir)
	}
	return nil
}

// Behind are the checkpoints of a folder that are not at a target of a policy, and newer than what is.
func (h *Here) Behind(folder, target string) (late []*Checkpoint) {
	order := func(c *Checkpoint) checkpoint.Held {
		return checkpoint.Held{Name: string(c.GetName()), Step: c.GetStep(), Saved: c.GetMadeNs()}
	}
	var newest *Checkpoint
	for _, c := range h.Folders[folder] {
		if c.GetTracker() || c.GetState() < complete {
			continue
		}
		if there := (&standing{h, c}).There(target); !there {
			late = append(late, c)
		} else if newest == nil || order(c).Compare(order(newest)) > 0 {
			newest = c
		}
	}
	return slices.DeleteFunc(late, func(c *Checkpoint) bool { return newest != nil && order(c).Compare(order(newest)) <= 0 })
}

// checkpoint adds what is known of a checkpoint to the facts of what is in it.
func (h *Here) checkpoint(facts *policy.Facts, at *Checkpoint) {
	switch {
	case at == nil:
	case at.GetTracker():
		facts.Tracker = true
	default:
		facts.Checkpoint, facts.Set = at.state(), &standing{h, at}
	}
}

// standing is a checkpoint in the context of its tree. It is a policy.Set.
type standing struct {
	*Here
	at *Checkpoint
}

// Name implements policy.Set.
func (s *standing) Name() string { return s.at.Path() }

// There implements policy.Set.
func (s *standing) There(to string) bool {
	text, peer := policy.OnPeer(to)
	l, err := location.Parse(policy.Target(text))
	if err != nil {
		return false
	}
	folder := s.at.folder()
	if below := strings.Trim(l.Path, "/"); below != "" {
		folder = mover.Join(below, folder)
	}
	return slices.ContainsFunc(s.at.copies, func(c *pb.Checkpoint) bool {
		here := c.GetNode() == "" || c.GetNode() == s.at.GetNode()
		whole := c.GetState() == verified || peer && c.GetState() == complete // there it may be the one that this is a copy of
		return whole && c.GetTier() == l.Tier && string(c.GetFolder()) == folder && here != peer
	})
}

// keeping is a folder, as an action of a policy is to keep it.
type keeping struct {
	folder string
	action *policy.Action
}

// Stays implements policy.Set.
func (s *standing) Stays(a *policy.Action) string {
	k := keeping{s.at.folder(), a}
	if s.keeps[k] == nil {
		if s.keeps == nil {
			s.keeps = map[keeping]map[string]string{}
		}
		stays := map[string]string{}
		for _, v := range retention(s.Folders[k.folder], a) {
			if stays[v.Name] = ""; v.Keep {
				stays[v.Name] = v.Why
			}
		}
		s.keeps[k] = stays
	}
	why, known := s.keeps[k][string(s.at.GetName())]
	if !known {
		return "it is not complete"
	}
	return why
}

// keepOf is what an action of a policy keeps.
func keepOf(a *policy.Action) checkpoint.Keep {
	return checkpoint.Keep{Last: int(a.KeepLast), Every: int64(a.KeepEvery), Least: int(a.NeverBelowVerified)}
}

// retention is what an action of a policy says of the checkpoints of a folder.
func retention(all []*Checkpoint, a *policy.Action) []checkpoint.Verdict {
	two := a.Copied()
	var held []checkpoint.Held
	for _, c := range all {
		if c.GetTracker() || c.GetState() < complete {
			continue
		}
		held = append(held, checkpoint.Held{Name: string(c.GetName()), Step: c.GetStep(), Saved: c.GetMadeNs(), Verified: c.verified,
			Tagged: c.GetTagged() && (a.KeepTagged == nil || *a.KeepTagged), Named: c.GetNamed(), Second: c.second})
		two = two || c.second
	}
	return keepOf(a).Judge(held, two)
}

// Relies are the checkpoints because of which one of the folder may go: they are of its run, stay, and are verified.
func Relies(all []*Checkpoint, a *policy.Action, name string) (saves []*pb.CheckpointSave) {
	for _, other := range keepOf(a).Relies(retention(all, a)) {
		if checkpoint.RunOf(other) == checkpoint.RunOf(name) {
			i := slices.IndexFunc(all, func(c *Checkpoint) bool { return string(c.GetName()) == other })
			saves = append(saves, &pb.CheckpointSave{Name: []byte(other), Save: all[i].GetSave()})
		}
	}
	return saves
}

// CopiesOf are the same save of a checkpoint in other places. Those of one tier on several nodes are in different places.
func CopiesOf(tx *state.Tx, c *pb.Checkpoint) (all []*pb.Checkpoint, err error) {
	if c.GetSave() == "" {
		return nil, nil
	}
	for o, err := range state.CheckpointsBySave.All(tx, state.Range{Prefix: []string{string(c.GetName()), c.GetSave()}}) {
		if err != nil {
			return nil, err
		}
		if o.GetTier() != c.GetTier() || o.GetNode() != c.GetNode() || string(o.GetFolder()) != string(c.GetFolder()) {
			all = append(all, o)
		}
	}
	return all, nil
}
