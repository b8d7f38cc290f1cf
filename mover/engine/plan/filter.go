package plan

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"datamove.dev/mover"
)

// Filter says which entries take part. The nil Filter takes all. What a filter
// skips is not seen on either side, so it is neither copied nor removed.
//
// A Filter does not change, but for what [Filter.Seen] remembers, and may be used
// from many goroutines.
type Filter struct {
	rules       []rule
	onlyInclude bool // nothing is excluded by name: what is not included is skipped
	names       *Names
}

// Rule includes or excludes the entries that match a pattern. The first rule that
// matches an entry decides; an entry that none matches takes part, unless all
// rules are includes: then directories are entered, and other entries are skipped.
//
// A pattern is a glob of doublestar: "*" and "?" stop at slashes, "**" does not,
// "[a-z]" is a class, "{a,b}" are alternatives, and a backslash takes the next
// byte as it is. A slash at its end makes it match directories only. One at its
// start holds it to the root of the tree. Otherwise a pattern without a slash
// matches the last segment of a name, and one with slashes the last segments.
type Rule struct {
	Include bool
	Pattern string
}

func (r Rule) String() string {
	if r.Include {
		return "include " + r.Pattern
	}
	return "exclude " + r.Pattern
}

// rule is a Rule, taken apart.
type rule struct {
	include bool
	dirOnly bool
	base    bool // match the last segment only
	literal bool // the pattern has no special bytes
	pattern string
}

// NewFilter returns a filter of the rules, in the order in which they are asked,
// and of names; nil names are all.
func NewFilter(rules []Rule, names *Names) (*Filter, error) {
	f := &Filter{names: names, onlyInclude: len(rules) > 0}
	for _, r := range rules {
		parsed, err := parseRule(r)
		if err != nil {
			return nil, err
		}
		f.rules = append(f.rules, parsed)
		f.onlyInclude = f.onlyInclude && r.Include
	}
	return f, nil
}

func parseRule(r Rule) (rule, error) {
	p := rule{include: r.Include, pattern: r.Pattern}
	var anchored bool
	p.pattern, p.dirOnly = strings.CutSuffix(p.pattern, "/")
	p.pattern, anchored = strings.CutPrefix(p.pattern, "/")
	switch {
	case p.pattern == "":
		return rule{}, r.invalid("it matches no name")
	case strings.IndexByte(p.pattern, 0) >= 0:
		return rule{}, r.invalid("a name has no zero byte")
	case !doublestar.ValidatePattern(p.pattern):
		return rule{}, r.invalid("a bracket, brace or backslash is not closed")
	case alternatives(p.pattern) > maxAlternatives:
		return rule{}, r.invalid("its braces stand for too many patterns")
	}
	if !anchored {
		p.base = !strings.Contains(p.pattern, "/")
		if !p.base && !strings.HasPrefix(p.pattern, "**/") {
			p.pattern = "**/" + p.pattern
		}
	}
	p.literal = !strings.ContainsAny(p.pattern, `*?[]{}\`)
	return p, nil
}

// maxAlternatives bounds how many patterns the braces of one stand for: matching
// tries them one by one.
const maxAlternatives = 1000

// alternatives returns how many patterns the braces of a valid one stand for, as if
// none were within another; more than maxAlternatives are not counted to the end.
func alternatives(pattern string) int {
	product := 1
	var open []int // commas of the braces that are open, plus one
	for i := 0; i < len(pattern) && product <= maxAlternatives; i++ {
		n := len(open)
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '{':
			open = append(open, 1)
		case c == ',' && n > 0:
			open[n-1]++
		case c == '}' && n > 0:
			product *= min(open[n-1], maxAlternatives+1)
			open = open[:n-1]
		}
	}
	return product
}

func (r Rule) invalid(why string) error {
	return fmt.Errorf("%s: %s: %w", mover.Printable(r.String()), why, mover.ErrUsage)
}

func (r *rule) matches(name, base string, dir bool) bool {
	if r.dirOnly && !dir {
		return false
	}
	if r.base {
		name = base
	}
	if r.literal {
		return name == r.pattern
	}
	return doublestar.MatchUnvalidated(r.pattern, name)
}

// Skip reports whether an entry takes no part; of a directory also nothing below
// it does. It has the form of mover.WalkOptions.Skip: a filter that selects an entry
// also selects the directories that it is in.
func (f *Filter) Skip(name string, kind mover.Kind) bool {
	if f == nil || name == "" {
		return false
	}
	if f.names != nil && !f.names.has(name, kind) {
		return true
	}
	if len(f.rules) == 0 {
		return false
	}
	_, base := mover.Parent(name)
	for i := range f.rules {
		if f.rules[i].matches(name, base, kind == mover.Dir) {
			return !f.rules[i].include
		}
	}
	return f.onlyInclude && kind != mover.Dir
}

// Seen is Skip for the walk of the source: it remembers which of the names that
// were asked for by name are there. See Names.Missing.
func (f *Filter) Seen(name string, kind mover.Kind) bool {
	if f != nil && f.names != nil {
		f.names.mark(name)
	}
	return f.Skip(name, kind)
}

// Missing returns up to limit names that were asked for by name and that no walk
// told to Seen, and how many there are.
func (f *Filter) Missing(limit int) (names []string, count int) {
	if f == nil || f.names == nil {
		return nil, 0
	}
	return f.names.missing(limit)
}
