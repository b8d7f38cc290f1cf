package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"sync/atomic"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/bufpool"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
)

// Options says how a vault is used. The zero value works, but for By and StateDir.
type Options struct {
	By       mover.WriterID // the owner of these drafts; the same Task after a crash, and used by no other vault
	StateDir string         // where it is noted what is being written; of this vault alone
	For      string         // the file system that these copies are of, by a unique name; a backend with the copies of another one is refused. "" is not compared
	Jobs     int            // parts of one file in work; 0 means 4
	Buffers  *bufpool.Pool  // memory for bytes on their way to a file; nil is the pool of the process
	Pay      Pay            // asked before each part of a content; nil lets all pass
	Logger   *slog.Logger   // nil means no log
}

// Pay waits until so many bytes and operations may pass: to the place, or from it.
type Pay func(ctx context.Context, write bool, bytes, ops int64) error

// turn asks before each unit of a run.
func (p Pay) turn(write bool) transfer.AcquireSlot {
	if p == nil {
		return nil
	}
	return func(ctx context.Context, a transfer.SlotRequest) (transfer.Slot, error) {
		return transfer.Slot{Done: func(int64) {}, Alone: true}, p(ctx, write, a.Bytes, a.Ops)
	}
}

// Archive holds copies in a place.
type Archive struct {
	place *sealed
	o     Options
	level mover.Level
	notes notes
	dirs  made
}

// Item is an open file and the key of its copy.
type Item struct {
	Key  string   // a name below the root of the place, see mover.ValidName
	File *os.File // Put reads it, Get fills it: it is empty then
	// Of Put: the facts of the file. Only those that are Known are kept; Name, Kind and
	// Size are not looked at.
	Facts  mover.Entry
	Origin string // of Put: where the file is, for people; "" is not known
	Size   int64  // of the content, in bytes
	// Moved counts the bytes that have passed; nil counts nothing. What has to be sent
	// again counts again.
	Moved *atomic.Int64
	// Mine is asked by Put right before the copy becomes visible, and may be asked again
	// after it; an error keeps the old copy. nil says yes.
	Mine func(context.Context) error
}

// moved counts.
func (i *Item) moved(n int) {
	if i.Moved != nil {
		i.Moved.Add(int64(n))
	}
}

// Open begins to use a place, which stays the caller's, and removes what an earlier
// process of the same owner had left half written. A place that is not the one that was
// used with this Options.StateDir before, or holds the copies of another one, is refused:
// see [IdentityKey] and [ForKey].
func Open(ctx context.Context, place mover.Backend, o Options) (*Archive, error) {
	if o.Jobs <= 0 {
		o.Jobs = 4
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	v := &Archive{place: &sealed{Backend: place}, o: o, level: mover.Server, notes: notes{dir: o.StateDir}}
	if place.Capabilities().Level < mover.Server {
		v.level = mover.Read
	}
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return nil, err
	}
	if err := v.identify(ctx); err != nil {
		return nil, err
	}
	if err := v.bind(ctx); err != nil {
		return nil, err
	}
	return v, v.sweep(ctx)
}

// Put makes the copy of it.Key, in the place of the one that is there.
func (v *Archive) Put(ctx context.Context, it Item) error {
	if err := v.put(ctx, &it); err != nil {
		return &mover.Error{Op: "archive", Location: v.place.String(), Name: it.Key, Err: err}
	}
	return nil
}

func (v *Archive) put(ctx context.Context, it *Item) error {
	if it.Key == "" || !mover.ValidName(it.Key) {
		return fmt.Errorf("%w: the key %q", mover.ErrUsage, it.Key)
	}
	source, err := openFile(it)
	if err != nil {
		return err
	}
	there, err := v.place.Stat(ctx, it.Key)
	if err != nil && !errors.Is(err, mover.ErrNotExist) {
		return err
	}
	note, err := v.notes.begin(it.Key)
	if err != nil {
		return err
	}
	if err := v.makeDirs(ctx, it.Key); err != nil {
		return err
	}
	a := plan.Action{Op: plan.Create, Source: source.entry, Target: there, Why: plan.WhyFull}
	if there.Kind != 0 {
		a.Op = plan.Replace
	}
	err = v.run(ctx, source, v.place, a, transfer.Options{Level: v.level, ConfirmLease: source.mine, AcquireSlot: v.o.Pay.turn(true)})
	if source.changed() != nil && !errors.Is(err, mover.ErrChanged) && err != nil {
		err = fmt.Errorf("%w: %w", mover.ErrChanged, err)
	}
	if errors.Is(err, mover.ErrNotExist) { // another process has removed directories
		v.dirs.forget()
	}
	return v.notes.end(ctx, note, err)
}

// Get fills it.File with the copy of it.Key, and brings it to stable storage.
func (v *Archive) Get(ctx context.Context, it Item) error {
	if err := v.get(ctx, &it); err != nil {
		return &mover.Error{Op: "restore", Location: v.place.String(), Name: it.Key, Err: err}
	}
	return nil
}

func (v *Archive) get(ctx context.Context, it *Item) error {
	e, err := v.place.Stat(ctx, it.Key)
	switch {
	case err != nil:
		return err
	case e.Kind != mover.File || e.Size != it.Size:
		return fmt.Errorf("%w: the copy is a %v of %d bytes, the file has %d", mover.ErrCorrupt, e.Kind, e.Size, it.Size)
	}
	target := &upload{item: it, buffers: v.o.Buffers, jobs: v.o.Jobs}
	a := plan.Action{Op: plan.Create, Source: e, Why: plan.WhyFull}
	return v.run(ctx, &checked{Backend: v.place.Backend}, target, a, transfer.Options{Level: mover.Written, AcquireSlot: v.o.Pay.turn(false)})
}

// run moves one entry. An error of it is the error of the run.
func (v *Archive) run(ctx context.Context, source mover.Source, target mover.Backend, a plan.Action, o transfer.Options) error {
	var fate outcome
	o.By, o.Jobs, o.Observer, o.FailFull, o.SpoolDir, o.Logger = v.o.By, v.o.Jobs, &fate, true, v.o.StateDir, v.o.Logger
	if a.Source.Size <= target.Capabilities().SmallBytes {
		o.Jobs = 1
	}
	one := func(yield func(plan.Action, error) bool) { yield(a, nil) }
	err := transfer.Run(ctx, source, target, iter.Seq2[plan.Action, error](one), o)
	if err == nil {
		err = fate.of(a.Source.Name)
	}
	return err
}

// Delete removes the copy of a key. That there is none is no error.
func (v *Archive) Delete(ctx context.Context, key string) error {
	err := v.remove(ctx, key)
	if err != nil {
		err = &mover.Error{Op: "remove", Location: v.place.String(), Name: key, Err: err}
	}
	return err
}

func (v *Archive) remove(ctx context.Context, key string) error {
	if key == "" || !mover.ValidName(key) {
		return fmt.Errorf("%w: the key %q", mover.ErrUsage, key)
	}
	e, err := v.place.Stat(ctx, key)
	if err == nil {
		err = v.place.Remove(ctx, e, v.o.By)
	}
	if err == nil || errors.Is(err, mover.ErrNotExist) {
		return v.place.Sync(ctx)
	}
	return err
}
