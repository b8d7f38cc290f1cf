package budget

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
	"datamove.dev/tiering/burst/pricing"
)

// naive keeps every entry and counts all of them again for each answer.
type naive struct {
	entries  []Entry
	accounts map[string]Account
}

func (m *naive) at(now time.Time) time.Time {
	for _, e := range m.entries {
		if e.Time.After(now) {
			now = e.Time
		}
	}
	return now
}

// left is what is reserved for a burst after the first n entries; open whether it is.
func (m *naive) left(team, burst string, n int) (left pricing.Money, open bool) {
	for _, e := range m.entries[:n] {
		if e.Team != team || e.Burst != burst {
			continue
		}
		switch e.Kind {
		case Reserve:
			left, open = left+e.Amount, true
		case Charge, Release:
			left = max(0, left-e.Amount)
		case Settle:
			left, open = 0, false
		}
	}
	return left, open
}

func (m *naive) spent(team, prefix string) (sum pricing.Money) {
	for _, e := range m.entries {
		on := e.Time.Format(time.DateOnly)
		if e.Kind == Adjust {
			on = e.Day
		}
		if e.Team == team && (e.Kind == Charge || e.Kind == Adjust) && strings.HasPrefix(on, prefix) {
			sum += e.Amount
		}
	}
	return sum
}

func (m *naive) balance(team string, now time.Time) Balance {
	a := m.accounts[team]
	b := Balance{Team: team, Period: m.at(now).Format("2006-01"), Cap: a.Cap}
	b.Spent = m.spent(team, b.Period)
	if a.Period == Total {
		b.Period, b.Spent = "total", m.spent(team, "")
	}
	for _, burst := range bursts {
		left, _ := m.left(team, burst, len(m.entries))
		b.Reserved += left
	}
	b.Free = b.Cap - b.Spent - b.Reserved
	return b
}

// knows reports whether an entry was noted, and has to be remembered still.
func (m *naive) knows(e Entry, now time.Time) bool {
	oldest := m.at(now).AddDate(0, 0, 1-m.at(now).Day()).AddDate(0, -1, 0).Format("2006-01")
	for i, o := range m.entries {
		if o.Team != e.Team || o.Kind != e.Kind || o.Burst != e.Burst || o.Key != e.Key {
			continue
		}
		if _, open := m.left(o.Team, o.Burst, i+1); open {
			settled := slices.IndexFunc(m.entries[i:], func(s Entry) bool { return s.Kind == Settle && s.Team == o.Team && s.Burst == o.Burst })
			if settled < 0 {
				return true
			}
			o.Time = m.entries[i+settled].Time
		}
		if o.Time.Format("2006-01") >= oldest {
			return true
		}
	}
	return false
}

var (
	teams  = []string{"vision", "language"}
	bursts = []string{"b1", "b2"}
)

// world has two ledgers on one log, and the model of both.
type world struct {
	t       *rapid.T
	log     memory
	now     time.Time
	model   naive
	ledgers [2]*Ledger
}

func (w *world) open() {
	for i := range w.ledgers {
		l, err := New(w.t.Context(), &w.log, w.accounts(), Options{Now: func() time.Time { return w.now }})
		must.Do(w.t, err)
		w.ledgers[i] = l
	}
}

func (w *world) accounts() (all []Account) {
	for _, team := range teams {
		all = append(all, w.model.accounts[team])
	}
	return all
}

// TestModel compares random histories of two ledgers on one log with the naive count: keys that come again, clocks that jump, caps that change, and restarts.
//
//safety:aws the ledger against a naive count, with restarts, and two ledgers that race for one cap
func TestModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &world{t: r, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
		w.model.accounts = map[string]Account{"vision": {Team: "vision", Cap: 100 * pricing.Dollar}, "language": {Team: "language", Cap: 60 * pricing.Dollar, Period: Total}}
		w.open()
		r.Repeat(map[string]func(*rapid.T){
			"":       w.compare,
			"note":   w.note,
			"note 2": w.note, // twice and three times as often as the others
			"note 3": w.note,
			"again":  w.again,
			"adjust": w.adjust,
			"allow":  w.allow,
			"clock": func(r *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(-20*24, 25*24).Draw(r, "hours")) * time.Hour)
			},
			"cap":     w.cap,
			"restart": func(*rapid.T) { w.open() },
		})
	})
}

