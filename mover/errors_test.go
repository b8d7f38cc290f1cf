package mover_test

import (
	"errors"
	"fmt"
	"testing"

	"datamove.dev/mover"
)

// TestUnlike: the mark changes neither the text nor the kind of an error, and stays on it.
func TestUnlike(t *testing.T) {
	for _, kind := range mover.Kinds() {
		plain := &mover.Error{Op: "read", Place: "/a", Name: "f", Err: kind}
		marked := fmt.Errorf("1 item failed: %w", errors.Join(mover.Unlike(plain)))
		if errors.Is(plain, mover.ErrUnlike) || !errors.Is(marked, mover.ErrUnlike) || !errors.Is(marked, kind) {
			t.Errorf("%v: the mark is lost, or the kind", kind)
		}
		if mover.Unlike(plain).Error() != plain.Error() || mover.KindName(marked) != mover.KindName(plain) {
			t.Errorf("%v becomes %v, %s", plain, marked, mover.KindName(marked))
		}
	}
}
