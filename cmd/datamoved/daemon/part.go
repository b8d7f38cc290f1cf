package daemon

import (
	"context"
	"errors"
	"fmt"
)

// part is something that runs until it is stopped.
type part struct {
	name  string
	stop  func()
	ended chan struct{}
	err   error // set before ended is closed
}

// begin runs a part. stop has run return.
func begin(name string, run func() error, stop func()) *part {
	p := &part{name: name, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.err = run()
	}()
	return p
}

// until is a part that runs until its context ends.
func until(name string, run func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.Background())
	return begin(name, func() error { return run(ctx) }, cancel)
}

// attend waits until ctx ends or a part does, which none should by itself, and stops
// all of them, each before those behind it.
func attend(ctx context.Context, stopping func(), parts ...*part) error {
	early, enough := context.WithCancelCause(ctx)
	defer enough(nil)
	for _, p := range parts {
		go func() {
			select {
			case <-p.ended:
				enough(p.gone())
			case <-early.Done():
			}
		}()
	}
	<-early.Done()
	stopping()
	var errs []error
	if ctx.Err() == nil {
		errs = append(errs, context.Cause(early))
	}
	for _, p := range parts {
		p.stop()
		<-p.ended
		if p.err != nil && ctx.Err() != nil {
			errs = append(errs, p.gone())
		}
	}
	return errors.Join(errs...)
}

// gone is the error of a part that ended.
func (p *part) gone() error {
	if p.err == nil {
		return fmt.Errorf("the %s has ended by itself", p.name)
	}
	return fmt.Errorf("the %s has ended: %w", p.name, p.err)
}
