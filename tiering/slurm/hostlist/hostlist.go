// Package hostlist reads and writes lists of node names as Slurm does, where many
// names that differ in numbers only are one word:
//
//	n[1-3,07-09],gpu-[1-2]-x[3-4],login
//
// is n1 n2 n3 n07 n08 n09 gpu-1-x3 gpu-1-x4 gpu-2-x3 gpu-2-x4 login. The order is that
// of the text, and of several brackets the last one turns fastest. A number is as wide
// as the first one of its range. What stands twice is twice in the list.
//
// Everything here is pure and bounded: an expression comes from an environment, and ten
// letters of it can mean a billion names. FuzzNodes and TestShortIsReadBack show that
// nothing is too much, and that what [Short] prints is read back as the same.
package hostlist

import (
	"fmt"
	"strconv"
	"strings"

	"datamove.dev/mover"
)

// The bounds of what is read.
const (
	NamesMost  = 65536   // names in a list
	TextMost   = 1 << 20 // bytes of an expression
	NameMost   = 255     // bytes of a name
	digitsMost = 18      // of a number: what fits into 64 bits
)

// Nodes returns the names that an expression means, in its order. Its errors are
// mover.ErrUsage.
func Nodes(expr string) ([]string, error) {
	if len(expr) > TextMost {
		return nil, fmt.Errorf("%w: list of nodes: it has %d bytes; there may be %d", mover.ErrUsage, len(expr), TextMost)
	}
	var names []string
	for at := 0; ; {
		end := at + itemEnd(expr[at:])
		var err error
		if names, err = expand(names, expr[at:end]); err != nil {
			return nil, fmt.Errorf("%w: list of nodes: at letter %d: %w; an example that is right: n[1-3,07-09],login", mover.ErrUsage, at+1, err)
		}
		if end == len(expr) {
			return names, nil
		}
		at = end + 1
	}
}

// itemEnd is where the first item ends: at a comma outside of brackets.
func itemEnd(s string) int {
	inside := false
	for i, c := range []byte(s) {
		switch {
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case c == ',' && !inside:
			return i
		}
	}
	return len(s)
}

// piece is a part of a name: plain text, or the numbers of a bracket.
type piece struct {
	text   string
	ranges []numbers // nil: it is text
}

// numbers are those from low to high, each with at least so many digits.
type numbers struct {
	low, high uint64
	width     int
}

func (p piece) count() uint64 {
	if p.ranges == nil {
		return 1
	}
	n := uint64(0)
	for _, r := range p.ranges {
		n = min(n+r.high-r.low+1, NamesMost+1)
	}
	return n
}

// expand appends the names of one item.
func expand(names []string, item string) ([]string, error) {
	pieces, err := parse(item)
	if err != nil {
		return nil, err
	}
	count := uint64(1)
	for _, p := range pieces {
		if count *= p.count(); count > NamesMost-uint64(len(names)) {
			return nil, fmt.Errorf("these are more than %d names", NamesMost)
		}
	}
	made := []string{""}
	for _, p := range pieces {
		next := make([]string, 0, uint64(len(made))*p.count())
		for _, head := range made {
			next = p.appendTo(next, head)
		}
		made = next
	}
	for _, name := range made {
		if len(name) > NameMost {
			return nil, fmt.Errorf("a name has more than %d letters", NameMost)
		}
	}
	return append(names, made...), nil
}

func (p piece) appendTo(names []string, head string) []string {
	if p.ranges == nil {
		return append(names, head+p.text)
	}
	for _, r := range p.ranges {
		for n := r.low; n <= r.high; n++ {
			names = append(names, head+pad(n, r.width))
		}
	}
	return names
}

func pad(n uint64, width int) string {
	digits := strconv.FormatUint(n, 10)
	return strings.Repeat("0", max(width-len(digits), 0)) + digits
}

// parse cuts an item into its pieces.
func parse(item string) ([]piece, error) {
	if item == "" {
		return nil, fmt.Errorf("there is no name")
	}
	if len(item) > NameMost && !strings.Contains(item, "[") {
		return nil, fmt.Errorf("a name has more than %d letters", NameMost)
	}
	var pieces []piece
	for item != "" {
		text, rest, bracket := strings.Cut(item, "[")
		if !plain(text) || len(pieces) == 0 && strings.HasPrefix(text, "-") {
			return nil, fmt.Errorf("%s: a name has letters, digits, dots, underscores and hyphens, and begins with no hyphen", mover.Printable(text))
		}
		if text != "" {
			pieces = append(pieces, piece{text: text})
		}
		if !bracket {
			break
		}
		inside, after, closed := strings.Cut(rest, "]")
		if !closed {
			return nil, fmt.Errorf("a bracket is not closed")
		}
		ranges, err := parseRanges(inside)
		if err != nil {
			return nil, err
		}
		if pieces, item = append(pieces, piece{ranges: ranges}), after; len(pieces) > NameMost {
			return nil, fmt.Errorf("a name has more than %d letters", NameMost) // each piece has at least one
		}
	}
	return pieces, nil
}

func plain(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func parseRanges(s string) ([]numbers, error) {
	var all []numbers
	for part := range strings.SplitSeq(s, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		if !number(low) || !number(high) {
			return nil, fmt.Errorf("[%s]: in brackets stand numbers of up to %d digits, and ranges like 07-09", mover.Printable(s), digitsMost)
		}
		r := numbers{width: len(low)}
		r.low, _ = strconv.ParseUint(low, 10, 64) // it has digits only, and few
		r.high, _ = strconv.ParseUint(high, 10, 64)
		if r.high < r.low {
			return nil, fmt.Errorf("%s: the range ends before it begins", part)
		}
		if pad(r.high, r.width) != high {
			return nil, fmt.Errorf("%s: both ends of a range have the same number of digits, or no zeros before them", part)
		}
		all = append(all, r)
	}
	return all, nil
}

func number(s string) bool {
	return s != "" && len(s) <= digitsMost && strings.Trim(s, "0123456789") == ""
}
