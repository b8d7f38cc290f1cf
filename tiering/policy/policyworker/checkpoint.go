package policyworker

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/p2p"
	"datamove.dev/mover/p2p/peer"
	"datamove.dev/mover/task/convert"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/checkpoint/replicate"
)

// moveCheckpoint does something for a run of a policy with a checkpoint as a whole: it is copied, goes, or comes back. One that is not what it was counts as kept.
func moveCheckpoint(ctx context.Context, j *worker.Job, back bool) (report engine.Report, err error) {
	begun := time.Now()
	spec := j.Spec()
	tier, err := j.At(spec.GetSource())
	if err != nil {
		return report, err
	}
	work := spec.GetTiering().GetCheckpoint()
	site := &replicate.Site{Open: j.Open, Log: j.Log(), Request: engine.Request{StateDir: j.Order().GetStateDir()}, Trust: replicate.Trust}
	expiry := replicate.Expiry{Save: replicate.Save{Name: string(work.GetName()), Save: work.GetSave()}, Keep: spec.GetTiering().GetKeep()}
	for _, r := range work.GetRelies() {
		expiry.Relies = append(expiry.Relies, replicate.Save{Name: string(r.GetName()), Save: r.GetSave()})
	}
	folder := string(work.GetFolder())
	if err := j.Confirm(ctx); err != nil {
		return report, err
	}
	switch {
	case back:
		j.Touch()
		if err = site.Return(ctx, tier, folder, expiry); errors.Is(err, fs.ErrExist) {
			err = fs.ErrNotExist // something has its name by now, and stays
		}
	case spec.GetTiering().GetRemove():
		j.State(engine.Removing, "")
		j.Touch()
		err = site.Expire(ctx, tier, folder, expiry)
	default:
		report, err = bring(ctx, j, site, tier, folder, expiry.Save)
	}
	report.Elapsed = time.Since(begun)
	if errors.Is(err, mover.ErrChanged) || errors.Is(err, mover.ErrNotExist) {
		j.Log().Info("a checkpoint is left alone", "checkpoint", mover.Printable(mover.Join(folder, expiry.Name)), "why", err)
		report.Kept, err = 1, nil
	}
	return report, err
}

// bring copies a checkpoint to the target.
func bring(ctx context.Context, j *worker.Job, site *replicate.Site, tier location.Location, folder string, save replicate.Save) (report engine.Report, err error) {
	target, err := j.At(j.Spec().GetTarget())
	if err != nil {
		return report, err
	}
	r, err := j.Request()
	if err != nil {
		return report, err
	}
	site.Request = r
	from, done, err := lender(ctx, j, site, tier, folder)
	if err != nil {
		return report, err
	}
	defer done()
	to, err := site.In(ctx, target, folder, from.Profile, true)
	if err != nil {
		return report, err
	}
	defer to.Close()
	brought, err := site.Bring(ctx, from, save, to, func(s checkpoint.State) { j.State(engine.Moving, "the checkpoint is "+string(s)) })
	report.Bytes = brought.Sent
	return report, err
}

// lender opens the folder that a checkpoint is in: on this node, or, as another node lends it.
func lender(ctx context.Context, j *worker.Job, site *replicate.Site, tier location.Location, folder string) (from *replicate.Folder, done func(), err error) {
	lent := j.Order().GetLent()
	if lent == nil {
		from, err = site.In(ctx, tier, folder, "", false)
		return from, func() { _ = from.Close() }, err
	}
	client, err := j.PeerClient(lent.GetTicket())
	if err != nil {
		return nil, nil, err
	}
	l, err := convert.Locate(j.Spec().GetSource())
	if err != nil {
		return nil, nil, err
	}
	l = l.Child(folder)
	node := p2p.Member{Name: lent.GetMember().GetAgent(), Address: lent.GetMember().GetAddress()}
	here := site.Open
	site.Open = func(ctx context.Context, at location.Location, o engine.OpenOptions) (mover.Backend, error) {
		if !at.InTier() { // of this node
			return here(ctx, at, o)
		}
		return peer.NewBackend(client, node, strings.Trim(strings.TrimPrefix(at.Path, l.Path), "/"), node.Name+":"+at.String()), nil
	}
	if from, err = site.Folder(ctx, l, "", false); err != nil {
		client.Close()
	}
	return from, func() { _ = from.Close(); client.Close() }, err
}
