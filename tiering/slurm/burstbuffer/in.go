package burstbuffer

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/dataset/datasetclient"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/directive"
)

// In brings what a job asks for to where all nodes see it, and marks that something is to leave its nodes when it has ended. It waits for a mover that is
// away. While it goes on the job is pending, so no node waits.
func (c *Controller) In(ctx context.Context, job uint32) error {
	w, err := c.begin(job)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.heldBack(); err != nil {
		_ = w.unbroken(api.For(ctx, w.UID)) // which is the same, or told with it
		return err
	}
	if err := w.patient(api.For(ctx, w.UID), w.unique); err != nil {
		return err
	}
	if err := w.patient(ctx, func(ctx context.Context) error { return c.earlier(ctx, job) }); err != nil {
		if ctx.Err() != nil {
			return err
		}
		w.tell("what an earlier run of it has left is there still: %v", err)
	}
	w.follow(ctx)
	ctx = api.For(ctx, w.UID)
	if err := w.patient(ctx, w.unbroken); err != nil {
		return err
	}
	var warm []deed
	for _, step := range []func(context.Context) error{w.pin, w.mark, func(ctx context.Context) (err error) {
		warm, err = w.warm(ctx)
		return err
	}} {
		if err := w.patient(ctx, step); err != nil {
			return err
		}
	}
	deeds, err := w.shared(w.Asked)
	if err != nil {
		return err
	}
	places, err := w.bring(ctx, append(warm, deeds...))
	if err != nil {
		return err
	}
	w.staged.Paths = map[string]string{}
	for i, d := range warm {
		if p := places[i]; p.Root != "" {
			w.staged.Paths[d.name] = path.Join(p.Root, p.Path)
		}
	}
	return w.records().write(job, fileStaged, w.staged)
}

// pin remembers which versions of its datasets a job is to have: the same on all nodes, whatever is added while it waits.
func (w *work) pin(ctx context.Context) error {
	client, err := w.stage.Client(ctx)
	if err != nil {
		return err
	}
	versions := map[string]string{}
	for r := range w.Asked.Of(directive.StageIn) {
		if !r.From.IsDataset() || r.From.Digest != "" {
			continue
		}
		if versions[r.From.Name] = w.versions[r.From.Name]; versions[r.From.Name] != "" {
			continue // by an In that was killed
		}
		v, err := versionOf(ctx, client, r.From)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Summary(), err)
		}
		versions[r.From.Name] = v.GetDigest()
	}
	w.staged.Versions, w.versions = versions, versions
	return w.records().write(w.Job, fileStaged, w.staged)
}

// patient asks the mover until it answers.
func (w *work) patient(ctx context.Context, ask func(context.Context) error) error {
	for spell := time.Duration(0); ; {
		err := ask(ctx)
		if err == nil || !away(err) {
			w.waitsFor("")
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", mover.ErrTimeout, err)
		}
		w.waitsFor(err.Error())
		w.tell("will ask again: %v", err)
		w.rest(ctx, &spell, nil)
	}
}

// warm are the deeds that stage the datasets of a job's nodes where all of them see it. There nodes read it, and not the store that it
// comes from. A node without its own replica reads it there. Where a dataset is seen by all already it is held.
func (w *work) warm(ctx context.Context) (deeds []deed, err error) {
	arriving, err := w.foreseeable()
	if err != nil {
		return nil, err
	}
	for _, d := range arriving {
		if !d.dataset {
			continue
		}
		tier, err := w.warmTier(ctx, d.from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.summary(), err)
		}
		if tier != "" {
			d.node, d.to = "", location.OfTier(tier, "")
			deeds = append(deeds, d)
		}
	}
	return deeds, nil
}

// foreseeable are the deeds of one node, before it is known which: datasets have no patterns in their names.
func (w *work) foreseeable() ([]deed, error) {
	s := w.site
	s.values.Name, s.values.Task = "_", "_"
	return s.arriving(w.Asked, []string{"_"})
}

