package run

import (
	"fmt"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy"
)

// Targets are where an action copies a file to; one that copies nothing has "" alone. Where a checkpoint is already nothing of it is copied.
func Targets(a *policy.Action, at *policy.Facts) (all []string) {
	if !a.Copies() {
		return []string{""}
	}
	for _, to := range a.To {
		if at == nil || at.Set == nil || !at.Set.There(to) {
			all = append(all, to)
		}
	}
	return all
}

// Removes reports whether what an action is done to goes from where it is.
func Removes(a *policy.Action) bool {
	return a.Type == policy.Migrate || a.Type == policy.Purge || a.Then == policy.Release
}

// WholeOf is what a file is a part of, where an action is one of that: a replica that is released, or a checkpoint that is copied, or goes; "" is nothing.
func WholeOf(a *policy.Action, at *policy.Facts) string {
	switch {
	case a.Type == policy.Release && !a.HSM, a.Type == policy.Evict:
		return at.Replica
	case at.Set != nil && (a.Copies() || a.Type == policy.Retain):
		return at.Set.Name()
	}
	return ""
}

// Together reports whether an action is one of wholes alone: what is a part of none has no task of its own.
func Together(a *policy.Action) bool {
	return a.Type == policy.Release && !a.HSM || a.Type == policy.Evict || a.Type == policy.Retain
}

// Unable says what of a plan can not be done; "" is nothing. matched has the files of each rule.
func Unable(p *policy.Program, matched []*pb.RuleTotals) string {
	for i, m := range matched {
		a := &p.Policy.Spec.Rules[i].Action
		switch {
		case m.GetMatched().GetFiles() == 0:
		case Removes(a) && len(Targets(a, nil)) > 1:
			return fmt.Sprintf("rule %s copies to several places, and removes: make it one place, or two rules", m.GetRule())
		}
	}
	return ""
}

// kinds by their names.
var kinds = map[string]mover.Kind{mover.File.String(): mover.File, mover.Symlink.String(): mover.Symlink}

// ItemOf is an item of a plan, as it is listed.
func ItemOf(p *policy.Program, item *policy.Item, tree catalog.Tree, target, reason, whole string) *pb.PlanItem {
	rule := &p.Policy.Spec.Rules[item.Rule]
	out := &pb.PlanItem{Tier: tree.Tier, Node: tree.Node, Name: []byte(item.Name()), Target: target, Whole: whole, Rule: string(rule.Name), Action: string(rule.Action.Type), RuleIndex: int32(item.Rule), Reason: reason,
		Kind: item.Kind.String(), Bytes: item.Size, Uid: item.UID, Inode: item.Ino, MtimeNs: item.Mtime, CtimeNs: item.Ctime, Links: item.Links, Etag: item.ETag, Known: uint64(item.Known)}
	if p.ByReads(item.Rule) && item.Known.Has(mover.FactAtime) {
		out.AtimeNs = item.Atime
	}
	return out
}

// Same says why an entry is not the one that an item was made of; nil when it is. What the backend or the catalog does not know is not compared, but for the size
// and one of inode, ctime and ETag. An entry with none of them can not be told from another.
func Same(item *pb.PlanItem, e *mover.Entry) error {
	known := mover.Facts(item.GetKnown())
	is := dataset.FileOf(e, 0)
	proof := false
	differs := func(what string) error {
		return fmt.Errorf("%w: %s is another one than in the plan", mover.ErrChanged, what)
	}
	switch {
	case kinds[item.GetKind()] == 0 || e.Kind != kinds[item.GetKind()]:
		return differs("its kind")
	case is.Size != item.GetBytes():
		return differs("its size")
	}
	if item.GetInode() != 0 && is.Ino != 0 {
		if proof = true; is.Ino != item.GetInode() {
			return differs("its inode")
		}
	}
	if known.Has(mover.FactMtime) && is.Known.Has(mover.FactMtime) && is.Mtime != item.GetMtimeNs() {
		return differs("its mtime")
	}
	if known.Has(mover.FactCtime) && is.Known.Has(mover.FactCtime) {
		if proof = true; is.Ctime != item.GetCtimeNs() {
			return differs("its ctime")
		}
	}
	if item.GetAtimeNs() != 0 && is.Known.Has(mover.FactAtime) && is.Atime > item.GetAtimeNs() {
		return fmt.Errorf("%w: it was read since the plan was made", mover.ErrChanged)
	}
	if item.GetEtag() != "" && is.ETag != "" {
		if proof = true; is.ETag != item.GetEtag() {
			return differs("its ETag")
		}
	}
	if !proof {
		return fmt.Errorf("%w: nothing tells it from another one of that name", mover.ErrChanged)
	}
	return nil
}
