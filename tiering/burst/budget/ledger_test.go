package budget

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst/pricing"
)

// desk is a ledger with a clock that a test sets.
type desk struct {
	*Ledger
	t   *testing.T
	log memory
	now time.Time
	key int
}

func sit(t *testing.T, accounts ...Account) *desk {
	d := &desk{t: t, now: noon}
	d.reopen(accounts...)
	return d
}

func (d *desk) reopen(accounts ...Account) {
	d.t.Helper()
	l := must.Get(New(d.t.Context(), &d.log, accounts, Options{Now: func() time.Time { return d.now }}))(d.t)
	d.Ledger = l
}

// ask is a request of team vision with a key of its own.
func (d *desk) ask(burst string, dollars int64) Request {
	d.key++
	return Request{Team: "vision", Burst: burst, Amount: pricing.Money(dollars) * pricing.Dollar, Key: fmt.Sprint(d.key), Why: "a test"}
}

// done is what must go well.
func (d *desk) done(out Outcome, err error) Outcome {
	d.t.Helper()
	must.Do(d.t, err)
	return out
}

// stands compares the balance of team vision, in dollars.
func (d *desk) stands(period string, spent, reserved, free int64) {
	d.t.Helper()
	b, err := d.Balance(d.t.Context(), "vision")
	if err != nil || b.Period != period || b.Spent != pricing.Money(spent)*pricing.Dollar || b.Reserved != pricing.Money(reserved)*pricing.Dollar || b.Free != pricing.Money(free)*pricing.Dollar {
		d.t.Errorf("%+v, %v; want %s: spent %d, reserved %d, free %d", b, err, period, spent, reserved, free)
	}
}

