package copytool_test

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre/copytool"
	"datamove.dev/mover"
)

// TestOfKind: each kind of error has a number for the MDT, and what the copytool said
// itself keeps its own.
func TestOfKind(t *testing.T) {
	for _, kind := range mover.Kinds() {
		var f *copytool.Failure
		if err := copytool.OfKind(fmt.Errorf("read: %w", kind)); !errors.As(err, &f) || f.Errno == 0 || !errors.Is(err, kind) {
			t.Errorf("%v is told as %v", kind, err)
		}
	}
	own := &copytool.Failure{Errno: unix.ECANCELED, Err: mover.ErrCorrupt}
	if err := copytool.OfKind(fmt.Errorf("archive: %w", own)); !errors.Is(err, own) {
		t.Errorf("it became %v", err)
	}
	if copytool.OfKind(nil) != nil {
		t.Error("nothing became an error")
	}
}
