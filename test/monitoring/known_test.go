package monitoring

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"datamove.dev/mover/telemetry"
	"datamove.dev/test/must"
)

// known is what expressions may use: the labels of each metric, and the words that a
// scrape has shown of each.
type known map[string]map[string]words

type words map[string]bool

// target are the labels that Prometheus adds, by deploy/monitoring/prometheus.yml and by the ServiceMonitors of the
// chart (test/deploy TestMonitors).
var target = map[string]words{"job": {"datamove": true}, "role": {"coordinator": true, "agent": true, "csi-controller": true, "csi-node": true}, "instance": nil}

// sampleLine is one line of a scrape: name, labels, value.
var (
	sampleLine = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
)

// learn knows what a scrape shows.
func learn(scrape string) known {
	k := known{"up": {}, "ALERTS": {"alertname": nil, "alertstate": {"firing": true, "pending": true}}}
	for line := range strings.SplitSeq(scrape, "\n") {
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if k[m[1]] == nil {
			k[m[1]] = map[string]words{}
		}
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			if k[m[1]][pair[1]] == nil {
				k[m[1]][pair[1]] = words{}
			}
			k[m[1]][pair[1]][pair[2]] = true
		}
	}
	return k
}

// plain is a value, or one of several in a regular expression, that names a word.
var plain = regexp.MustCompile(`^[A-Za-z_-]+$`)

// check says what an expression uses that is not there.
func (k known) check(expr string) []string {
	u, err := read(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var wrong []string
	groups := words{"le": true}
	for label := range target {
		groups[label] = true
	}
	for _, s := range u.selectors {
		labels, ok := k[s.metric]
		if !ok {
			wrong = append(wrong, "there is no "+s.metric)
			continue
		}
		for label := range labels {
			groups[label] = true
		}
		for _, m := range s.matchers {
			wrong = append(wrong, k.matcher(s.metric, labels, m)...)
		}
	}
	for _, label := range u.grouping {
		if label != "" && !groups[label] {
			wrong = append(wrong, "grouped by "+label+", which nothing in it has")
		}
	}
	return wrong
}

func (k known) matcher(metric string, labels map[string]words, m matcher) []string {
	values, ok := labels[m.label]
	if common, is := target[m.label]; is {
		values, ok = common, true
	}
	if !ok {
		return []string{metric + " has no label " + m.label}
	}
	var wrong []string
	for value := range strings.SplitSeq(m.value, "|") {
		if values != nil && plain.MatchString(value) && !values[value] {
			wrong = append(wrong, fmt.Sprintf("%s has no %s %q", metric, m.label, value))
		}
	}
	return wrong
}

func TestCheck(t *testing.T) {
	k := learn("# HELP a x\na{s=\"on\",t=\"x y\"} 1\na{s=\"off\"} 2\nb_bucket{le=\"+Inf\"} 3\nb_sum 1e+09\n")
	for _, row := range []struct{ expr, want string }{
		{`sum by (s, le, instance) (a{s=~"on|off", role="agent"}) / b_bucket`, ""},
		{`a{s=~"$s"} + a{s=~"o.*"}`, ""},
		{`c`, "there is no c"},
		{`a{u="1"}`, "a has no label u"},
		{`a{s="of"}`, `a has no s "of"`},
		{`a{s!~"on|broken"}`, `a has no s "broken"`},
		{`a{job="data"}`, `a has no job "data"`},
		{`sum by (s) (b_sum)`, "grouped by s, which nothing in it has"},
	} {
		if got := strings.Join(k.check(row.expr), "; "); got != row.want {
			t.Errorf("%s: %q, want %q", row.expr, got, row.want)
		}
	}
}

// Every metric is on a dashboard or in an alert; else nobody would miss it.
func TestEveryMetricIsSeen(t *testing.T) {
	seen := words{}
	var exprs []string
	for _, a := range alerts(t) {
		exprs = append(exprs, a.Expr)
	}
	for _, d := range dashboards(t) {
		exprs = append(exprs, d.exprs()...)
	}
	for _, expr := range exprs {
		u := must.Get(read(expr))(t)
		for _, s := range u.selectors {
			seen[s.metric] = true
		}
	}
	for _, r := range telemetry.Table() {
		if !slices.ContainsFunc([]string{"", "_bucket", "_sum", "_count"}, func(part string) bool { return seen[r.Name+part] }) {
			t.Errorf("nobody looks at %s", r.Name)
		}
	}
}
