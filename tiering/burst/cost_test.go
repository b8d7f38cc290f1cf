package burst

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/must"
	"datamove.dev/tiering/burst/pricing"
)

// TestBill: costs are added up by team and day; not those of bursts that are not known here, nor of days of which AWS may hear more.
func TestBill(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	on := func(day int) time.Time { return time.Date(2026, 11, day, 0, 0, 0, 0, time.UTC) }
	record := func(team string) *Record {
		return Begin(read(t, strings.Replace(whole, "team: vision", "team: "+team, 1)), "anna", Admitted{}, now)
	}
	records := map[string]*Record{"a": record("vision"), "b": record("vision"), "c": record("speech")}
	got := must.Get(Bill([]Cost{
		{Day: on(17), Burst: "a", Money: 3 * pricing.Dollar},
		{Day: on(17), Burst: "b", Money: -1 * pricing.Dollar}, // a credit
		{Day: on(17), Burst: "c", Money: 7 * pricing.Dollar},
		{Day: on(18), Burst: "a", Money: 5 * pricing.Dollar},
		{Day: on(18), Burst: "of another place", Money: 100 * pricing.Dollar},
		{Day: on(19), Burst: "a", Money: 100 * pricing.Dollar},
		{Day: on(19), Burst: "b", Money: 2 * pricing.Dollar, Final: true},
	}, records, now))(t)
	want := []Billed{{"vision", on(17), 2 * pricing.Dollar}, {"speech", on(17), 7 * pricing.Dollar}, {"vision", on(18), 5 * pricing.Dollar}, {"vision", on(19), 2 * pricing.Dollar}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, and not %+v", got, want)
	}
}
