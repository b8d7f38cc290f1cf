// Package progress shows how far a task is: two lines that redraw themselves on
// a terminal, one line every ten seconds anywhere else.
//
// A [Sample] is what is known at one moment; a [Meter] makes lines of samples, with the
// rates of mover/engine/rate, and is pure; a [Display] asks for samples and writes. Text that is written through a Display stands above the live lines.
//
// A Display has one goroutine, which ends before Stop returns. It never asks
// for a sample after that, and it holds no more than the last samples. Where the
// numbers come from is left to the caller.
//
// TestLines, TestTerminal and TestPlain show what is written.
package progress

import (
	"bytes"
	"io"
	"sync"
	"time"

	"datamove.dev/mover/engine/rate"
)

// Sample is what is known at one moment.
type Sample struct {
	rate.Work
	Rates      *rate.Reading // of a task elsewhere, as its worker reads them; nil reads them here
	Failed     int64
	Waits      Waits
	Slowest    string // the name in work for the longest time; "" is none
	SlowestFor time.Duration
	Paused     string // why nothing moves; "" when it does
	WaitsFor   string // what is waited for beside what moves; "" is nothing
	Step       string // what is done after everything has moved; "" before
}

// Waits is what was waited for so far, summed over workers.
type Waits struct {
	Source, Target time.Duration
	Link           time.Duration // bytes on their way
	Limit, Turn    time.Duration // a limit of bandwidth; a turn among other tasks
}

// Options says how to show progress. The zero value writes plain lines.
type Options struct {
	Terminal bool          // redraw in place
	Width    func() int    // columns of the terminal; nil is 80
	Every    time.Duration // 0 is 200 ms on a terminal and 10 s elsewhere
	Tick     func()        // called as often; nil is nothing
}

// Display writes progress until Stop. It is an io.Writer for text that belongs
// between: log lines, failures.
type Display struct {
	opts   Options
	sample func() Sample
	meter  Meter
	begun  time.Time
	stop   chan struct{}
	ended  chan struct{}

	mu   sync.Mutex // guards what is below
	out  io.Writer
	live int // lines that the next drawing replaces
}

// Start begins to show samples on w.
func Start(w io.Writer, o Options, sample func() Sample) *Display {
	if o.Every == 0 && o.Terminal {
		o.Every = 200 * time.Millisecond
	}
	if o.Every == 0 {
		o.Every = 10 * time.Second
	}
	if o.Width == nil {
		o.Width = func() int { return 80 }
	}
	d := &Display{opts: o, sample: sample, out: w, begun: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	d.meter.Add(d.begun, sample())
	go d.run()
	return d
}

// Stop takes the live lines away. The caller of Start calls it, once.
func (d *Display) Stop() {
	close(d.stop)
	<-d.ended
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _ = io.WriteString(d.out, d.erase())
}

// Write puts text above the live lines. It should be whole lines. After Stop it
// writes as if there had been no progress.
func (d *Display) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if erase := d.erase(); erase != "" {
		p = append([]byte(erase), p...)
		n, err := d.out.Write(p)
		return max(n-len(erase), 0), err
	}
	return d.out.Write(p)
}

func (d *Display) run() {
	defer close(d.ended)
	ticker := time.NewTicker(d.opts.Every)
	defer ticker.Stop()
	for {
		select {
		case <-d.stop:
			return
		case <-ticker.C:
			d.draw()
		}
	}
}

func (d *Display) draw() {
	if d.opts.Tick != nil {
		d.opts.Tick()
	}
	now := time.Now()
	d.meter.Add(now, d.sample())
	d.mu.Lock()
	defer d.mu.Unlock()
	// A terminal that is slow or gone must not hold up the task: errors are ignored.
	if !d.opts.Terminal {
		_, _ = io.WriteString(d.out, d.meter.Plain(now.Sub(d.begun))+"\n")
		return
	}
	var b bytes.Buffer
	b.WriteString(d.erase())
	width := max(d.opts.Width()-1, 20)
	for _, line := range d.meter.Live() {
		b.WriteString(cut(line, width) + "\n")
		d.live++
	}
	_, _ = d.out.Write(b.Bytes())
}

// erase is what takes the live lines away: up one line, clear it, for each.
func (d *Display) erase() string {
	var b bytes.Buffer
	for ; d.live > 0; d.live-- {
		b.WriteString("\x1b[1A\x1b[2K")
	}
	return b.String()
}

// cut shortens s to width columns. A rune beyond ASCII may take two.
func cut(s string, width int) string {
	used := 0
	for i, r := range s {
		wide := 1
		if r > 0x7e {
			wide = 2
		}
		if used += wide; used > width {
			return s[:i]
		}
	}
	return s
}
