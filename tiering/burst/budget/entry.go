package budget

import (
	"fmt"
	"time"
	"unicode/utf8"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst/pricing"
)

// Kind says what an entry does.
type Kind string

// Kinds of entries.
const (
	Reserve Kind = "reserve" // Amount is set aside for a burst
	Charge  Kind = "charge"  // Amount was spent, first out of what is reserved for the burst
	Release Kind = "release" // Amount of what is reserved is free again
	Settle  Kind = "settle"  // a burst is over: Amount, all that was left, is free again
	Adjust  Kind = "adjust"  // Amount, which may be negative, makes what was spent on a day what AWS says
)

// Entry is a line of the ledger.
type Entry struct {
	Time   time.Time     `json:"time"` // UTC, not before that of the entry before it
	Kind   Kind          `json:"kind"`
	Team   string        `json:"team"`
	Burst  string        `json:"burst,omitempty"` // of all kinds but Adjust
	Day    string        `json:"day,omitempty"`   // of Adjust: 2026-11-27
	Amount pricing.Money `json:"amount"`
	Why    string        `json:"why,omitempty"` // for people
	Key    string        `json:"key"`           // the same one again changes nothing
}

// Bounds of an entry, in bytes.
const (
	nameMost = 128
	keyMost  = 256
	whyMost  = 1024
)

// check refuses what no ledger has: mover.ErrUsage.
func (e Entry) check() error {
	for _, f := range []struct {
		what, text string
		most       int
		empty      bool
	}{{"team", e.Team, nameMost, false}, {"burst", e.Burst, nameMost, e.Kind == Adjust}, {"key", e.Key, keyMost, false}, {"reason", e.Why, whyMost, true}} {
		if f.text == "" && !f.empty || len(f.text) > f.most || !utf8.ValidString(f.text) || mover.Printable(f.text) != f.text && !quoted(f.text) {
			return fmt.Errorf("%w: %s %s of an entry: want 1 to %d bytes that can be printed", mover.ErrUsage, f.what, mover.Printable(f.text), f.most)
		}
	}
	if e.Amount > pricing.MoneyMost || e.Amount < -pricing.MoneyMost || e.Amount < 0 && e.Kind != Adjust {
		return fmt.Errorf("%w: %v can not be %sd", mover.ErrUsage, e.Amount, e.Kind)
	}
	switch e.Kind {
	case Reserve, Charge, Release, Settle:
		return nil
	case Adjust:
		if day, err := time.Parse(time.DateOnly, e.Day); err != nil || day.Format(time.DateOnly) != e.Day {
			return fmt.Errorf("%w: %s is no day, want one like 2026-11-27", mover.ErrUsage, mover.Printable(e.Day))
		}
		return nil
	}
	return fmt.Errorf("%w: unknown kind %s of an entry", mover.ErrUsage, mover.Printable(string(e.Kind)))
}

// quoted reports whether all that keeps s from being printed as it is are quotes and backslashes.
func quoted(s string) bool {
	for _, r := range s {
		if r != '"' && r != '\\' && mover.Printable(string(r)) != string(r) {
			return false
		}
	}
	return true
}

// month is the calendar month of an instant, in UTC: "2026-11".
func month(t time.Time) string { return t.UTC().Format("2006-01") }

// previous is the month before that of t.
func previous(t time.Time) string {
	t = t.UTC()
	return month(time.Date(t.Year(), t.Month()-1, 1, 0, 0, 0, 0, time.UTC))
}
