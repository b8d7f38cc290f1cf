package budget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst/pricing"
)

// Log keeps entries for good, in order. The coordinator has one on its state.
type Log interface {
	// Read calls each for the entries after the first n, in order. An error of each ends it.
	Read(ctx context.Context, n int64, each func(Entry) error) error
	// Append makes e the entry after the first n, durable when it returns nil. mover.ErrChanged, and nothing is appended: there are others behind these by now.
	Append(ctx context.Context, n int64, e Entry) error
}

// Request is what a ledger is asked to note.
type Request struct {
	Team   string
	Burst  string
	Amount pricing.Money // of Settle it does not count
	Why    string        // for people, at most 1024 bytes
	Key    string        // says which one it is: the same again changes nothing
}

// Outcome is what was noted.
type Outcome struct {
	Balance  Balance       // after it
	Left     pricing.Money // reserved for the burst and not spent, after it
	Covered  pricing.Money // of a charge: what was reserved
	Beyond   pricing.Money // of a charge: what was not
	Freed    pricing.Money // of a release or settlement
	Repeated bool          // nothing has changed: it was noted before, or there was nothing to note
	Warning  *Warning      // nil, but when this entry brings its team over the share of its cap from which on it is said
}

// Ledger has the accounts of teams, on a log.
type Ledger struct {
	log   Log
	clock func() time.Time

	mu       sync.Mutex // guards what follows
	accounts map[string]Account
	state    State
	n        int64 // entries of the log that are in state
}

// Options of a ledger.
type Options struct {
	Now func() time.Time // nil means time.Now
}

// New reads a log, and keeps the accounts of teams with it. A team without one has no money. Accounts that say nothing are mover.ErrUsage, a log that is damaged mover.ErrCorrupt.
func New(ctx context.Context, log Log, accounts []Account, o Options) (*Ledger, error) {
	l := &Ledger{log: log, clock: o.Now}
	if l.clock == nil {
		l.clock = time.Now
	}
	if _, err := l.SetAccounts(ctx, accounts); err != nil {
		return nil, err
	}
	return l, nil
}

// SetAccounts puts other caps in the place of all that there are. What is reserved stays reserved. It returns a warning for each team that was not to be warned with its old cap, and is with the new.
func (l *Ledger) SetAccounts(ctx context.Context, accounts []Account) (warnings []*Warning, err error) {
	fresh := map[string]Account{}
	for _, a := range accounts {
		if err := a.check(); err != nil {
			return nil, err
		}
		if _, twice := fresh[a.Team]; twice {
			return nil, fmt.Errorf("%w: team %s has two accounts", mover.ErrUsage, a.Team)
		}
		fresh[a.Team] = a
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(ctx); err != nil {
		return nil, err
	}
	now := l.clock()
	for _, a := range accounts {
		old, had := l.accounts[a.Team]
		if b := l.state.Balance(a, now); had && b.warns(a) && !l.state.Balance(old, now).warns(old) {
			warnings = append(warnings, &Warning{b})
		}
	}
	l.accounts = fresh
	return warnings, nil
}

// Reserve sets an amount aside for a burst, on top of what is reserved for it. What the cap has no room for is a CapError (mover.ErrRefused); a team without an account mover.ErrPermission.
func (l *Ledger) Reserve(ctx context.Context, r Request) (Outcome, error) {
	return l.note(ctx, Reserve, r, func(e *Entry, _ *Outcome) error {
		a, ok := l.accounts[r.Team]
		if !ok {
			return fmt.Errorf("%w: team %s has no budget here: an account with a cap has to be declared first", mover.ErrPermission, mover.Printable(r.Team))
		}
		return l.state.MayReserve(a, r.Burst, r.Amount, e.Time)
	})
}

// Charge notes what a burst has really cost. What was not reserved for it is a CapError (mover.ErrRefused), and the outcome says how much of which: it is noted all the same. A charge that is repeated is no error.
func (l *Ledger) Charge(ctx context.Context, r Request) (Outcome, error) {
	var beyond *CapError
	out, err := l.note(ctx, Charge, r, func(_ *Entry, out *Outcome) error {
		beyond = nil
		left := l.state.Left(r.Team, r.Burst)
		out.Covered = min(left, r.Amount)
		if out.Beyond = r.Amount - out.Covered; out.Beyond > 0 {
			beyond = &CapError{Op: string(Charge), Burst: r.Burst, Asked: r.Amount, Beyond: out.Beyond, Left: left, Ask: l.accounts[r.Team].Ask}
		}
		return nil
	})
	if err != nil || out.Repeated || beyond == nil {
		return out, err
	}
	beyond.Balance = out.Balance
	return out, beyond
}

// Release frees part of what is reserved for a burst and not spent. More than that is mover.ErrUsage.
func (l *Ledger) Release(ctx context.Context, r Request) (Outcome, error) {
	return l.note(ctx, Release, r, func(_ *Entry, out *Outcome) error {
		if left := l.state.Left(r.Team, r.Burst); r.Amount > left {
			return fmt.Errorf("%w: %v can not be released of burst %s of team %s: %v is reserved and not spent", mover.ErrUsage, r.Amount, r.Burst, r.Team, left)
		}
		out.Freed = r.Amount
		return nil
	})
}

// Settle ends a burst: what is reserved for it and not spent is free. A burst that is not open is no error.
func (l *Ledger) Settle(ctx context.Context, r Request) (Outcome, error) {
	return l.note(ctx, Settle, r, func(e *Entry, out *Outcome) error {
		e.Amount = l.state.Left(r.Team, r.Burst)
		out.Freed = e.Amount
		return nil
	})
}

// Adjust makes what a team has spent on a day what AWS's Cost Explorer says of it, in whatever month it is noted: the difference becomes an entry. The same day again replaces what was said of it
// before. A day is a calendar day in UTC, of this month or the one before; another one is mover.ErrUsage.
func (l *Ledger) Adjust(ctx context.Context, team string, on time.Time, billed pricing.Money, why string) (Outcome, error) {
	on = on.UTC()
	r := Request{Team: team, Amount: billed, Why: why, Key: "-"}
	return l.note(ctx, Adjust, r, func(e *Entry, _ *Outcome) (err error) {
		e.Day, e.Key = on.Format(time.DateOnly), fmt.Sprintf("entry %d", l.n+1) // told apart by its place: the same figure may come back after another one
		if e.Amount, err = l.state.Differs(team, on, billed, e.Time); err == nil && e.Amount == 0 {
			return errNothing
		}
		return err
	})
}

// Allow says whether a burst may spend an amount now: asked before bytes are sent. CapError (mover.ErrRefused): no. It notes nothing.
func (l *Ledger) Allow(ctx context.Context, team, burst string, amount pricing.Money) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(ctx); err != nil {
		return err
	}
	if amount < 0 {
		return fmt.Errorf("%w: %v can not be spent", mover.ErrUsage, amount)
	}
	return l.state.MaySpend(l.account(team), burst, amount, l.clock())
}

