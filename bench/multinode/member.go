package multinode

import (
	"context"
	"time"

	"datamove.dev/bench/loadgen"
	"datamove.dev/bench/result"
)

// member is a node that takes part: this process, or one behind a connection.
type member interface {
	About() result.Node
	Open(ctx context.Context, s loadgen.Setup) error
	// Clock says when it is now in the clock of the node, at what time here, and how much that may be off.
	Clock(ctx context.Context) (clock, error)
	Prepare(ctx context.Context, w loadgen.Work) error
	// Begin begins at an instant of the conductor's clock. When ctx ends it stops, and says how far it came.
	Begin(ctx context.Context, at time.Time) (loadgen.Result, error)
	// Done is how far it is while it works, as far as is known here.
	Done() (bytes, ops int64)
	Forget(ctx context.Context, tree string) error
	Clean(ctx context.Context) error
	// End lets go of it.
	End() error
}

// clock is what is known of the clock of a node.
type clock struct {
	ahead time.Duration // of the node's own clock, that runs evenly from when its process began
	wall  time.Duration // how far its time of day is ahead of ours
	off   time.Duration // how much that is off at most: half of the round trip
}

// local is this process as a node.
type local struct {
	open loadgen.Opener
	node *loadgen.Node
	name string
}

// About implements member.
func (l *local) About() result.Node {
	about := result.Here()
	if l.name != "" {
		about.Name = l.name
	}
	return about
}

// Open implements member.
func (l *local) Open(ctx context.Context, s loadgen.Setup) (err error) {
	l.node, err = loadgen.Open(ctx, s, l.open)
	return err
}

// Clock implements member: its clock is ours.
func (l *local) Clock(context.Context) (clock, error) { return clock{}, nil }

// Prepare implements member.
func (l *local) Prepare(ctx context.Context, w loadgen.Work) error { return l.node.Prepare(ctx, w) }

// Begin implements member.
func (l *local) Begin(ctx context.Context, at time.Time) (loadgen.Result, error) {
	return l.node.Begin(ctx, at), nil
}

// Done implements member.
func (l *local) Done() (bytes, ops int64) { return l.node.Done() }

// Forget implements member.
func (l *local) Forget(ctx context.Context, tree string) error { return l.node.Forget(ctx, tree) }

// Clean implements member.
func (l *local) Clean(ctx context.Context) error {
	if l.node == nil {
		return nil
	}
	return l.node.Clean(ctx)
}

// End implements member.
func (l *local) End() error {
	if l.node == nil {
		return nil
	}
	return l.node.Close()
}
