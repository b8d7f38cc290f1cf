package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"datamove.dev/test/must"
	"datamove.dev/tiering/policy"
)

func scheduled(t testing.TB, schedule string) *policy.Program {
	t.Helper()
	all, err := policy.Read("s.yaml", []byte("kind: TierPolicy\nmetadata: {name: nightly}\nspec:\n  scope: {roots: [\"p:\"]}\n  schedule: {"+schedule+"}\n  rules: [{name: a, action: keep}]\n"))
	must.Do(t, err)
	return all[0]
}

func when(t testing.TB, text string) time.Time {
	t.Helper()
	at := must.Get(time.Parse(time.RFC3339, text))(t)
	return at
}

// Times of runs of somebody who asks each minute.
func runs(p *policy.Program, from, to time.Time) (all []string) {
	last := from
	for now := from; now.Before(to); now = now.Add(time.Minute) {
		if at, due, _ := p.Due(last, now); due {
			all = append(all, now.UTC().Format("02T15:04"))
			last = at
		}
	}
	return all
}

// Hours of the day are those on the clock of the zone, also where that is set forward or back.
func TestClocks(t *testing.T) {
	for _, row := range []struct {
		schedule, from, to string
		want               []string
	}{
		{"cron: '30 1 * * *'", "2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z", []string{"28T01:30", "29T01:30", "30T01:30"}},
		// In Berlin 02:00 becomes 03:00 on March 29, 2026 at 01:00 UTC,
		{"cron: '30 2 * * *', tz: Europe/Berlin", "2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z", []string{"28T01:30", "29T01:00", "30T00:30"}},
		{"cron: '0 2,3 * * *', tz: Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-30T00:00:00Z", []string{"29T01:00"}}, // one moment is one run
		{"cron: '*/30 * * * *', tz: Europe/Berlin", "2026-03-29T00:10:00Z", "2026-03-29T02:10:00Z", []string{"29T00:30", "29T01:00", "29T01:30", "29T02:00"}},
		// and 03:00 becomes 02:00 on October 25 at 01:00 UTC.
		{"cron: '30 2 * * *', tz: Europe/Berlin", "2026-10-24T00:00:00Z", "2026-10-27T00:00:00Z", []string{"24T00:30", "25T00:30", "26T01:30"}},
		{"cron: '0 3 * * *', tz: Europe/Berlin", "2026-10-24T00:00:00Z", "2026-10-27T00:00:00Z", []string{"24T01:00", "25T02:00", "26T02:00"}},
		{"cron: '*/30 * * * *', tz: Europe/Berlin", "2026-10-25T00:10:00Z", "2026-10-25T02:10:00Z", []string{"25T00:30", "25T01:00", "25T01:30", "25T02:00"}},
		// Lord Howe Island sets its clocks by half an hour: 02:00 becomes 01:30 on April 5 at 15:00 UTC of the day before.
		{"cron: '45 1 * * *', tz: Australia/Lord_Howe", "2026-04-03T00:00:00Z", "2026-04-06T00:00:00Z", []string{"03T14:45", "04T14:45", "05T15:15"}},
		{"cron: '@monthly'", "2026-01-30T00:00:00Z", "2026-02-02T00:00:00Z", []string{"01T00:00"}},
		{"cron: '0 0 29 2 *'", "2026-02-26T00:00:00Z", "2026-03-03T00:00:00Z", nil},
	} {
		if got := runs(scheduled(t, row.schedule), when(t, row.from), when(t, row.to)); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.schedule, got, row.want)
		}
	}
}

// Nobody was there at the time of runs: there is one, or none. A clock that was set back begins nothing twice.
func TestMissed(t *testing.T) {
	for _, row := range []struct {
		schedule, last, now string
		at                  string // "" is none
		next                string
	}{
		{"cron: '0 1 * * *'", "2026-01-01T01:00:00Z", "2026-01-01T12:00:00Z", "", "2026-01-02T01:00:00Z"},
		{"cron: '0 1 * * *'", "2026-01-01T01:00:00Z", "2026-01-02T01:00:00Z", "2026-01-02T01:00:00Z", "2026-01-03T01:00:00Z"},
		{"cron: '0 1 * * *'", "2026-01-01T01:00:00Z", "2026-01-09T12:00:00Z", "2026-01-09T01:00:00Z", "2026-01-10T01:00:00Z"},
		{"cron: '0 1 * * *', missed: skip", "2026-01-01T01:00:00Z", "2026-01-09T12:00:00Z", "", "2026-01-10T01:00:00Z"},
		{"cron: '0 1 * * *', missed: skip", "2026-01-01T01:00:00Z", "2026-01-09T01:04:00Z", "2026-01-09T01:00:00Z", "2026-01-10T01:00:00Z"},
		{"cron: '* * * * *'", "1996-01-01T01:00:00Z", "2026-01-09T01:04:30Z", "2026-01-09T01:04:00Z", "2026-01-09T01:05:00Z"},
		{"cron: '0 1 * * *'", "2026-01-09T01:00:00Z", "2020-01-01T00:00:00Z", "", "2026-01-10T01:00:00Z"},
	} {
		p := scheduled(t, row.schedule)
		at, due, next := p.Due(when(t, row.last), when(t, row.now))
		if want := row.at != ""; due != want || want && !at.Equal(when(t, row.at)) || !next.Equal(when(t, row.next)) {
			t.Errorf("%+v: %v, %v, next %v", row, at, due, next)
		}
	}
	if _, due, next := read(t, "  - {name: a, action: keep}\n").Due(time.Unix(0, 0), now); due || !next.IsZero() {
		t.Error("a policy without a schedule is never due")
	}
}

// Each time has its own shift, which is the same whoever asks, and runs end with their window.
func TestJitter(t *testing.T) {
	p := scheduled(t, "cron: '0 1 * * *', jitter: 10m, window: 5h")
	seen := map[time.Duration]bool{}
	for d := range 30 {
		at := when(t, fmt.Sprintf("2026-01-%02dT01:00:00Z", 2+d%29))
		_, due, begin := p.Due(at.Add(-time.Hour), at.Add(-time.Minute))
		shift := begin.Sub(at)
		if due || shift < 0 || shift >= 10*time.Minute {
			t.Fatalf("%v: begins %v", at, begin)
		}
		seen[shift] = true
		if got, due, _ := p.Due(at.Add(-time.Hour), begin); !due || !got.Equal(at) {
			t.Fatalf("%v: %v, %v", at, got, due)
		}
		if end := p.Ends(at); !end.Equal(begin.Add(5 * time.Hour)) {
			t.Fatalf("%v: ends %v", at, end)
		}
	}
	if len(seen) < 20 {
		t.Errorf("%d shifts", len(seen))
	}
}