// warmTier is the tier on which all nodes see a dataset, or are to see it; "" is none.
func (w *work) warmTier(ctx context.Context, l location.Location) (tier string, err error) {
	client, err := w.stage.Client(ctx)
	if err != nil {
		return "", err
	}
	v, err := versionOf(ctx, client, l)
	if err != nil {
		return "", err
	}
	for r, err := range client.Replicas(ctx, &datamovev1.ListReplicasRequest{Dataset: l.Name, Digest: v.GetDigest()}) {
		if err != nil {
			return "", err
		}
		t, known := w.Config.Tiers[r.GetTier()]
		seen := known && t.Path != "" && !t.NodeLocal && r.GetState() == datamovev1.ReplicaState_REPLICA_STATE_WHOLE
		if seen && (t.Level != string(directive.Cold) || w.Config.Slurm.Warm == "") {
			return r.GetTier(), nil
		}
	}
	return w.Config.Slurm.Warm, nil
}

// Before brings onto the nodes of a job what it asks for there. What is not there when ctx is over the job does without, but for what it says is
// required: that, and what can never be there, is an error.
func (c *Controller) Before(ctx context.Context, job uint32) error {
	w, err := c.begin(job)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.before(api.For(ctx, w.UID)); err != nil {
		return w.holdBack(err)
	}
	w.account(ctx, false)
	return c.ready(w.Record)
}

// holdBack remembers an error that another try in two minutes, which is what Slurm makes of it, does not mend: the job is held then, and a person decides.
func (w *work) holdBack(err error) error {
	for _, lasting := range []error{mover.ErrRefused, mover.ErrFull, mover.ErrUnsupported, mover.ErrUsage} {
		if errors.Is(err, lasting) {
			return errors.Join(err, w.records().write(w.Job, fileHeld, err.Error()))
		}
	}
	return err
}

// heldBack is what holdBack remembers, once: a job that a person releases is staged again.
func (w *work) heldBack() error {
	var why string
	err := w.records().read(w.Job, fileHeld, &why)
	if errors.Is(err, mover.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = errors.New(why)
	}
	return errors.Join(err, w.records().drop(w.Job, fileHeld))
}

// ready remembers that the nodes of a run are ready. Of one that is over it says nothing: a pre_run outlives the phase of Slurm's for a while.
func (c *Controller) ready(x Record) error {
	return c.records().locked(func() error {
		now, err := c.Run(x.Job)
		if err == nil && now.RunID() == x.RunID() {
			err = c.records().write(x.Job, fileReady, x.RunID())
		}
		return err
	})
}

func (w *work) before(ctx context.Context) error {
	if probe, err := w.foreseeable(); err != nil || len(probe) == 0 && len(w.Asked.Scratch) == 0 && !w.leavesNodes() && !w.Asked.Uses("%x", "%a") {
		return err
	}
	p, err := w.await(ctx)
	if err != nil {
		if slices.ContainsFunc(w.Asked.Requests, func(r directive.Request) bool { return r.Required }) || w.wantsOneDirectory() {
			return err
		}
		w.tell("it begins without its data: %v", err)
		return nil
	}
	if p.Part && slices.ContainsFunc(w.Asked.Requests, func(r directive.Request) bool { return r.Required }) {
		return fmt.Errorf("%w: the job is one component of several (sbatch … : …), and data would come to this one alone: submit it as one job, or each component as a job of its own", mover.ErrUnsupported)
	}
	if len(p.Nodes) > 1 && w.wantsOneDirectory() {
		return fmt.Errorf("%w: the job has %d nodes, and asks for space that all of them see as one (#DW jobdw, access_mode=striped or type=lustre): ask for one node, for access_mode=private, or use a path on a file system that all nodes see",
			mover.ErrUnsupported, len(p.Nodes))
	}
	w.at(p)
	deeds, err := w.arriving(w.Asked, p.Nodes)
	if err := errors.Join(err, w.names(w.Asked, p.Nodes)); err != nil {
		return err
	}
	for _, look := range []func(context.Context, []string) error{w.vacant, w.space, w.reserve} {
		err := look(ctx, p.Nodes)
		if away(err) { // of what an earlier run has left the prolog looks, too
			w.tell("what is on its nodes is not known, and nothing may hold it to its capacity: %v", err)
			break
		}
		if err != nil {
			return err
		}
	}
	w.watch(ctx, p)
	_, err = w.bring(ctx, deeds)
	return err
}

