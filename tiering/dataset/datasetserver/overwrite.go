package datasetserver

import (
	"errors"
	"strings"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/tiering/checkpoint"
)

// transferKinds are the kinds that change what lies at their target, where replicas may be.
func (s *records) transferKinds() map[pb.TaskKind]taskkind.Kind {
	return map[pb.TaskKind]taskkind.Kind{
		pb.TaskKind_TASK_KIND_COPY:   copyKind{overwriteKind{s: s}},
		pb.TaskKind_TASK_KIND_SYNC:   copyKind{overwriteKind{s: s}},
		pb.TaskKind_TASK_KIND_REMOVE: removeKind{overwriteKind{s: s}},
		pb.TaskKind_TASK_KIND_RETAIN: retainKind{overwriteKind{s: s}},
	}
}

// overwriteKind is a kind that changes what lies at its target, where replicas may be.
type overwriteKind struct {
	taskkind.Plain
	s *records
}

func (k overwriteKind) Begin(tx *state.Tx, t *pb.Task) error { return k.s.overwrites(tx, t) }

func (k overwriteKind) End(tx *state.Tx, t *pb.Task, p taskkind.Result) (*pb.Task, error) {
	return nil, k.s.written(tx, t, p)
}

// copyKind is a copy or a sync.
type copyKind struct{ overwriteKind }

// Doubts implements Kind. The target of a copy is not the service's: only what was read counts.
func (copyKind) Doubts(_ *pb.Task, p taskkind.Result) bool { return p.Unlike }

// removeKind is rm.
type removeKind struct{ overwriteKind }

func (k removeKind) End(tx *state.Tx, t *pb.Task, p taskkind.Result) (*pb.Task, error) {
	return nil, errors.Join(k.s.written(tx, t, p), k.s.vanished(tx, t))
}

// retainKind removes the checkpoints that are not to stay.
type retainKind struct{ overwriteKind }

func (retainKind) Check(spec *pb.TaskSpec) error {
	r := spec.GetRetention()
	switch name := string(r.GetArrived()); {
	case !checkpoint.Known(checkpoint.Profile(r.GetProfile())):
		return mover.Usagef("%q saves no checkpoints", mover.Printable(r.GetProfile()))
	case r.GetLast() < checkpoint.Fewest || r.GetEvery() < 0:
		return mover.Usagef("of checkpoints at least the last %d stay", checkpoint.Fewest)
	case strings.Contains(name, "/") || !mover.ValidName(name):
		return mover.Usagef("a checkpoint has no such name")
	case spec.GetSource() != "" || len(spec.GetSources()) > 0:
		return mover.Usagef("what is to stay has no source")
	}
	return nil
}

// copySpec is the request that copies a source to a target.
func copySpec(source, target string) *pb.TaskSpec {
	return &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: source, Target: target}
}
