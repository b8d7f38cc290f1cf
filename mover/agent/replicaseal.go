package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/replicadir"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/location"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
)

// A dataset is staged to a folder of its own in the tier (package replicadir). As root the agent makes its folders, lets in
// the accounts that the coordinator names, and seals it when it is there. Where root may not (root squash), users
// make their folders as they can.

// replicaAt is the folder of the replica at a location, if this agent is to look after that.
func (a *Agent) replicaAt(at string) (s replicadir.Path, ok bool) {
	l, err := convert.Locate(at)
	t := a.conf().Tiers[l.Tier]
	if err != nil || os.Geteuid() != 0 || !l.InTier() || t.S3 != nil || t.Path == "" || backend.Mounted(t) != nil {
		return replicadir.Path{}, false // the process will see, and say it better
	}
	return replicadir.At(t.Path, l.Path)
}

// Why a replica has neither an access ACL nor a seal.
const (
	notRoot  = "the agent that staged it is not root"
	squashed = "root may not make folders where it lies"
)

// prepareReplicas makes ready what a lead needs of replicas: the folders that it stages to, which are mended,
// and the way to what it removes, and to what is to survive.
func (a *Agent) prepareReplicas(ctx context.Context, p *process, who osaccount.Account) (err error) {
	spec := p.job.GetSpec()
	kind := task.Of(spec)
	if kind.Replica && kind.RemovesTarget {
		return errors.Join(a.grantTemporary(p, spec.GetTarget(), who), a.grantTemporary(p, spec.GetSource(), who))
	}
	if !kind.Shared || spec.GetStaging().GetDataset() == "" {
		return nil
	}
	folder, ok := a.replicaAt(spec.GetTarget())
	if !ok {
		if os.Geteuid() != 0 {
			p.unguarded = notRoot
		}
		return nil
	}
	p.described = describesItself(who)
	if err := folder.MakeMutable(ctx); err != nil {
		return err
	}
	err = a.accessLists.addPermanent(folder, who.UID, func() (err error) { p.unguarded, err = folder.Make(who.UID, who.GID); return err })
	if powerless(err) {
		p.unguarded = squashed
		return nil
	}
	return err
}

// powerless says of an error that root can do nothing there: the process will see, and say it better.
func powerless(err error) bool {
	return errors.Is(err, mover.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOENT)
}

// admits sets the access ACL by the result of an access probe. It lets in an owner that may read the source, and shuts out one that may not.
func (a *Agent) admits(t *pb.Task, r *agentv1.FinishRequest) {
	folder, ok := a.replicaAt(t.GetSpec().GetTarget())
	if !ok || r.GetPutBack() {
		return
	}
	var err error
	switch {
	case r.GetError() == "":
		if err = a.grantPermanent(folder, t.GetOwner()); err != nil {
			r.Error, r.ErrorKind = err.Error(), mover.KindName(err)
		}
	case r.GetErrorKind() == mover.KindName(mover.ErrPermission):
		err = a.accessLists.remove(folder, t.GetOwner().GetUid())
	}
	if err != nil {
		a.log.Warn("a gate can not be set", "uid", t.GetOwner().GetUid(), "replica", folder.String(), "err", err)
	}
}

// Seal implements agentv1.WorkerServiceServer.
func (p *process) Seal(ctx context.Context, r *agentv1.SealRequest) (*agentv1.SealResponse, error) {
	spec := p.job.GetSpec()
	p.sealing.Lock()
	defer p.sealing.Unlock()
	switch {
	case p.lead == nil:
		return nil, errNoLead
	case p.ctx.Err() != nil:
		return nil, p.ctx.Err()
	case r.GetOff() && task.Of(spec).RemovesTarget:
		unsealed, err := p.agent.unseal(ctx, spec.GetTarget(), p.as.Account.UID)
		p.mu.Lock()
		p.unsealed = p.unsealed || unsealed
		p.mu.Unlock()
		return &agentv1.SealResponse{}, err
	case !r.GetOff() && task.Of(spec).Shared && !p.sealed:
		p.sealed = true
		described, err := p.seal(ctx)
		if err == nil && described {
			described, err = p.describes(ctx)
		}
		return &agentv1.SealResponse{Described: described}, err
	}
	return nil, mover.ErrUsage
}

// seal seals what was staged, and says whether it is to be described by the agent. Where it can not be sealed, that is told.
func (p *process) seal(ctx context.Context) (described bool, err error) {
	folder, ok := p.agent.replicaAt(p.job.GetSpec().GetTarget())
	if !ok {
		return false, nil
	}
	why, err := folder.MakeImmutable(ctx, p.as.Account.UID)
	sealed := folder.Immutable()
	if powerless(err) && !sealed {
		why, err = squashed, nil
	}
	if err != nil {
		return false, err
	}
	if why != "" {
		p.expose(why)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.described = p.described && sealed
	return p.described, nil
}

// expose notes why others can not rely on the guard of what was staged.
func (p *process) expose(why string) {
	p.agent.log.Warn("a replica is unguarded: who staged it can change it, or say what it is", "replica", p.job.GetSpec().GetTarget(), "why", why)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unguarded != "" && p.unguarded != why {
		why = p.unguarded + "; " + why
	}
	p.unguarded = why
}

// unseal has what lies at a location be removed: replicas of that user there, or all for root. It says whether any was sealed.
func (a *Agent) unseal(ctx context.Context, at string, uid uint32) (unsealed bool, err error) {
	l, err := convert.Locate(at)
	if err != nil || os.Geteuid() != 0 {
		return false, err
	}
	if t := a.conf().Tiers[l.Tier]; l.InTier() {
		if t.S3 != nil || backend.Mounted(t) != nil {
			return false, nil
		}
		l = location.OfPath(path.Join(t.Path, l.Path))
	}
	for _, t := range a.conf().Tiers {
		below, ok := belowTier(t.Path, l)
		if !ok || t.S3 != nil {
			continue
		}
		here, err := replicadir.MakeMutable(ctx, t.Path, below, uid)
		if errors.Is(err, mover.ErrHeld) && unsealed {
			err = fmt.Errorf("%w: %s", mover.ErrConflict, err.Error()) // of one tier in another
		}
		if unsealed = unsealed || here; err != nil {
			return unsealed, err
		}
	}
	return unsealed, nil
}

// belowTier is the part of a path that is below the root of a tier, or "" of what is around it.
func belowTier(root string, l location.Location) (below string, ok bool) {
	if !l.IsPath() || root == "" {
		return "", false
	}
	at, tier := strings.Trim(path.Clean(l.Path), "/"), strings.Trim(path.Clean(root), "/")
	if mover.Within(tier, at) {
		return "", true
	}
	below, ok = strings.CutPrefix(at, tier+"/")
	return below, ok || tier == ""
}

// clearReplica removes the folders that are empty when a replica is gone.
func (a *Agent) clearReplica(spec *pb.TaskSpec) {
	kind := task.Of(spec)
	if folder, ok := a.replicaAt(spec.GetTarget()); ok && kind.RemovesTarget && !kind.UserPaths {
		folder.Clear()
	}
}
