package recall

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"golang.org/x/sync/errgroup"

	"datamove.dev/mover"
)

// Source is a tree of which some contents are in an archive.
type Source interface {
	Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error]
	mover.Recaller
}

// The defaults of Options.
const (
	DefaultMost  = 1024
	DefaultAgain = 5 * time.Minute
)

// Options say what is brought back. The zero value is everything.
type Options struct {
	Dir      string         // below this directory; "" is the root
	After    string         // behind the file of this name, as Report.Next has it; "" is from the start
	Bytes    int64          // no more than so many are asked for; 0 is no limit
	Most     int            // files that are asked for and not back; 0 is DefaultMost
	Again    time.Duration  // nothing came for so long: what is not back is asked for again; 0 is DefaultAgain
	Progress func(p Report) // called by one goroutine, after each batch and each look; nil is not called
}

// Report is how far a run is, or what it has come to.
type Report struct {
	Files, Bytes      int64  // that were looked at
	Asked, AskedBytes int64  // with content in the archive
	Back, BackBytes   int64  // of these: with their content in the file system again
	Gone              int64  // of these: removed or replaced meanwhile
	Failed            int64  // that can not be asked for
	Next              string // the name behind which the next run begins; "" is the end of the tree, or its beginning
	More              bool   // Options.Bytes has ended it
}

const (
	batchMost = 256 // files of one request
	lookers   = 16  // questions at once
	pauseMin  = time.Second
	pauseMax  = 30 * time.Second
	errorMost = 10 // that are told
)

// run is one run. One goroutine has it.
type run struct {
	Options
	from   Source
	report Report
	batch  []mover.Entry // looked at
	asked  []mover.Entry
	news   time.Time // when something was asked for, or came
	errs   []error
}

// Run brings contents back, and waits until they are there. An error that is of single files is of the last ones; the others came.
func Run(ctx context.Context, from Source, o Options) (Report, error) {
	if o.Most < 0 || o.Bytes < 0 || o.Again < 0 {
		return Report{}, fmt.Errorf("%w: a limit of a recall is less than nothing", mover.ErrUsage)
	}
	if o.Most == 0 {
		o.Most = DefaultMost
	}
	if o.Again == 0 {
		o.Again = DefaultAgain
	}
	r := &run{Options: o, from: from}
	r.report.Next = o.After
	err := r.walk(ctx)
	if err == nil {
		err = r.wait(ctx, 0)
	}
	if !r.report.More && err == nil {
		r.report.Next = ""
	}
	return r.report, errors.Join(append(r.errs, err)...)
}

// walk looks at all files.
func (r *run) walk(ctx context.Context) error {
	for e, err := range r.from.Walk(ctx, mover.WalkOptions{Dir: r.Dir, After: r.After}) {
		if err != nil && e.Kind == mover.Dir && ctx.Err() == nil {
			r.fail(e, err) // of what is in it; the walk goes on beside it
			continue
		}
		if err != nil {
			return err
		}
		if e.Kind != mover.File || e.Size == 0 {
			continue
		}
		if r.batch = append(r.batch, e); len(r.batch) < min(batchMost, r.Most) {
			continue
		}
		if err := r.ask(ctx); err != nil || r.report.More {
			return err
		}
	}
	return r.ask(ctx)
}

// ask asks for those of the batch that are away.
func (r *run) ask(ctx context.Context) error {
	states, err := r.states(ctx, r.batch)
	if err != nil {
		return err
	}
	var wanted []mover.Entry
	for i, e := range r.batch {
		if states[i] == away && r.Bytes > 0 && r.report.AskedBytes+e.Size > r.Bytes {
			r.report.More = true
			break
		}
		r.report.Files, r.report.Bytes, r.report.Next = r.report.Files+1, r.report.Bytes+e.Size, e.Name
		if states[i] == away {
			wanted = append(wanted, e)
			r.report.Asked, r.report.AskedBytes = r.report.Asked+1, r.report.AskedBytes+e.Size
		}
	}
	r.batch = r.batch[:0]
	if err := r.wait(ctx, r.Most-len(wanted)); err != nil {
		return err
	}
	asked, err := r.recall(ctx, wanted)
	if err == nil && len(wanted) > 0 && len(asked) == 0 && r.report.Back == 0 && len(r.asked) == 0 {
		return fmt.Errorf("none of %d files can be brought back", len(wanted)) // nor will the others
	}
	r.asked = append(r.asked, asked...)
	r.tell()
	return err
}

