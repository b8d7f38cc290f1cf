package policy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Span is a time that passes, written with a unit: 10m, 36h, 30d, 2w. A day has 24 hours.
type Span time.Duration

const day = 24 * time.Hour

// ParseSpan reads a span.
func ParseSpan(s string) (Span, error) {
	for unit, of := range map[string]time.Duration{"d": day, "w": 7 * day} {
		rest, ok := strings.CutSuffix(s, unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(rest, 64)
		if err == nil && n >= 0 && n < float64(math.MaxInt64/of) && !strings.ContainsAny(rest, "eExXpPiInN_+") {
			return Span(n * float64(of)), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("want a span of time with its unit, as 10m, 36h, 30d or 2w, and not %q", s)
	}
	return Span(d), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Span) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSpan(string(text))
	return err
}

func (s Span) String() string { return units.Duration(time.Duration(s)) }

// Bytes is an amount of bytes: 64KiB, 200TiB.
type Bytes int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bytes) UnmarshalText(text []byte) error {
	n, err := units.ParseBytes(string(text))
	*b = Bytes(n)
	return err
}

// Rate is bytes per second: 20GB/s.
type Rate int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) error {
	n, err := units.ParseRate(string(text))
	*r = Rate(n)
	return err
}

// Count is a number of things: 5000, 20k, 20M.
type Count int64

// ParseCount reads a count.
func ParseCount(s string) (Count, error) {
	times, digits := int64(1), s
	for unit, of := range map[string]int64{"k": 1e3, "M": 1e6, "G": 1e9} {
		if rest, ok := strings.CutSuffix(s, unit); ok {
			times, digits = of, rest
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/times {
		return 0, fmt.Errorf("want a whole number, as 5000, 20k or 20M, and not %q", s)
	}
	return Count(n * times), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Count) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCount(string(text))
	return err
}

// Percent is a part of something: 5%, 0.1%, or 5.
type Percent float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Percent) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "%"), 64)
	if err != nil || !(n >= 0 && n <= 100) {
		return fmt.Errorf("want a percentage from 0 to 100, and not %q", text)
	}
	*p = Percent(n)
	return nil
}

// Range is the numbers from Least to Most.
type Range struct {
	Least, Most int64
	text        string
}

func (r *Range) holds(n int64) bool { return r.Least <= n && n <= r.Most }

func (r *Range) String() string { return r.text }

// parse reads ">30d", ">=1MiB", "<64KiB", "<=5", "=3", "3" and "1MiB..1GiB" (both ends belong to it).
func (r *Range) parse(s string, number func(string) (int64, error)) error {
	s = strings.TrimSpace(s)
	*r = Range{Least: math.MinInt64, Most: math.MaxInt64, text: s}
	if low, high, ok := strings.Cut(s, ".."); ok {
		var err1, err2 error
		r.Least, err1 = number(strings.TrimSpace(low))
		r.Most, err2 = number(strings.TrimSpace(high))
		if err1 != nil {
			return err1
		}
		if err2 == nil && r.Most < r.Least {
			err2 = fmt.Errorf("nothing is in %q: its end is before its beginning", s)
		}
		return err2
	}
	digits := strings.TrimLeft(s, "<>=")
	sign := s[:len(s)-len(digits)]
	n, err := number(strings.TrimSpace(digits))
	if err != nil {
		return err
	}
	switch sign {
	case "", "=", "==":
		r.Least, r.Most = n, n
	case "<":
		r.Most = n - 1
	case "<=":
		r.Most = n
	case ">":
		r.Least = n + 1
	case ">=":
		r.Least = n
	default:
		return fmt.Errorf("want a comparison, as >30d, >=1MiB, <5 or 1MiB..1GiB, and not %q", s)
	}
	return nil
}

// Sizes is a range of bytes: >=1MiB, <64KiB, 1MiB..1GiB (both ends belong to it), or one number.
type Sizes struct{ Range }

// Ages is a range of spans: >30d, <=12h, 1d..7d.
type Ages struct{ Range }

// Counts is a range of counts: >1, 0, 2..5.
type Counts struct{ Range }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Sizes) UnmarshalText(text []byte) error { return r.parse(string(text), units.ParseBytes) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Ages) UnmarshalText(text []byte) error {
	return r.parse(string(text), func(s string) (int64, error) {
		d, err := ParseSpan(s)
		return int64(d), err
	})
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Counts) UnmarshalText(text []byte) error {
	return r.parse(string(text), func(s string) (int64, error) {
		n, err := ParseCount(s)
		return int64(n), err
	})
}

// Glob is a pattern for names: "*" and "?" stop at slashes, "**" does not. One without a slash is for the last segment; others are
// for all of the name below its root.
type Glob struct {
	pattern string
	base    bool
	literal bool
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *Glob) UnmarshalText(text []byte) error {
	s := string(text)
	rest, anchored := strings.CutPrefix(s, "/")
	if rest == "" || !doublestar.ValidatePattern(rest) {
		return fmt.Errorf("%q is no pattern; want one as *.tmp, cache/** or **/[0-9]*/{a,b}", s)
	}
	*g = Glob{pattern: rest, base: !anchored && !strings.Contains(rest, "/"), literal: !strings.ContainsAny(rest, `*?[]{}\`)}
	return nil
}

func (g Glob) String() string { return g.pattern }

// matches reports whether it matches a file, of which name gives the whole name when it is needed.
func (g *Glob) matches(base string, name func() string) bool {
	what := base
	if !g.base {
		what = name()
	}
	if g.literal {
		return what == g.pattern
	}
	return doublestar.MatchUnvalidated(g.pattern, what)
}

// Kind is a kind of entry, by its word.
type Kind mover.Kind

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Kind) UnmarshalText(text []byte) error {
	kind, ok := mover.ParseKind(string(text))
	if !ok {
		return fmt.Errorf("want file, dir, symlink, fifo, socket, chardev or blockdev, and not %q", text)
	}
	*k = Kind(kind)
	return nil
}

func (k Kind) String() string { return mover.Kind(k).String() }

// State is how far a checkpoint is, where it lies.
type State string

// States are all of them.
var States = []string{"seen", "settling", "complete", "verified"}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *State) UnmarshalText(text []byte) error {
	if !slices.Contains(States, string(text)) {
		return fmt.Errorf("want one of %s, and not %q", strings.Join(States, ", "), text)
	}
	*s = State(text)
	return nil
}

// Name is what something is called: letters, digits, '.', '-' and '_'.
type Name string

const nameMost = 128

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Name) UnmarshalText(text []byte) error {
	for _, c := range text {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-", c) >= 0
		if !letter {
			return fmt.Errorf("want a name of letters, digits, '.', '-' and '_', and not %q", text)
		}
	}
	if len(text) == 0 || len(text) > nameMost {
		return fmt.Errorf("want a name of 1 to %d letters", nameMost)
	}
	*n = Name(text)
	return nil
}
