// Package patience bounds how long tests of real processes wait: by what goes on, and not by seconds.
//
// A wait is in vain when nothing has moved for [Still] of a machine that had time to give: what the test calls progress is the same, the process of the test and
// all below it hardly ran, and they did not queue for a processor. So a busy machine makes a test slow and never red. What runs for ever is ended by the limit
// of go test. It needs /proc/PID/task/TID/schedstat (https://docs.kernel.org/scheduler/sched-stats.html); without it, it counts seconds.
package patience

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// Still is for how long nothing may move.
	Still = time.Minute
	// period is between two looks at the processes, which read files of each process of the machine.
	period = 5 * time.Second
	// idle is what share of one processor a service uses that waits.
	idle = 0.1
	// longest is the pause between two looks at what a test waits for.
	longest = 300 * time.Millisecond
	// share is that of a wait which looks may take, as one in so many, and rare the pause behind those that take long.
	share, rare = 8, time.Second
)

// sample is what is known at a time.
type sample struct {
	at       time.Time
	ran      time.Duration // on processors
	queued   time.Duration // for one
	progress string
}

// Patience is that of one wait.
type Patience struct {
	progress func() string
	begun    bool // last is a sample, and not only a time
	last     sample
	still    time.Duration
}

// New begins a wait. Progress changes while the thing goes on; nil is never.
func New(progress func() string) *Patience {
	if progress == nil {
		progress = func() string { return "" }
	}
	return &Patience{progress: progress, last: sample{at: time.Now()}}
}

// Over reports whether the wait is in vain. It may be called often. Most waits end before the first look at the processes, which begins the count.
func (p *Patience) Over() bool {
	if time.Since(p.last.at) < period {
		return false
	}
	if next := p.sample(); p.begun {
		p.count(next)
	} else {
		p.last, p.begun = next, true
	}
	return p.still >= Still
}

func (p *Patience) count(s sample) {
	took, ran, queued := s.at.Sub(p.last.at), max(0, s.ran-p.last.ran), max(0, s.queued-p.last.queued) // less when a process has ended
	switch {
	case s.progress != p.last.progress:
		p.still = 0
	case float64(ran) <= idle*float64(took):
		p.still += max(0, took-queued)
	}
	p.last = s
}

func (p *Patience) sample() sample {
	s := sample{at: time.Now(), progress: p.progress()}
	s.ran, s.queued = usage(os.Getpid())
	return s
}

// usage is how long a process and all below it have run, and have waited for a processor.
func usage(root int) (ran, queued time.Duration) {
	for _, pid := range below(root) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is well-formed
		for _, task := range tasks {
			text, err := os.ReadFile(task)
			if err != nil {
				continue // it has ended
			}
			var r, q int64
			if _, err := fmt.Sscan(string(text), &r, &q); err == nil {
				ran, queued = ran+time.Duration(r), queued+time.Duration(q)
			}
		}
	}
	return ran, queued
}

// below is a process and all that descend from it.
func below(root int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		rest := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // the name before may have anything
		if err != nil || len(rest) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(rest[1]); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// Until waits until something is so, and fails when that is in vain.
func Until(t testing.TB, what string, progress func() string, is func() bool) {
	t.Helper()
	if !While(New(progress), is) {
		t.Fatalf("waited in vain until %s", what)
	}
}

// While waits as long as there is patience, and reports whether it has come to it. A long wait needs few looks, and so does one whose looks take long.
func While(p *Patience, is func() bool) bool {
	for begun := time.Now(); ; {
		look := time.Now()
		if is() {
			return true
		}
		if p.Over() {
			return is()
		}
		time.Sleep(Pause(time.Since(begun), time.Since(look)))
	}
}

// Pause is how long the next look may be away when a wait has taken so long, and the last look.
func Pause(waited, look time.Duration) time.Duration {
	return max(2*time.Millisecond, min(waited/20, longest), min(share*look, rare))
}
