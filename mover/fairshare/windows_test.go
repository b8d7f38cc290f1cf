package fairshare

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

const berlin = "Europe/Berlin" // 2026: forward on Sunday 29 March, back on Sunday 25 October

func windowsOf(t testing.TB, zone string, texts ...string) *Windows {
	t.Helper()
	var timed []Timed
	for i, text := range texts {
		timed = append(timed, Timed{When: text, Rate: Rate{Bytes: int64(i + 1)}})
	}
	w := must.Get(NewWindows(zone, Rate{}, timed...))(t)
	return w
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	when := must.Get(time.Parse("2006-01-02 15:04:05 -0700", text))(t)
	return when
}

func TestWindowContains(t *testing.T) {
	for _, row := range []struct {
		window string
		in     string // hours on the days from Monday 15 June 2026
		out    string
	}{
		{"08:00-18:00", "15 08:00, 15 17:59, 20 12:00", "15 07:59, 15 18:00, 15 00:00"},
		{"22:00-06:00", "15 22:00, 15 23:59, 16 00:00, 16 05:59, 15 03:00", "15 21:59, 16 06:00, 15 12:00"},
		{"Mon-Fri 08:00-18:00", "15 08:00, 19 17:59", "20 12:00, 21 12:00, 15 07:59"},
		{"Sat,Sun", "20 00:00, 21 23:59", "19 23:59, 22 00:00"},
		{"Fri 22:00-06:00", "19 22:00, 20 05:59", "20 22:00, 19 05:59, 18 23:00"},
		{"Sun 22:00-06:00", "21 22:00, 22 05:59, 15 03:00", "21 05:59, 22 22:00"},
		{"Fri-Mon", "19 00:00, 20 09:00, 21 09:00, 15 23:59", "16 00:00, 18 23:59"},
		{"mon,WED-fri,Sun 8:00-9:30", "15 08:00, 17 09:29, 18 08:00, 19 08:00, 21 08:00", "16 08:00, 20 08:00, 15 09:30"},
		{"18:00-24:00", "15 18:00, 15 23:59", "16 00:00, 15 17:59"},
		{"18:00-00:00", "15 18:00, 15 23:59", "16 00:00, 15 17:59"},
		{"00:00-24:00", "15 00:00, 15 23:59", ""},
		{"  Sat   10:00-11:00 ", "20 10:30", "20 11:30"},
	} {
		w := windowsOf(t, "UTC", row.window)
		check := func(texts string, want Rate) {
			for text := range strings.SplitSeq(texts, ", ") {
				if text != "" && w.Rate(at(t, "2026-06-"+text+":00 +0000")) != want {
					t.Errorf("%q at %s: not %v", row.window, text, want)
				}
			}
		}
		check(row.in, Rate{Bytes: 1})
		check(row.out, Rate{})
	}
}

func TestBadWindows(t *testing.T) {
	for _, row := range []struct{ text, says string }{
		{"", "nothing in it"},
		{"   ", "nothing in it"},
		{"8-18", `"8-18" are no times`},
		{"08:00", `"08:00" are no times`},
		{"08:00-", `"08:00-" are no times`},
		{"08:00-18:00-20:00", "are no times"},
		{"08:60-18:00", "are no times"},
		{"24:00-06:00", "are no times"},
		{"08:00-24:01", "are no times"},
		{"08:00-25:00", "are no times"},
		{"008:00-18:00", "are no times"},
		{"08:0-18:00", "are no times"},
		{"+8:00-18:00", `"+8:00-18:00" is no day`}, // what does not begin with a digit is days
		{"08:00-08:00", "no time at all"},
		{"Montag", `"Montag" is no day: Mon, Tue`},
		{"Mon-", `"Mon-" is no day`},
		{"Mon,,Tue", `"" is no day`},
		{"Mon-Wed-Fri", `"Mon-Wed-Fri" is no day`},
		{"08:00-18:00 Mon-Fri", `"Mon-Fri" is too much`},
		{"Mon Tue", `"Tue" are no times`},
		{"Mon 08:00-18:00 CET", `"CET" is too much`},
		{strings.Repeat("Mon,", 1000), "longer than 100 letters"},
	} {
		_, err := NewWindows("UTC", Rate{}, Timed{When: row.text})
		if !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.says) || !strings.Contains(err.Error(), "Mon-Fri 08:00-18:00") {
			t.Errorf("%q: %v; want it to say %s, and what is allowed", row.text, err, row.says)
		}
	}
	for _, zone := range []string{"Mars/Olympus", "../../etc/passwd", "CEST"} {
		if _, err := NewWindows(zone, Rate{}); !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), berlin) {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
	if _, err := NewWindows("", Rate{}, make([]Timed, maxWindows+1)...); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("too many: %v", err)
	}
}

