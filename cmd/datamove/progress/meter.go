package progress

import (
	"fmt"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Meter makes rates of samples. The zero value is ready.
type Meter struct {
	last, now point
	recent    []point // of the last window, oldest first
	cost      cost
}

type point struct {
	at time.Duration
	Sample
}

// window is what the shown rate is an average of.
const window = 10 * time.Second

// Add takes a sample. Time begins at 0 and never goes back.
func (m *Meter) Add(at time.Duration, s Sample) {
	m.last, m.now = m.now, point{at, s}
	if len(m.recent) == 0 {
		m.recent = append(m.recent, point{}) // the beginning: nothing done at 0
	}
	m.recent = append(m.recent, m.now)
	old := 0
	for old < len(m.recent)-2 && at-m.recent[old+1].at >= window {
		old++
	}
	m.recent = append(m.recent[:0], m.recent[old:]...)
	m.cost.learn(at-m.last.at, s.Files-m.last.Files, s.Bytes-m.last.Bytes)
}

// Rate is bytes and files per second over the last ten seconds.
func (m *Meter) Rate() (bytesPerSec, filesPerSec float64) {
	if len(m.recent) < 2 {
		return 0, 0
	}
	first := m.recent[0]
	sec := (m.now.at - first.at).Seconds()
	if sec <= 0 {
		return 0, 0
	}
	return float64(m.now.Bytes-first.Bytes) / sec, float64(m.now.Files-first.Files) / sec
}

// Remaining is the time that is left. It is not known before the plan is
// complete and something has been done.
func (m *Meter) Remaining() (time.Duration, bool) {
	if !m.now.Complete || m.now.Paused != "" || m.now.Waits != "" {
		return 0, false
	}
	return m.cost.predict(m.now.PlannedFiles-m.now.Files, m.now.PlannedBytes-m.now.Bytes)
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
	if slow := m.slow(); slow != "" {
		lines = append(lines, "  "+slow)
	}
	return lines
}

// counts gives files, bytes, rate and the remaining time.
func (m *Meter) counts() string {
	s, more := m.now, "+"
	if s.Complete {
		more = ""
	}
	rate, files := m.Rate()
	parts := []string{
		fmt.Sprintf("%s/%s%s files", units.Count(s.Files), units.Count(s.PlannedFiles), more),
		fmt.Sprintf("%s/%s%s", units.Bytes(s.Bytes), units.Bytes(s.PlannedBytes), more),
	}
	if s.Complete && s.PlannedBytes > 0 {
		parts = append(parts, fmt.Sprintf("%d%%", min(s.Bytes, s.PlannedBytes)*100/s.PlannedBytes))
	}
	parts = append(parts, units.PerSecond(rate))
	if files >= 10 {
		parts = append(parts, units.Count(int64(files))+" files/s")
	}
	if s.Failed > 0 {
		parts = append(parts, units.Count(s.Failed)+" failed")
	}
	return strings.Join(append(parts, m.eta()), "  ")
}

func (m *Meter) eta() string {
	left, known := m.Remaining()
	switch {
	case m.now.Paused != "":
		return "paused: " + m.now.Paused
	case m.now.Waits != "":
		return "waiting: " + m.now.Waits
	case m.now.Step != "":
		return m.now.Step + "…"
	case !m.now.Complete:
		return "scanning…"
	case m.now.Bytes >= m.now.PlannedBytes && m.now.Files < m.now.PlannedFiles:
		return "finishing…" // written, and not yet on stable storage under its name
	case !known:
		return "ETA –"
	}
	return "ETA " + units.Clock(left)
}

// slowShare is the share of all waiting from which one side is called slow.
const slowShare = 0.7

// slow names what the work waits for: the side that most of the waiting is for,
// and a name that has been in work for five seconds.
func (m *Meter) slow() string {
	var parts []string
	first := m.last
	if len(m.recent) > 0 {
		first = m.recent[0]
	}
	source, target, link := m.now.SourceWait-first.SourceWait, m.now.TargetWait-first.TargetWait, m.now.LinkWait-first.LinkWait
	all := source + target + link
	for _, side := range []struct {
		name string
		wait time.Duration
	}{{"source", source}, {"target", target}, {"network", link}} {
		if share := float64(side.wait) / float64(all); all > 0 && share >= slowShare {
			parts = append(parts, fmt.Sprintf("waiting for the %s %.0f%%", side.name, share*100))
		}
	}
	if m.now.Slowest != "" && m.now.SlowestFor >= 5*time.Second {
		parts = append(parts, fmt.Sprintf("longest in work: %s %s",
			units.Duration(m.now.SlowestFor.Round(100*time.Millisecond)), mover.Printable(m.now.Slowest)))
	}
	return strings.Join(parts, ", ")
}
