package pricing

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/config/yamldoc"
)

// Kind is how a book begins.
const Kind = "PriceBook"

// OldAfter is the age from which on prices are said to be old.
const OldAfter = 180 * 24 * time.Hour

// Book has the prices of one region.
type Book struct {
	At       yamldoc.Position
	File     string          // where it was read, for people
	Kind     string          `yaml:"kind" declare:"required"` // PriceBook
	Region   string          `yaml:"region" declare:"required"`
	Currency string          `yaml:"currency" declare:"required"` // USD
	Date     Date            `yaml:"date" declare:"required"`     // that the prices are of
	Source   string          `yaml:"source"`                      // where they were read: a URL, or the name of a document
	Rates    map[string]Rate `yaml:"rates" declare:"required"`
}

// Rate is what one thing costs: a price, or tiers.
type Rate struct {
	At     yamldoc.Position
	Unit   Unit   `yaml:"unit" declare:"required"`
	USD    *USD   `yaml:"usd"` // for one unit
	Tiers  []Tier `yaml:"tiers"`
	Source string `yaml:"source"` // empty: that of the book
	Date   Date   `yaml:"date"`   // zero: that of the book
}

// Tier is the price of what lies between the end of the tier before it and its own.
type Tier struct {
	At   yamldoc.Position
	UpTo *Limit `yaml:"up_to"` // nil in the last one
	USD  *USD   `yaml:"usd" declare:"required"`
}

// Date is a day, in UTC.
type Date struct{ day time.Time }

// UnmarshalText reads 2026-11-27.
func (d *Date) UnmarshalText(text []byte) (err error) {
	if d.day, err = time.Parse(time.DateOnly, string(text)); err != nil || d.day.Year() < 2000 {
		return fmt.Errorf("%q: want a day, like 2026-11-27", text)
	}
	return nil
}

// MarshalText is String.
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d Date) String() string { return d.day.Format(time.DateOnly) }

// Begin is when the day begins.
func (d Date) Begin() time.Time { return d.day }

// IsZero reports whether no day is known.
func (d Date) IsZero() bool { return d.day.IsZero() }

// Bounds of a book.
const (
	ratesMost  = 10_000
	tiersMost  = 32
	sourceMost = 500
)

var (
	rateName   = mover.Pattern(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	regionName = mover.Pattern(`^[a-z0-9-]{2,32}$`)
)

// Open reads the book in a file.
func Open(file string) (*Book, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, yamldoc.TextMost+1))
	if err != nil {
		return nil, err
	}
	return Read(file, text)
}

// Read reads the book in a text; file is for people. What is wrong with it is yamldoc.Problems, which are mover.ErrUsage.
func Read(file string, text []byte) (*Book, error) {
	r := &yamldoc.Reader{File: file}
	all := r.Documents(text)
	if len(all) != 1 {
		r.Add(nil, "", "want one price book, and not %d", len(all))
		return nil, r.Err()
	}
	b := &Book{File: file}
	r.Into(all[0], "", b)
	b.check(r)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Book) check(r *yamldoc.Reader) {
	said := func(field, value string) bool { return value != "" && !r.Within(field) }
	if said("kind", b.Kind) && b.Kind != Kind {
		r.AddAt(b.At, "kind", "is %q; want %s", b.Kind, Kind)
	}
	if said("region", b.Region) && !regionName().MatchString(b.Region) {
		r.AddAt(b.At, "region", "%q: want the name of a region, like us-east-1", b.Region)
	}
	if said("currency", b.Currency) && b.Currency != "USD" {
		r.AddAt(b.At, "currency", "is %q; want USD: nothing here changes money", b.Currency)
	}
	checkSource(r, b.At, "source", b.Source)
	if len(b.Rates) > ratesMost {
		r.AddAt(b.At, "rates", "are %d; want at most %d", len(b.Rates), ratesMost)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(b.Rates)) {
		b.checkRate(r, yamldoc.Join("rates", name), name)
	}
}

func (b *Book) checkRate(r *yamldoc.Reader, field, name string) {
	rate := b.Rates[name]
	if r.Within(field) {
		return // what is wrong is said already
	}
	if !rateName().MatchString(name) {
		r.AddAt(rate.At, field, "want a name of small letters, digits, points, lines and underlines, at most 64")
	}
	if rate.Source == "" && b.Source == "" {
		r.AddAt(rate.At, field, "has no source, and the book has none for all: say where its price was read")
	}
	checkSource(r, rate.At, field+".source", rate.Source)
	switch {
	case rate.USD == nil && len(rate.Tiers) == 0:
		r.AddAt(rate.At, field, "has no price: write usd, or tiers")
	case rate.USD != nil && len(rate.Tiers) > 0:
		r.AddAt(rate.At, field, "has usd and tiers; want one of them")
	case len(rate.Tiers) > tiersMost:
		r.AddAt(rate.At, field+".tiers", "are %d; want at most %d", len(rate.Tiers), tiersMost)
	default:
		checkTiers(r, field, rate)
	}
}

func checkTiers(r *yamldoc.Reader, field string, rate Rate) {
	for i, t := range rate.Tiers {
		at := fmt.Sprintf("%s.tiers[%d]", field, i)
		last := i == len(rate.Tiers)-1
		switch {
		case last && t.UpTo != nil:
			r.AddAt(t.At, at+".up_to", "stands in the last tier, which has no end")
		case last:
		case t.UpTo == nil:
			r.AddAt(t.At, at+".up_to", "is missing: only the last tier has no end")
		case t.UpTo.bytes && rate.Unit.Of != GB && rate.Unit.Of != GBMonth:
			r.AddAt(t.At, at+".up_to", "is in bytes, and the unit is %s", rate.Unit)
		case i > 0 && rate.Tiers[i-1].UpTo != nil && t.UpTo.n.Cmp(rate.Tiers[i-1].UpTo.n) <= 0:
			r.AddAt(t.At, at+".up_to", "is not beyond the end of the tier before it, %s", rate.Tiers[i-1].UpTo)
		}
	}
}

func checkSource(r *yamldoc.Reader, at yamldoc.Position, field, source string) {
	if len(source) > sourceMost || mover.Printable(source) != source {
		r.AddAt(at, field, "want at most %d characters that can be printed", sourceMost)
	}
}

// tiers are those of a rate, or the one that its price is.
func (r Rate) tiers() []Tier {
	if r.USD != nil {
		return []Tier{{USD: r.USD}}
	}
	return r.Tiers
}
