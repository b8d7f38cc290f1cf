package harness

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/bench/result"
	"datamove.dev/test/must"
)

// saved is a file of a run with phases of such rates, in GB/s, by repeats.
func saved(t *testing.T, name string, rates ...float64) string {
	t.Helper()
	run := &result.Run{Schema: result.Schema, ID: "0123456789abcdef", Version: "1.8.0", Command: "datamove-bench run /scratch", Begun: time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC), Nodes: []result.Node{{Name: "n1"}}}
	for i, rate := range rates {
		run.Phases = append(run.Phases, result.Phase{Suite: "large", Name: "read", What: "8 ranks on 1 node, 1 file of 1.00 GiB each", Unit: result.Bytes, Repeat: i + 1, NodeCount: 1, Ranks: 8,
			First: result.Done{Seconds: 9, Bytes: int64(rate * 9e9)}, Last: result.Done{Seconds: 10, Bytes: int64(rate * 10e9)}})
	}
	file := filepath.Join(t.TempDir(), name)
	f := must.Get(os.Create(file))(t)
	defer f.Close()
	must.Do(t, run.Write(f))
	return file
}

// TestReport: each form is what it is called; a regression is exit 1, after it was written; words and files that are wrong are exit 2.
func TestReport(t *testing.T) {
	old, slow := saved(t, "old.json", 10, 10.1, 9.9, 10, 10.05), saved(t, "slow.json", 8, 8.1, 7.9, 8, 8.05)
	if out, code := run(t, "", "report", old); code != 0 || !strings.Contains(out, "10.0 GB/s") {
		t.Errorf("exit %d\n%s", code, out)
	}
	out, code := run(t, "", "report", old, slow, "-o", "json", "--cluster", founding)
	var got struct {
		Schema string
		Runs   []any
		Phases []struct {
			Rate struct{ Count int } `json:"rate_per_second"`
		}
		Model struct{ Verdict string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Schema != "datamove.report/v1" || len(got.Runs) != 2 || len(got.Phases) != 1 || got.Phases[0].Rate.Count != 10 || got.Model.Verdict != "refuted" {
		t.Errorf("%v, exit %d, %+v\n%s", err, code, got, out)
	}
	if out, code = run(t, "", "report", slow, "-o", "csv"); code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
	if rows, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(rows) != 6 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	text := must.Get(os.ReadFile(old))(t)
	if out, code := run(t, string(text), "report", "-", "--baseline", old, "--baseline", old); code != 0 || !strings.Contains(out, "no regression in 1 phase, within 5 %") {
		t.Errorf("exit %d\n%s", code, out)
	}
	out, code = run(t, "", "report", slow, "--baseline", old)
	if code != 1 || !strings.Contains(out, "RANKS") || !strings.Contains(out, "1 regression in 1 phase beside the baseline: large read on 1 node is slower, −20.0 %") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if out, code := run(t, "", "report", slow, "--baseline", old, "--tolerance", "25%"); code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// TestReportFile: a page is written whole, in the place of one that is there; of one that can not be written nothing is left.
func TestReportFile(t *testing.T) {
	old, dir := saved(t, "old.json", 10), t.TempDir()
	page := filepath.Join(dir, "page.html")
	must.Do(t, os.WriteFile(page, []byte("what was there"), 0o600))
	if out, code := run(t, "", "report", old, "-o", "html", "--out", page); code != 0 || out != "" {
		t.Fatalf("exit %d\n%s", code, out)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.HasPrefix(string(text), "<!doctype html>") || !strings.HasSuffix(strings.TrimSpace(string(text)), "</html>") {
		t.Errorf("%v: %.100s", err, text)
	}
	if out, code := run(t, "", "report", old, "--out", filepath.Join(dir, "nowhere", "page.html")); code != 3 || !strings.Contains(out, "no such file") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestReportUsage(t *testing.T) {
	old := saved(t, "old.json", 10)
	broken := filepath.Join(t.TempDir(), "broken.json")
	must.Do(t, os.WriteFile(broken, []byte(`{"schema":"datamove.run/v9"}`), 0o600))
	for _, row := range []struct {
		want string
		args []string
	}{
		{"want files of runs", nil},
		{"must be table, json, csv or html", []string{old, "-o", "pdf"}},
		{"nothing.json: no such file", []string{"nothing.json"}},
		{"nothing.json: no such file", []string{old, "--baseline", "nothing.json"}},
		{"no such file", []string{old, "--cluster", "nothing.yaml"}},
		{"broken.json: ", []string{broken}},
		{"want datamove.run/v1", []string{broken}},
		{"read once, and not 2 times", []string{"-", "--baseline", "-"}},
		{"want a share above 0 and below 100%", []string{old, "--tolerance", "0"}},
		{"want a share above 0 and below 100%", []string{old, "--tolerance", "100%"}},
		{"want a share above 0 and below 100%", []string{old, "--tolerance", "NaN"}},
		{"want a share above 0 and below 100%", []string{old, "--tolerance", "much"}},
		{"unknown flag", []string{old, "--fast"}},
	} {
		if out, code := run(t, "", append([]string{"report"}, row.args...)...); code != 2 || !strings.Contains(out, row.want) {
			t.Errorf("%q: exit %d, want 2 with %q\n%s", row.args, code, row.want, out)
		}
	}
}
