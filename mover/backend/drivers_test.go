package backend

import (
	"context"
	"errors"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// TestDrivers: what is a path or in a store has a driver, and another backend is opened by one row more.
func TestDrivers(t *testing.T) {
	for _, s := range location.Schemes() {
		if drivers[s] == nil {
			t.Errorf("%s has no driver", s)
		}
	}
	gs := location.Location{Scheme: "gs", Bucket: "bucket"}
	open := func() (mover.Backend, error) { return Resolver{}.Open(t.Context(), gs, engine.OpenOptions{}) }
	if _, err := open(); !errors.Is(err, mover.ErrUnsupported) {
		t.Errorf("without a driver: %v", err)
	}
	tree := mem.NewTree()
	drivers["gs"] = func(Resolver, context.Context, location.Location, engine.OpenOptions) (mover.Backend, error) {
		return mem.New(tree, mem.Options{Address: "gs://bucket/"}), nil
	}
	t.Cleanup(func() { delete(drivers, "gs") })
	place := must.Get(open())(t)
	defer place.Close()
	if place.String() != "gs://bucket/" {
		t.Errorf("opened %s", place)
	}
}
