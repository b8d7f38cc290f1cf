package cli

import (
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover/units"
)

func TestSpans(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 7 * day, "2w": 14 * day} {
		if got, err := units.ParseSpan(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "0s", "-1h", "7", "1.5d", "99999999w", "d", "1000000h", "7D"} {
		if got, err := units.ParseSpan(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	for text, want := range map[string]time.Time{
		"2027-01-31":                time.Date(2027, 1, 31, 0, 0, 0, 0, time.Local),
		"2027-01-31T18:00":          time.Date(2027, 1, 31, 18, 0, 0, 0, time.Local),
		"2027-01-31T18:00:00+02:00": time.Date(2027, 1, 31, 16, 0, 0, 0, time.UTC),
	} {
		if got, err := units.ParseDate(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if _, err := ParseUntil("2001-01-01"); err == nil {
		t.Error("what is over can not be waited for")
	}
	synctest.Test(t, func(t *testing.T) {
		if got, err := ParseSince("7d"); err != nil || time.Since(got) != 7*day {
			t.Errorf("%v, %v", got, err)
		}
	})
}
