package progress

import (
	"fmt"
	"math"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/rate"
	"datamove.dev/mover/units"
)

// Meter makes lines of samples. The zero value is ready.
type Meter struct {
	now    Sample
	rates  rate.Meter
	recent []point // of the last window, oldest first
}

type point struct {
	at    time.Time
	waits Waits
}

// window is what is told of what was waited for.
const window = 10 * time.Second

// Add takes a sample.
func (m *Meter) Add(at time.Time, s Sample) {
	m.now = s
	m.rates.Add(at, s.Work)
	m.recent = append(m.recent, point{at, s.Waits})
	old := 0
	for old < len(m.recent)-2 && at.Sub(m.recent[old+1].at) >= window {
		old++
	}
	m.recent = append(m.recent[:0], m.recent[old:]...)
}

// read is how fast it goes and what is left.
func (m *Meter) read() rate.Reading {
	if m.now.Rates != nil {
		return *m.now.Rates
	}
	return m.rates.Read()
}

// Plain is one line for a log.
func (m *Meter) Plain(since time.Duration) string {
	line := fmt.Sprintf("%s  %s", units.Duration(since.Round(100*time.Millisecond)), m.counts())
	if slow := m.slow(); slow != "" {
		line += "  (" + slow + ")"
	}
	return line
}

// Live is the lines for a terminal.
func (m *Meter) Live() []string {
	lines := []string{m.counts()}
	if waits := m.waits(); waits != "" { // which has a line of its own: the narrow end of the first one would cut it off
		lines = []string{m.numbers(), "  " + waits}
	}
	if slow := m.slow(); slow != "" {
		lines = append(lines, "  "+slow)
	}
	return lines
}

// counts gives files, bytes, rate and the remaining time.
func (m *Meter) counts() string { return m.numbers() + "  " + m.eta(m.read().Remaining) }

// numbers gives files, bytes and rate.
func (m *Meter) numbers() string {
	s, more := m.now, "+"
	if s.Complete {
		more = ""
	}
	r := m.read()
	parts := []string{
		fmt.Sprintf("%s/%s%s files", units.Count(s.Files), units.Count(s.PlannedFiles), more),
		fmt.Sprintf("%s/%s%s", units.Bytes(s.Bytes), units.Bytes(s.PlannedBytes), more),
	}
	if s.Complete && s.PlannedBytes > 0 {
		parts = append(parts, fmt.Sprintf("%d%%", min(s.Bytes, s.PlannedBytes)*100/s.PlannedBytes))
	}
	parts = append(parts, units.PerSecond(r.Bytes))
	if r.Files >= 10 {
		parts = append(parts, units.Count(int64(math.Round(r.Files)))+" files/s")
	}
	if s.Failed > 0 {
		parts = append(parts, units.Count(s.Failed)+" failed")
	}
	return strings.Join(parts, "  ")
}

// waits is what the work waits for; "" is nothing.
func (m *Meter) waits() string {
	switch {
	case m.now.Paused != "":
		return "paused: " + m.now.Paused
	case m.now.WaitsFor != "":
		return "waiting: " + m.now.WaitsFor
	}
	return ""
}

func (m *Meter) eta(left time.Duration) string {
	waits := m.waits()
	switch {
	case waits != "":
		return waits
	case m.now.Step != "":
		return m.now.Step + "…"
	case !m.now.Complete:
		return "scanning…"
	case m.now.Bytes >= m.now.PlannedBytes && m.now.Files < m.now.PlannedFiles:
		return "finishing…" // written, and not yet on stable storage under its name
	case left == 0:
		return "ETA –"
	}
	return "ETA " + units.Clock(left)
}

// slowShare is the share of all waiting from which one side is called slow.
const slowShare = 0.7

// slow names what the work waits for: what most of the waiting is for, and a name that
// has been in work for five seconds.
func (m *Meter) slow() string {
	var parts []string
	var first Waits
	if len(m.recent) > 0 {
		first = m.recent[0].waits
	}
	if most := mostWait(m.now.Waits, first); most != "" {
		parts = append(parts, "waiting for "+most)
	}
	if m.now.Slowest != "" && m.now.SlowestFor >= 5*time.Second {
		parts = append(parts, fmt.Sprintf("longest in work: %s %s",
			units.Duration(m.now.SlowestFor.Round(100*time.Millisecond)), mover.Printable(m.now.Slowest)))
	}
	return strings.Join(parts, ", ")
}

// mostWait names what most of the waiting since another moment was for, with its share; ""
// is nothing.
func mostWait(now, before Waits) string {
	sides := []struct {
		name string
		wait time.Duration
	}{
		{"the source", now.Source - before.Source}, {"the target", now.Target - before.Target}, {"the network", now.Link - before.Link},
		{"the bandwidth limit", now.Limit - before.Limit}, {"its turn", now.Turn - before.Turn},
	}
	var all time.Duration
	for _, side := range sides {
		all += side.wait
	}
	for _, side := range sides {
		if share := float64(side.wait) / float64(all); all > 0 && share >= slowShare {
			return fmt.Sprintf("%s %.0f%%", side.name, share*100)
		}
	}
	return ""
}
