package directive

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"datamove.dev/mover"
	"datamove.dev/mover/config/spelling"
)

// problemsMost is how many mistakes are told at once.
const problemsMost = 10

// Problem is one mistake.
type Problem struct {
	Source string // "script", "comment", or the name of the variable; "" is a record
	Line   int    // of the script, from 1; 0 is none
	Column int    // in letters, from 1; 0 is the whole line
	Word   string // the key or flag that is wrong; "" is none
	What   string
	Mend   string // what to do, with an example that is right; "" when What says it
}

// String gives the place, the word, and what is wrong.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Source)
	if p.Line > 0 {
		fmt.Fprintf(&b, " line %d", p.Line)
	}
	if p.Column > 0 {
		fmt.Fprintf(&b, ", column %d", p.Column)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	if p.Word != "" {
		b.WriteString(p.Word + ": ")
	}
	b.WriteString(p.What)
	if p.Mend != "" {
		b.WriteString(" (" + p.Mend + ")")
	}
	return b.String()
}

// Problems are all mistakes of a job, in the order of its text. They are of kind
// mover.ErrUsage.
type Problems []Problem

// Error gives one line for each of the first ten.
func (p Problems) Error() string {
	var lines []string
	for _, problem := range p[:min(len(p), problemsMost)] {
		lines = append(lines, problem.String())
	}
	if more := len(p) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// Unwrap makes them a usage error.
func (p Problems) Unwrap() error { return mover.ErrUsage }

// shown is a word of a script as a message may repeat it: short, on one line, and
// without what may be a key of a store.
func shown(word string) string {
	if before, after, found := strings.Cut(word, ":"); found && (strings.HasPrefix(after, "//") || strings.Contains(after, "@")) {
		word = before + ":..."
	}
	if utf8.RuneCountInString(word) > 40 {
		word = string([]rune(word)[:40]) + "..."
	}
	return mover.Printable(word)
}

// nearest says which of the words was probably meant, or else which there are.
func nearest(word string, words []string) string {
	return cmp.Or(spelling.Question(word, words), "there are "+strings.Join(words, ", "))
}
