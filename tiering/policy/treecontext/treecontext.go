// Package treecontext has the facts of the service about the files of a tree: the projects, replicas and checkpoints that they are in.
// Policies and questions about the catalog decide by them.
package treecontext

import (
	"strings"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/query"
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy"
)

// Context holds the facts of this service about the paths of a tree at one moment: their projects, and the replicas and checkpoints that
// lie there. It does not change.
type Context struct {
	tree    catalog.Tree
	rest    policy.Facts             // of what is in no replica
	places  map[string]*policy.Facts // of replicas, by their names in the tier
	around  map[string]bool          // directories that a replica is directly in: it may be a file
	project func(at string) string
	sets    map[string]*Checkpoint   // checkpoints, and what names the newest of them, by their names in the tier
	Folders map[string][]*Checkpoint // the same by their folders
}

// Options say what a service knows of a tree beside its ledger.
type Options struct {
	Tier    config.Tier
	Project func(at string) string // of a location
	Reads   mover.Reads            // what the catalog knows of reading
}

const (
	complete = pb.CheckpointState_CHECKPOINT_STATE_COMPLETE
	verified = pb.CheckpointState_CHECKPOINT_STATE_VERIFIED
)

// Read reads the facts about a tree. The view is of the same moment.
func Read(tx *state.Tx, tree catalog.Tree, v *dataset.View, o Options) (*Context, error) {
	g := &Context{tree: tree, places: map[string]*policy.Facts{}, around: map[string]bool{}, project: o.Project}
	g.rest = policy.Facts{Tier: tree.Tier, Ephemeral: o.Tier.Ephemeral, Reads: o.Reads}
	for r, err := range state.ReplicasByTier.All(tx, state.Range{Prefix: []string{tree.Tier, tree.Node}}) {
		if err != nil {
			return nil, err
		}
		g.add(v, r)
	}
	if o.Tier.Checkpoints == nil {
		return g, nil
	}
	return g, g.addCheckpoints(tx)
}

// add notes a replica. Where two lie at one place, what holds either holds both.
func (g *Context) add(v *dataset.View, r *pb.Replica) {
	l, err := location.Parse(r.GetLocation())
	if err != nil || !l.InTier() || l.Tier != g.tree.Tier {
		return
	}
	name := strings.Trim(l.Path, "/")
	f := g.rest
	if f.Part = "dataset:" + r.GetDataset(); r.GetDataset() == "" {
		f.Part = "what was staged to " + r.GetLocation()
	}
	f.Replica = name
	f.Leased, f.Pinned = v.Held(r)
	f.Leased = f.Leased || r.GetState() != pb.ReplicaState_REPLICA_STATE_WHOLE || r.GetTask() != "" // a task is at it
	f.Replicas = len(v.Survivors(r))
	if r.GetCreateTime() != nil {
		f.Staged = r.GetCreateTime().AsTime().UnixNano()
	}
	if r.GetUseTime() != nil {
		f.LeaseEnded = r.GetUseTime().AsTime().UnixNano()
	}
	if was := g.places[name]; was != nil {
		f.Leased, f.Pinned, f.Replicas = f.Leased || was.Leased, f.Pinned || was.Pinned, min(f.Replicas, was.Replicas)
		f.Staged, f.LeaseEnded = max(f.Staged, was.Staged), max(f.LeaseEnded, was.LeaseEnded)
	}
	g.places[name] = &f
	dir, _ := mover.Parent(name)
	g.around[dir] = true
}

// Here looks up the facts of a [Context]. It is for one goroutine.
type Here struct {
	*Context
	dir   string
	facts policy.Facts // of what is in dir
	known bool
	keeps map[keeping]map[string]string // what retention says, by folder and action, and then by name
}

// Ground returns the facts for one goroutine: a *Here.
func (g *Context) Ground() query.FactSource { return &Here{Context: g} }

// At implements query.Ground.
func (h *Here) At(f *dataset.File) *policy.Facts {
	if !h.known || h.dir != f.Dir {
		h.dir, h.known = strings.Clone(f.Dir), true
		h.facts = *h.in(f.Dir)
		h.facts.Project = h.project(h.tree.Tier + ":" + f.Dir)
		h.checkpoint(&h.facts, h.checkpointAround(f.Dir))
	}
	if h.around[f.Dir] {
		if at := h.places[f.Name()]; at != nil {
			own := *at
			own.Project = h.facts.Project
			return &own
		}
	}
	if h.Folders[f.Dir] != nil && h.facts.Set == nil { // a tracker, or a checkpoint that is a single file
		if at := h.sets[f.Name()]; at != nil {
			own := h.facts
			h.checkpoint(&own, at)
			return &own
		}
	}
	return &h.facts
}

// in are the facts of what lies in a directory: those of the innermost replica around it.
func (h *Here) in(dir string) *policy.Facts {
	for len(h.places) > 0 {
		if at := h.places[dir]; at != nil {
			return at
		}
		if dir == "" {
			break
		}
		dir, _ = mover.Parent(dir)
	}
	return &h.rest
}
