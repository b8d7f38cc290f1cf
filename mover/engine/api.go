package engine

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/backend/throttle"
	"datamove.dev/mover/engine/bufpool"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/rate"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/location"
)

// Work is what a request asks for.
type Work uint8

// The kinds of work.
const (
	Copy   Work = iota + 1 // bring over what is new or differs; remove nothing
	Sync                   // Copy, and with Delete remove what the source has not
	Verify                 // compare contents; write nothing
)

// Request is one task: what to do, from where, to where, and how. The zero value
// of every field but Work, Source and Target is a good default.
type Request struct {
	Work   Work
	Source location.Location // a directory, a file, or a prefix
	Target location.Location
	// Names are several sources that go below Target under their own names (copy
	// --into); Source is unused then.
	Sources []location.Location

	DryRun             bool
	CopyAll            bool           // copy everything again
	CompareBy          plan.CompareBy // what says of files of equal size that they are the same; 0 is the mtime
	Verify             mover.Level    // at least this level for every file; 0 is the target's own
	Preserve           mover.Facts    // facts to compare and to set; 0 is all that both sides can keep
	Filter             *plan.Filter   // nil takes everything
	Manifest           string         // Verify: a manifest file to compare Target with, instead of Source
	ExpectedManifest   Expectation    // what the source has to be; nil takes what is there
	AllowMissingSource bool           // Copy: a source that is not there has nothing to copy
	Reflink            Reflink        // POSIX: whether to share blocks
	Follow             bool           // POSIX: links of the source are what they lead to

	Delete      bool      // Sync: remove what the source has not
	DeleteFirst bool      // with Delete: remove before anything is written, after a walk of its own of both sides
	MaxDelete   MaxDelete // refuse to remove more than this; the zero value is no limit
	Backup      string    // directory or prefix for what is replaced and removed

	Jobs      int                 // calls in flight; 0 climbs by measured goodput
	Bandwidth int64               // bytes per second; 0 is unlimited
	Limiter   *throttle.Bandwidth // what to read within in its place, at a rate that others may change; nil is Bandwidth
	Memory    int64               // bytes of buffers; 0 is 128 MiB
	OnNoSpace OnNoSpace           // what to do when the target is full
	Released  Released            // what to do with files that have their content in an archive only
	StateDir  string              // journals and locks; "" is $XDG_STATE_HOME/datamove
	Logger    *slog.Logger        // nil means no log
	Observer  Observer            // nil is told nothing
	Lead      *Coordination       // nil: this process is on its own
}

// Expectation opens the manifest of what a source has to be: see manifest.Expect. A
// helper opens none; its lead knows.
type Expectation func(context.Context) (io.ReadCloser, error)

// Reflink says whether blocks may be shared with the source.
type Reflink = posix.Reflink

// The ways to treat reflinks.
const (
	ReflinkAuto  = posix.ReflinkAuto
	ReflinkNever = posix.ReflinkNever
)

// OnNoSpace says what happens when the target has no room.
type OnNoSpace uint8

// The ways to treat a full target.
const (
	NoSpaceWait OnNoSpace = iota // pause, say why, go on when there is room
	NoSpaceFail                  // end with mover.ErrFull
)

// Released says what happens to files that have their content in the archive of their file
// system only.
type Released = transfer.Released

// The ways to treat them.
const (
	ReleasedRestore = transfer.ReleasedRestore
	ReleasedSkip    = transfer.ReleasedSkip
	ReleasedFail    = transfer.ReleasedFail
)

// MaxDelete bounds removals: at most Entries of them, and at most Percent of
// what the target held. Set says that there is a bound.
type MaxDelete struct {
	Set     bool
	Entries int64
	Percent float64 // used when greater than 0, instead of Entries
}

// Observer watches a task. Its methods are called from many goroutines and must
// not block for long.
type Observer interface {
	// Item is told of each entry that was dealt with, after it is durable where
	// the target promises that. Entries that were already there are not told.
	Item(Item)
	// State is told when the task begins another phase, or pauses with a reason. A reason beside a phase that is no wait is what is going to happen:
	// the target has too little room.
	State(phase Phase, why string)
}

// RetryObserver is an Observer that is told of the calls that State is told of in words: how long they have failed, and when they are given up.
type RetryObserver interface {
	Observer
	// Retries is told before State, and with nil when no call fails any more.
	Retries(w *retry.Wait)
}

// Phase is what a task is doing.
type Phase string

// The phases of a task.
const (
	Locking  Phase = "locking"
	Moving   Phase = "moving"  // walking, planning and transferring at once
	Paused   Phase = "paused"  // waiting for room
	Waiting  Phase = "waiting" // for a place that does not answer, or not well, or for files that are to come back from an archive
	Removing Phase = "removing"
	Closing  Phase = "closing" // directory times, manifest
	Finished Phase = "finished"
)

