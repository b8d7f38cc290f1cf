package budget

import (
	"fmt"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst/pricing"
)

// Period is how long a cap lasts.
type Period string

// Periods.
const (
	Month Period = "month" // what was spent counts until the calendar month is over, in UTC
	Total Period = "total" // for good
)

// Account is a team and what it may spend.
type Account struct {
	Team   string
	Cap    pricing.Money // 0 is nothing at all
	Period Period        // empty means Month
	WarnAt int           // percent of the cap from which on it is said; 0 means 80
	Ask    string        // the address to ask for more: "storage-ops@example.org"; empty is said as "the owner of the budget"
}

// check refuses an account that says nothing: mover.ErrUsage.
func (a Account) check() error {
	if err := (Entry{Kind: Reserve, Team: a.Team, Burst: "-", Key: "-", Why: a.Ask}).check(); err != nil {
		return err
	}
	switch {
	case a.Period != "" && a.Period != Month && a.Period != Total:
		return fmt.Errorf("%w: the period of team %s is %q, want month or total", mover.ErrUsage, a.Team, string(a.Period))
	case a.Cap < 0 || a.Cap > pricing.MoneyMost:
		return fmt.Errorf("%w: the cap of team %s is %v, want $0.00 to %v", mover.ErrUsage, a.Team, a.Cap, pricing.MoneyMost)
	case a.WarnAt < 0 || a.WarnAt > 100:
		return fmt.Errorf("%w: team %s is to be warned at %d percent, want 1 to 100", mover.ErrUsage, a.Team, a.WarnAt)
	}
	return nil
}

// Balance is how an account stands.
type Balance struct {
	Team     string        `json:"team"`
	Period   string        `json:"period"` // "2026-11", or "total"
	Cap      pricing.Money `json:"cap"`
	Spent    pricing.Money `json:"spent"`    // in the period
	Reserved pricing.Money `json:"reserved"` // for open bursts, and not spent
	Free     pricing.Money `json:"free"`     // of the cap; negative when the cap was lowered, or more was spent than reserved
}

// warns reports whether so much of the cap is spent and reserved that it has to be said.
func (b Balance) warns(a Account) bool {
	percent := a.WarnAt
	if percent == 0 {
		percent = 80
	}
	// Both sides are below 2^62 / 100: sums are bounded by State.
	return b.Spent+b.Reserved > 0 && (b.Spent+b.Reserved) >= b.Cap/100*pricing.Money(percent)+b.Cap%100*pricing.Money(percent)/100
}

// Warning is for the people of a team with a cap that is nearly reached.
type Warning struct{ Balance Balance }

func (w *Warning) String() string {
	b := w.Balance
	return fmt.Sprintf("team %s has spent %v and reserved %v of its cap of %v (%s): %v is left", b.Team, b.Spent, b.Reserved, b.Cap, b.Period, max(b.Free, 0))
}

// CapError says that there is no money for something. It is mover.ErrRefused.
type CapError struct {
	Op      string // "reserve", "spend", "charge"
	Burst   string
	Asked   pricing.Money
	Beyond  pricing.Money // the part of Asked for which there is none
	Left    pricing.Money // reserved for the burst before that, and not spent
	Balance Balance
	Ask     string // the address to ask for more
}

func (e *CapError) Error() string {
	b, s := e.Balance, strings.Builder{}
	fmt.Fprintf(&s, "%v: %s %v for burst %s of team %s: ", mover.ErrRefused, e.Op, e.Asked, mover.Printable(e.Burst), mover.Printable(b.Team))
	if e.Op != string(Reserve) {
		fmt.Fprintf(&s, "%v was reserved for it, %v is beyond; ", e.Left, e.Beyond)
	}
	fmt.Fprintf(&s, "spent %v and reserved %v of the cap of %v (%s), %v free; ", b.Spent, b.Reserved, b.Cap, b.Period, max(b.Free, 0))
	if e.Op != string(Reserve) && b.Free > 0 {
		s.WriteString("reserve more, or ")
	}
	ask := e.Ask
	if ask == "" {
		ask = "the owner of the budget"
	}
	return s.String() + "ask " + ask + " to raise the cap"
}

// Unwrap makes it a mover.ErrRefused.
func (e *CapError) Unwrap() error { return mover.ErrRefused }
