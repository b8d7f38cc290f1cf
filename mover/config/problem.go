package config

import (
	"fmt"
	"strings"

	"datamove.dev/mover"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"` // from 1; 0 is not known
	Key  string `json:"key,omitempty"`  // with dots: tiers.archive.level; "" is the whole file
	What string `json:"what"`
	Mend string `json:"mend,omitempty"` // what to do; "" when What says it
}

// String gives file:line: key: what (mend), without the parts that are missing.
func (p Problem) String() string {
	var b strings.Builder
	if place := p.Place(); place != "" {
		b.WriteString(place + ": ")
	}
	if p.Key != "" {
		b.WriteString(mover.Printable(p.Key) + ": ")
	}
	b.WriteString(p.What)
	if p.Mend != "" {
		b.WriteString(" (" + p.Mend + ")")
	}
	return b.String()
}

// Problems is everything that is wrong with a configuration, in the order of the
// file. It is of kind [mover.ErrUsage].
type Problems []Problem

// Error gives one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap makes every configuration problem a usage error.
func (p Problems) Unwrap() error { return mover.ErrUsage }

// Place gives file:line, or "" when neither is known.
func (p Problem) Place() string {
	switch {
	case p.File == "":
		return ""
	case p.Line == 0:
		return mover.Printable(p.File)
	}
	return fmt.Sprintf("%s:%d", mover.Printable(p.File), p.Line)
}
