package transfer

import (
	"context"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/concurrency"
	"datamove.dev/mover/engine/journal"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer/feed"
)

// Options says how to transfer. The zero value works, but for By.
type Options struct {
	By           mover.WriterID              // the writer of the drafts
	Jobs         int                         // units in work; 0 climbs within the traits of both places
	Gate         *concurrency.Gate           // how many units may be in work now; nil is NewGate of the traits and Jobs
	Plan         plan.Options                // as the actions were planned; Plan.Preserve is what is carried over
	Level        mover.Level                 // least integrity of every file; 0 is the target's own
	Journal      Journal                     // nil remembers nothing for a later run
	Observer     Observer                    // nil is told nothing
	Counters     *Counters                   // nil counts nothing
	Allow        func(entries int64) error   // asked once before that many are removed; nil allows all
	ConfirmLease func(context.Context) error // asked before anything is published or removed; an error, as mover.ErrHeld, ends the run. nil is always ours
	AcquireSlot  AcquireSlot                 // asked before each unit; nil lets every one begin
	Helpers      Helpers                     // other processes that take works of this run; nil are none
	Tidy         func(context.Context)       // called when all else is done and nothing failed, before directories get their facts; nil does nothing
	Released     Released                    // what to do with files that have their content in an archive only
	FailFull     bool                        // end when the target is full, instead of waiting for room
	SpoolDir     string                      // where what comes last waits; "" is os.TempDir
	Logger       *slog.Logger                // nil means no log
}

// AcquireSlot waits until a unit may be done.
type AcquireSlot func(ctx context.Context, a SlotRequest) (Slot, error)

// SlotRequest is what a turn is wanted for.
type SlotRequest struct {
	Bytes, Ops int64 // of the unit, about
	Most       int   // turns that the run can use at one time
	Fill       int   // turns like this one that are as many as are good for the node, as far as the run knows
}

// Slot is a turn.
type Slot struct {
	Done func(moved int64) // called at its end, with the bytes that it moved
	// Alone says that no other run wants turns: then the gate finds out how many units to have in work.
	// Otherwise the giver of the turns decides, up to SlotRequest.Most.
	Alone bool
}

// Journal remembers on this host what an interrupted run had done.
// *journal.Journal is one; its methods are described there.
type Journal interface {
	Begin(ctx context.Context, r journal.Record) (id uint64, err error)
	Part(ctx context.Context, id uint64, r mover.Receipt) error
	Mark() journal.Mark
	DurableUpTo(ctx context.Context, m journal.Mark, ids ...uint64) error
	Stage(ctx context.Context, batch []journal.Record) (id uint64, err error)
	Clear(ctx context.Context, ids ...uint64) error
	Share(ctx context.Context, id uint64) error
	Lookup(name string) (r journal.Record, id uint64, ok bool)
	Left(ctx context.Context) iter.Seq2[uint64, journal.Record]
}

// Observer is told what became of every action. Its methods are called from many
// goroutines.
type Observer interface {
	// Result is called once for each action that has failed, or that is done and
	// durable where the target promises that. A run that has to stop leaves actions
	// without a result.
	Result(Result)
	// Paused is called with a reason when the run waits for room, and with nil when it goes on.
	Paused(why error)
	// Step is called when the run enters its last steps: "removing", "closing".
	Step(name string)
}

// Result is what became of one action.
type Result struct {
	Seq   int64       // place of the action in the stream, from 1; 0 is the root, -1 an error of a walk
	Op    plan.Op     // what was done in the end; a Compare ends as something else
	Entry mover.Entry // as it is at the target now; ETag and CRC where they are known
	Level mover.Level // of files that moved their content
	Why   string
	// Skipped says that the entry was left out, as it was asked for: the target has it as
	// it was before, or not at all.
	Skipped bool
	Err     error
}

// Counters is the live state of a run. All fields may be read at any time.
type Counters struct {
	Files      atomic.Int64 // contents moved or cloned, and entries that a closer look found to need none
	Looks      atomic.Int64 // of Files: the latter
	Bytes      atomic.Int64 // bytes that have passed, of files in work too
	Known      atomic.Int64 // of Bytes: those that count as done and did not pass in this run
	Failed     atomic.Int64
	LinksLost  atomic.Int64 // names that the target could not have as hard links: they are files of their own
	InFlight   atomic.Int64 // units in work
	SourceWait atomic.Int64 // ns, summed over workers, as all waits
	TargetWait atomic.Int64
	LinkWait   atomic.Int64 // for bytes on their way, from or to a place that is remote
	InWork     InWork
}

// passing are the counters of bytes that pass.
func (n *Counters) passing() feed.Counters {
	return feed.Counters{Bytes: &n.Bytes, SourceWait: &n.SourceWait, TargetWait: &n.TargetWait, LinkWait: &n.LinkWait}
}

// Look counts the bytes of a file that is compared while they are read, and returns how many
// they were.
func (n *Counters) Look(look func(passed func(bytes int64)) (plan.Action, error)) (a plan.Action, read int64, err error) {
	var all atomic.Int64
	a, err = look(func(bytes int64) {
		all.Add(bytes)
		n.Bytes.Add(bytes)
	})
	return a, all.Load(), err
}

// Looked counts a file as compared, of which so many bytes did not have to be read.
func (n *Counters) Looked(unread int64) {
	n.Files.Add(1)
	n.Looks.Add(1)
	n.Bytes.Add(unread)
	n.Known.Add(unread)
}

const (
	triesMost    = 3                // of an entry that changes while it is read, or arrives broken
	durableBytes = 1 << 30          // of one large draft, between two syncs
	durableEvery = 30 * time.Second // between two syncs of one large draft
	stagedDrafts = 1 << 14          // finished drafts that wait for one Publish, at most
	unsyncedMost = 1 << 12          // results that wait for one Sync, at most
	appearsPause = 100 * time.Millisecond
	appearsMost  = 30 * time.Second // that a store has to put the parts of an earlier run together
)
