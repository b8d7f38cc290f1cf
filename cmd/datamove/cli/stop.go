package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// stops are the ends that a process is told from outside. The first of them, or an output that is not read any more, ends the context of the command.
// Further ones end a wait for the end of a task of a service. A second one ends the process at once, unless it asks a service at that moment to cancel a task;
// SIGTERM and SIGHUP come twice from timeout(1) and from shells, which tell the process and its group: those count as one (twice).
type stops struct {
	stop context.CancelFunc // of the command

	mu      sync.Mutex
	told    int           // signals that came; guarded by mu
	first   time.Time     // when the first of them did; guarded by mu
	asking  int           // tasks of a service that end with the command; guarded by mu
	hurried chan struct{} // closed by the second signal
}

// hearStops begins to hear signals. SIGHUP is ignored when the process was started so, as by nohup(1).
func hearStops(ctx context.Context) (context.Context, *stops) {
	ctx, stop := context.WithCancel(ctx)
	s := &stops{stop: stop, hurried: make(chan struct{})}
	heard := make(chan os.Signal, 8)
	signal.Notify(heard, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(heard, syscall.SIGHUP)
	}
	go func() {
		for one := range heard {
			s.hears(one)
		}
	}()
	return ctx, s
}

// stopping is what a signal does.
type stopping int

const (
	stops1st    stopping = iota // the command ends
	stopsWait                   // it does not wait any more
	stopsAtOnce                 // so does its process
)

// twice is how long after the first signal the same end may be told of once more.
const twice = time.Second

// decideStop decides what the n-th signal does, which comes so long after the first one.
func decideStop(n int, since time.Duration, interrupt, asking bool) stopping {
	switch {
	case n == 1:
		return stops1st
	case !asking && (interrupt || since >= twice):
		return stopsAtOnce
	}
	return stopsWait
}

func (s *stops) hears(one os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.told++; s.told == 1 {
		s.first = now
	}
	switch decideStop(s.told, now.Sub(s.first), one == os.Interrupt, s.asking > 0) {
	case stops1st:
		s.stop()
	case stopsWait:
		if s.told == 2 {
			close(s.hurried)
		}
	case stopsAtOnce:
		signal.Reset(one)
		if number, is := one.(syscall.Signal); is {
			_ = syscall.Kill(os.Getpid(), number)
		}
	}
}

// guards has the process live until a task of a service was asked to end; release ends that. A pipe that is not read any more ends the command, and not
// the process.
func (s *stops) guards() (release func()) {
	if s == nil { // a test without a process
		return func() {}
	}
	signal.Ignore(syscall.SIGPIPE)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asking--
	}
}

// HoldEnd has the process live until release is called: a task of a service is asked to end.
func (a *App) HoldEnd() (release func()) { return a.stops.guards() }

// Hurried is closed when the process is to end soon.
func (a *App) Hurried() <-chan struct{} { return a.stops.hurry() }

// hurry is closed when the process is to end soon.
func (s *stops) hurry() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.hurried
}

// printed is standard output or standard error.
type printed struct {
	*os.File
	unread func() // called when it is not read any more
}

// Write implements io.Writer.
func (p *printed) Write(text []byte) (int, error) {
	n, err := p.File.Write(text)
	if errors.Is(err, syscall.EPIPE) {
		p.unread()
	}
	return n, err
}
