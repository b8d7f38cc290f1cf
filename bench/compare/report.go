package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"datamove.dev/bench/stats"
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

// header is the first line of a table: ratios are of the first of its tools.
func (r Result) header() []string {
	ours := r.Scores[0].Tool + " ÷"
	return []string{"tool", "version", "wall s", "spread", ours, "CPU s", "spread", ours, "peak MiB", "max RSS MiB", "note"}
}

func (s Score) row() []string {
	if len(s.Samples) == 0 {
		return []string{s.Tool, s.Version, "", "", "", "", "", "", "", "", s.Failed}
	}
	return []string{s.Tool, s.Version,
		seconds(s.Wall.Median), spreadText(s.Wall), ratioText(s.WallRatio, s.WallInterval),
		seconds(s.CPU.Median), spreadText(s.CPU), ratioText(s.CPURatio, s.CPUInterval),
		mebibytes(s.Anon.Max), mebibytes(s.MaxRSS.Max), s.Failed}
}

func spreadText(s Spread[time.Duration]) string {
	if s.Max == 0 {
		return ""
	}
	return seconds(s.Min) + "–" + seconds(s.Max)
}

func seconds(d time.Duration) string {
	if d == 0 {
		return "" // not measured
	}
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.4f", d.Seconds())
	}
	return fmt.Sprintf("%.2f", d.Seconds())
}

func ratioText(r float64, in *Interval) string {
	switch {
	case r == 0:
		return ""
	case in == nil:
		return fmt.Sprintf("%.2f", r)
	}
	return fmt.Sprintf("%.2f [%.2f–%.2f]", r, in.Low, in.High)
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

// reached is how near ours comes to what load generators do.
func (r Result) reached() string {
	var parts []string
	for _, s := range r.Scores {
		if isOurs(s.Tool) || s.WallRatio == 0 {
			continue
		}
		part := fmt.Sprintf("%.0f %% of %s", 100/s.WallRatio, s.Tool)
		if in := s.WallInterval; in != nil {
			part += fmt.Sprintf(" [%.0f–%.0f %%]", 100/in.High, 100/in.Low)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// notes are the lines below a scenario's table.
func (r Result) notes() (lines []string) {
	if reached := r.reached(); r.Ceiling && reached != "" {
		lines = append(lines, r.Scores[0].Tool+" reaches "+reached)
	}
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
			fmt.Fprintln(t, strings.Join(s.header(), "\t"))
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
	"of these the median: below 1, datamove is better. Behind it stands the 95 %% interval of that median, by bootstrap, that is by\n" +
	"drawing rounds again: too narrow where rounds are few, and none of fewer than %d. Each run goes to a new place and its target is\n" +
	"counted afterwards; on a disk its time includes `sync -f`. CPU is user and system time of the tool, what it starts, and `sync`; an S3\n" +
	"server is another process and not counted. Peak is the highest anonymous memory of the tool and what it starts together, looked\n" +
	"at every %d ms; max RSS is the resident memory of the largest of these processes, with what it shares and maps, and blank where\n" +
	"that is not more than the process that measures has. Sources are in the page cache, and in-memory scenarios have one run of each\n" +
	"tool that does not count.\n"

const aboutCeilings = "\nThe names of some scenarios begin with *ceiling*: there the others are load generators, which write as many bytes as are copied,\n" +
	"then read them, and do no work of a mover. Their time is what they say of both (elbencho, fio, ior), or what these bytes take at the\n" +
	"rate that they measure (warp, for %s; its CPU is left out), so that their start is not in it; only dd is timed by the clock.\n" +
	"The source on a disk is not in the page cache there, and fio has its blocks in huge pages, as we do.\n"

// Markdown writes the report as bench/RESULTS.md.
func (r Report) Markdown(w io.Writer) error {
	m := r.Machine
	var b strings.Builder
	fmt.Fprintf(&b, preface, r.Command, r.Runs, r.Scale, m.CPU, m.Cores, float64(m.Memory)/(1<<30), m.System, m.Kernel, m.Go, m.Disk,
		r.Date.Format(time.DateOnly), stats.Enough, sampleEvery.Milliseconds())
	if slices.ContainsFunc(r.Results, func(s Result) bool { return s.Ceiling }) {
		fmt.Fprintf(&b, aboutCeilings, warpTime)
	}
	for _, s := range r.Results {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", s.Scenario, capital(s.What)+".")
		if len(s.Scores) > 0 {
			fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(s.header(), " | "), strings.Repeat("---|", len(s.header())))
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
