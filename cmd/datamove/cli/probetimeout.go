package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/remedy"
)

// How long a probe waits for an answer. A system call on a mount with a lost
// server observes no context, and may last for ever: it is left behind, with the thread
// that it holds, and ends with the process.
const (
	// ProbeTime is for the kernel: it takes milliseconds, and seconds where a server is
	// busy. A server that is being replaced takes minutes, which is what is to be told.
	ProbeTime = 10 * time.Second
	// ToolTime is for what calls of a vendor's tools and servers, which have a limit
	// of their own (a minute, package gpfs).
	ToolTime = 3 * time.Minute
	// mostAsked is how many file systems are asked at once, and so how many threads are
	// left behind in each ProbeTime.
	mostAsked = 16
)

// Probe asks, and does not wait longer than limit.
func Probe[T any](ctx context.Context, limit time.Duration, subject string, ask func(context.Context) (T, error)) (T, error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	came := make(chan answer, 1) // one that comes too late lies there
	go func() {
		value, err := ask(within)
		came <- answer{value, err}
	}()
	var got answer
	select {
	case got = <-came:
		if within.Err() == nil || !errors.Is(got.err, context.DeadlineExceeded) {
			return got.value, got.err
		}
	case <-within.Done():
	}
	if err := ctx.Err(); err != nil {
		return got.value, err
	}
	return got.value, &NoAnswer{subject, limit}
}

// NoAnswer is the error of what does not answer.
type NoAnswer struct {
	subject string
	limit   time.Duration
}

func (s *NoAnswer) Error() string {
	return fmt.Sprintf("%s: %s", mover.Printable(s.subject), s.Short())
}

func (s *NoAnswer) Unwrap() error { return mover.ErrTimeout }

func (s *NoAnswer) Short() string { return fmt.Sprintf("no answer in %d s", int(s.limit.Seconds())) }

// NoAnswerRemedy is what to do about a file system that does not answer.
var NoAnswerRemedy = remedy.For(remedy.Case{Kind: mover.ErrTimeout, Backend: remedy.Files})

// AdviseSilence says what there is to do about an error, if it is that no answer came.
func AdviseSilence(err error) error {
	var s *NoAnswer
	if errors.As(err, &s) {
		return Advise(err, NoAnswerRemedy)
	}
	return err
}

// ProbePath puts something to the file system of a path.
func ProbePath[T any](ctx context.Context, a *App, arg string, ask func(context.Context, *Mounted) (T, error)) (T, error) {
	m, err := a.Mounted(ctx, arg)
	if err != nil {
		var none T
		return none, err
	}
	limit := ProbeTime
	if m.Kind == lustre.IsGPFS {
		limit = ToolTime
	}
	answer, err := Probe(ctx, limit, m.Path, func(ctx context.Context) (T, error) {
		defer m.Close() // which can hang, too
		return ask(ctx, m)
	})
	return answer, AdviseSilence(err)
}

// InParallel does each for every index below n, and returns when all are done.
func InParallel(n int, each func(i int)) {
	var g errgroup.Group
	g.SetLimit(mostAsked)
	for i := range n {
		g.Go(func() error {
			each(i)
			return nil
		})
	}
	_ = g.Wait() // none returns an error
}
