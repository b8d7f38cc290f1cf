package monitoring

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// selector is one use of a metric in an expression.
type selector struct {
	metric   string
	matchers []matcher
}

// matcher is label="value" and the like.
type matcher struct{ label, op, value string }

// usage is what an expression uses: metrics, and labels to group by.
type usage struct {
	selectors []selector
	grouping  []string
}

// Words of PromQL that are not names of metrics. A word before a parenthesis is a
// function.
var (
	operators = []string{"and", "or", "unless", "bool", "offset", "inf", "nan"}
	groupings = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	aggregate = []string{"sum", "min", "max", "avg", "count", "topk", "bottomk", "quantile"}
)

// read finds what an expression uses. promtool says whether it is valid; this only
// has to find the names in a valid one.
func read(expr string) (usage, error) {
	r := reader{rest: expr}
	for {
		switch c := r.skip(); {
		case c == 0:
			return r.found, r.err
		case c == '"' || c == '\'' || c == '`':
			r.quoted()
		case c == '[': // a duration
			r.until(']')
		case unicode.IsDigit(rune(c)) || c == '.':
			r.word()
		case isWord(c):
			r.name(r.word())
		default:
			r.rest = r.rest[1:]
		}
		if r.err != nil {
			return r.found, r.err
		}
	}
}

type reader struct {
	rest  string
	found usage
	err   error
}

// skip leaves out blanks and returns the next letter; 0 is the end.
func (r *reader) skip() byte {
	r.rest = strings.TrimLeft(r.rest, " \n\t")
	if r.rest == "" {
		return 0
	}
	return r.rest[0]
}

func isWord(c byte) bool {
	return c == '_' || c == ':' || unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c))
}

func (r *reader) word() string {
	n := 0
	for n < len(r.rest) && (isWord(r.rest[n]) || r.rest[n] == '.') {
		n++
	}
	word := r.rest[:n]
	r.rest = r.rest[n:]
	return word
}

func (r *reader) until(end byte) string {
	text, rest, ok := strings.Cut(r.rest, string(end))
	if !ok {
		r.err = fmt.Errorf("%c is missing in %s", end, r.rest)
	}
	r.rest = rest
	return text
}

func (r *reader) quoted() string {
	quote := r.rest[0]
	r.rest = r.rest[1:]
	return r.until(quote)
}

// name is told of a word that is not a number.
func (r *reader) name(word string) {
	next := r.skip()
	switch lower := strings.ToLower(word); {
	case slices.Contains(groupings, lower) && next == '(':
		r.rest = r.rest[1:]
		for label := range strings.SplitSeq(r.until(')'), ",") {
			r.found.grouping = append(r.found.grouping, strings.TrimSpace(label))
		}
	case next == '(' || slices.Contains(operators, lower) || slices.Contains(aggregate, lower):
	default:
		s := selector{metric: word}
		if next == '{' {
			r.rest = r.rest[1:]
			s.matchers = r.labels()
		}
		r.found.selectors = append(r.found.selectors, s)
	}
}

func (r *reader) labels() []matcher {
	var all []matcher
	for r.err == nil {
		switch c := r.skip(); {
		case c == '}':
			r.rest = r.rest[1:]
			return all
		case c == ',':
			r.rest = r.rest[1:]
		case isWord(c):
			m := matcher{label: r.word()}
			m.op = r.rest[:max(strings.IndexByte(r.rest, '"'), 0)]
			r.rest = r.rest[len(m.op):]
			m.value = r.quoted()
			all = append(all, m)
		default:
			r.err = fmt.Errorf("labels end at %q", r.rest)
		}
	}
	return nil
}

func TestRead(t *testing.T) {
	for _, row := range []struct{ expr, want string }{
		{`up`, `{[{up []}] []}`},
		{`sum by (le, class) (rate(a_b{x="1", y=~"p|q"}[5m])) / 2e3 > bool 0.5`, `{[{a_b [{x = 1} {y =~ p|q}]}] [le class]}`},
		{`a - on (z) group_left () b{c!="}"} offset 1h or vector(0)`, `{[{a []} {b [{c != }}]}] [z ]}`},
		{`topk(3, m) and time() - 30 * 86400`, `{[{m []}] []}`},
		{`sum(c) without (d)`, `{[{c []}] [d]}`},
	} {
		if got, err := read(row.expr); err != nil || fmt.Sprint(got) != row.want {
			t.Errorf("%s: %v, %v", row.expr, got, err)
		}
	}
	for _, broken := range []string{`a{b="c"`, `a[5m`, `"a`, `a{b}`} {
		if got, err := read(broken); err == nil {
			t.Errorf("%s: %v", broken, got)
		}
	}
}
