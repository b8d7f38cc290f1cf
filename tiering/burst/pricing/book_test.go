package pricing

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/config/yamldoc"
	"datamove.dev/test/must"
)

// asked are the rates that the program asks for.
var asked = []string{
	FSxScratch2, FSxPersistent2(125), FSxPersistent2(250), FSxPersistent2(500), FSxPersistent2(1000), FSxMetadataIOPS, S3Standard, S3Put, S3Get, S3Express, KMSRequest,
	EgressInternet, EgressDirect, EgressVPN, EgressRegion, EgressZone, NATBytes, VPNHour, EC2("p5.48xlarge"),
}

// TestShipped: the books in deploy/prices have all that is asked for, by units that fit, and each figure has a source and a day.
func TestShipped(t *testing.T) {
	units := map[string]Measure{FSxMetadataIOPS: IOPSMonth, S3Put: Request, S3Get: Request, KMSRequest: Request, VPNHour: Hour, EC2("p5.48xlarge"): Hour}
	for _, region := range []string{"us-east-1", "us-west-2"} {
		b := opened(t, "../../../deploy/prices/"+region+".yaml")
		if b.Region != region {
			t.Errorf("the book of %s is of %s", region, b.Region)
		}
		for _, name := range asked {
			rate, ok := b.Rates[name]
			want := units[name]
			switch {
			case want != "":
			case strings.HasPrefix(name, "fsx.") || strings.HasPrefix(name, "s3."):
				want = GBMonth
			default:
				want = GB
			}
			if !ok || rate.Unit.Of != want {
				t.Errorf("%s: %s is by %q, want %q", region, name, rate.Unit.Of, want)
			}
			for _, tier := range rate.tiers() {
				if tier.USD.dollars.Sign() <= 0 {
					t.Errorf("%s: %s costs nothing", region, name)
				}
			}
		}
		for name, rate := range b.Rates {
			if rate.Source+b.Source == "" || b.dateOf(rate).IsZero() {
				t.Errorf("%s: %s has no source, or no day", region, name)
			}
		}
	}
}

const head = "kind: PriceBook\nregion: us-east-1\ncurrency: USD\ndate: 2026-07-28\nsource: a page\nrates:\n"

