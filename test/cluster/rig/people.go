package rig

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// AsIn is ctx with calls by one of People.
func AsIn(ctx context.Context, name string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, personKey, name)
}
