package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is a comparison with all that is needed to repeat it.
type Report struct {
	Schema  string    `json:"schema"`
	Command string    `json:"command"` // without local paths
	Date    time.Time `json:"date"`
	Machine Machine   `json:"machine"`
	Runs    int       `json:"runs"`
	Scale   float64   `json:"scale"`
	Results []Result  `json:"results"`
}

// ReportSchema names the version of the JSON form.
const ReportSchema = "datamove-bench.compare/v1"

// JSON writes the report with every sample.
func (r Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// header is the first line of each table.
var header = []string{"tool", "version", "wall s", "spread", "datamove ÷", "CPU s", "spread", "datamove ÷", "peak MiB", "note"}

func (s Score) row() []string {
	if len(s.Samples) == 0 {
		return []string{s.Tool, s.Version, "", "", "", "", "", "", "", s.Failed}
	}
	return []string{s.Tool, s.Version,
		seconds(s.Wall.Median), seconds(s.Wall.Min) + "–" + seconds(s.Wall.Max), ratioText(s.WallRatio),
		seconds(s.CPU.Median), seconds(s.CPU.Min) + "–" + seconds(s.CPU.Max), ratioText(s.CPURatio),
		mebibytes(s.Anon.Max), s.Failed}
}

func seconds(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.4f", d.Seconds())
	}
	return fmt.Sprintf("%.2f", d.Seconds())
}

func ratioText(r float64) string {
	if r == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", r)
}

func mebibytes(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", float64(n)/(1<<20))
}

// calls are how the tools were called.
func (r Result) calls() (lines []string) {
	for _, s := range r.Scores {
		if s.Command != "" {
			lines = append(lines, "`"+s.Command+"`")
		}
	}
	return lines
}

// notes are the lines below a scenario's table.
func (r Result) notes() (lines []string) {
	if r.NotRun != "" {
		lines = append(lines, "Not run: "+r.NotRun)
	}
	if len(r.Absent) > 0 {
		lines = append(lines, "Not installed: "+strings.Join(r.Absent, ", "))
	}
	return lines
}

// Table writes the report for a terminal.
func (r Report) Table(w io.Writer) error {
	for _, s := range r.Results {
		fmt.Fprintf(w, "%s: %s\n", s.Scenario, s.What)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		if len(s.Scores) > 0 {
			fmt.Fprintln(t, strings.Join(header, "\t"))
		}
		for _, score := range s.Scores {
			fmt.Fprintln(t, strings.Join(score.row(), "\t"))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, line := range s.notes() {
			fmt.Fprintln(w, line)
		}
		fmt.Fprintln(w)
	}
	return nil
}

const preface = "# datamove beside its peers\n\n" +
	"`%s`, %d runs of each tool in turns, each round in an order by chance, at %g of the full size.\n\n" +
	"%s, %d cores, %.0f GiB, %s, kernel %s, %s; the disk is %s. %s.\n\n" +
	"Medians with the lowest and the highest run. *datamove ÷* is datamove's time divided by the tool's in the same round, and\n" +
	"of these the median: below 1, datamove is better. Each run goes to a new place and its target is counted afterwards; on a\n" +
	"disk its time includes `sync -f`. CPU is user and system time of the tool, what it starts, and `sync`; an S3 server is\n" +
	"another process and not counted. Peak is the highest anonymous memory of the tool and what it starts, looked at every %d ms.\n" +
	"Sources are in the page cache, and in-memory scenarios have one run of each tool that does not count.\n"

// Markdown writes the report as bench/RESULTS.md.
func (r Report) Markdown(w io.Writer) error {
	m := r.Machine
	var b strings.Builder
	fmt.Fprintf(&b, preface, r.Command, r.Runs, r.Scale, m.CPU, m.Cores, float64(m.Memory)/(1<<30), m.System, m.Kernel, m.Go, m.Disk,
		r.Date.Format(time.DateOnly), sampleEvery.Milliseconds())
	for _, s := range r.Results {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", s.Scenario, capital(s.What)+".")
		if len(s.Scores) > 0 {
			fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)))
		}
		for _, score := range s.Scores {
			row := score.row()
			for i := range row {
				row[i] = strings.NewReplacer("|", `\|`, "\n", " ").Replace(row[i])
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
		if calls := s.calls(); len(calls) > 0 {
			fmt.Fprintf(&b, "\n%s\n", strings.Join(calls, " · "))
		}
		for _, line := range s.notes() {
			fmt.Fprintf(&b, "\n%s\n", line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
