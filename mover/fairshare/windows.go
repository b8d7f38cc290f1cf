package fairshare

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"datamove.dev/mover"
)

// Timed is a rate for a window of the week.
type Timed struct {
	// When is days, a time of day, or both: 22:00-06:00, Mon-Fri 08:00-18:00, Sat,Sun.
	// Days are those on which it begins: Fri 22:00-06:00 ends on Saturday.
	When string
	Rate Rate
}

const maxWindows = 64

// Windows are rates by the time of the week, as a clock on the wall shows it. When
// clocks are put forward, a time that they skip does not come; when they are put
// back, a time that they show twice comes twice. A Windows does not change.
type Windows struct {
	zone      *time.Location
	otherwise Rate
	windows   []window
	rates     []Rate // of windows
	edges     []int  // minutes after midnight when one may begin or end, in order
}

// NewWindows returns windows in the time zone of that IANA name, "" for that of the
// machine. Outside of all the rate is otherwise. Errors are of kind [mover.ErrUsage].
func NewWindows(zone string, otherwise Rate, timed ...Timed) (*Windows, error) {
	if len(timed) > maxWindows {
		return nil, fmt.Errorf("%d windows, and %d are possible: %w", len(timed), maxWindows, mover.ErrUsage)
	}
	location, err := loadZone(zone)
	if err != nil {
		return nil, err
	}
	w := &Windows{zone: location, otherwise: otherwise, edges: []int{0}}
	for _, t := range timed {
		one, err := parseWindow(t.When)
		if err != nil {
			return nil, err
		}
		w.windows, w.rates = append(w.windows, one), append(w.rates, t.Rate)
		w.edges = append(w.edges, one.from, one.to)
	}
	slices.Sort(w.edges)
	w.edges = slices.Compact(w.edges)
	return w, nil
}

// NewHeld returns windows of a zone in which a rate holds; outside of them nothing is limited. Where there are none, it always holds.
func NewHeld(zone string, rate Rate, when ...string) (*Windows, error) {
	if len(when) == 0 {
		return NewWindows(zone, rate)
	}
	timed := make([]Timed, len(when))
	for i, text := range when {
		timed[i] = Timed{When: text, Rate: rate}
	}
	return NewWindows(zone, Rate{}, timed...)
}

func loadZone(name string) (*time.Location, error) {
	if name == "" {
		return time.Local, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %s: %w: %w; it is a name such as Europe/Berlin or UTC", strconv.Quote(name), mover.ErrUsage, err)
	}
	return zone, nil
}

// Rate is that of the first window that contains now.
func (w *Windows) Rate(now time.Time) Rate {
	now = now.In(w.zone)
	for i, one := range w.windows {
		if one.contains(now) {
			return w.rates[i]
		}
	}
	return w.otherwise
}

// horizon is how far Next looks: clocks may skip a window for one week.
const horizon = 16 * 24 * time.Hour

// Next is when the rate changes after now; false is never.
func (w *Windows) Next(now time.Time) (time.Time, bool) {
	now = now.Round(0).In(w.zone)
	rate := w.Rate(now)
	for at := w.edge(now); at.Sub(now) <= horizon; at = w.edge(at) {
		if w.Rate(at) != rate {
			return at, true
		}
	}
	return time.Time{}, false
}

// edge is the next time at which a window may begin or end: when the clock shows so,
// or when it is put forward or back. Until then it runs evenly.
func (w *Windows) edge(t time.Time) time.Time {
	at := t.Hour()*60 + t.Minute()
	next := dayMinutes + w.edges[0]
	if i, _ := slices.BinarySearch(w.edges, at+1); i < len(w.edges) {
		next = w.edges[i]
	}
	begun := time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
	clock := t.Add(time.Duration(next-at)*time.Minute - begun)
	if _, end := t.ZoneBounds(); !end.IsZero() && end.Before(clock) {
		return end
	}
	return clock
}