func (w *world) ledger(r *rapid.T) *Ledger { return w.ledgers[rapid.IntRange(0, 1).Draw(r, "ledger")] }

func (w *world) note(r *rapid.T) {
	e := Entry{
		Kind: rapid.SampledFrom([]Kind{Reserve, Reserve, Charge, Charge, Release, Settle}).Draw(r, "kind"),
		Team: rapid.SampledFrom(teams).Draw(r, "team"), Burst: rapid.SampledFrom(bursts).Draw(r, "burst"),
		Amount: pricing.Money(rapid.Int64Range(0, 40).Draw(r, "dollars")) * pricing.Dollar, Key: fmt.Sprint(rapid.IntRange(0, 9).Draw(r, "key")),
	}
	w.send(r, e)
}

// again sends what was noted before, as who crashed before it knew does.
func (w *world) again(r *rapid.T) {
	if len(w.model.entries) == 0 {
		return
	}
	e := rapid.SampledFrom(w.model.entries).Draw(r, "entry")
	if e.Kind != Adjust {
		w.send(r, e)
	}
}

func (w *world) send(r *rapid.T, e Entry) {
	l := w.ledger(r)
	call := map[Kind]func() (Outcome, error){
		Reserve: func() (Outcome, error) { return l.Reserve(w.t.Context(), request(e)) }, Charge: func() (Outcome, error) { return l.Charge(w.t.Context(), request(e)) },
		Release: func() (Outcome, error) { return l.Release(w.t.Context(), request(e)) }, Settle: func() (Outcome, error) { return l.Settle(w.t.Context(), request(e)) },
	}
	known := w.model.knows(e, w.now)
	left, _ := w.model.left(e.Team, e.Burst, len(w.model.entries))
	before := w.model.balance(e.Team, w.now)
	out, err := call[e.Kind]()
	var want error
	switch {
	case known:
	case e.Kind == Reserve && e.Amount > before.Free:
		want = mover.ErrRefused
	case e.Kind == Release && e.Amount > left:
		want = mover.ErrUsage
	default:
		if e.Kind == Settle {
			e.Amount = left
		}
		if e.Kind == Charge && e.Amount > left {
			want = mover.ErrRefused
		}
		e.Time = w.model.at(w.now)
		w.model.entries = append(w.model.entries, e)
	}
	if !errors.Is(err, want) || out.Repeated != known || out.Balance != w.model.balance(e.Team, w.now) {
		r.Fatalf("%+v: %+v, %v; want %v, known %v, %+v", e, out, err, want, known, w.model.balance(e.Team, w.now))
	}
	if e.Kind == Charge && !known && (out.Covered != min(left, e.Amount) || out.Covered+out.Beyond != e.Amount) {
		r.Fatalf("%v of %v covered, %v beyond, %v was left", out.Covered, e.Amount, out.Beyond, left)
	}
	w.warned(r, e.Team, before, out)
}

// warned: there is a warning exactly where four fifths of the cap are passed.
func (w *world) warned(r *rapid.T, team string, before Balance, out Outcome) {
	over := func(b Balance) bool { return b.Spent+b.Reserved > 0 && 5*(b.Spent+b.Reserved) >= 4*b.Cap }
	if crossed := !over(before) && over(w.model.balance(team, w.now)); crossed != (out.Warning != nil) {
		r.Fatalf("crossed %v, warning %v", crossed, out.Warning)
	}
}

