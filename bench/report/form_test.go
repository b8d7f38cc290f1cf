package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"datamove.dev/bench/report"
	"datamove.dev/bench/report/reporttest"
	"datamove.dev/bench/result"
	"datamove.dev/test/must"
)

// written is a report in a form.
func written(t testing.TB, form func(*report.Report, *bytes.Buffer) error, r *report.Report) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, form(r, &b))
	return b.String()
}

func asTable(r *report.Report, b *bytes.Buffer) error { return r.Table(b) }
func asCSV(r *report.Report, b *bytes.Buffer) error   { return r.CSV(b) }
func asJSON(r *report.Report, b *bytes.Buffer) error  { return r.JSON(b) }
func asHTML(r *report.Report, b *bytes.Buffer) error  { return r.HTML(b) }

// TestTable: a line for each phase, in columns; what failed stands out; and the regressions come first.
func TestTable(t *testing.T) {
	text := written(t, asTable, reporttest.Example(t))
	for _, want := range []string{
		`(?m)^run [0-9a-f]{16} of 2026-11-26 20:15 UTC, 8 nodes: datamove-bench run `,
		`(?m)^large$`,
		`(?m)^  PHASE +NODES +RANKS +RUNS +LAST DONE +95 % OF MEDIAN +FIRST DONE +EFFICIENCY +P50 +P99 +P99.9 +SKEW$`,
		`(?m)^  write +8 +128 +5 +4\d\.\d GB/s +4\d\.\d to 4\d\.\d GB/s +\d\d\.\d GB/s +7\d\.\d % +2\.9\d ms +[67]\.\d\d ms +\d\d\.\d ms +\d+ µs$`,
		`(?m)^    !! 3 WRONG BLOCKS: what was read is not what was written$`,
		`(?m)^    !! FAILED, repeat 1: gpu003: lost: connection reset by peer$`,
		`(?m)^IO500-style, 8 nodes, 128 ranks \(not the official benchmark\)$`,
		`(?m)^beside the baseline: 6 regressions in 72 phases$`,
		`(?m)^  large verify +8 .* !! failed: wrong blocks: 3$`,
		`(?m)^  large read +8 .* −1\d\.\d % .* !! slower$`,
		`(?m)^Notes:\n  the time of day of gpu004 is 1\.2s off`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("nothing is like %s in\n%s", want, text)
		}
	}
	if strings.Index(text, "!! slower") > strings.Index(text, " alike") {
		t.Error("regressions are not on top")
	}
}

// TestTableFew: of few repeats there is the lowest and the highest, and a mark; of one there is no interval.
func TestTableFew(t *testing.T) {
	text := written(t, asTable, report.Sum(runs(runOf(one("large", "write", result.Bytes, 1, 10e9), one("large", "write", result.Bytes, 1, 12e9), one("large", "read", result.Bytes, 1, 10e9))), report.Options{}))
	for _, want := range []string{`write +1 +8 +2 +11\.0 GB/s +10\.0 to 12\.0 GB/s \*`, `read +1 +8 +1 +10\.0 GB/s +1 repeat `, `2 phases of fewer than 3 repeats`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("nothing is like %s in\n%s", want, text)
		}
	}
}

// TestCSV: a row for every repeat, with units in the header; no text of it is a formula.
func TestCSV(t *testing.T) {
	p := one("large", "write", result.Bytes, 2, 1e9)
	p.What, p.Cache, p.Failed = "8 ranks, \"quoted\"\nand a line", "@cache", "-1 is no\tnumber"
	run := runOf(p)
	var names []string
	for i, name := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "plain", ""} {
		q := one("=cmd|' /C calc'!A0", name, result.Ops, 1, 100)
		q.Repeat = i
		run.Phases, names = append(run.Phases, q), append(names, name)
	}
	rows := must.Get(csv.NewReader(strings.NewReader(written(t, asCSV, report.Sum(runs(run), report.Options{})))).ReadAll())(t)
	if len(rows) != 1+len(run.Phases) {
		t.Fatalf("%d rows", len(rows))
	}
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	first := rows[1]
	for name, want := range map[string]string{"suite": "large", "phase": "write", "what": p.What, "nodes": "2", "ranks": "16", "unit": "bytes", "bytes_per_s": "1e+09", "seconds": "400", "bytes": "400000000000",
		"first_done_bytes_per_s": "1.1e+09", "cache": "'@cache", "failed": "'-1 is no\tnumber"} {
		if first[at[name]] != want {
			t.Errorf("%s is %q, want %q", name, first[at[name]], want)
		}
	}
	for i, name := range names {
		want := "'" + strings.ReplaceAll(name, "\r", "\r")
		if name == "plain" || name == "" {
			want = name
		}
		if got := rows[i+2][at["phase"]]; got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
		if got := rows[i+2][at["suite"]]; got[0] != '\'' {
			t.Errorf("a formula: %q", got)
		}
	}
	for _, row := range rows[1:] {
		for i, name := range rows[0] {
			if _, err := strconv.ParseFloat(row[i], 64); (strings.HasSuffix(name, "_s") || strings.HasSuffix(name, "seconds") || strings.HasSuffix(name, "_us")) && err != nil {
				t.Errorf("%s is %q", name, row[i])
			}
		}
	}
}

