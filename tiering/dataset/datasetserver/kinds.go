package datasetserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
)

// datasetKinds are the kinds that make, bring and remove replicas of datasets.
func (s *Server) datasetKinds() map[pb.TaskKind]taskkind.Kind {
	return map[pb.TaskKind]taskkind.Kind{
		pb.TaskKind_TASK_KIND_DESCRIBE: describeKind{s: s},
		pb.TaskKind_TASK_KIND_STAGE:    stageKind{s: s},
		pb.TaskKind_TASK_KIND_RELEASE:  releaseKind{s: s},
		pb.TaskKind_TASK_KIND_PURGE:    purgeKind{s: s},
	}
}

// describeKind reads a source and makes a version of a dataset of it.
type describeKind struct {
	taskkind.Plain
	s *Server
}

func (describeKind) Proves(*pb.TaskSpec) bool { return true }

// Judge implements Kind: the version is what the manifest says.
func (k describeKind) Judge(got taskkind.Result, t *pb.Task, r *agentv1.FinishRequest) (taskkind.Result, error) {
	got, err := proved(got, t, r)
	if err != nil {
		return got, err
	}
	p, err := k.s.manifests.stored(got)
	if err == nil && p.Entries == 0 {
		err = &mover.Error{Op: "add", Location: t.GetSpec().GetSource(), Err: mover.Because(mover.ErrRefused, "there is nothing in it; is it mounted?")}
	}
	if err != nil {
		return got, err
	}
	t.Dataset = tag(t.GetSpec().GetStaging().GetDataset(), p.Digest)
	return p, nil
}

func (k describeKind) End(tx *state.Tx, t *pb.Task, p taskkind.Result) (*pb.Task, error) {
	if t.GetState() != task.Done {
		return nil, nil
	}
	return nil, k.s.described(tx, t, p)
}

// stageKind brings a replica to a tier.
type stageKind struct {
	taskkind.Plain
	s *Server
}

func (k stageKind) Delay(ctx context.Context, t *pb.Task) (time.Duration, error) {
	if t.GetDataset() == "" || t.GetTries() > 0 {
		return 0, nil
	}
	return k.s.room.makesRoom(ctx, t)
}

func (stageKind) Proves(spec *pb.TaskSpec) bool { return spec.GetStaging().GetDataset() != "" }

// Judge implements Kind: what was staged has the digest of its version.
func (k stageKind) Judge(got taskkind.Result, t *pb.Task, r *agentv1.FinishRequest) (taskkind.Result, error) {
	if !k.Proves(t.GetSpec()) {
		return got, nil
	}
	p, err := proved(got, t, r)
	if err != nil || isOf(t, p.Digest) {
		return p, err
	}
	return p, &mover.Error{Op: "stage", Location: t.GetSpec().GetTarget(), Err: fmt.Errorf(
		"%w: what was copied from %s has the digest %s and not that of dataset:%s; the source has changed since it was added: add it again, or stage another replica",
		mover.ErrCorrupt, mover.Printable(t.GetSpec().GetSource()), p.Digest, mover.Printable(t.GetDataset()))}
}

// Doubts implements Kind. The target is the service's own: only the source can be wrong.
func (stageKind) Doubts(t *pb.Task, p taskkind.Result) bool {
	return p.Digest != "" && !isOf(t, p.Digest) || slices.Contains(notAsItWas, t.GetErrorKind())
}

// notAsItWas are the kinds of errors that say so of what was read.
var notAsItWas = []string{mover.KindName(mover.ErrNotExist), mover.KindName(mover.ErrChanged), mover.KindName(mover.ErrCorrupt)}

func (k stageKind) End(tx *state.Tx, t *pb.Task, p taskkind.Result) (*pb.Task, error) {
	return k.s.staged(tx, t, p)
}

// releaseKind removes a replica of which a verified copy survives.
type releaseKind struct {
	taskkind.Plain
	s *Server
}

