package policy

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// times is when a schedule says that it is time.
type times struct {
	spec  cron.Schedule
	zone  *time.Location
	fixed bool // at certain hours of the day: on the clock of the zone, and once
}

var cronWords = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// everyHour is the bit of cron.SpecSchedule that says that an hour was written as a star.
const everyHour = 1 << 63

// times reads a schedule.
func (s *Schedule) times() (t times, err error) {
	if strings.Contains(s.Cron, "TZ=") {
		return t, errors.New("cron: the time zone is written in tz")
	}
	if t.spec, err = cronWords.Parse(s.Cron); err != nil {
		return t, fmt.Errorf("cron: %w; want minute, hour, day of month, month and day of week, as \"0 1 * * *\", or @daily", err)
	}
	if s.TZ == "Local" {
		return t, errors.New("tz: hosts differ in what is local; want a name as Europe/Berlin, or UTC")
	}
	if t.zone, err = time.LoadLocation(s.TZ); err != nil {
		return t, fmt.Errorf("tz: there is no time zone %q on this host; want a name as Europe/Berlin, or UTC", s.TZ)
	}
	if spec, ok := t.spec.(*cron.SpecSchedule); ok {
		spec.Location = t.zone
		t.fixed = spec.Hour&everyHour == 0
	}
	if t.next(time.Unix(0, 0)).IsZero() {
		return t, fmt.Errorf("cron: there is no day as in %q", s.Cron)
	}
	return t, nil
}

// next is the first time after another one; zero is none.
//
// An hour of the day is one on the clock: when clocks are set forward over it, it is time as soon as they are; when they are set back over it, it
// is time once. What comes each hour, or more often, comes in all hours that there are.
func (t times) next(after time.Time) time.Time {
	if !t.fixed {
		return t.spec.Next(after)
	}
	for clock := wall(after.In(t.zone)); ; {
		spec := *t.spec.(*cron.SpecSchedule)
		spec.Location = time.UTC
		clock = spec.Next(clock)
		if clock.IsZero() {
			return clock
		}
		if at := onClock(clock, t.zone); at.After(after) {
			return at
		}
	}
}

// wall is what a clock shows, as if it stood in UTC.
func wall(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// onClock is when a clock of the zone first shows that, or, when it never does, when it is set forward over it.
func onClock(clock time.Time, zone *time.Location) time.Time {
	const most = 3 * time.Hour // by which clocks are set forward or back at once
	least := time.Date(clock.Year(), clock.Month(), clock.Day(), clock.Hour(), clock.Minute(), clock.Second(), 0, zone).Add(-most)
	lo, hi := int64(0), int64(2*most/time.Second)
	// The clock may be set back in between, and then does not only go forward: the first time is before that.
	if start, end := least.In(zone), least.Add(2*most).In(zone); offset(start) > offset(end) {
		if back := changes(least, zone, hi); !wall(least.Add(time.Duration(back-1) * time.Second).In(zone)).Before(clock) {
			hi = back - 1
		}
	}
	for lo < hi {
		mid := (lo + hi) / 2
		if wall(least.Add(time.Duration(mid) * time.Second).In(zone)).Before(clock) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return least.Add(time.Duration(lo) * time.Second)
}

func offset(t time.Time) int { _, s := t.Zone(); return s }

// changes is after how many seconds the offset of a zone is another one.
func changes(from time.Time, zone *time.Location, within int64) int64 {
	first := offset(from.In(zone))
	lo, hi := int64(0), within
	for lo < hi {
		mid := (lo + hi) / 2
		if offset(from.Add(time.Duration(mid)*time.Second).In(zone)) == first {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// late is by how much a run may begin after its time and not count as missed.
const late = 5 * time.Minute

// Due says whether it is time for a run of a policy by its schedule, and which: at is the scheduled time of the run. last is the time
// of the last run that there was or was left out, or when the policy was made. Of runs that were missed there is one, or none: see Missed. A clock that was set
// back waits for the next time after last. next is when to ask again; zero is never.
func (p *Program) Due(last, now time.Time) (at time.Time, due bool, next time.Time) {
	s := p.Policy.Spec.Schedule
	if s == nil {
		return time.Time{}, false, time.Time{}
	}
	t, err := s.times()
	if err != nil {
		return time.Time{}, false, time.Time{} // Read has refused it
	}
	at = t.next(last)
	if at.IsZero() || now.Before(p.shifted(at)) {
		return time.Time{}, false, p.shifted(at)
	}
	if missed := t.next(at); !missed.IsZero() && !now.Before(p.shifted(missed)) {
		at = t.latest(at, now)
	}
	begin := p.shifted(at)
	next = p.shifted(t.next(at))
	if now.Before(begin) { // the latest is on its way, and those before it were missed
		return time.Time{}, false, begin
	}
	if s.Missed == SkipRuns && now.Sub(begin) > late {
		return time.Time{}, false, next
	}
	return at, true, next
}

// latest is the last time that is not after now; first is one.
func (t times) latest(first, now time.Time) time.Time {
	// Long ago is far away in times of a schedule that comes often: look from near by first.
	for _, back := range []time.Duration{time.Hour, day, 40 * day, 400 * day, 5 * 366 * day} {
		from := now.Add(-back)
		if !from.After(first) {
			break
		}
		if near := t.next(from); !near.IsZero() && !near.After(now) {
			first = near
			break
		}
	}
	for {
		n := t.next(first)
		if n.IsZero() || n.After(now) {
			return first
		}
		first = n
	}
}

// shifted is when a run of a time begins: later by its jitter, which depends on the policy and on the time alone.
func (p *Program) shifted(at time.Time) time.Time {
	jitter := time.Duration(p.Policy.Spec.Schedule.Jitter)
	if jitter <= 0 || at.IsZero() {
		return at
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", p.Policy.Metadata.Name, at.Unix())
	return at.Add(time.Duration(h.Sum64() % uint64(jitter)))
}

// Ends is when a run of a time begins no more actions; zero is never.
func (p *Program) Ends(at time.Time) time.Time {
	if s := p.Policy.Spec.Schedule; s != nil && s.Window > 0 {
		return p.shifted(at).Add(time.Duration(s.Window))
	}
	return time.Time{}
}