// TestJSON: what programs look for is where they are told.
func TestJSON(t *testing.T) {
	var got struct {
		Schema string
		Phases []struct {
			Suite, Name string
			Nodes       int `json:"node_count"`
			Rate        struct {
				Median, Low, High float64
				Count             int
			} `json:"rate_per_second"`
			Efficiency float64
			Latency    struct {
				P99 float64 `json:"p99_us"`
			}
		}
		Scaling []struct {
			Points []struct{ Efficiency float64 }
		}
		IO500 []struct {
			Score   float64
			Invalid []string
		}
		Baseline struct {
			Regressions int
			Changes     []struct {
				Verdict string
				Ratio   struct{ High float64 }
			}
		}
		Model struct{ Verdict string }
		Notes []string
	}
	must.Do(t, json.Unmarshal([]byte(written(t, asJSON, reporttest.Example(t))), &got))
	p := got.Phases[3]
	if got.Schema != "datamove.report/v1" || len(got.Phases) != 72 || p.Suite != "large" || p.Name != "write" || p.Nodes != 8 || p.Rate.Median < 40e9 || p.Rate.Count != 5 || !(p.Rate.Low < p.Rate.High) || p.Latency.P99 < 1000 {
		t.Errorf("%s, %d phases, %+v", got.Schema, len(got.Phases), p)
	}
	if len(got.Scaling) != 18 || got.Scaling[0].Points[3].Efficiency != p.Efficiency || p.Efficiency < 0.5 || p.Efficiency > 1 {
		t.Errorf("%d curves, %+v", len(got.Scaling), got.Scaling[0])
	}
	if len(got.IO500) != 4 || got.IO500[3].Score < got.IO500[0].Score || len(got.IO500[0].Invalid) != 4 {
		t.Errorf("%+v", got.IO500)
	}
	if b := got.Baseline; b.Regressions != 6 || b.Changes[0].Verdict != "failed" || b.Changes[2].Verdict != "slower" || b.Changes[2].Ratio.High >= 1 {
		t.Errorf("%d regressions, %+v", b.Regressions, b.Changes[:3])
	}
	if got.Model.Verdict != "refuted" || len(got.Notes) == 0 {
		t.Errorf("%+v, %q", got.Model, got.Notes)
	}
}

// hidden is what must not be in any text that people see.
var hidden = regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")

// TestHostile: text from outside is text, in each form. It makes no element, and what is hidden in it is seen.
func TestHostile(t *testing.T) {
	r := reporttest.Hostile(t)
	page, table := written(t, asHTML, r), written(t, asTable, r)
	for form, text := range map[string]string{"table": table, "page": page} {
		if bad := hidden.FindString(text); bad != "" {
			t.Errorf("the %s has %q", form, bad)
		}
	}
	for _, bad := range []string{"<script", "<img", "onerror=alert(2)>'`{{.}}</title>", "javascript:", "<a href=\"http", "src=\"", "url(", "@import"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;") || !strings.Contains(page, `\u202egnp.exe`) {
		t.Error("names are not shown as they are")
	}
	if text := written(t, asJSON, r); strings.Contains(text, "<script") || !json.Valid([]byte(text)) {
		t.Error("the JSON can not be put into a page")
	}
	if _, err := csv.NewReader(strings.NewReader(written(t, asCSV, r))).ReadAll(); err != nil {
		t.Error(err)
	}
}

// TestLarge: of very many phases, nodes and targets the page has those that can be read, and says of how many.
func TestLarge(t *testing.T) {
	run := runOf()
	for i := range 1000 {
		p := one(fmt.Sprint("suite", i/10), fmt.Sprint("phase", i%10), result.Bytes, 1, 1e9)
		if i == 0 {
			for n := range 2000 {
				p.PerNode = append(p.PerNode, result.Share{Name: fmt.Sprint("n", n), Done: result.Done{Seconds: 400, Bytes: int64(1e9 + n)}, Every: 1, Series: make([]int64, 400)})
				p.PerNode[n].Series[n%400] = 1e9
				run.Nodes = append(run.Nodes, result.Node{Name: fmt.Sprint("n", n)})
			}
		}
		run.Phases = append(run.Phases, p)
	}
	page := written(t, asHTML, report.Sum(runs(run), report.Options{}))
	for _, want := range []string{"800 more phases are in the summary, and not drawn", "the 32 that did the least of 2000", "Nodes, the first 64 of 2000"} {
		if !strings.Contains(page, want) {
			t.Errorf("nothing says %q", want)
		}
	}
	if len(page) > 3<<20 {
		t.Errorf("the page has %d MiB", len(page)>>20)
	}
}