func TestWindowsRate(t *testing.T) {
	w, err := NewWindows(berlin, Rate{Bytes: 10, Ops: 3},
		Timed{"Sat,Sun", Rate{Bytes: 30}}, Timed{"22:00-06:00", Rate{Bytes: 20}})
	must.Do(t, err)
	for _, row := range []struct {
		name string
		now  string
		want Rate
		next string
	}{
		{"outside of all", "2026-06-15 12:00:00 +0200", Rate{10, 3}, "2026-06-15 22:00:00 +0200"},
		{"in one", "2026-06-15 23:30:00 +0200", Rate{20, 0}, "2026-06-16 06:00:00 +0200"},
		{"in both: the first", "2026-06-20 23:00:00 +0200", Rate{30, 0}, "2026-06-22 00:00:00 +0200"},
		{"when one ends, the other", "2026-06-22 00:00:00 +0200", Rate{20, 0}, "2026-06-22 06:00:00 +0200"},
		{"seen from elsewhere", "2026-06-15 20:30:00 -0700", Rate{20, 0}, "2026-06-16 06:00:00 +0200"},
		{"the last second", "2026-06-15 21:59:59 +0200", Rate{10, 3}, "2026-06-15 22:00:00 +0200"},
		{"the night in which clocks go forward", "2026-03-28 23:00:00 +0100", Rate{30, 0}, "2026-03-30 00:00:00 +0200"},
	} {
		now := at(t, row.now)
		if got := w.Rate(now); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
		if next, ok := w.Next(now); !ok || !next.Equal(at(t, row.next)) {
			t.Errorf("%s: changes %v, want %s", row.name, next, row.next)
		}
	}
}

// What a clock on the wall shows on the two odd days.
func TestWindowsOnOddDays(t *testing.T) {
	for _, row := range []struct {
		name, window string
		changes      []string
	}{
		{"forward: the night has seven hours", "22:00-06:00",
			[]string{"2026-03-28 22:00:00 +0100", "2026-03-29 06:00:00 +0200"}},
		{"forward: it begins when its time is skipped", "02:30-05:00",
			[]string{"2026-03-29 03:00:00 +0200", "2026-03-29 05:00:00 +0200"}},
		{"forward: it ends when its time is skipped", "01:00-02:30",
			[]string{"2026-03-29 01:00:00 +0100", "2026-03-29 03:00:00 +0200"}},
		{"forward: what is skipped does not come", "02:00-03:00",
			[]string{"2026-03-28 02:00:00 +0100", "2026-03-28 03:00:00 +0100", "2026-03-30 02:00:00 +0200"}},
		{"back: the night has nine hours", "22:00-06:00",
			[]string{"2026-10-24 22:00:00 +0200", "2026-10-25 06:00:00 +0100"}},
		{"back: the hour that comes twice", "02:00-03:00",
			[]string{"2026-10-25 02:00:00 +0200", "2026-10-25 03:00:00 +0100"}},
		{"back: what is shown twice comes twice", "02:00-02:30",
			[]string{"2026-10-25 02:00:00 +0200", "2026-10-25 02:30:00 +0200", "2026-10-25 02:00:00 +0100", "2026-10-25 02:30:00 +0100"}},
	} {
		w := windowsOf(t, berlin, row.window)
		now := at(t, row.changes[0]).Add(-time.Minute)
		for _, change := range row.changes {
			next, ok := w.Next(now)
			if !ok || !next.Equal(at(t, change)) {
				t.Errorf("%s: changes %v, want %s", row.name, next, change)
			}
			now = next
		}
	}
}

func TestNextIsNever(t *testing.T) {
	now := at(t, "2026-06-15 12:00:00 +0000")
	for _, texts := range [][]string{{}, {"00:00-24:00"}, {"Mon-Sun"}, {"Mon-Fri", "Sat,Sun"}} {
		w := windowsOf(t, "UTC", texts...)
		for i := range w.rates {
			w.rates[i] = Rate{Bytes: 1}
		}
		if next, ok := w.Next(now); ok {
			t.Errorf("%q changes %v", texts, next)
		}
	}
	// Samoa had no Friday, 30 December 2011: its next is a week later.
	w := windowsOf(t, "Pacific/Apia", "Fri")
	if next, ok := w.Next(at(t, "2011-12-24 12:00:00 -1000")); !ok || !next.Equal(at(t, "2012-01-06 00:00:00 +1400")) {
		t.Errorf("Friday in Samoa begins %v", next)
	}
}

