package replicate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/checkpoint"
)

// Alarm says to a watch that its machine is about to go, or its job. From then on the newest complete checkpoint goes before all others, which wait until
// every target has it; what its framework has sealed does not wait to be still, nothing is held to Request.Bandwidth, and retention rests.
type Alarm struct {
	Why  string
	When time.Time // zero is at any moment: the alarm is over when the newest is home and no newer one is being written, and after Near
	Ends bool      // the watch ends with it: when the newest is home and no newer one is being written, and at When
}

// Near is how long before its time an alarm begins: one of next week changes nothing today.
const Near = 10 * time.Minute

// Turn is how far a watch has come with an alarm.
type Turn string

// The turns.
const (
	Ahead Turn = "ahead" // it begins Near before its time
	Begun Turn = "begun"
	Home  Turn = "home" // every target has the newest
	Over  Turn = "over" // its time is over, or the watch has ended
)

// Told is what a watch tells of an alarm.
type Told struct {
	Alarm
	Turn
	Time    time.Time
	Newest  string   // the newest complete checkpoint; "" is none
	Missing []string // targets that do not have it
	Open    []string // newer ones that are not complete: they stay where they are
	Last    bool     // the watch ends with this
}

// crisis are the alarms of a watch. One goroutine has it.
type crisis struct {
	ahead []Alarm   // the next first
	now   *Alarm    // nil is none
	since time.Time // when it was raised
	begun bool      // it was told
	looks int       // since then
	home  string    // the save that was told to be home
	past  *Alarm    // the last alarm, if its time was over less than Near ago: the machine may go at any moment; nil is none
}

// raise takes an alarm in, and reports whether it is to be told as one that is ahead.
func (c *crisis) raise(a Alarm, now time.Time) (ahead bool) {
	if a.When.Sub(now) > Near {
		c.ahead = append(c.ahead, a)
		slices.SortStableFunc(c.ahead, func(a, b Alarm) int { return a.When.Compare(b.When) })
		return true
	}
	if c.now == nil || c.now.sooner(a) {
		c.now, c.since, c.begun, c.looks, c.home = &a, now, false, 0, ""
	}
	return false
}

// sooner reports whether another alarm takes the place of one.
func (a *Alarm) sooner(b Alarm) bool {
	switch {
	case a.Ends != b.Ends:
		return b.Ends
	case b.When.IsZero():
		return false
	}
	return a.When.IsZero() || b.When.Before(a.When)
}

// wake begins the alarms with a time that is near, and returns how long it is until something is to be done about time; 0 is never.
func (c *crisis) wake(now time.Time) time.Duration {
	for len(c.ahead) > 0 && c.ahead[0].When.Sub(now) <= Near {
		a := c.ahead[0]
		c.ahead = c.ahead[1:]
		c.raise(a, now)
	}
	if c.past != nil && now.Sub(c.past.When) > Near {
		c.past = nil
	}
	due := time.Duration(0)
	switch {
	case c.now != nil:
		due = c.until().Sub(now)
	case len(c.ahead) > 0:
		due = c.ahead[0].When.Sub(now) - Near
	}
	return max(due, 0)
}

// on says whether the watch has to hurry.
func (c *crisis) on() bool { return c.now != nil || c.past != nil }

// until is when the alarm that is on is over.
func (c *crisis) until() time.Time {
	if c.now.When.IsZero() {
		return c.since.Add(Near)
	}
	return c.now.When
}

// react tells of the alarm that is on after a look, and reports whether the watch is to end.
func (w *Watch) react(c *crisis, seen Look) (ends bool) {
	if c.now == nil {
		return false
	}
	t := w.standing(*c.now, seen)
	if !c.begun {
		c.begun, c.past = true, nil
		w.alarmed(t, Begun)
	}
	c.looks++
	save := w.board.newestSave()
	if t.Newest != "" && len(t.Missing) == 0 && c.home != save {
		c.home = save
		w.alarmed(t, Home)
	}
	still := len(t.Missing) == 0 && !writing(t, seen) && c.looks > 1
	late := !t.Time.Before(c.until())
	ends = t.Ends && (still || late)
	if t.Last = ends; ends || late || still && t.When.IsZero() {
		w.alarmed(t, Over)
		if late && !t.When.IsZero() {
			c.past = c.now
		}
		c.now = nil
	}
	return ends
}

