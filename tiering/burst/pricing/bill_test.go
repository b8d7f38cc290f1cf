package pricing

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
)

var day = time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)

// drawn is a book with one rate in up to six tiers, by the GB.
func drawn(t *rapid.T) *Book {
	var tiers []string
	end := int64(0)
	for range rapid.IntRange(0, 5).Draw(t, "tiers") {
		end += rapid.Int64Range(1, 1<<20).Draw(t, "size")
		tiers = append(tiers, fmt.Sprintf("{up_to: %d, usd: 0.%06d}", end, rapid.IntRange(0, 999_999).Draw(t, "price")))
	}
	tiers = append(tiers, fmt.Sprintf("{usd: 0.%06d}", rapid.IntRange(0, 999_999).Draw(t, "price")))
	b, err := Read("drawn", []byte("kind: PriceBook\nregion: us-east-1\ncurrency: USD\ndate: 2026-07-28\nsource: drawn\nrates:\n  x: {unit: GB, tiers: ["+strings.Join(tiers, ", ")+"]}\n"))
	must.Do(t, err)
	return b
}

func billed(t *rapid.T, b *Book, bytes, before int64) Money {
	bill := must.Get(b.Bill([]Usage{{Rate: "x", Amount: Bytes(bytes)}}, map[string]Amount{"x": Bytes(before)}, day))(t)
	return bill.Total
}

// TestTiersSplit: a use in two bills, or on two lines of one, costs what it costs at once.
func TestTiersSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, size := drawn(t), rapid.Int64Range(0, 1<<53)
		was, one, two := size.Draw(t, "before"), size.Draw(t, "one"), size.Draw(t, "two")
		whole := billed(t, b, one+two, was)
		if parts := billed(t, b, one, was) + billed(t, b, two, was+one); parts != whole {
			t.Errorf("two bills %d, one %d millionths", parts, whole)
		}
		bill, err := b.Bill([]Usage{{Rate: "x", Amount: Bytes(one)}, {Rate: "x", Amount: Bytes(two)}}, map[string]Amount{"x": Bytes(was)}, day)
		if err != nil || bill.Total != whole {
			t.Errorf("two lines %d, one %d millionths, %v", bill.Total, whole, err)
		}
	})
}

// TestTiersRise: more never costs less, and a byte more costs no more than a byte of the dearest tier: there is no step.
func TestTiersRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, size := drawn(t), rapid.Int64Range(0, 1<<53)
		n, more := size.Draw(t, "n"), rapid.Int64Range(0, 1<<40).Draw(t, "more")
		a, z := billed(t, b, n, 0), billed(t, b, n+more, 0)
		dearest := Money(more*1_000_000>>30) + 2 // a dollar for a GB, and two roundings
		if z < a || z-a > dearest {
			t.Errorf("%d bytes cost %v, %d more %v", n, a, more, z)
		}
	})
}

// TestTiersPieces: the pieces of a line are what was used, and at their prices cost what it says.
func TestTiersPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, size := drawn(t), rapid.Int64Range(0, 1<<53)
		bill := must.Get(b.Bill([]Usage{{Rate: "x", Amount: Bytes(size.Draw(t, "n"))}}, map[string]Amount{"x": Bytes(size.Draw(t, "before"))}, day))(t)
		line, units, cost := bill.Lines[0], 0.0, 0.0
		for _, p := range line.Pieces {
			price, _ := p.USD.dollars.Float64()
			units += p.Units
			cost += p.Units * price
		}
		if math.Abs(units-line.Units) > 1e-6*(1+units) || math.Abs(cost-float64(line.Cost)/1e6) > 1e-6*(1+cost) {
			t.Errorf("pieces of %v cost %v, the line has %v and %v", units, cost, line.Units, line.Cost)
		}
	})
}

func TestNothingOverflows(t *testing.T) {
	b := opened(t, "testdata/golden.yaml")
	for name, uses := range map[string][]Usage{
		"bytes":  {{Rate: "s3.standard", Amount: Stored(math.MaxInt64, day, math.MaxInt64)}},
		"hours":  {{Rate: "ec2.p5.48xlarge", Amount: Hours(math.MaxInt64, math.MaxInt64)}},
		"total":  {{Rate: "ec2.p5.48xlarge", Amount: Hours(18_000_000, time.Hour)}, {Rate: "ec2.p5.48xlarge", Amount: Hours(18_000_000, time.Hour)}},
		"number": make([]Usage, usesMost+1),
	} {
		if bill, err := b.Bill(uses, nil, day); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%s: %v, %v", name, bill.Total, err)
		}
	}
	for _, a := range []Amount{Bytes(-1), Requests(math.MinInt64), Hours(-1, time.Hour), Stored(1, day, -time.Hour), {}} {
		if a.Units() != 0 {
			t.Errorf("%v is less than nothing", a)
		}
	}
	for _, units := range []float64{math.NaN(), math.Inf(1), -1} {
		if a, err := Of(GB, units); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%v becomes %v", units, a)
		}
	}
}