// recall asks for entries, and returns those that are to come. Where that fails, halves are asked for, so that one which can not be had keeps back no other.
func (r *run) recall(ctx context.Context, entries []mover.Entry) ([]mover.Entry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	err := r.from.Recall(ctx, entries)
	switch {
	case err == nil:
		r.news = time.Now()
		return entries, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, mover.ErrUnsupported), errors.Is(err, mover.ErrUnreachable):
		return nil, err
	case len(entries) == 1:
		r.fail(entries[0], err)
		return nil, nil
	}
	half := len(entries) / 2
	asked, err := r.recall(ctx, entries[:half])
	if err != nil {
		return asked, err
	}
	more, err := r.recall(ctx, entries[half:])
	return append(append([]mover.Entry(nil), asked...), more...), err
}

// wait waits until no more than so many are away.
func (r *run) wait(ctx context.Context, most int) error {
	for pause := pauseMin; len(r.asked) > max(most, 0); {
		before := len(r.asked)
		if err := r.look(ctx); err != nil {
			return err
		}
		r.tell()
		if len(r.asked) <= max(most, 0) {
			break
		}
		if pause = min(2*pause, pauseMax); len(r.asked) < before {
			pause, r.news = pauseMin, time.Now()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		if time.Since(r.news) < r.Again {
			continue
		}
		if err := r.again(ctx); err != nil {
			return err
		}
	}
	return nil
}

// again asks for what is not back.
func (r *run) again(ctx context.Context) error {
	left := r.asked
	r.asked = nil
	for len(left) > 0 {
		n := min(len(left), batchMost)
		asked, err := r.recall(ctx, left[:n])
		if err != nil {
			return err
		}
		r.asked, left = append(r.asked, asked...), left[n:]
	}
	return nil
}

// look takes those away from what is asked for that are back.
func (r *run) look(ctx context.Context) error {
	states, err := r.states(ctx, r.asked)
	if err != nil {
		return err
	}
	still := r.asked[:0]
	for i, e := range r.asked {
		switch states[i] {
		case away:
			still = append(still, e)
		case here:
			r.report.Back, r.report.BackBytes = r.report.Back+1, r.report.BackBytes+e.Size
		case gone:
			r.report.Gone++
		}
	}
	r.asked = still
	return nil
}

// state is how it is with a file.
type state uint8

const (
	here state = iota
	away
	gone   // or another one
	denied // it can not be asked about
)

// states says how it is with entries.
func (r *run) states(ctx context.Context, entries []mover.Entry) ([]state, error) {
	states, errs := make([]state, len(entries)), make([]error, len(entries))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(lookers)
	for i, e := range entries {
		g.Go(func() error {
			is, err := r.from.Away(gctx, e)
			switch {
			case err == nil && is:
				states[i] = away
			case errors.Is(err, mover.ErrNotExist), errors.Is(err, mover.ErrChanged):
				states[i] = gone
			case errors.Is(err, mover.ErrUnreachable):
				return err
			case err != nil:
				states[i], errs[i] = denied, err
			}
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, err := range errs {
		if err != nil {
			r.fail(entries[i], err)
		}
	}
	return states, nil
}

// fail notes an error of one file.
func (r *run) fail(e mover.Entry, err error) {
	if r.report.Failed++; len(r.errs) < errorMost {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", mover.Printable(e.Name), err))
	}
}

func (r *run) tell() {
	if r.Progress != nil {
		r.Progress(r.report)
	}
}
