package burstworker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task/convert"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/lifecycle"
	"datamove.dev/tiering/burst/pricing"
)

// Step is the Runner of the steps of a burst.
type Step struct{ worker.FollowsLinks }

// step is one of them, which a lifecycle.Manager does. Its record and its money are the coordinator's.
type step struct {
	*worker.Job
	work    *pb.BurstWork
	manager *lifecycle.Manager

	mu    sync.Mutex // guards all below
	notes []string   // what was told
	files int64      // that were moved
	bytes int64
}

// notesMost is how many of the things that were told are in a report: the last ones.
const notesMost = 1000

// Run implements worker.Runner.
func (Step) Run(ctx context.Context, j *worker.Job) (report engine.Report, err error) {
	begun := time.Now()
	b := &step{Job: j, work: j.Spec().GetBurst()}
	j.Progress(b)
	err = b.run(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	return engine.Report{Files: b.files, Bytes: b.bytes, Elapsed: time.Since(begun), Notes: b.notes}, err
}

func (b *step) run(ctx context.Context) error {
	known, err := b.Agent().Burst(ctx, &agentv1.ReadBurstRequest{})
	if err != nil {
		return worker.FromAgent(ctx, err)
	}
	declared, record, err := b.read(known)
	if err != nil {
		return err
	}
	if err := b.open(ctx, declared, known); err != nil {
		return err
	}
	switch b.work.GetStep() {
	case pb.BurstStep_BURST_STEP_ESTIMATE:
		return b.estimate(ctx, declared)
	case pb.BurstStep_BURST_STEP_UP, pb.BurstStep_BURST_STEP_STAGE:
		_, err = b.manager.Up(ctx, declared, record)
		return err
	case pb.BurstStep_BURST_STEP_SYNC_BACK:
		b.manager.Release = b.work.GetRelease()
		return b.manager.SyncBack(ctx, record)
	case pb.BurstStep_BURST_STEP_DOWN:
		return b.down(ctx, record)
	case pb.BurstStep_BURST_STEP_REAP:
		return b.reap(ctx, record)
	case pb.BurstStep_BURST_STEP_ADOPT:
		_, err = b.manager.Adopt(ctx, declared, record, b.work.GetAdopt())
		return err
	case pb.BurstStep_BURST_STEP_COSTS:
		return b.costs(ctx)
	}
	return fmt.Errorf("%w: there is no step %v of a burst", mover.ErrUsage, b.work.GetStep())
}

// read reads what is known of the burst: as it is declared now, of UP, ESTIMATE and ADOPT, or as it was applied last.
func (b *step) read(known *agentv1.ReadBurstResponse) (*burst.Burst, *burst.Record, error) {
	var record *burst.Record
	if len(known.GetRecord()) > 0 {
		record = &burst.Record{}
		if err := json.Unmarshal(known.GetRecord(), record); err != nil {
			return nil, nil, fmt.Errorf("%w: the record of burst %s: %w", mover.ErrCorrupt, b.work.GetName(), err)
		}
	}
	if !convert.Declares(b.work.GetStep()) {
		if record == nil {
			return nil, nil, &mover.Error{Op: "find", Location: "burst " + b.work.GetName(), Err: mover.ErrNotExist}
		}
		declared, err := record.Burst()
		return declared, record, err
	}
	all, err := burst.Read("declaration", []byte(b.work.GetDeclaration()))
	if err != nil {
		return nil, nil, err
	}
	return all[0], record, nil
}

// open makes the manager.
func (b *step) open(ctx context.Context, declared *burst.Burst, known *agentv1.ReadBurstResponse) (err error) {
	spec, order := b.Spec(), b.Order()
	request := engine.Request{StateDir: order.GetStateDir(), Logger: b.Log(), Observer: b, Jobs: int(spec.GetOptions().GetJobs()), Bandwidth: spec.GetOptions().GetBytesPerSecond()}
	b.Coordinate(&request)
	if b.manager, err = lifecycle.Open(ctx, lifecycle.Setting{Site: b.Resolver(), Request: request, Around: b.Metered, Log: b.Log()}, declared); err != nil {
		return err
	}
	if b.manager.Book, err = pricing.Read(known.GetPricesName(), []byte(known.GetPrices())); err != nil {
		return err
	}
	if b.manager.Rules, err = burst.ReadAdmission(known.GetAdmissionName(), []byte(known.GetAdmission())); err != nil {
		return err
	}
	b.manager.Purse, b.manager.Find, b.manager.Tell, b.manager.Owner = budgetClient{b.Job}, b.find, b.told, order.GetTask()
	if account := order.GetOwner(); account != "" {
		b.manager.Owner = account
	}
	b.manager.Keep = func(r *burst.Record) error { return b.keepRecord(ctx, r) }
	b.manager.Leases = func(*burst.Burst) []string { return b.leases(ctx) }
	return nil
}

// find is a location of the declaration: of a dataset the replica that the service has chosen.
func (b *step) find(text string) (location.Location, error) {
	if at := b.work.GetReplicas()[text]; at != "" {
		text = at
	}
	l, err := convert.Locate(text)
	if err == nil {
		l, err = b.Resolve(l)
	}
	return l, err
}

// told tells people of a step: at once, and in the report.
func (b *step) told(format string, args ...any) {
	text := strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD")
	b.Job.State(engine.Moving, text)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes = append(b.notes, text)
	b.notes = b.notes[max(len(b.notes)-notesMost, 0):]
}

// keepRecord has the coordinator keep the record: also when this process was told to stop, which is no trouble of the burst.
func (b *step) keepRecord(ctx context.Context, r *burst.Record) error {
	if worker.Stopped(ctx) {
		r.Trouble = ""
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	_, err = b.Agent().KeepBurst(ctx, &agentv1.KeepBurstRequest{Record: text})
	return worker.FromAgent(ctx, err)
}

// leases returns the leases on the burst. When they can not be read, it returns one entry with the error.
func (b *step) leases(ctx context.Context) []string {
	known, err := b.Agent().Burst(ctx, &agentv1.ReadBurstRequest{})
	if err != nil {
		return []string{"somebody, perhaps (" + err.Error() + ")"}
	}
	return known.GetLeases()
}

// found is what a step of a burst has found, as it is in a report.
type found struct {
	Estimate *burst.Estimate `json:"estimate,omitempty"`
	Admitted *burst.Admitted `json:"admitted,omitempty"`
	Verdicts []burst.Verdict `json:"verdicts,omitempty"`
	Costs    []burst.Cost    `json:"costs,omitempty"`
}

func (b *step) finds(f found) error {
	text, err := json.Marshal(f)
	b.Found(string(text))
	return err
}

func (b *step) estimate(ctx context.Context, declared *burst.Burst) error {
	e, by, err := b.manager.Estimate(ctx, declared)
	if err != nil {
		return err
	}
	return b.finds(found{Estimate: &e, Admitted: &by})
}

func (b *step) costs(ctx context.Context) error {
	all, err := b.manager.Costs(ctx, int(b.work.GetDays()))
	if err != nil {
		return err
	}
	return b.finds(found{Costs: all})
}

func (b *step) down(ctx context.Context, r *burst.Record) error {
	if s := b.work.GetSettle(); s != nil {
		if b.manager.Settle = s.AsDuration(); b.manager.Settle == 0 {
			b.manager.Settle = -1
		}
	}
	var paths []burst.Path
	for _, text := range b.work.GetAbandon() {
		paths = append(paths, burst.Path(text)) // the service has read it
	}
	return b.manager.Down(ctx, r, paths)
}

// reap says of what AWS has of the burst whether it may go, and takes it away where that is wanted.
func (b *step) reap(ctx context.Context, r *burst.Record) error {
	all, err := b.manager.Look(ctx, map[string]*burst.Record{r.ID: r})
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(v burst.Verdict) bool { return v.Sight.Tags[burst.TagBurst] != r.ID })
	if err := b.finds(found{Verdicts: all}); err != nil || !b.work.GetTake() {
		return err
	}
	b.manager.Settle = b.work.GetSettle().AsDuration()
	for _, v := range all {
		if !v.Take {
			continue
		}
		if err := b.manager.Reap(ctx, v, r); err != nil {
			return err
		}
	}
	return nil
}

// Item implements engine.Observer.
func (b *step) Item(it engine.Item) {
	b.Job.Item(it)
	if it.Err != nil || it.Kind != mover.File {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files, b.bytes = b.files+1, b.bytes+it.Bytes
}

// State implements engine.Observer: what a copy does is a part of a step, of which it was told.
func (b *step) State(phase engine.Phase, why string) {
	b.mu.Lock()
	if why == "" && len(b.notes) > 0 {
		why = b.notes[len(b.notes)-1]
	}
	b.mu.Unlock()
	b.Job.State(phase, why)
}

// Snapshot implements engine.Live.
func (b *step) Snapshot() engine.Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return engine.Snapshot{FilesDone: b.files, BytesDone: b.bytes}
}
