package budget

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst/pricing"
)

// State is what all entries up to now come to. The zero value is that of an empty ledger.
type State struct {
	last  time.Time // of the last entry
	teams map[string]*team
}

// team is what is remembered of one.
type team struct {
	moved    pricing.Money            // the amounts of all entries without their signs: bounds every sum below
	total    pricing.Money            // spent, ever
	months   map[string]pricing.Money // spent, in the running month and the one before
	days     map[string]day           // of these months
	reserved pricing.Money            // the sum of what is left of bursts
	bursts   map[string]*burst        // open ones
	keys     map[string]keys          // by the month in which they were noted, but for those of open bursts
}

type day struct{ charged, adjusted pricing.Money }

type burst struct {
	left, reserved, spent pricing.Money
	since                 time.Time
	keys                  keys
}

// key stands for the kind, burst and key of an entry.
type key [16]byte

type keys map[key]struct{}

func keyOf(e Entry) (k key) {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(e.Kind), e.Burst, e.Key}, "\x00")))
	copy(k[:], sum[:])
	return k
}

// movedMost bounds what may ever pass through the account of a team: half of what an int64 has, $4.6 million million.
const movedMost pricing.Money = 1 << 62

// OpenBurst is one for which money is reserved.
type OpenBurst struct {
	Team     string        `json:"team"`
	Burst    string        `json:"burst"`
	Since    time.Time     `json:"since"`    // the first reservation
	Reserved pricing.Money `json:"reserved"` // by all reservations, less what was released
	Spent    pricing.Money `json:"spent"`    // charged, also beyond what was reserved
	Left     pricing.Money `json:"left"`     // reserved and not spent
}

// Apply counts an entry. It returns false, and nothing changes, when one of the same kind, burst and key was counted already. An entry that can not be is mover.ErrUsage, and changes nothing either.
func (s *State) Apply(e Entry) (bool, error) {
	if err := e.check(); err != nil {
		return false, err
	}
	if s.Knows(e) {
		return false, nil
	}
	if e.Time.Before(s.last) {
		return false, fmt.Errorf("%w: an entry of %v after one of %v", mover.ErrUsage, e.Time, s.last)
	}
	if err := s.fits(e); err != nil {
		return false, err
	}
	t := s.team(e.Team)
	if month(e.Time) != month(s.last) {
		s.forget(e.Time)
	}
	s.last = e.Time
	t.moved += max(e.Amount, -e.Amount)
	t.count(e)
	return true, nil
}

// fits refuses what would overflow a sum: mover.ErrUsage.
func (s *State) fits(e Entry) error {
	if t := s.teams[e.Team]; t != nil && t.moved > movedMost-max(e.Amount, -e.Amount) {
		return fmt.Errorf("%w: team %s has moved more money than can be counted", mover.ErrUsage, e.Team)
	}
	return nil
}

// Knows reports whether an entry of the same kind, burst and key was counted, and is remembered at its time.
func (s *State) Knows(e Entry) bool {
	t := s.teams[e.Team]
	if t == nil {
		return false
	}
	k := keyOf(e)
	if b := t.bursts[e.Burst]; b != nil {
		if _, known := b.keys[k]; known {
			return true
		}
	}
	for noted, all := range t.keys {
		if _, known := all[k]; known && noted >= previous(e.Time) {
			return true
		}
	}
	return false
}

func (s *State) team(name string) *team {
	if s.teams == nil {
		s.teams = map[string]*team{}
	}
	t := s.teams[name]
	if t == nil {
		t = &team{months: map[string]pricing.Money{}, days: map[string]day{}, bursts: map[string]*burst{}, keys: map[string]keys{}}
		s.teams[name] = t
	}
	return t
}

// forget drops what is older than the month before that of now.
func (s *State) forget(now time.Time) {
	oldest := previous(now)
	for _, t := range s.teams {
		maps.DeleteFunc(t.months, func(m string, _ pricing.Money) bool { return m < oldest })
		maps.DeleteFunc(t.days, func(d string, _ day) bool { return d < oldest })
		maps.DeleteFunc(t.keys, func(m string, _ keys) bool { return m < oldest })
	}
}