// leavesNodes says whether something is to leave the job's directory on its nodes.
func (w *work) leavesNodes() bool {
	return slices.ContainsFunc(w.Asked.Requests, func(r directive.Request) bool {
		return (r.Verb == directive.StageOut || r.Verb == directive.Checkpoint) && w.tiers.OfJob(r.From)
	})
}

// vacant is an error where an earlier run of the job, or another job that had its number, has left results on one of its nodes that are to be brought away still:
// this run would add its own to them. What is on its way is waited for by the next try; what waits for a person is said to one.
func (w *work) vacant(ctx context.Context, nodes []string) error {
	client, err := w.stage.Client(ctx)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for t, err := range datasetclient.Tasks(ctx, client, &datamovev1.ListTasksRequest{Brief: true, Labels: w.own.Labels()}) { // the newest first
		if err != nil {
			return err
		}
		labels := t.GetSpec().GetLabels()
		if w.others(labels) || seen[labels[slurm.CopyLabel]] || labels[slurm.RunLabel] == w.RunID() || labels[slurm.PartLabel] != "" || !slices.Contains(nodes, labels[slurm.Leaves]) {
			continue
		}
		seen[labels[slurm.CopyLabel]] = true
		kind := mover.ErrConflict
		switch t.GetState() {
		case datamovev1.TaskState_TASK_STATE_DONE, datamovev1.TaskState_TASK_STATE_CANCELLED:
			continue
		case datamovev1.TaskState_TASK_STATE_PAUSED, datamovev1.TaskState_TASK_STATE_FAILED:
			kind = mover.ErrRefused
		}
		return fmt.Errorf("%w: on %s is what an earlier run, or job, with the number %d has left, and task %s is to bring it to %s: datamove task resume %s brings it, and datamove task cancel %s gives it up",
			kind, labels[slurm.Leaves], w.Job, t.GetId(), mover.Printable(t.GetSpec().GetTarget()), t.GetId(), t.GetId())
	}
	return nil
}

// wantsOneDirectory says whether the job asks for space that all its nodes see as one directory.
func (w *work) wantsOneDirectory() bool {
	return slices.ContainsFunc(w.Asked.Scratch, directive.Scratch.Shared)
}

const (
	placePause    = 100 * time.Millisecond // between two looks for where a job runs, which another hook writes down at the same time
	placePatience = 30 * time.Second
)

func (w *work) await(ctx context.Context) (p Place, err error) {
	ctx, cancel := context.WithTimeout(ctx, placePatience)
	defer cancel()
	for {
		if err = w.records().read(w.Job, filePlace, &p); !errors.Is(err, mover.ErrNotExist) {
			return p, err
		}
		select {
		case <-ctx.Done():
			return p, fmt.Errorf("%w: its nodes are not known: PrologSlurmctld has to run datamove hook prolog-slurmctld", mover.ErrTimeout)
		case <-time.After(placePause):
		}
	}
}

// bring does deeds, and waits for all of them. Those that are not required may fail, or be late; then their place is nowhere.
func (w *work) bring(ctx context.Context, deeds []deed) (places []datasetclient.Staged, err error) {
	places, errs := make([]datasetclient.Staged, len(deeds)), make([]error, len(deeds))
	var wants []datasetclient.Want
	var staged []int
	var copying sync.WaitGroup
	for i, d := range deeds {
		if d.dataset && d.node == "" {
			copying.Go(func() { places[i], errs[i] = w.warmed(ctx, d) })
			continue
		}
		if d.dataset {
			staged = append(staged, i)
			wants = append(wants, w.want(d))
			continue
		}
		copying.Go(func() { errs[i] = w.copied(ctx, d) })
	}
	found, failed := w.stage.Each(ctx, wants, func(k int, err error) { w.tell("%s: %v", wants[k].Source.Location, err) })
	copying.Wait()
	for k, i := range staged {
		places[i], errs[i] = found[k], failed[k]
	}
	for i, d := range deeds {
		switch {
		case errs[i] == nil:
		case d.needed(errs[i]):
			return places, fmt.Errorf("%s: %w", d.summary(), errs[i])
		default:
			w.tell("it begins without: %s: %v", d.summary(), errs[i])
		}
	}
	return places, nil
}

