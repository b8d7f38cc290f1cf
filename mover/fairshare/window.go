package fairshare

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"datamove.dev/mover"
)

const (
	dayMinutes    = 24 * 60
	maxWindowText = 100
)

var dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} // as time.Weekday counts

// window is a time of the week, as a clock on the wall shows it.
type window struct {
	days     [7]bool // on which it begins, by time.Weekday
	from, to int     // minutes after midnight; it ends on the next day where to is not after from
}

// parseWindow reads days, a time of day, or both: Mon-Fri 08:00-18:00.
func parseWindow(text string) (window, error) {
	w, err := readWindow(text)
	if err != nil {
		return window{}, fmt.Errorf("window %s: %w: %w; it is days, times or both, as in 22:00-06:00, Mon-Fri 08:00-18:00 or Sat,Sun",
			strconv.Quote(text[:min(len(text), maxWindowText)]), mover.ErrUsage, err)
	}
	return w, nil
}

func readWindow(text string) (window, error) {
	w := window{days: [7]bool{true, true, true, true, true, true, true}, to: dayMinutes}
	if len(text) > maxWindowText {
		return w, fmt.Errorf("longer than %d letters", maxWindowText)
	}
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return w, errors.New("nothing in it")
	}
	var err error
	if first := fields[0][0]; first < '0' || first > '9' {
		w.days, err = readDays(fields[0])
		fields = fields[1:]
	}
	if err == nil && len(fields) > 0 {
		w.from, w.to, err = readTimes(fields[0])
		fields = fields[1:]
	}
	if err == nil && len(fields) > 0 {
		err = fmt.Errorf("%q is too much", fields[0])
	}
	return w, err
}

// readDays reads Mon, Mon-Fri, or several of these with commas between them.
func readDays(text string) (days [7]bool, err error) {
	for item := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(item, "-")
		if !isRange {
			last = first
		}
		from, to := weekday(first), weekday(last)
		if from < 0 || to < 0 {
			return days, fmt.Errorf("%q is no day: Mon, Tue, Wed, Thu, Fri, Sat, Sun", item)
		}
		for d := from; ; d = (d + 1) % 7 {
			days[d] = true
			if d == to {
				break
			}
		}
	}
	return days, nil
}

func weekday(name string) int { return slices.Index(dayNames, strings.ToLower(name)) }

// readTimes reads 08:00-18:00.
func readTimes(text string) (from, to int, err error) {
	first, last, isRange := strings.Cut(text, "-")
	from, okFrom := minutes(first)
	to, okTo := minutes(last)
	switch {
	case !isRange || !okFrom || !okTo || from == dayMinutes:
		return 0, 0, fmt.Errorf("%q are no times: from 00:00 to 24:00, as in 08:00-18:00", text)
	case from == to:
		return 0, 0, fmt.Errorf("%q is no time at all; a whole day has no times", text)
	}
	return from, to, nil
}

// minutes reads 08:00 or 8:00, and 24:00.
func minutes(text string) (int, bool) {
	h, m, ok := strings.Cut(text, ":")
	hour, okHour := number(h)
	minute, okMinute := number(m)
	if !ok || !okHour || !okMinute || len(m) != 2 || hour > 24 || minute > 59 || hour == 24 && minute > 0 {
		return 0, false
	}
	return hour*60 + minute, true
}

// number reads one or two digits.
func number(text string) (n int, ok bool) {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, len(text) == 1 || len(text) == 2
}

// contains reports whether a clock that shows t shows a time in the window.
func (w window) contains(t time.Time) bool {
	at, today := t.Hour()*60+t.Minute(), t.Weekday()
	if w.from < w.to {
		return w.days[today] && w.from <= at && at < w.to
	}
	yesterday := (today + 6) % 7
	return w.days[today] && at >= w.from || w.days[yesterday] && at < w.to
}
