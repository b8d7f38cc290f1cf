package api

import (
	"context"
	"strconv"

	"google.golang.org/grpc/metadata"
)

// ForKey is the metadata of a call, and the header of a request, with the account that
// it is for: a uid in decimal digits.
const ForKey = "datamove-for-uid"

// For returns a context of calls for the person with that uid: everything is decided
// and done as if they called themselves. Root may do so on the socket of the service or of
// a node, and a caller with a role that names person.act; others are refused.
func For(ctx context.Context, uid uint32) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	md.Set(ForKey, strconv.FormatUint(uint64(uid), 10))
	return metadata.NewOutgoingContext(ctx, md)
}
