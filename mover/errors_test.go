package mover_test

import (
	"errors"
	"fmt"
	"testing"

	"datamove.dev/mover"
)

// TestMarks: a mark changes neither the text nor the kind of an error, and stays on it.
func TestMarks(t *testing.T) {
	for mark, put := range map[error]func(error) error{mover.ErrUnlike: mover.Unlike, mover.ErrUnconfirmed: mover.Unconfirmed, mover.ErrQuota: mover.OverQuota, mover.ErrLasting: mover.Lasting, mover.ErrNoSuchName: mover.NoSuchName} {
		for _, kind := range mover.Kinds() {
			plain := &mover.Error{Op: "read", Location: "/a", Name: "f", Err: kind}
			marked := fmt.Errorf("1 item failed: %w", errors.Join(put(plain)))
			if errors.Is(plain, mark) || !errors.Is(marked, mark) || !errors.Is(marked, kind) {
				t.Errorf("%v, %v: the mark is lost, or the kind", mark, kind)
			}
			if put(plain).Error() != plain.Error() || mover.KindName(marked) != mover.KindName(plain) {
				t.Errorf("%v becomes %v, %s", plain, marked, mover.KindName(marked))
			}
		}
	}
	both := mover.Unlike(mover.Unconfirmed(mover.ErrTransient))
	if !errors.Is(both, mover.ErrUnlike) || !errors.Is(both, mover.ErrUnconfirmed) {
		t.Error("a second mark hides the first")
	}
}

// TestMakers: an error that is made is of its kind and of those that it wraps, and prints the kind once or not at all.
func TestMakers(t *testing.T) {
	inner := errors.New("inner")
	for _, test := range []struct {
		err  error
		kind error
		text string
	}{
		{mover.Errorf(mover.ErrRefused, "%d of %d: %w", 1, 2, inner), mover.ErrRefused, mover.ErrRefused.Error() + ": 1 of 2: inner"},
		{mover.Usagef("%d of %d: %w", 1, 2, inner), mover.ErrUsage, mover.ErrUsage.Error() + ": 1 of 2: inner"},
		{mover.Misusef("%d of %d: %w", 1, 2, inner), mover.ErrUsage, "1 of 2: inner"},
		{mover.Misuse(inner), mover.ErrUsage, "inner"},
	} {
		if !errors.Is(test.err, test.kind) || !errors.Is(test.err, inner) || test.err.Error() != test.text {
			t.Errorf("%q is a %s, want %q", test.err, mover.KindName(test.err), test.text)
		}
	}
}
