package coordinator

import (
	"context"
	"errors"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
)

// extensions are what servers beside the coordinator have added to it, before Run.
type extensions struct {
	datasets Datasets
	kinds    map[pb.TaskKind]taskkind.Kind

	added []*chore
	loops []func(context.Context)

	onEnd   []func(tx *state.Tx, t *pb.Task) error
	onEnded []func(t *pb.Task)
	onDone  []func(t *pb.Task) error
}

// AddChore has Run do something every so often. It is called before Run.
func (s *extensions) AddChore(every time.Duration, what string, do func(context.Context) error) {
	s.added = append(s.added, &chore{every: every, what: what, do: do})
}

// AddLoop has Run run something until its context ends. It is called before Run.
func (s *extensions) AddLoop(run func(context.Context)) { s.loops = append(s.loops, run) }

// OnTaskEnd has do called in the change in which a task ends. It is called before Run.
func (s *extensions) OnTaskEnd(do func(tx *state.Tx, t *pb.Task) error) {
	s.onEnd = append(s.onEnd, do)
}

// OnTaskEnded has do called after a task has ended. It is called before Run.
func (s *extensions) OnTaskEnded(do func(t *pb.Task)) { s.onEnded = append(s.onEnded, do) }

func (s *extensions) taskEnds(tx *state.Tx, t *pb.Task) (err error) {
	for _, do := range s.onEnd {
		err = errors.Join(err, do(tx, t))
	}
	return err
}

func (s *extensions) taskEnded(t *pb.Task) {
	for _, do := range s.onEnded {
		do(t)
	}
}

// OnDone has done asked about a task that its agent calls done: why it is not. It is called before Run.
func (s *extensions) OnDone(done func(t *pb.Task) error) { s.onDone = append(s.onDone, done) }

// UseDatasets has the coordinator ask a server of datasets. It is called before Run and before any task is submitted.
func (s *extensions) UseDatasets(d Datasets) { s.datasets = d }

// AddKind has the coordinator do tasks of a kind. It is called before Run.
func (s *extensions) AddKind(of pb.TaskKind, kind taskkind.Kind) { s.kinds[of] = kind }

// kindOf returns the kind of a task: plain for one without effects, and for one that this build does not know.
func (s *extensions) kindOf(spec *pb.TaskSpec) taskkind.Kind {
	if k, known := s.kinds[spec.GetKind()]; known {
		return k
	}
	return taskkind.Plain{}
}
