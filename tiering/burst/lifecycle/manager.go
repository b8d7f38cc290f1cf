package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/aws"
	"datamove.dev/tiering/burst/budget"
	"datamove.dev/tiering/burst/link"
	"datamove.dev/tiering/burst/pricing"
	"datamove.dev/tiering/checkpoint"
)

// cloud is what is asked of AWS. *amazon.Account is one.
type cloud interface {
	fileSystems
	repository
	watching
	Await(ctx context.Context, look func(context.Context) (over bool, err error)) error
}

type fileSystems interface {
	Create(ctx context.Context, w aws.Want) (aws.FileSystem, error)
	FileSystem(ctx context.Context, id string) (aws.FileSystem, error)
	FileSystems(ctx context.Context) ([]aws.FileSystem, error)
	Tag(ctx context.Context, arn string, more map[string]string) error
	Delete(ctx context.Context, id, token string) error
}

type repository interface {
	Associate(ctx context.Context, fs, token, repository string, with map[string]string) (aws.Association, error)
	Associations(ctx context.Context, fs string) ([]aws.Association, error)
	Begin(ctx context.Context, fs, token, kind string, paths []string, report string, with map[string]string) (aws.Task, error)
	Task(ctx context.Context, id string) (aws.Task, error)
	Tasks(ctx context.Context, fs string) ([]aws.Task, error)
	Cancel(ctx context.Context, id string) error
}

type watching interface {
	FileSystemActivity(ctx context.Context, id string, since, now time.Time) (burst.Activity, error)
	Instances(ctx context.Context) ([]aws.Instance, error)
	InstanceActivity(ctx context.Context, id string, since, now time.Time) (burst.Activity, error)
	Stop(ctx context.Context, id string) error
	Costs(ctx context.Context, from, to time.Time) ([]burst.Cost, error)
}

// way is how bytes move. *wan.Way is one.
type way interface {
	Measure(ctx context.Context, from, to location.Location) (burst.Measured, error)
	Send(ctx context.Context, from, to location.Location, toll link.CostGate) (link.Moved, error)
	Empty(ctx context.Context, at location.Location) (bool, error)
	Folder(ctx context.Context, at location.Location) error
	Home(ctx context.Context, from, to location.Location, toll link.CostGate) (link.Moved, error)
	Checkpoints(ctx context.Context, from, to location.Location, profile checkpoint.Profile, exported time.Time, toll link.CostGate) (link.Moved, error)
	Text(ctx context.Context, l location.Location, most int64) ([]byte, error)
	Write(ctx context.Context, l location.Location, text []byte) error
	Remove(ctx context.Context, l location.Location) error
}

// budgetClient is the money. *budget.Ledger is one.
type budgetClient interface {
	Reserve(ctx context.Context, r budget.Request) (budget.Outcome, error)
	Charge(ctx context.Context, r budget.Request) (budget.Outcome, error)
	Settle(ctx context.Context, r budget.Request) (budget.Outcome, error)
	Allow(ctx context.Context, team, burst string, amount pricing.Money) error
}

// Manager works on one burst, which the caller holds. What has no comment has to be given.
type Manager struct {
	Cloud  cloud
	Way    way
	Purse  budgetClient
	Book   *pricing.Book
	Rules  *burst.Admission
	Keep   func(*burst.Record) error // makes a record durable
	Find   func(text string) (location.Location, error)
	Bucket string                                    // of the tier of the burst
	Below  string                                    // its prefix in the bucket; "" is the whole bucket
	Where  func(ctx context.Context) (string, error) // the region in which the bucket is
	Owner  string                                    // the caller

	Now     func() time.Time                 // nil means time.Now
	Tell    func(format string, args ...any) // each step, for people; may be nil
	Log     *slog.Logger                     // nil means no log
	Settle  time.Duration                    // how long after the last export clients have to have written nothing: figures of AWS come late. 0 means burst.DefaultSettle; less believes that no client runs
	Release bool                             // what has come home, verified, gives back its space on the file system
	Leases  func(b *burst.Burst) []string    // the holders that need a burst; may be nil
}

func (l *Manager) now() time.Time {
	if l.Now == nil {
		return time.Now().UTC()
	}
	return l.Now().UTC()
}

func (l *Manager) tell(format string, args ...any) {
	if l.Tell != nil {
		l.Tell(format, args...)
	}
}

// work is a leg at work on a burst.
type work struct {
	*Manager
	record *burst.Record
	burst  *burst.Burst
}

func (l *Manager) work(r *burst.Record) (*work, error) {
	b, err := r.Burst()
	if err != nil {
		return nil, err
	}
	return &work{l, r, b}, nil
}

// keep makes the record durable.
func (w *work) keep() error {
	w.record.Changed = w.now()
	return w.Keep(w.record)
}

// ended notes why a step did not go on, and gives it back.
func (w *work) ended(err error) error {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == w.record.Trouble {
		return err
	}
	w.record.Trouble = text
	return errors.Join(err, w.keep())
}

// enter has the burst in a state, durably.
func (w *work) enter(s burst.State) error {
	if s == w.record.State {
		return nil
	}
	if err := w.record.Enter(s, w.now()); err != nil {
		return err
	}
	return w.keep()
}

// cloudly is a location of the burst in its bucket.
func (w *work) cloudly(path burst.Path) (location.Location, error) {
	return w.Find(w.burst.Location(path))
}

// repository is the prefix of the burst as AWS is told of it, with a slash at its end.
func (w *work) repository() string {
	return "s3://" + w.Bucket + "/" + mover.Join(w.Below, w.burst.Prefix()) + "/"
}

// home is a location here.
func (w *work) home(text string) (location.Location, error) {
	at, err := w.Find(text)
	if err != nil {
		return at, fmt.Errorf("%s: %w", mover.Printable(text), err)
	}
	return at, nil
}

type place = location.Location
