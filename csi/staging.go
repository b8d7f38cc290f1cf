package csi

import (
	"context"

	"datamove.dev/csi/stage"
)

// Staging brings datasets to this node, and keeps them there: *stage.Mover does.
type Staging interface {
	// Stage asks for what a source holds, for a holder, whose it is until Drop. While it is on its way the
	// error is a *stage.Underway; a call that comes again asks for the same.
	Stage(ctx context.Context, source stage.Source, holder string) (stage.Place, error)
	// Drop says that a holder does not need it any more. Nothing held is dropped.
	Drop(ctx context.Context, holder string) error
}
