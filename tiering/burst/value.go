package burst

import (
	"fmt"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Name is what a burst, or a team, is called: it is a part of tags, tokens and keys.
type Name string

var nameForm = mover.Pattern(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Name) UnmarshalText(text []byte) error {
	if !nameForm().Match(text) {
		return fmt.Errorf("%q: want at most 40 letters a to z, digits and hyphens, like llama-ft", text)
	}
	*n = Name(text)
	return nil
}

// Path is relative, and stays below what it is relative to. It is in the words that FSx takes: UTF-8 without control bytes.
type Path string

// pathMost bounds a path: with the prefix and a name in it it is a key of S3, of 1,024 bytes.
const pathMost = 512

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Path) UnmarshalText(text []byte) error {
	s := strings.TrimSuffix(string(text), "/")
	if !mover.ValidName(s) || len(s) > pathMost || strings.ToValidUTF8(s, "") != s || mover.Printable(s) != s || strings.HasPrefix(s, ".datamove") {
		return fmt.Errorf("%q: want a path below the burst, like datasets/imagenet", text)
	}
	*p = Path(s)
	return nil
}

// Span is a time: 90s, 30m, 6h, 7d.
type Span time.Duration

// spanLeast and spanMost bound a time: nothing here is done more often, or takes longer.
const (
	spanLeast = time.Second
	spanMost  = 366 * 24 * time.Hour
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Span) UnmarshalText(text []byte) error {
	days, rest, is := strings.Cut(string(text), "d")
	if !is {
		days, rest = "", days
	}
	d, err := span(days, "h", 24)
	more, err2 := span(rest, "", 1)
	if err != nil || err2 != nil || d+more < spanLeast || d+more > spanMost {
		return fmt.Errorf("%q: want a time, like 30m, 6h or 7d", text)
	}
	*s = Span(d + more)
	return nil
}

// span reads a number of hours or the like, so many times; "" is nothing.
func span(text, unit string, times time.Duration) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text + unit)
	if err == nil && (d < 0 || d > spanMost/times || unit != "" && strings.ContainsAny(text, "hmsuµμn")) {
		err = mover.ErrUsage
	}
	return d * times, err
}

func (s Span) String() string { return units.Duration(time.Duration(s)) }

// Size is bytes: 1.2TB, 4800GiB.
type Size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := units.ParseBytes(string(text))
	*s = Size(n)
	return err
}

// Rate is bytes per second: 10Gbit/s, 1.1GB/s.
type Rate int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) error {
	n, err := units.ParseRate(string(text))
	if err == nil && n == 0 {
		err = fmt.Errorf("%q: want a rate that is more than nothing, like 10Gbit/s", text)
	}
	*r = Rate(n)
	return err
}
