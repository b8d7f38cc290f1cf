package worker

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/p2p"
	"datamove.dev/mover/p2p/peer"
	"datamove.dev/mover/task/convert"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/checkpoint/replicate"
)

// checkpoint does something for a run of a policy with a checkpoint as a whole: it is copied, goes, or comes back. One that is not what it was counts as kept.
func (w *worker) checkpoint(ctx context.Context, back bool) (report engine.Report, err error) {
	begun := time.Now()
	spec := w.job.GetSpec()
	tier, err := w.at(spec.GetSource())
	if err != nil {
		return report, err
	}
	work := spec.GetTiering().GetCheckpoint()
	site := &replicate.Site{Open: w.open, Log: w.log, Request: engine.Request{StateDir: w.job.GetStateDir()}, Trust: replicate.Trust}
	expiry := replicate.Expiry{Save: replicate.Save{Name: string(work.GetName()), Save: work.GetSave()}, Keep: spec.GetTiering().GetKeep()}
	for _, r := range work.GetRelies() {
		expiry.Relies = append(expiry.Relies, replicate.Save{Name: string(r.GetName()), Save: r.GetSave()})
	}
	folder := string(work.GetFolder())
	if err := w.agent.mine("", w.job.GetEpoch())(ctx); err != nil {
		return report, err
	}
	switch {
	case back:
		w.touched.Store(true)
		if err = site.Return(ctx, tier, folder, expiry); errors.Is(err, fs.ErrExist) {
			err = fs.ErrNotExist // something has its name by now, and stays
		}
	case spec.GetTiering().GetRemove():
		w.state.State(engine.Removing, "")
		w.touched.Store(true)
		err = site.Expire(ctx, tier, folder, expiry)
	default:
		report, err = w.bring(ctx, site, tier, folder, expiry.Save)
	}
	report.Elapsed = time.Since(begun)
	if errors.Is(err, mover.ErrChanged) || errors.Is(err, mover.ErrNotExist) {
		w.log.Info("a checkpoint is left alone", "checkpoint", mover.Printable(mover.Join(folder, expiry.Name)), "why", err)
		report.Kept, err = 1, nil
	}
	return report, err
}

// bring copies a checkpoint to the target.
func (w *worker) bring(ctx context.Context, site *replicate.Site, tier location.Location, folder string, save replicate.Save) (report engine.Report, err error) {
	target, err := w.at(w.job.GetSpec().GetTarget())
	if err != nil {
		return report, err
	}
	r, err := w.request()
	if err != nil {
		return report, err
	}
	r.Lead = &engine.Coordination{Epoch: w.job.GetEpoch(), Before: w.job.GetBefore(), ConfirmLease: w.agent.mine("", w.job.GetEpoch()), AcquireSlot: w.turn}
	r.Limiter = w.bandwidth
	site.Request = r
	from, done, err := w.lender(ctx, site, tier, folder)
	if err != nil {
		return report, err
	}
	defer done()
	to, err := site.In(ctx, target, folder, from.Profile, true)
	if err != nil {
		return report, err
	}
	defer to.Close()
	brought, err := site.Bring(ctx, from, save, to, func(s checkpoint.State) { w.state.State(engine.Moving, "the checkpoint is "+string(s)) })
	report.Bytes = brought.Sent
	return report, err
}

// lender opens the folder that a checkpoint is in: on this node, or, as another node lends it.
func (w *worker) lender(ctx context.Context, site *replicate.Site, tier location.Location, folder string) (from *replicate.Folder, done func(), err error) {
	lent := w.job.GetLent()
	if lent == nil {
		from, err = site.In(ctx, tier, folder, "", false)
		return from, func() { _ = from.Close() }, err
	}
	client, err := peer.NewClient(w.job.GetAuthorities())
	if err != nil {
		return nil, nil, err
	}
	client.Present(lent.GetTicket())
	l, err := convert.Locate(w.job.GetSpec().GetSource())
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

// retain removes the checkpoints in the target that are not to stay, and notes before that one has come there.
func (w *worker) retain(ctx context.Context) (report engine.Report, err error) {
	begun := time.Now()
	spec := w.job.GetSpec().GetRetention()
	target, err := w.at(w.job.GetSpec().GetTarget())
	if err != nil {
		return report, err
	}
	site := &replicate.Site{Open: w.open, Log: w.log, Request: engine.Request{StateDir: w.job.GetStateDir(), Observer: w.state}, Trust: replicate.Trust}
	folder, err := site.Folder(ctx, target, checkpoint.Profile(spec.GetProfile()), false)
	if err != nil {
		return report, err
	}
	defer folder.Close()
	if err := w.agent.mine("", w.job.GetEpoch())(ctx); err != nil {
		return report, err
	}
	w.touched.Store(true)
	if name := string(spec.GetArrived()); name != "" {
		if err := site.Vouch(ctx, folder, name, mover.Server); err != nil {
			return report, err
		}
	}
	w.state.State(engine.Removing, "")
	keep := checkpoint.Keep{Last: int(spec.GetLast()), Every: spec.GetEvery()}
	tiers, err := replicate.Judge(ctx, []*replicate.Folder{folder}, keep)
	if err != nil {
		return report, err
	}
	if err := site.Assure(ctx, tiers, keep); err != nil {
		return report, err
	}
	for _, v := range tiers[0].Verdicts {
		if v.Keep {
			continue
		}
		if err := site.Remove(ctx, tiers[0], v.Name); err != nil && !errors.Is(err, mover.ErrChanged) {
			return report, err
		}
		report.Notes = append(report.Notes, mover.Printable(v.Name)+" was removed: "+v.Why)
	}
	report.Elapsed = time.Since(begun)
	return report, nil
}