// noFigure is what is drawn or printed of a figure that is none.
var noFigure = regexp.MustCompile(` [a-z0-9]+="[^"]*Inf[^"]*"|[^"]{0,20}NaN|[^"]{0,20}[+-]Inf`)

// survives writes a run in each form, beside itself: whatever is in it, nothing of that fails, and nothing is hidden.
func survives(t *testing.T, run *result.Run) {
	t.Helper()
	r := report.Sum(runs(run, run), report.Options{Baseline: runs(run), Model: reporttest.Founding(t)})
	page, table := written(t, asHTML, r), written(t, asTable, r)
	text := page + table
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") { // else the expression alone would take most of the time
		if at := noFigure.FindString(text); at != "" {
			t.Errorf("the page or the table has %s", at)
		}
	}
	if hidden.MatchString(text) {
		t.Error("something is hidden")
	}
	if _, err := csv.NewReader(strings.NewReader(written(t, asCSV, r))).ReadAll(); err != nil {
		t.Error(err)
	}
	if !json.Valid([]byte(written(t, asJSON, r))) {
		t.Error("no JSON")
	}
}

// TestExtremes: figures that nothing measures, and that a file may have all the same.
func TestExtremes(t *testing.T) {
	for seed := range uint64(75) {
		chance := rand.New(rand.NewPCG(seed, 1))
		pick := func() float64 {
			return []float64{0, 1, 2.5, 300, 1e-320, 1e-300, 1e-9, 1e9, 1e18, 1e19, 1e36, 1e300, math.MaxFloat64}[chance.IntN(13)]
		}
		count := func() int64 { return []int64{0, 1, 2, 5000, 1e12, math.MaxInt64, 9e18}[chance.IntN(7)] }
		signed := func() float64 { return pick() * float64(chance.IntN(2)*2-1) }
		done := func() result.Done { return result.Done{Seconds: pick(), Bytes: count(), Ops: count()} }
		share := func() (s result.Share) {
			s = result.Share{Name: "n", Done: done(), Every: pick()}
			for range chance.IntN(5) {
				s.Series = append(s.Series, count()*int64(chance.IntN(3)-1))
			}
			return s
		}
		run := runOf()
		run.Nodes = []result.Node{{Name: "n", Cores: math.MinInt, MemoryBytes: math.MinInt64, ClockAhead: signed(), ClockError: signed()}}
		for range 1 + chance.IntN(12) {
			k := append(reporttest.IO500, reporttest.Kinds...)[chance.IntN(4)]
			p := result.Phase{Suite: k.Suite, Name: k.Name, Unit: k.Unit, Repeat: chance.IntN(3), NodeCount: chance.IntN(4), Ranks: chance.IntN(2) * 1e9, First: done(), Last: done(), Files: count(), Wrong: -count(),
				Skew: signed(), SkewError: signed(), CPU: signed(), Latency: result.Latency{Count: count(), Mean: signed(), P50: signed(), P90: signed(), P99: signed(), P999: signed(), Max: signed()}}
			if chance.IntN(2) == 0 {
				l := reporttest.NewMaker(seed).Latency(pick()/1e6, 3)
				p.Latency.HDR, p.Latency.Count = l.HDR, l.Count
			}
			for range chance.IntN(3) {
				p.PerNode, p.PerTarget = append(p.PerNode, share()), append(p.PerTarget, share())
			}
			run.Phases = append(run.Phases, p)
		}
		var b bytes.Buffer
		must.Do(t, run.Write(&b))
		again := must.Get(result.Read(&b))(t)
		if survives(t, again); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// FuzzReport: whatever can be read as a run can be written in each form.
func FuzzReport(f *testing.F) {
	m := reporttest.NewMaker(5)
	m.Targets = 2
	var b bytes.Buffer
	run := m.Run([]int{1, 2}, 1, reporttest.Kinds[0], reporttest.Kinds[3])
	for i := range run.Phases {
		p := &run.Phases[i]
		for _, all := range [][]result.Share{p.PerNode, p.PerTarget} {
			for k := range all {
				all[k].Series = all[k].Series[:4]
			}
		}
	}
	must.Do(f, run.Write(&b))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		if run, err := result.Read(bytes.NewReader(text)); err == nil && !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Inf")) {
			survives(t, run)
		}
	})
}