func refused(t *testing.T, err error, kind error, parts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%v; want %v", err, kind)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

// TestLifeOfABurst is the whole way: estimated, reserved, charged, settled, adjusted.
func TestLifeOfABurst(t *testing.T) {
	d := sit(t, Account{Team: "vision", Cap: 1000 * pricing.Dollar, Ask: "storage-ops@site"})
	ctx := t.Context()
	d.done(d.Reserve(ctx, d.ask("b1", 600)))
	d.stands("2026-11", 0, 600, 400)
	_, err := d.Reserve(ctx, d.ask("b2", 500))
	refused(t, err, mover.ErrRefused, "reserve $500.00 for burst b2 of team vision", "spent $0.00 and reserved $600.00 of the cap of $1,000.00 (2026-11), $400.00 free", "ask storage-ops@site to raise the cap")
	d.stands("2026-11", 0, 600, 400)

	must.Tell(t, d.Allow(ctx, "vision", "b1", 600*pricing.Dollar))
	refused(t, d.Allow(ctx, "vision", "b1", 600*pricing.Dollar+1), mover.ErrRefused, "$600.00 was reserved for it, $0.000001 is beyond", "reserve more, or ask")
	refused(t, d.Allow(ctx, "vision", "b2", 1), mover.ErrRefused, "spend $0.000001 for burst b2")

	if out := d.done(d.Charge(ctx, d.ask("b1", 250))); out.Covered != 250*pricing.Dollar || out.Beyond != 0 || out.Left != 350*pricing.Dollar {
		t.Errorf("%+v", out)
	}
	d.stands("2026-11", 250, 350, 400)
	if out := d.done(d.Release(ctx, d.ask("b1", 50))); out.Freed != 50*pricing.Dollar {
		t.Errorf("%+v", out)
	}
	_, err = d.Release(ctx, d.ask("b1", 301))
	refused(t, err, mover.ErrUsage, "$300.00 is reserved and not spent")
	d.now = noon.Add(time.Hour)
	if open, err := d.Bursts(ctx); err != nil || len(open) != 1 || open[0] != (OpenBurst{"vision", "b1", noon, 550 * pricing.Dollar, 250 * pricing.Dollar, 300 * pricing.Dollar}) {
		t.Errorf("%+v, %v", open, err)
	}
	if out := d.done(d.Settle(ctx, d.ask("b1", 0))); out.Freed != 300*pricing.Dollar || out.Left != 0 {
		t.Errorf("%+v", out)
	}
	d.stands("2026-11", 250, 0, 750)
	if open, err := d.Bursts(ctx); err != nil || len(open) != 0 {
		t.Errorf("%v, %v", open, err)
	}
}

// TestChargeBeyond: a bill can not be refused. What was not reserved is noted, and said; more may be spent only after another reservation.
func TestChargeBeyond(t *testing.T) {
	d := sit(t, Account{Team: "vision", Cap: 100 * pricing.Dollar})
	ctx := t.Context()
	d.done(d.Reserve(ctx, d.ask("b1", 30)))
	r := d.ask("b1", 50)
	out, err := d.Charge(ctx, r)
	refused(t, err, mover.ErrRefused, "charge $50.00", "$30.00 was reserved for it, $20.00 is beyond", "$50.00 free")
	if out.Covered != 30*pricing.Dollar || out.Beyond != 20*pricing.Dollar || out.Repeated {
		t.Errorf("%+v", out)
	}
	d.stands("2026-11", 50, 0, 50)
	if out := d.done(d.Charge(ctx, r)); !out.Repeated {
		t.Errorf("%+v", out)
	}
	d.stands("2026-11", 50, 0, 50)
	refused(t, d.Allow(ctx, "vision", "b1", 1), mover.ErrRefused)
	d.done(d.Reserve(ctx, d.ask("b1", 20)))
	must.Tell(t, d.Allow(ctx, "vision", "b1", 20*pricing.Dollar))
	_, err = d.Charge(ctx, d.ask("b1", 90))
	refused(t, err, mover.ErrRefused, "ask the owner of the budget")
	d.stands("2026-11", 140, 0, -40)
	_, err = d.Reserve(ctx, d.ask("b1", 0))
	refused(t, err, mover.ErrRefused)

	// A team that nobody gave money has a bill all the same.
	other := Request{Team: "stray", Burst: "b", Amount: pricing.Dollar, Key: "k"}
	_, err = d.Reserve(ctx, other)
	refused(t, err, mover.ErrPermission, "team stray has no budget here")
	_, err = d.Charge(ctx, other)
	refused(t, err, mover.ErrRefused)
	if b, err := d.Balance(ctx, "stray"); err != nil || b.Spent != pricing.Dollar || b.Free != -pricing.Dollar {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestLoweredCap: what is reserved stays, nothing new comes, and no more is spent than the cap has room for.
func TestLoweredCap(t *testing.T) {
	d := sit(t, Account{Team: "vision", Cap: 100 * pricing.Dollar})
	ctx := t.Context()
	d.done(d.Reserve(ctx, d.ask("b1", 60)))
	d.done(d.Charge(ctx, d.ask("b1", 20)))
	warnings, err := d.SetAccounts(ctx, []Account{{Team: "vision", Cap: 50 * pricing.Dollar}})
	if err != nil || len(warnings) != 1 || warnings[0].String() != "team vision has spent $20.00 and reserved $40.00 of its cap of $50.00 (2026-11): $0.00 is left" {
		t.Errorf("%v, %v", warnings, err)
	}
	d.stands("2026-11", 20, 40, -10)
	_, err = d.Reserve(ctx, d.ask("b2", 1))
	refused(t, err, mover.ErrRefused, "$0.00 free")
	must.Tell(t, d.Allow(ctx, "vision", "b1", 30*pricing.Dollar))
	refused(t, d.Allow(ctx, "vision", "b1", 31*pricing.Dollar), mover.ErrRefused)
	if warnings, err = d.SetAccounts(ctx, []Account{{Team: "vision", Cap: 50 * pricing.Dollar}}); err != nil || len(warnings) != 0 {
		t.Errorf("%v, %v: it was said before", warnings, err)
	}
}

// TestWarnedOnce: the entry that passes four fifths warns, and no other one, until they are passed again.
func TestWarnedOnce(t *testing.T) {
	d := sit(t, Account{Team: "vision", Cap: 100 * pricing.Dollar})
	ctx := t.Context()
	for _, row := range []struct {
		name string
		out  Outcome
		warn bool
	}{
		{"below", d.done(d.Reserve(ctx, d.ask("b1", 79))), false},
		{"passed", d.done(d.Reserve(ctx, d.ask("b1", 1))), true},
		{"above", d.done(d.Reserve(ctx, d.ask("b1", 10))), false},
		{"spending what is reserved changes nothing", d.done(d.Charge(ctx, d.ask("b1", 50))), false},
		{"down again", d.done(d.Settle(ctx, d.ask("b1", 0))), false},
		{"passed again", d.done(d.Reserve(ctx, d.ask("b2", 40))), true},
	} {
		if (row.out.Warning != nil) != row.warn {
			t.Errorf("%s: %v", row.name, row.out.Warning)
		}
	}
	d.reopen(Account{Team: "vision", Cap: 100 * pricing.Dollar})
	if out := d.done(d.Reserve(ctx, d.ask("b2", 1))); out.Warning != nil {
		t.Errorf("another process says it again: %v", out.Warning)
	}
	e := sit(t, Account{Team: "vision", Cap: 100 * pricing.Dollar, WarnAt: 50})
	if out := e.done(e.Reserve(ctx, e.ask("b", 50))); out.Warning == nil {
		t.Error("half was to be said")
	}
}

// TestMonthChange: what was spent counts for its month, what is reserved for the one that it is looked at in.
func TestMonthChange(t *testing.T) {
	monthly, total := Account{Team: "vision", Cap: 100 * pricing.Dollar}, Account{Team: "vision", Cap: 100 * pricing.Dollar, Period: Total}
	d := sit(t, monthly)
	ctx := t.Context()
	r := d.ask("b1", 90)
	d.done(d.Reserve(ctx, r))
	d.done(d.Charge(ctx, d.ask("b1", 50)))
	d.now = time.Date(2026, 11, 30, 23, 59, 59, 999_999_999, time.UTC)
	d.stands("2026-11", 50, 40, 10)
	d.now = time.Date(2026, 12, 1, 9, 0, 0, 0, time.FixedZone("east", 9*3600)) // midnight of UTC
	d.stands("2026-12", 0, 40, 60)
	d.done(d.Charge(ctx, d.ask("b1", 30)))
	d.stands("2026-12", 30, 10, 60)
	d.now = d.now.AddDate(0, 6, 0)
	d.stands("2027-06", 0, 10, 90)
	if out := d.done(d.Reserve(ctx, r)); !out.Repeated {
		t.Errorf("a key of a burst that is open for half a year is forgotten: %+v", out)
	}
	d.done(d.Settle(ctx, d.ask("b1", 0)))
	if out := d.done(d.Reserve(ctx, r)); !out.Repeated {
		t.Errorf("a key of a burst that was just settled is forgotten: %+v", out)
	}
	d.now = d.now.AddDate(0, 1, 0)
	if out := d.done(d.Reserve(ctx, r)); !out.Repeated {
		t.Errorf("a key of a burst that was settled last month is forgotten: %+v", out)
	}
	d.now = d.now.AddDate(0, 1, 0)
	if out := d.done(d.Reserve(ctx, r)); out.Repeated {
		t.Errorf("a key of a burst that was settled two months ago is remembered: %+v", out)
	}
	d.reopen(total)
	d.stands("total", 80, 90, -70)
}

// TestClockGoesBack: a month does not come again.
func TestClockGoesBack(t *testing.T) {
	a := Account{Team: "vision", Cap: 100 * pricing.Dollar}
	d := sit(t, a)
	ctx := t.Context()
	d.done(d.Reserve(ctx, d.ask("b1", 100)))
	d.done(d.Charge(ctx, d.ask("b1", 100)))
	d.now = noon.AddDate(0, -2, 0)
	d.stands("2026-11", 100, 0, 0)
	_, err := d.Reserve(ctx, d.ask("b2", 1))
	refused(t, err, mover.ErrRefused)
	_, err = d.Charge(ctx, d.ask("b2", 1))
	refused(t, err, mover.ErrRefused)
	d.reopen(a) // entries are in order on disk, too
	d.stands("2026-11", 101, 0, -1)
}

// TestAdjust: a day becomes what AWS says of it, however often it says something.
func TestAdjust(t *testing.T) {
	d := sit(t, Account{Team: "vision", Cap: 1000 * pricing.Dollar})
	ctx := t.Context()
	d.done(d.Reserve(ctx, d.ask("b1", 500)))
	d.done(d.Charge(ctx, d.ask("b1", 100)))
	yesterday := noon
	d.now = noon.Add(24 * time.Hour)
	d.done(d.Charge(ctx, d.ask("b1", 7)))
	for _, row := range []struct {
		name          string
		billed, spent int64
		repeated      bool
	}{
		{"more", 120, 127, false}, {"the same again", 120, 127, true}, {"final", 115, 122, false}, {"back", 120, 127, false}, {"less", 90, 97, false}, {"nothing", 0, 7, false}, {"a refund", -5, 2, false},
	} {
		out := d.done(d.Adjust(ctx, "vision", yesterday, pricing.Money(row.billed)*pricing.Dollar, row.name))
		if out.Repeated != row.repeated {
			t.Errorf("%s: %+v", row.name, out)
		}
		d.stands("2026-11", row.spent, 393, 1000-393-row.spent)
	}
	d.now = time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC) // AWS ends a month's bill in the next one
	d.done(d.Adjust(ctx, "vision", yesterday, 200*pricing.Dollar, "late"))
	d.stands("2026-12", 0, 393, 607)
	for _, on := range []time.Time{d.now.AddDate(0, 0, 1), time.Date(2026, 10, 31, 0, 0, 0, 0, time.UTC), {}, time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		_, err := d.Adjust(ctx, "vision", on, pricing.Dollar, "")
		refused(t, err, mover.ErrUsage)
	}
	d.reopen(Account{Team: "vision", Cap: 1000 * pricing.Dollar, Period: Total})
	d.stands("total", 207, 393, 400)
}

// TestRefusedRequests are hostile ones: nothing of them comes into the file.
func TestRefusedRequests(t *testing.T) {
	d := sit(t, Account{Team: "vision", Cap: 100 * pricing.Dollar})
	ctx := t.Context()
	good := Request{Team: "vision", Burst: "b", Amount: pricing.Dollar, Key: "k", Why: `says "why" in C:\ and ü`}
	for name, change := range map[string]func(*Request){
		"no team": func(r *Request) { r.Team = "" }, "no burst": func(r *Request) { r.Burst = "" }, "no key": func(r *Request) { r.Key = "" },
		"a line": func(r *Request) { r.Why = "a\nb" }, "an escape": func(r *Request) { r.Burst = "\x1b[2J" }, "not UTF-8": func(r *Request) { r.Key = "\xff" }, "a mark that turns the line": func(r *Request) { r.Team = "a\u202eb" },
		"long": func(r *Request) { r.Why = strings.Repeat("x", 1025) }, "negative": func(r *Request) { r.Amount = -1 }, "huge": func(r *Request) { r.Amount = pricing.MoneyMost + 1 }, "least": func(r *Request) { r.Amount = math.MinInt64 },
	} {
		r := good
		change(&r)
		for _, call := range []func() (Outcome, error){
			func() (Outcome, error) { return d.Reserve(ctx, r) }, func() (Outcome, error) { return d.Charge(ctx, r) }, func() (Outcome, error) { return d.Release(ctx, r) },
		} {
			if out, err := call(); !errors.Is(err, mover.ErrUsage) || out.Repeated {
				t.Errorf("%s: %+v, %v", name, out, err)
			}
		}
	}
	refused(t, d.Allow(ctx, "vision", "b", -1), mover.ErrUsage)
	d.done(d.Reserve(ctx, good))
	d.reopen(Account{Team: "vision", Cap: 100 * pricing.Dollar})
	d.stands("2026-11", 0, 1, 99)

	for name, accounts := range map[string][]Account{
		"no team": {{}}, "negative": {{Team: "a", Cap: -1}}, "huge": {{Team: "a", Cap: math.MaxInt64}}, "a week": {{Team: "a", Period: "week"}}, "twice": {{Team: "a"}, {Team: "a"}}, "late": {{Team: "a", WarnAt: 101}},
	} {
		if _, err := d.SetAccounts(ctx, accounts); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNothingOverflows charges the most there is until it can not be counted any more: that is refused, and nothing turns around.
func TestNothingOverflows(t *testing.T) {
	var s State
	n := 0
	for ; ; n++ {
		e := Entry{Time: noon, Kind: Charge, Team: "a", Burst: "b", Amount: pricing.MoneyMost, Key: fmt.Sprint(n)}
		if _, err := s.Apply(e); err != nil {
			refused(t, err, mover.ErrUsage, "more money than can be counted")
			break
		}
	}
	if b := s.Balance(Account{Team: "a", Cap: pricing.MoneyMost}, noon); n < 4000 || b.Spent != pricing.Money(n)*pricing.MoneyMost || b.Free >= 0 {
		t.Errorf("%d, %+v", n, b)
	}
}

// TestMemoryIsBounded: after years with a burst each day a State remembers what two months have.
func TestMemoryIsBounded(t *testing.T) {
	var s State
	for d := range 2000 {
		at := noon.AddDate(0, 0, d)
		for n, kind := range []Kind{Reserve, Charge, Charge, Settle, Adjust} {
			e := Entry{Time: at, Kind: kind, Team: "a", Burst: fmt.Sprint("burst ", d), Amount: pricing.Dollar, Key: fmt.Sprint(d, n), Day: at.Format(time.DateOnly)}
			if ok, err := s.Apply(e); !ok || err != nil {
				t.Fatal(d, kind, ok, err)
			}
		}
	}
	team, held := s.teams["a"], 0
	for _, noted := range team.keys {
		held += len(noted)
	}
	if held > 62*5 || len(team.keys) > 2 || len(team.days) > 62 || len(team.months) > 2 || len(team.bursts) > 0 || len(s.teams) != 1 {
		t.Errorf("%d keys in %d months, %d days, %d months, %d bursts", held, len(team.keys), len(team.days), len(team.months), len(team.bursts))
	}
	if b := s.Balance(Account{Team: "a", Period: Total}, noon); b.Spent != 6000*pricing.Dollar {
		t.Errorf("%+v", b)
	}
}