// Item is what became of one entry.
type Item struct {
	Name   string
	Op     plan.Op
	Kind   mover.Kind
	Bytes  int64       // content of the entry
	Level  mover.Level // how the content was checked
	CRC    uint64      // of the content, when HasCRC
	HasCRC bool
	Why    string // why it was done: "new", "size differs"
	Err    error  // nil when it is done
}

// Live is a running task's counters, safe to read at any time.
type Live interface {
	// Snapshot returns the counters of this moment.
	Snapshot() Snapshot
}

// Snapshot is the progress of a task at one moment.
type Snapshot struct {
	Planned      plan.Totals // what is known to be to do so far
	PlanComplete bool        // both walks have ended: Planned is the whole
	FilesDone    int64
	BytesDone    int64 // bytes that have passed or were cloned, of files in work too
	Known        int64 // of BytesDone: those that an earlier run has brought
	Failed       int64
	InFlight     int64         // parts and batches in work
	SourceWait   time.Duration // summed over workers: time spent reading
	TargetWait   time.Duration // summed over workers: time spent writing and publishing
	LinkWait     time.Duration // summed over workers: time spent waiting for bytes on their way, from or to a remote place
	LimitWait    time.Duration // summed over workers: time spent waiting for the bandwidth that was asked for
	QueueWait    time.Duration // summed over workers: time spent waiting for a turn among tasks
	Slowest      string        // the name in work for the longest time
	SlowestSince time.Duration
	Rates        *rate.Reading // what the worker of a task reads that is not in this process; nil is not told
}

// Work is what a meter is told.
func (s *Snapshot) Work() rate.Work {
	return rate.Work{
		Files: s.FilesDone, Bytes: s.BytesDone, Known: s.Known, Complete: s.PlanComplete,
		PlannedFiles: s.Planned.Files + s.Planned.Compares, PlannedBytes: s.Planned.Bytes + s.Planned.CompareBytes,
	}
}

// Report is the end of a task.
type Report struct {
	Planned  plan.Totals
	Files    int64 // contents moved
	Bytes    int64
	Others   int64 // directories, links, special files made
	Updated  int64 // entries that got new facts
	Removed  int64
	Kept     int64                 // entries that were already there
	Levels   map[mover.Level]int64 // files by level
	Failures []Item                // the first 1,000
	Failed   int64
	Elapsed  time.Duration
	Notes    []string // what a user should know: a fact that could not be kept, a host-local lock
}

// Task is a request that is being worked on.
type Task struct {
	run *run
}

// Start checks the request, opens both places, takes the lock, and begins. An
// error here means that nothing was changed.
func Start(ctx context.Context, r Request, open Opener) (*Task, error) { return start(ctx, r, open) }

// Wait returns when the task has ended. The report is valid also with an error;
// the error is of the gravest kind among the failures (see [Gravest]).
func (t *Task) Wait() (Report, error) { return t.run.wait() }

// Snapshot implements Live.
func (t *Task) Snapshot() Snapshot { return t.run.snapshot() }

// Plan yields the actions of the request without doing any of them. What can
// only be told by looking at contents is looked at.
func Plan(ctx context.Context, r Request, open Opener) iter.Seq2[plan.Action, error] {
	return planOnly(ctx, r, open)
}

// Opener opens the place of a location. It is how tiers, credentials and
// endpoints come in; cmd has one that knows the configuration.
type Opener func(ctx context.Context, l location.Location, o OpenOptions) (mover.Backend, error)

// OpenOptions says what a place is opened for.
type OpenOptions struct {
	Write    bool   // create the root when it is missing
	Backup   string // where replaced and removed entries go
	Reflink  Reflink
	Layouts  bool // keep how files are spread over targets: mover.FactLayout
	StateDir string
	Buffers  *bufpool.Pool // memory for bytes on their way; nil is the pool of the process
	Logger   *slog.Logger
}

// List yields the entries below l: all of them, or one level.
func List(ctx context.Context, l location.Location, recursive bool, open Opener) iter.Seq2[mover.Entry, error] {
	return list(ctx, l, recursive, open)
}

// Usage counts what lies below l.
func Usage(ctx context.Context, l location.Location, open Opener) (plan.Totals, error) {
	return usage(ctx, l, open)
}

// RemoveAll removes l and everything below it, deepest first, and tells observer
// of each entry. It needs the lock of the place.
func RemoveAll(ctx context.Context, l location.Location, r Request, open Opener) (Report, error) {
	return removeAll(ctx, l, r, open)
}

// WriteManifest writes the manifest of what lies below l, contents hashed, to w.
func WriteManifest(ctx context.Context, l location.Location, w io.Writer, open Opener) error {
	return writeManifest(ctx, l, w, open)
}
