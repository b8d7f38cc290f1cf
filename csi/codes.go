package csi

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/mover"
)

// codeOf is the code for each kind of error, as the specification has it for Kubernetes to do the right thing: what
// may be mended by another try is Unavailable, Aborted or DeadlineExceeded, what has to be seen by a
// person is not.
var codeOf = []struct {
	kind error
	code codes.Code
}{
	{mover.ErrUsage, codes.InvalidArgument},
	{mover.ErrHeld, codes.Aborted},
	{mover.ErrChanged, codes.Aborted},
	{mover.ErrConflict, codes.FailedPrecondition},
	{mover.ErrFull, codes.ResourceExhausted},
	{mover.ErrRefused, codes.FailedPrecondition},
	{mover.ErrPermission, codes.PermissionDenied},
	{mover.ErrNotExist, codes.NotFound},
	{mover.ErrTimeout, codes.DeadlineExceeded},
	{mover.ErrUnreachable, codes.Unavailable},
	{mover.ErrTransient, codes.Unavailable},
	{mover.ErrCorrupt, codes.DataLoss},
	{mover.ErrReleased, codes.FailedPrecondition},
	{mover.ErrUnsupported, codes.InvalidArgument},
	{context.Canceled, codes.Canceled},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
}

// toStatus gives an error its code, once.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	for _, row := range codeOf { // before its status: what the mover answers has one, which is of the mover's calls
		if errors.Is(err, row.kind) {
			return status.Error(row.code, err.Error())
		}
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Internal, err.Error())
}