// TestMissingRates: a bill is refused, and every rate that is missing is named.
func TestMissingRates(t *testing.T) {
	b := opened(t, "testdata/golden.yaml")
	bill, err := b.Bill([]Usage{{Rate: "nat.gb", Amount: Bytes(1)}, {Rate: "s3.put", Amount: Requests(1)}, {Rate: "ec2.x\n", Amount: Hours(1, time.Hour)}}, nil, day)
	var missing *MissingError
	if !errors.As(err, &missing) || !errors.Is(err, mover.ErrUsage) || bill.Total != 0 || bill.Lines != nil {
		t.Fatalf("%+v, %v", bill, err)
	}
	if s := err.Error(); !strings.Contains(s, "no rate nat.gb") || !strings.Contains(s, `no rate "ec2.x\n"`) || strings.Contains(s, "s3.put") {
		t.Error(s)
	}
}

func TestWhatIsCountedFits(t *testing.T) {
	b := opened(t, "testdata/golden.yaml")
	_, err := b.Bill([]Usage{{Rate: "s3.standard", Amount: Bytes(1 << 30)}}, nil, day)
	if !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), "1 GB of s3.standard, which is priced by GB-month") {
		t.Error(err)
	}
	if _, err = b.Bill([]Usage{{Rate: "s3.put", Amount: Requests(1)}}, map[string]Amount{"s3.put": Bytes(1)}, day); !errors.Is(err, mover.ErrUsage) {
		t.Error(err)
	}
	if sum, err := Bytes(1).Plus(Requests(1)); !errors.Is(err, mover.ErrUsage) {
		t.Error(sum)
	}
}

func TestAge(t *testing.T) {
	b := opened(t, "testdata/golden.yaml")
	b.Rates["s3.get"] = Rate{Unit: b.Rates["s3.get"].Unit, USD: b.Rates["s3.get"].USD, Date: Date{day.AddDate(-1, 0, 0)}}
	put, get := Usage{Rate: "s3.put", Amount: Requests(1)}, Usage{Rate: "s3.get", Amount: Requests(1)}
	for _, row := range []struct {
		name string
		uses []Usage
		now  time.Time
		want string // warnings, each by its beginning
	}{
		{"new", []Usage{put}, day, ""},
		{"just not old", []Usage{put}, day.Add(OldAfter), ""},
		{"old, said once", []Usage{put, put}, day.Add(OldAfter + time.Hour), "prices of s3.put are of 2026-07-28, 180 days old"},
		{"one rate is", []Usage{put, get}, day, "prices of s3.get are of 2025-07-28, 365 days old"},
		{"of tomorrow", []Usage{put}, day.Add(-48 * time.Hour), "prices of s3.put are of 2026-07-28, a day that has not come"},
	} {
		bill, err := b.Bill(row.uses, nil, row.now)
		got := strings.Join(bill.Warnings, "\n")
		if err != nil || !strings.HasPrefix(got, row.want) || row.want == "" && got != "" || strings.Count(got, "\n") > 0 {
			t.Errorf("%s: %q, %v", row.name, got, err)
		}
	}
}

// TestBasis is what people read of a line, and programs.
func TestBasis(t *testing.T) {
	b := opened(t, "testdata/golden.yaml")
	bill, err := b.Bill([]Usage{{"egress.internet", Bytes(20 << 40), "home"}, {"s3.get", Requests(0), ""}}, map[string]Amount{"egress.internet": Bytes(5 << 40)}, day)
	must.Do(t, err)
	for i, want := range []string{
		"5,120 GB at $0.09 + 15,360 GB at $0.085 per GB; the stories of this package's tests, of 2026-07-28",
		"0 requests at $0.0004 per 1,000 requests; the stories of this package's tests, of 2026-07-28",
	} {
		if got := bill.Lines[i].Basis; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	text, err := json.Marshal(bill)
	if err != nil || !strings.Contains(string(text), `"date":"2026-07-28"`) || !strings.Contains(string(text), `{"units":5120,"usd":"0.09"}`) || !strings.Contains(string(text), `"total":"1766.400000"`) {
		t.Errorf("%s, %v", text, err)
	}
}
