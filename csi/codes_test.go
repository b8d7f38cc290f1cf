package csi

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/api"
	"datamove.dev/mover"
)

// TestCodes: every kind of error has a code, the same one whether it is from here or what the mover answered, which
// has a code of the mover's own calls; and a code that was chosen stays.
func TestCodes(t *testing.T) {
	for _, kind := range mover.Kinds() {
		here := fmt.Errorf("of volume x: %w", kind)
		answer := fmt.Errorf("of volume x: %w", api.FromStatus(api.ToStatus(kind)))
		code := status.Code(toStatus(here))
		if code == codes.Internal || code == codes.Unknown {
			t.Errorf("%v has no code", kind)
		}
		if got := status.Code(toStatus(answer)); got != code {
			t.Errorf("%v is %s, as an answer %s", kind, code, got)
		}
	}
	if got := status.Code(toStatus(errors.New("never heard of"))); got != codes.Internal {
		t.Errorf("of no kind: %s", got)
	}
	if own := status.Error(codes.OutOfRange, "too small"); toStatus(own) != own {
		t.Error("a code that was chosen is another one")
	}
}
