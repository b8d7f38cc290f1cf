package replicate

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
)

// Metric is one of those that a watch tells.
type Metric struct {
	Name, Type, Meaning string
	Labels              []string // dir, and to of those of a target

	ofDir func(now seen) float64
	ofHop func(now seen, r *route, newest ready) (v float64, has bool)
}

// seen is a watch at one moment.
type seen struct {
	time   time.Time
	looked time.Time
	board  *board // locked
	runs   bool
}

var (
	perDir    = []string{"dir"}
	perTarget = []string{"dir", "to"}
)

// Metrics are what a watch tells. A recovery point is as old as what is verified; a recovery takes as long as the newest took to come, with the way back as fast as the way there.
var Metrics = []Metric{
	{Name: "datamove_checkpoint_watch_up", Type: "gauge", Labels: perDir, Meaning: "1 while a watch looks at the directory, 0 when it has ended.",
		ofDir: func(now seen) float64 { return map[bool]float64{true: 1}[now.runs] }},
	{Name: "datamove_checkpoint_watch_timestamp_seconds", Type: "gauge", Labels: perDir, Meaning: "When the directory was last looked at.",
		ofDir: func(now seen) float64 { return float64(now.looked.UnixMilli()) / 1e3 }},
	{Name: "datamove_checkpoint_complete_timestamp_seconds", Type: "gauge", Labels: perDir, Meaning: "When the newest checkpoint that is complete in the directory was made; 0 is none.",
		ofDir: func(now seen) (newest float64) {
			for _, r := range now.board.ready {
				newest = max(newest, float64(r.made)/1e9)
			}
			return newest
		}},
	{Name: "datamove_checkpoint_verified_timestamp_seconds", Type: "gauge", Labels: perTarget, Meaning: "When the newest checkpoint that is verified at the target was made; 0 is none.",
		ofHop: func(_ seen, _ *route, newest ready) (float64, bool) { return float64(newest.made) / 1e9, true }},
	{Name: "datamove_checkpoint_waiting_seconds", Type: "gauge", Labels: perTarget, Meaning: "Age of the oldest checkpoint that is complete, and newer than what is verified at the target; 0 is none.",
		ofHop: func(now seen, _ *route, newest ready) (oldest float64, _ bool) {
			for _, r := range now.board.ready {
				if newest.name == "" || compareReady(r, newest) > 0 {
					oldest = max(oldest, now.time.Sub(time.Unix(0, r.made)).Seconds())
				}
			}
			return oldest, true
		}},
	{Name: "datamove_checkpoint_verified_bytes", Type: "gauge", Labels: perTarget, Meaning: "Size of the newest that is verified at the target.",
		ofHop: func(_ seen, _ *route, newest ready) (float64, bool) { return float64(newest.bytes), true }},
	{Name: "datamove_checkpoint_verified_step", Type: "gauge", Labels: perTarget, Meaning: "Its step, where its name has one.",
		ofHop: func(_ seen, _ *route, newest ready) (float64, bool) {
			return float64(newest.step), newest.name != "" && newest.step >= 0
		}},
	{Name: "datamove_checkpoint_restore_seconds", Type: "gauge", Labels: perTarget, Meaning: "How long a restore of it would take, at the rate at which the last one was brought.",
		ofHop: func(_ seen, r *route, newest ready) (float64, bool) {
			if newest.name == "" || r.last.Sent == 0 {
				return 0, false
			}
			return r.last.Took.Seconds() * float64(newest.bytes) / float64(r.last.Sent), true
		}},
	{Name: "datamove_checkpoint_failures_total", Type: "counter", Labels: perTarget, Meaning: "Copies to the target that failed, and were tried again.",
		ofHop: func(_ seen, r *route, _ ready) (float64, bool) { return float64(r.failed), true }},
}

// metrics writes what a person is woken for. That it can not be written says the log; the file has its age.
func (w *Watch) metrics(hops []*route, runs bool) {
	if w.Metrics == "" {
		return
	}
	w.board.mu.Lock()
	text := w.exposition(hops, seen{time.Now(), w.looked, w.board, runs})
	w.board.mu.Unlock()
	if err := replace(w.Metrics, text); err != nil {
		w.log().Warn("the metrics can not be written", "file", w.Metrics, "err", err)
	}
}

// exposition is the text of the metrics.
func (w *Watch) exposition(hops []*route, now seen) []byte {
	var b bytes.Buffer
	dir := label(w.Dir.String())
	for _, m := range Metrics {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", m.Name, m.Meaning, m.Name, m.Type)
		if m.ofDir != nil {
			fmt.Fprintf(&b, "%s{dir=\"%s\"} %.3f\n", m.Name, dir, m.ofDir(now))
			continue
		}
		for i, r := range hops {
			if v, has := m.ofHop(now, r, now.board.newest(i)); has {
				fmt.Fprintf(&b, "%s{dir=\"%s\",to=\"%s\"} %.3f\n", m.Name, dir, label(w.To[i].String()), v)
			}
		}
	}
	return b.Bytes()
}

// newest is the newest that is verified at a target. b is locked.
func (b *board) newest(hop int) (newest ready) {
	for _, one := range b.verified[hop] {
		if newest.name == "" || compareReady(newest, one) < 0 {
			newest = one
		}
	}
	return newest
}

// label is a text as the value of a label.
func label(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(text, "\uFFFD"))
}

// replace makes a file visible when it is whole. It need not survive a power cut.
func replace(file string, text []byte) error {
	return atomicfile.Write(file, text, atomicfile.Options{Mode: 0o644, Unsynced: true, Draft: fmt.Sprintf("%smetrics-%d-0", mover.TempPrefix, os.Getpid())})
}
