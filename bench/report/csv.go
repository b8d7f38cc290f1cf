package report

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"datamove.dev/bench/result"
)

// csvHeader names what is in a row, with units.
var csvHeader = []string{"run", "begun", "suite", "phase", "what", "repeat", "nodes", "ranks", "unit", "bytes_per_s", "ops_per_s", "first_done_bytes_per_s", "first_done_ops_per_s",
	"seconds", "first_done_seconds", "bytes", "ops", "files", "wrong_blocks", "skew_seconds", "skew_error_seconds", "latency_count", "latency_mean_us", "latency_p50_us", "latency_p90_us",
	"latency_p99_us", "latency_p99.9_us", "latency_max_us", "cpu_seconds", "peak_rss_bytes", "cache", "durable", "failed"}

// CSV writes every repeat of every phase as a row for a spreadsheet.
func (r *Report) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	if err := c.Write(csvHeader); err != nil {
		return err
	}
	for _, run := range r.runs {
		for i := range run.Phases {
			if err := c.Write(csvRow(run, &run.Phases[i])); err != nil {
				return err
			}
		}
	}
	c.Flush()
	return c.Error()
}

func csvRow(run *result.Run, p *result.Phase) []string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	of := func(d result.Done, n int64) string {
		if d.Seconds <= 0 {
			return ""
		}
		return number(float64(n) / d.Seconds)
	}
	l := &p.Latency
	return []string{cell(run.ID), run.Begun.UTC().Format(time.RFC3339), cell(p.Suite), cell(p.Name), cell(p.What), count(int64(p.Repeat)), count(int64(p.NodeCount)), count(int64(p.Ranks)),
		string(p.Unit), of(p.Last, p.Last.Bytes), of(p.Last, p.Last.Ops), of(p.First, p.First.Bytes), of(p.First, p.First.Ops), number(p.Last.Seconds), number(p.First.Seconds),
		count(p.Last.Bytes), count(p.Last.Ops), count(p.Files), count(p.Wrong), number(p.Skew), number(p.SkewError), count(l.Count), number(l.Mean), number(l.P50), number(l.P90),
		number(l.P99), number(l.P999), number(l.Max), number(p.CPU), count(p.PeakBytes), cell(p.Cache), cell(p.Durable), cell(p.Failed)}
}

// cell is a text that no spreadsheet takes for a formula.
func cell(s string) string {
	if s == "" {
		return s
	}
	switch s[0] {
	case '=', '+', '-', '@', '\t', '\r', '\n':
		return "'" + s
	}
	return s
}

// JSON writes a report for programs.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}