func (w *work) want(d deed) datasetclient.Want {
	return datasetclient.Want{Source: datasetclient.Source{Location: d.from.String(), Tier: d.to.Tier, Node: d.node}, Holder: w.holder(d)}
}

// roomPatience is how long a dataset may wait to come to where all nodes see it, for room there, or for whatever it says.
const roomPatience = 10 * time.Minute

// warmed waits until a dataset is where all nodes see it, as long as it comes: when there is no room it need not be there.
func (w *work) warmed(ctx context.Context, d deed) (datasetclient.Staged, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var since time.Time // that it does not go on
	places, err := w.stage.All(ctx, []datasetclient.Want{w.want(d)}, func(_ int, err error) {
		w.tell("%s: %v", d.summary(), err)
		var u *datasetclient.Underway
		switch {
		case !errors.As(err, &u) || u.Why == "":
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= roomPatience:
			giveUp(mover.ErrTimeout)
		}
	})
	return places[0], err
}

// needed says whether the job can not begin without what has failed. Either it is required, or to be where all nodes see it, and a process
// may wait for it there. Or it is of no use, since the user of the job has to mend something. If a dataset is not warm, its nodes read it where it comes from.
func (d deed) needed(err error) bool {
	switch {
	case d.node == "" && d.dataset:
		return !away(err) && errors.Is(err, mover.ErrPermission)
	case d.node == "" || d.request.Required:
		return true
	}
	return !away(err) && (errors.Is(err, mover.ErrNotExist) || errors.Is(err, mover.ErrPermission) || errors.Is(err, mover.ErrUsage))
}

// copied waits until a copy is there. One that is late, or fails, does not go on: the job would see half of it come.
func (w *work) copied(ctx context.Context, d deed) error {
	o := datasetclient.Order{Key: w.key(d), From: d.from.String(), To: d.to.String(), Node: d.node}
	if d.node != "" { // its nodes would wait for room that does not come
		o.Options = &datamovev1.Options{FailWhenFull: true}
	}
	err := w.came(ctx, d.summary(), o)
	if err == nil {
		return nil
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), glance)
	defer cancel()
	if err := w.stage.Stop(after, o.Key); err != nil {
		w.tell("%s: it may go on: %v", d.summary(), err)
	}
	return err
}

func (w *work) came(ctx context.Context, what string, o datasetclient.Order) error {
	for fails, spell := 0, time.Duration(0); ; {
		err := w.stage.Copy(ctx, o)
		var u *datasetclient.Underway
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", mover.ErrTimeout, err)
		case errors.As(err, &u), errors.Is(err, mover.ErrUnreachable):
		case !datasetclient.Passes(err), fails == mostFails:
			return err
		default:
			fails++
		}
		w.tell("%s: %v", what, err)
		w.rest(ctx, &spell, u)
	}
}

// mostFails is how often something that may not have to fail is begun again.
const mostFails = 5

const (
	askPause = time.Second      // between two questions to the mover, at first
	rarely   = 10 * time.Second // after a while; so often the job is told how far it is
)

// rest waits until it is worth asking again, each time for longer.
func (w *work) rest(ctx context.Context, spell *time.Duration, u *datasetclient.Underway) {
	*spell = min(max(2**spell, askPause), rarely)
	limit, cancel := context.WithTimeout(ctx, *spell)
	defer cancel()
	if u != nil && w.stage.Follow(limit, u.Task) == nil {
		*spell = 0
		return
	}
	<-limit.Done()
}
