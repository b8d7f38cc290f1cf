package backend

import (
	"context"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
)

// driver opens the backend of a location that Resolve gave.
type driver func(s Resolver, ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error)

// drivers are the backends that locations name. A new one is a folder beside this file, a row here, and in package location a row
// that says how it is written, and whether it is a path or a store.
var drivers = map[location.Scheme]driver{
	location.POSIX: Resolver.openPath,
	location.S3:    Resolver.openBucket,
}