// count does what an entry says. All of it fits.
func (t *team) count(e Entry) {
	b := t.bursts[e.Burst]
	if b == nil && e.Kind == Reserve {
		b = &burst{since: e.Time, keys: keys{}}
		t.bursts[e.Burst] = b
	}
	t.note(b, month(e.Time), keyOf(e))
	switch e.Kind {
	case Reserve:
		b.reserved += e.Amount
		t.move(b, e.Amount)
	case Charge:
		t.spend(e.Time.UTC().Format(time.DateOnly), e.Amount, 0)
		if b != nil {
			b.spent += e.Amount
			t.move(b, -min(b.left, e.Amount))
		}
	case Release:
		if b != nil {
			b.reserved -= min(b.left, e.Amount)
			t.move(b, -min(b.left, e.Amount))
		}
	case Settle:
		t.settle(e.Burst, b, month(e.Time))
	case Adjust:
		t.spend(e.Day, 0, e.Amount)
	}
}

// note remembers a key: with its open burst, or for a while.
func (t *team) note(b *burst, month string, k key) {
	if b != nil {
		b.keys[k] = struct{}{}
		return
	}
	if t.keys[month] == nil {
		t.keys[month] = keys{}
	}
	t.keys[month][k] = struct{}{}
}

// move changes what is reserved and not spent.
func (t *team) move(b *burst, amount pricing.Money) {
	b.left += amount
	t.reserved += amount
}

func (t *team) spend(on string, charged, adjusted pricing.Money) {
	d := t.days[on]
	t.days[on] = day{d.charged + charged, d.adjusted + adjusted}
	t.months[on[:len("2006-01")]] += charged + adjusted
	t.total += charged + adjusted
}

func (t *team) settle(name string, b *burst, month string) {
	if b == nil {
		return
	}
	t.move(b, -b.left)
	for k := range b.keys {
		t.note(nil, month, k)
	}
	delete(t.bursts, name)
}

// at is now, but not before the last entry.
func (s *State) at(now time.Time) time.Time {
	if now.Before(s.last) {
		return s.last
	}
	return now.UTC()
}

// Balance says how an account stands at an instant.
func (s *State) Balance(a Account, now time.Time) Balance {
	b := Balance{Team: a.Team, Period: month(s.at(now)), Cap: a.Cap}
	if a.Period == Total {
		b.Period = string(Total)
	}
	if t := s.teams[a.Team]; t != nil {
		b.Reserved, b.Spent = t.reserved, t.months[b.Period]
		if a.Period == Total {
			b.Spent = t.total
		}
	}
	b.Free = b.Cap - b.Spent - b.Reserved
	return b
}

// Left is what is reserved for a burst and not spent.
func (s *State) Left(team, name string) pricing.Money {
	if t := s.teams[team]; t != nil && t.bursts[name] != nil {
		return t.bursts[name].left
	}
	return 0
}

// Bursts are the open ones, by team and name.
func (s *State) Bursts() (all []OpenBurst) {
	for _, team := range slices.Sorted(maps.Keys(s.teams)) {
		open := s.teams[team].bursts
		for _, name := range slices.Sorted(maps.Keys(open)) {
			b := open[name]
			all = append(all, OpenBurst{team, name, b.since, b.reserved, b.spent, b.left})
		}
	}
	return all
}

// MayReserve refuses what the cap has no room for: CapError.
func (s *State) MayReserve(a Account, burst string, amount pricing.Money, now time.Time) error {
	b := s.Balance(a, now)
	if amount <= b.Free {
		return nil
	}
	return &CapError{Op: string(Reserve), Burst: burst, Asked: amount, Beyond: amount - max(b.Free, 0), Left: s.Left(a.Team, burst), Balance: b, Ask: a.Ask}
}

// MaySpend refuses what is beyond the reservation of a burst, or what passes the cap: CapError. A cap that was lowered below what is reserved leaves what it has room for beside what is spent.
func (s *State) MaySpend(a Account, burst string, amount pricing.Money, now time.Time) error {
	b, left := s.Balance(a, now), s.Left(a.Team, burst)
	room := max(min(left, b.Cap-b.Spent), 0)
	if amount <= room {
		return nil
	}
	return &CapError{Op: "spend", Burst: burst, Asked: amount, Beyond: amount - room, Left: left, Balance: b, Ask: a.Ask}
}

// Differs is what an entry has to add so that what was spent on a day is what was billed for it. A day before the last month, or one that has not come, is mover.ErrUsage.
func (s *State) Differs(team string, on time.Time, billed pricing.Money, now time.Time) (pricing.Money, error) {
	name, now := on.Format(time.DateOnly), s.at(now)
	if oldest := previous(now); name < oldest || name > now.Format(time.DateOnly) {
		return 0, fmt.Errorf("%w: %s can not be adjusted, want a day of this month or the one before, and not of the future", mover.ErrUsage, name)
	}
	if t := s.teams[team]; t != nil {
		billed -= t.days[name].charged + t.days[name].adjusted
	}
	return billed, nil
}
