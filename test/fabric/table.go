package fabric

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Round is one comparison: the ceiling, and then a load, through the same links.
type Round struct{ Ceiling, Load Measure }

// Share is which part of the ceiling the load has reached.
func (r Round) Share() float64 { return r.Load.PerSec / r.Ceiling.PerSec }

// Invalid says why the round does not count; "" when it does.
func (r Round) Invalid() string { return cmp.Or(r.Load.Invalid(), r.Ceiling.Invalid()) }

// Row is the rounds of one number of agents.
type Row struct {
	Agents int
	Rounds []Round // as they were done
}

// Median is the round whose share is in the middle of those that count, or of all
// when none does.
func (r Row) Median() Round {
	count := slices.DeleteFunc(slices.Clone(r.Rounds), func(x Round) bool { return x.Invalid() != "" })
	if len(count) == 0 {
		count = slices.Clone(r.Rounds)
	}
	slices.SortFunc(count, func(a, b Round) int { return cmp.Compare(a.Share(), b.Share()) })
	return count[(len(count)-1)/2]
}

// Plan says what a model does.
type Plan struct {
	Agents []int         // how many, one after the other
	Rounds int           // that count, for each; 0 means 1
	Span   time.Duration // of a ceiling and, about, of a load
	Object int64         // bytes of each
	Link   Link
	Load   Load
	Programs
}

// Run measures row by row, and tells each when it is known.
func (p Plan) Run(ctx context.Context, tell func(Row)) error {
	for _, agents := range p.Agents {
		row, err := p.row(ctx, agents)
		if err != nil {
			return fmt.Errorf("%d agents: %w", agents, err)
		}
		tell(row)
	}
	return nil
}

func (p Plan) row(ctx context.Context, agents int) (row Row, err error) {
	work := WorkFor(p.Programs, p.Link, p.Span, p.Object)
	if err := fits(work.bytes() * int64(agents)); err != nil {
		return row, err
	}
	rig, err := New(ctx, agents, p.Link)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	row.Agents = agents
	for range max(1, p.Rounds) {
		var round Round
		if round.Ceiling, err = Ceiling(ctx, rig, p.Span); err != nil {
			return row, err
		}
		if round.Load, err = p.move(ctx, rig, work); err != nil {
			return row, err
		}
		row.Rounds = append(row.Rounds, round)
	}
	return row, nil
}

func (p Plan) move(ctx context.Context, rig *Rig, work Work) (m Measure, err error) {
	if rig.memory, err = newReserve(ctx, rig, work.bytes()*int64(len(rig.Nodes))); err != nil {
		return m, err
	}
	m, err = p.Load(ctx, rig, work)
	return m, errors.Join(err, work.Forget(rig), rig.memory.close())
}

// fits refuses work that would take more than three quarters of the memory that is free.
func fits(bytes int64) error {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	free, err := available(string(text))
	if err == nil && bytes > free/4*3 {
		err = fmt.Errorf("the nodes would write %d MB to memory, and %d MB are free: make the span shorter", bytes/1e6, free/1e6)
	}
	return err
}

// available reads the line MemAvailable of /proc/meminfo.
func available(text string) (bytes int64, err error) {
	_, rest, _ := strings.Cut(text, "MemAvailable:")
	if _, err := fmt.Sscanf(rest, "%d kB", &bytes); err != nil {
		return 0, fmt.Errorf("/proc/meminfo tells no MemAvailable: %w", err)
	}
	return bytes << 10, nil
}

// Print writes the table. Efficiency is what one agent moves, compared with an
// agent of the first row.
func Print(w io.Writer, name string, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "agents\tiperf3 MB/s\t%s MB/s\tof iperf3\tspread\tefficiency\tfirst s\tlast s\tCPU-s/GB\tidle iperf3\tidle %s\t\n", name, name)
	var invalid []string
	for _, row := range rows {
		m := row.Median()
		least, most := m.Share(), m.Share()
		for _, x := range row.Rounds {
			least, most = min(least, x.Share()), max(most, x.Share())
		}
		efficiency := m.Load.PerSec / float64(row.Agents) / (rows[0].Median().Load.PerSec / float64(rows[0].Agents))
		mark := ""
		if why := m.Invalid(); why != "" {
			mark = " INVALID"
			invalid = append(invalid, fmt.Sprintf("%d agents: %s", row.Agents, why))
		}
		fmt.Fprintf(t, "%d\t%.1f\t%.1f\t%.1f %%\t%.1f-%.1f\t%.1f %%\t%.2f\t%.2f\t%.1f\t%.0f %%\t%.0f %%%s\t\n", row.Agents, m.Ceiling.PerSec/1e6, m.Load.PerSec/1e6, 100*m.Share(),
			100*least, 100*most, 100*efficiency, m.Load.First.Seconds(), m.Load.Elapsed.Seconds(),
			m.Load.CPU.Seconds()/(float64(m.Load.Bytes)/1e9), m.Ceiling.Idle, m.Load.Idle, mark)
	}
	err := t.Flush()
	for _, why := range invalid {
		fmt.Fprintln(w, "INVALID:", why)
	}
	return err
}