func TestLocalZone(t *testing.T) {
	was := time.Local
	defer func() { time.Local = was }()
	time.Local = time.FixedZone("here", 5*3600+45*60)
	w := windowsOf(t, "", "08:00-18:00")
	if w.Rate(at(t, "2026-06-15 08:00:00 +0545")) != (Rate{Bytes: 1}) || w.Rate(at(t, "2026-06-15 07:59:00 +0545")) != (Rate{}) {
		t.Error("without a zone, it is not that of the machine")
	}
}

// Next is the first minute with another rate.
func TestNextIsTheNextChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom([]string{"UTC", berlin, "America/Sao_Paulo", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kathmandu", "Pacific/Apia"}).Draw(t, "zone")
		var timed []Timed
		for i := range rapid.IntRange(1, 3).Draw(t, "windows") {
			timed = append(timed, Timed{genWindow(t), Rate{Bytes: int64(i + 1)}})
		}
		w := must.Get(NewWindows(zone, Rate{}, timed...))(t)
		now := genNow(t, w.zone)
		next, ok := w.Next(now)
		rate, first := w.Rate(now), now
		for first.Sub(now) <= 8*24*time.Hour && w.Rate(first) == rate {
			first = first.Add(time.Minute)
		}
		if changes := w.Rate(first) != rate; changes && (!ok || !next.Equal(first)) || !changes && ok && next.Before(first) {
			t.Fatalf("%v from %v: changes %v, want %v", timed, now.In(w.zone), next, first.In(w.zone))
		}
	})
}

// genWindow draws the text of a window, often one at night.
func genWindow(t *rapid.T) string {
	days := rapid.SampledFrom([]string{"", "Mon-Fri", "Sat,Sun", "Sun", "Fri-Tue", "Sat"}).Draw(t, "days")
	times := rapid.OneOf(
		rapid.SampledFrom([]string{"22:00-06:00", "00:00-01:00", "23:30-00:30", "02:00-03:00", "01:30-02:30", "02:30-24:00"}),
		rapid.StringMatching(`(0[0-9]|1[0-9]):[0-5][0-9]-2[0-3]:[0-5][0-9]`)).Draw(t, "times")
	if days != "" && rapid.Bool().Draw(t, "whole days") {
		return days
	}
	return strings.TrimSpace(days + " " + times)
}

// genNow draws a full minute, often one just before the clocks of a zone change.
func genNow(t *rapid.T, zone *time.Location) time.Time {
	now := time.Unix(rapid.Int64Range(1_200_000_000, 1_900_000_000).Draw(t, "now")/60*60, 0)
	if _, end := now.In(zone).ZoneBounds(); !end.IsZero() && rapid.Bool().Draw(t, "before a change") {
		return end.Truncate(time.Minute).Add(-time.Duration(rapid.IntRange(0, 2000).Draw(t, "minutes")) * time.Minute)
	}
	return now
}

// FuzzWindow finds no text that is accepted and makes no sense, and none that is
// refused without a word on what is allowed.
func FuzzWindow(f *testing.F) {
	for _, seed := range []string{"22:00-06:00", "Mon-Fri 08:00-18:00", "Sat,Sun", "sun-SAT 0:00-24:00", "Mon 08:00-08:00", "", "Mon-,", "24:00-00:00", "٠٨:00-18:00", "Mon\u2003Tue"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := parseWindow(text)
		if err != nil {
			if !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), "22:00-06:00") || len(err.Error()) > 1000 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		monday := time.Date(2026, 6, 15, 0, 0, 0, 0, time.UTC)
		inside := 0
		for minute := range 7 * dayMinutes {
			if w.contains(monday.Add(time.Duration(minute) * time.Minute)) {
				inside++
			}
		}
		long, days := w.to-w.from, 0
		if long <= 0 {
			long += dayMinutes
		}
		for _, on := range w.days {
			if on {
				days++
			}
		}
		if days == 0 || inside != days*long {
			t.Fatalf("%q is %d minutes of a week, want %d days of %d", text, inside, days, long)
		}
	})
}