// Begin implements Kind. A release that has begun has to come to its end.
func (k releaseKind) Begin(tx *state.Tx, t *pb.Task) error {
	if t.GetTries() > 0 {
		return nil
	}
	r, err := stagedBy(tx, t)
	if err != nil || r.GetCreateTime() == nil { // it never was whole
		return err
	}
	if t.GetSpec().GetLabels()[evictedLabel] != "" {
		return k.s.mayEvict(tx, r, t.GetId())
	}
	return k.s.mayRelease(tx, r, t.GetId())
}

func (releaseKind) Proves(spec *pb.TaskSpec) bool {
	return spec.GetOptions().GetChecksum() || spec.GetSource() != ""
}

// Doubts implements Kind: a release holds the copy that is to survive.
func (releaseKind) Doubts(t *pb.Task, p taskkind.Result) bool {
	return untouched(t, p) && t.GetErrorKind() == mover.KindName(mover.ErrCorrupt)
}

// End implements Kind. What this service made and could not remove whole is removed again later; what
// others made stays as it is and is no replica any more.
func (k releaseKind) End(tx *state.Tx, t *pb.Task, p taskkind.Result) (*pb.Task, error) {
	r, err := stagedBy(tx, t)
	switch {
	case errors.Is(err, mover.ErrNotExist):
		err = nil
	case err == nil:
		err = k.s.removed(tx, t, p, r, func() error {
			if managed(r) {
				return nil
			}
			return deleteReplica(tx, r)
		})
	}
	return nil, err
}

// purgeKind removes what lies below an ephemeral tier.
type purgeKind struct {
	taskkind.Plain
	s *Server
}

func (k purgeKind) Begin(tx *state.Tx, t *pb.Task) error {
	l, err := location.Parse(t.GetSpec().GetTarget())
	if err != nil {
		return err
	}
	inside, err := k.s.purges(tx, t, l, t.GetSpec().GetNode())
	if err == nil {
		_, err = k.s.removes(tx, t, inside...)
	}
	return err
}

// End implements Kind. A replica that a purge could not remove whole, for want of permission, is doubted: it goes when
// room is needed.
func (k purgeKind) End(tx *state.Tx, t *pb.Task, p taskkind.Result) (*pb.Task, error) {
	marked, err := k.s.markedBy(tx, t)
	for _, r := range marked {
		err = errors.Join(err, k.s.removed(tx, t, p, r, func() error {
			if !managed(r) {
				return deleteReplica(tx, r)
			}
			r.State, r.Task, r.Level = whole, "", pb.Level_LEVEL_UNSPECIFIED
			return k.s.records.putReplica(tx, r)
		}))
	}
	return nil, err
}

func describeSpec(source string) *pb.TaskSpec {
	return &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_DESCRIBE, Source: source}
}

func stageSpec(source, target string) *pb.TaskSpec {
	return &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_STAGE, Source: source, Target: target}
}

func purgeSpec(target, node string) *pb.TaskSpec {
	return &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_PURGE, Target: target, Node: node}
}

// probeSpec is the request to find out whether its owner may read a source.
func probeSpec(source, node string) *pb.TaskSpec {
	return &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_LOOK, Source: source, Node: node}
}

// releaseSpec is the request to remove a replica.
func releaseSpec(r *pb.Replica) *pb.TaskSpec {
	spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_RELEASE, Target: r.GetLocation(), Node: r.GetNode(), Staging: &pb.Staging{Dataset: r.GetDataset(), Tier: r.GetTier()}}
	spec.Class = task.ClassOf(spec)
	if r.GetDataset() != "" && !managed(r) {
		spec.Options = &pb.Options{Checksum: true} // others write there, too: it is looked at first
	}
	return spec
}

// releaseRequest is what a caller asks for, by which a repeated call is recognized.
func releaseRequest(r *pb.ReleaseRequest) *pb.TaskSpec {
	return &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_RELEASE, Source: r.GetSource(), Node: r.GetNode(), Staging: &pb.Staging{Tier: r.GetTier()}}
}