// standing is how it is with an alarm.
func (w *Watch) standing(a Alarm, seen Look) Told {
	t := Told{Alarm: a, Time: time.Now()}
	t.Newest, t.Missing = w.board.missing(w.To)
	for _, s := range seen.Seen {
		if s.Name == t.Newest {
			break
		}
		if s.State != checkpoint.Complete {
			t.Open = append(t.Open, s.Name)
		}
	}
	return t
}

// writing reports whether something newer than the newest may still be completed.
func writing(t Told, seen Look) bool {
	return slices.ContainsFunc(seen.Seen, func(s Seen) bool { return s.moves && slices.Contains(t.Open, s.Name) })
}

// alarmed tells.
func (w *Watch) alarmed(t Told, turn Turn) {
	if t.Turn = turn; w.TellAlarm != nil {
		w.TellAlarm(t)
	}
}

// left is what a watch that ends in an alarm says: of what did not come home.
func (w *Watch) left(c *crisis, seen Look) error {
	a := cmp.Or(c.now, c.past)
	if a == nil {
		return nil
	}
	t := w.standing(*a, seen)
	t.Last = true
	w.alarmed(t, Over)
	return t.err()
}

// err is that of a newest that is not home.
func (t Told) err() error {
	if len(t.Missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s is not home: it is not at %s", mover.ErrTimeout, mover.Printable(t.Newest), mover.Printable(strings.Join(t.Missing, ", ")))
}

// hurry begins an alarm, or ends it. Copies that are on their way, and are not the newest or are held to a limit, are cancelled: what they have sent is not sent again.
func (b *board) hurry(on, limited bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hurries == on {
		return
	}
	b.hurries = on
	for _, f := range b.flights {
		if on && limited && f != nil {
			f.cancel()
		}
	}
	b.yield()
	b.wake()
}

// yield cancels copies that the newest is not to wait for. One that was the newest when it began goes on: what is nearly there is worth more than what has
// just begun. b is locked.
func (b *board) yield() {
	if !b.hurries || len(b.ready) == 0 {
		return
	}
	for _, f := range b.flights {
		switch {
		case f == nil || f.urgent:
		case f.one.name == b.ready[0].name:
			f.urgent = true
		default:
			f.cancel()
		}
	}
}

// flight is a copy that is on its way.
type flight struct {
	one    ready
	urgent bool // it was the newest, in an alarm
	cancel context.CancelFunc
}

// fly notes that a hop begins a copy, which ends with the context that it returns. hurries says that there is an alarm.
func (b *board) fly(ctx context.Context, hop int, one ready) (flying context.Context, hurries bool, land func()) {
	flying, cancel := context.WithCancel(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flights[hop] = &flight{one, b.hurries && len(b.ready) > 0 && b.ready[0].name == one.name, cancel}
	return flying, b.hurries, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.flights[hop] = nil
		cancel()
	}
}

// first leaves the newest alone of what a hop can bring, as long as an alarm is on, and this hop does not have it, or another one does not that can be reached.
func (b *board) first(hop int, all []ready) (left []ready, hurries bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hurries && len(b.ready) > 0 && !(b.hasNewest(hop) && b.home()) {
		all = slices.DeleteFunc(all, func(r ready) bool { return r.name != b.ready[0].name })
	}
	return all, b.hurries
}

// hasNewest says whether a hop has the newest. b is locked.
func (b *board) hasNewest(hop int) bool {
	return b.verified[hop][b.ready[0].name].save == b.ready[0].save
}

// home says whether every target has the newest, but for those at which it has failed. b is locked.
func (b *board) home() bool {
	for hop := range b.verified {
		if !b.hasNewest(hop) && b.stuck[hop] != b.ready[0].save {
			return false
		}
	}
	return true
}

// stick notes that a save could not be brought to a hop; "" is the newest.
func (b *board) stick(hop int, save string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if save == "" && len(b.ready) > 0 {
		save = b.ready[0].save
	}
	if b.stuck[hop] != save {
		b.stuck[hop] = save
		b.wake()
	}
}

// missing are the targets that do not have the newest.
func (b *board) missing(to []location.Location) (newest string, missing []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return "", nil
	}
	for i := range b.verified {
		if !b.hasNewest(i) {
			missing = append(missing, to[i].String())
		}
	}
	return b.ready[0].name, missing
}

// newestSave is the save of the newest; "" is none.
func (b *board) newestSave() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return ""
	}
	return b.ready[0].name + " " + b.ready[0].save
}

// hurrying says whether an alarm is on, and is closed, else, at the next change.
func (b *board) hurrying() (on bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hurries, b.changed
}