func request(e Entry) Request {
	return Request{Team: e.Team, Burst: e.Burst, Amount: e.Amount, Key: e.Key, Why: e.Why}
}

func (w *world) adjust(r *rapid.T) {
	team := rapid.SampledFrom(teams).Draw(r, "team")
	day := w.now.AddDate(0, 0, -rapid.IntRange(-1, 70).Draw(r, "days ago"))
	billed := pricing.Money(rapid.Int64Range(0, 50).Draw(r, "billed")) * pricing.Dollar
	now, before := w.model.at(w.now), w.model.balance(team, w.now)
	e := Entry{Kind: Adjust, Time: now, Team: team, Day: day.Format(time.DateOnly), Amount: billed - w.model.spent(team, day.Format(time.DateOnly)), Key: fmt.Sprint("adjusted ", len(w.model.entries))}
	first := now.AddDate(0, 0, 1-now.Day()).AddDate(0, -1, 0)
	out, err := w.ledger(r).Adjust(w.t.Context(), team, day, billed, "")
	switch {
	case e.Day < first.Format(time.DateOnly) || e.Day > now.Format(time.DateOnly):
		if !errors.Is(err, mover.ErrUsage) {
			r.Fatalf("%s adjusted at %v: %v", e.Day, now, err)
		}
		return
	case e.Amount != 0:
		w.model.entries = append(w.model.entries, e)
	}
	if err != nil || out.Repeated != (e.Amount == 0) || w.model.spent(team, e.Day) != billed {
		r.Fatalf("%+v: %+v, %v", e, out, err)
	}
	w.warned(r, team, before, out)
}

func (w *world) allow(r *rapid.T) {
	team, burst := rapid.SampledFrom(teams).Draw(r, "team"), rapid.SampledFrom(bursts).Draw(r, "burst")
	amount := pricing.Money(rapid.Int64Range(0, 40).Draw(r, "dollars")) * pricing.Dollar
	left, _ := w.model.left(team, burst, len(w.model.entries))
	b := w.model.balance(team, w.now)
	allowed := amount == 0 || amount <= left && b.Spent+amount <= b.Cap
	if err := w.ledger(r).Allow(w.t.Context(), team, burst, amount); (err == nil) != allowed || err != nil && !errors.Is(err, mover.ErrRefused) {
		r.Fatalf("%v of %v left, %+v: %v", amount, left, b, err)
	}
}

func (w *world) cap(r *rapid.T) {
	team := rapid.SampledFrom(teams).Draw(r, "team")
	a := w.model.accounts[team]
	a.Cap = pricing.Money(rapid.Int64Range(0, 150).Draw(r, "cap")) * pricing.Dollar
	w.model.accounts[team] = a
	for _, l := range w.ledgers {
		if _, err := l.SetAccounts(w.t.Context(), w.accounts()); err != nil {
			r.Fatal(err)
		}
	}
}

func (w *world) compare(r *rapid.T) {
	for i, l := range w.ledgers {
		var want []OpenBurst
		for _, team := range []string{"language", "vision"} {
			if b, err := l.Balance(w.t.Context(), team); err != nil || b != w.model.balance(team, w.now) {
				r.Fatalf("ledger %d: %+v, %v; want %+v", i, b, err, w.model.balance(team, w.now))
			}
			for _, name := range bursts {
				if left, open := w.model.left(team, name, len(w.model.entries)); open {
					want = append(want, OpenBurst{Team: team, Burst: name, Left: left})
				}
			}
		}
		got, err := l.Bursts(w.t.Context())
		if err != nil || !slices.EqualFunc(got, want, func(g, w OpenBurst) bool {
			return g.Team == w.Team && g.Burst == w.Burst && g.Left == w.Left && g.Left <= g.Reserved
		}) {
			r.Fatalf("ledger %d: %+v, %v; want %+v", i, got, err, want)
		}
	}
}