// Balance says how a team stands. One without an account has a cap of nothing.
func (l *Ledger) Balance(ctx context.Context, team string) (Balance, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(ctx); err != nil {
		return Balance{}, err
	}
	return l.state.Balance(l.account(team), l.clock()), nil
}

// Bursts are all that are open, by team and name.
func (l *Ledger) Bursts(ctx context.Context) ([]OpenBurst, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(ctx); err != nil {
		return nil, err
	}
	return l.state.Bursts(), nil
}

func (l *Ledger) account(team string) Account {
	if a, ok := l.accounts[team]; ok {
		return a
	}
	return Account{Team: team}
}

// errNothing says that there is nothing to note.
var errNothing = errors.New("nothing to note")

// note decides about an entry and appends it; when another process was faster it decides again.
func (l *Ledger) note(ctx context.Context, kind Kind, r Request, decide func(*Entry, *Outcome) error) (Outcome, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		out, err := l.try(ctx, kind, r, decide)
		if !errors.Is(err, mover.ErrChanged) {
			return out, err
		}
		if ctx.Err() != nil {
			return Outcome{}, context.Cause(ctx)
		}
	}
}

func (l *Ledger) try(ctx context.Context, kind Kind, r Request, decide func(*Entry, *Outcome) error) (out Outcome, err error) {
	if err := l.read(ctx); err != nil {
		return out, err
	}
	e := Entry{Time: l.state.at(l.clock()), Kind: kind, Team: r.Team, Burst: r.Burst, Amount: r.Amount, Why: r.Why, Key: r.Key}
	if kind == Adjust {
		e.Day = e.Time.Format(time.DateOnly) // until it is decided which
	}
	if err := e.check(); err != nil {
		return out, err
	}
	if l.state.Knows(e) {
		return l.unchanged(e), nil
	}
	switch err := decide(&e, &out); {
	case errors.Is(err, errNothing):
		return l.unchanged(e), nil
	case err != nil:
		out := l.unchanged(e)
		out.Repeated = false
		return out, err
	}
	return out, l.append(ctx, e, &out)
}

// unchanged is the outcome when nothing is noted.
func (l *Ledger) unchanged(e Entry) Outcome {
	return Outcome{Repeated: true, Balance: l.state.Balance(l.account(e.Team), e.Time), Left: l.state.Left(e.Team, e.Burst)}
}

// append notes an entry, and says how its team stands then.
func (l *Ledger) append(ctx context.Context, e Entry, out *Outcome) error {
	a := l.account(e.Team)
	before := l.state.Balance(a, e.Time)
	if err := e.check(); err != nil {
		return err
	}
	if err := l.state.fits(e); err != nil {
		return err
	}
	if err := l.log.Append(ctx, l.n, e); err != nil {
		return err
	}
	l.n++
	if _, err := l.state.Apply(e); err != nil {
		return err // it was asked before: this is a mistake of ours
	}
	out.Balance, out.Left = l.state.Balance(a, e.Time), l.state.Left(e.Team, e.Burst)
	if out.Balance.warns(a) && !before.warns(a) {
		out.Warning = &Warning{out.Balance}
	}
	return nil
}

// read takes in what others have appended.
func (l *Ledger) read(ctx context.Context) error {
	return l.log.Read(ctx, l.n, func(e Entry) error {
		if _, err := l.state.Apply(e); err != nil {
			return fmt.Errorf("%w: entry %d of the ledger: %v", mover.ErrCorrupt, l.n+1, err) //nolint:errorlint // what was fine when it was noted is damage now, and no fault of the caller
		}
		l.n++
		return nil
	})
}