// TestRefused are books that are wrong: what is said, and in which line.
func TestRefused(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		line int
		want string
	}{
		"nothing":           {"", 0, "want one price book, and not 0"},
		"two":               {head + "  a: {unit: GB, usd: 1}\n---\n" + head + "  a: {unit: GB, usd: 1}\n", 0, "and not 2"},
		"another kind":      {strings.Replace(head, "PriceBook", "Cluster", 1) + "  a: {unit: GB, usd: 1}\n", 1, `is "Cluster"; want PriceBook`},
		"no date":           {strings.Replace(head, "date: 2026-07-28\n", "", 1) + "  a: {unit: GB, usd: 1}\n", 1, "is missing"},
		"no day":            {strings.Replace(head, "2026-07-28", "2026-02-30", 1) + "  a: {unit: GB, usd: 1}\n", 4, "want a day"},
		"euros":             {strings.Replace(head, "USD", "EUR", 1) + "  a: {unit: GB, usd: 1}\n", 1, "want USD"},
		"a region":          {strings.Replace(head, "us-east-1", "../../etc", 1) + "  a: {unit: GB, usd: 1}\n", 1, "want the name of a region"},
		"no rates":          {head, 6, "want a table of fields"},
		"no source":         {strings.Replace(head, "source: a page\n", "", 1) + "  a: {unit: GB, usd: 1}\n", 6, "has no source"},
		"control bytes":     {strings.Replace(head, "a page", `"a\x1b[2Jpage"`, 1) + "  a: {unit: GB, usd: 1}\n", 1, "that can be printed"},
		"unknown field":     {head + "  a: {unit: GB, usd: 1, price: 2}\n", 7, "unknown field"},
		"unit":              {head + "  a: {unit: GiB, usd: 1}\n", 7, "want GB-month"},
		"unit of nothing":   {head + "  a: {unit: 0 requests, usd: 1}\n", 7, "want GB-month"},
		"unit with a plus":  {head + "  a: {unit: +10 requests, usd: 1}\n", 7, "want GB-month"},
		"name":              {head + "  A B: {unit: GB, usd: 1}\n", 7, "want a name of small letters"},
		"twice":             {head + "  a: {unit: GB, usd: 1}\n  a: {unit: GB, usd: 1}\n", 8, "is there twice"},
		"no price":          {head + "  a: {unit: GB}\n", 7, "has no price"},
		"two prices":        {head + "  a: {unit: GB, usd: 1, tiers: [{usd: 1}]}\n", 7, "has usd and tiers"},
		"negative":          {head + "  a: {unit: GB, usd: -1}\n", 7, "want dollars"},
		"infinite":          {head + "  a: {unit: GB, usd: .inf}\n", 7, "want dollars"},
		"exponent":          {head + "  a: {unit: GB, usd: 1e9}\n", 7, "want dollars"},
		"a huge exponent":   {head + "  a: {unit: GB, usd: 1e999999999}\n", 7, "want dollars"},
		"a huge tier":       {head + "  a: {unit: GB, tiers: [{up_to: 1e999999999, usd: 1}, {usd: 1}]}\n", 7, "want where the tier ends"},
		"fraction":          {head + "  a: {unit: GB, usd: 1/3}\n", 7, "want dollars"},
		"too dear":          {head + "  a: {unit: GB, usd: 1000001}\n", 7, "want dollars"},
		"too many digits":   {head + "  a: {unit: GB, usd: 0.0000000000001}\n", 7, "want dollars"},
		"last has an end":   {head + "  a: {unit: GB, tiers: [{up_to: 1TB, usd: 1}]}\n", 7, "which has no end"},
		"first has none":    {head + "  a: {unit: GB, tiers: [{usd: 1}, {usd: 1}]}\n", 7, "only the last tier has no end"},
		"tiers fall":        {head + "  a: {unit: GB, tiers: [{up_to: 2TB, usd: 1}, {up_to: 2048, usd: 2}, {usd: 1}]}\n", 7, "is not beyond the end of the tier before it, 2,048"},
		"tier of bytes":     {head + "  a: {unit: hour, tiers: [{up_to: 2TB, usd: 1}, {usd: 1}]}\n", 7, "is in bytes, and the unit is hour"},
		"tier ends at 0":    {head + "  a: {unit: GB, tiers: [{up_to: 0, usd: 1}, {usd: 1}]}\n", 7, "want where the tier ends"},
		"tier has no price": {head + "  a: {unit: GB, tiers: [{up_to: 1TB}, {usd: 1}]}\n", 7, "is missing"},
		"many tiers":        {head + "  a: {unit: GB, tiers: [" + strings.Repeat("{usd: 1},", 40) + "{usd: 1}]}\n", 7, "want at most 32"},
		"aliases":           {head + "  a: &a {unit: GB, usd: 1}\n  b: *a\n", 7, "anchors and aliases"},
		"too long":          {head + strings.Repeat("#", yamldoc.TextMost), 0, "want at most"},
	} {
		b, err := Read("book.yaml", []byte(row.text))
		var problems yamldoc.Problems
		if b != nil || !errors.Is(err, mover.ErrUsage) || !errors.As(err, &problems) {
			t.Errorf("%s: is taken: %v", name, err)
			continue
		}
		if p := problems[0]; p.Line != row.line || !strings.Contains(p.What, row.want) {
			t.Errorf("%s: %v; want %q in line %d", name, err, row.want, row.line)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, file := range []string{"testdata/golden.yaml", "../../../deploy/prices/us-east-1.yaml"} {
		text, err := os.ReadFile(file)
		must.Do(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := Read("fuzz", text)
		if err != nil {
			return
		}
		for name, rate := range b.Rates {
			one, _ := Of(rate.Unit.Of, 1)
			bill, err := b.Bill([]Usage{{Rate: name, Amount: one}}, nil, day)
			if err != nil || bill.Total < 0 || bill.Total != bill.Lines[0].Cost {
				t.Errorf("%s: %v, %v", name, bill, err)
			}
		}
	})
}

// TestMonths: a GB through each calendar month is a GB-month, whatever its hours, and months add up.
func TestMonths(t *testing.T) {
	at := func(s string) time.Time {
		v := must.Get(time.Parse(time.DateTime, s))(t)
		return v
	}
	zone := time.FixedZone("east", 9*3600)
	for _, row := range []struct {
		name     string
		from, to time.Time
		want     string
	}{
		{"February", at("2027-02-01 00:00:00"), at("2027-03-01 00:00:00"), "1 GB-month"},
		{"a leap February", at("2028-02-01 00:00:00"), at("2028-03-01 00:00:00"), "1 GB-month"},
		{"a year", at("2027-01-01 00:00:00"), at("2028-01-01 00:00:00"), "12 GB-months"},
		{"a day of November", at("2026-11-10 12:00:00"), at("2026-11-11 12:00:00"), "0.033 GB-months"},
		{"half and half", at("2026-11-16 00:00:00"), at("2026-12-16 12:00:00"), "1 GB-month"},
		{"nothing", at("2026-11-16 00:00:00"), at("2026-11-16 00:00:00"), "0 GB-months"},
		{"months are those of UTC", time.Date(2027, 3, 1, 9, 0, 0, 0, zone), time.Date(2027, 4, 1, 9, 0, 0, 0, zone), "1 GB-month"},
	} {
		if got := Stored(1<<30, row.from, row.to.Sub(row.from)).String(); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

func TestMoney(t *testing.T) {
	for _, row := range []struct {
		text    string
		want    Money
		printed string
	}{
		{"0", 0, "$0.00"}, {"$1,234.56", 1_234_560_000, "$1,234.56"}, {"1234.565", 1_234_565_000, "$1,234.57"}, {"-$0.10", -100_000, "-$0.10"},
		{"0.0004", 400, "$0.0004"}, {"-0.000001", -1, "-$0.000001"}, {"$1,000,000", 1_000_000 * Dollar, "$1,000,000.00"}, {"999.995", 999_995_000, "$1,000.00"},
		{" 12 ", 12 * Dollar, "$12.00"}, {"1000000000", MoneyMost, "$1,000,000,000.00"},
	} {
		m, err := ParseMoney(row.text)
		if err != nil || m != row.want || m.String() != row.printed {
			t.Errorf("%q is %d and prints %v, %v", row.text, m, m, err)
		}
		var back Money
		if text, err := m.MarshalText(); err != nil || back.UnmarshalText(text) != nil || back != m {
			t.Errorf("%v becomes %s and %v", m, text, back)
		}
	}
	for _, text := range []string{"", "$", "-", "1,23", "12,345,6", ",123", "1.2345678", "1.", "1e3", "0x1", "+1", "--1", "€5", "1 2", "1000000000.000001", "9223372036854.775808", strings.Repeat("9", 40), "١"} {
		if m, err := ParseMoney(text); err == nil {
			t.Errorf("%q is taken as %v", text, m)
		}
	}
	if s := Money(-1 << 63).String(); s != "-$9,223,372,036,854.78" {
		t.Error(s)
	}
}
