package mover

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestSame: bytes count, and not how they come; a reader that fails is not the same as anything.
func TestSame(t *testing.T) {
	long := strings.Repeat("0123456789", 300_000)
	for _, row := range []struct {
		x, y string
		same bool
	}{{"", "", true}, {"a", "a", true}, {"a", "b", false}, {"a", "", false}, {long, long, true}, {long, long[1:], false}, {long, long[:len(long)-1], false}, {long[:1<<20], long, false}, {long[:1<<20], long[:1<<20], true}} {
		for _, pair := range [][2]string{{row.x, row.y}, {row.y, row.x}} {
			same, err := Same(strings.NewReader(pair[0]), iotest.HalfReader(strings.NewReader(pair[1])))
			if err != nil || same != row.same {
				t.Errorf("%d and %d bytes: %v, %v", len(pair[0]), len(pair[1]), same, err)
			}
		}
	}
	broken := errors.New("broken")
	for _, pair := range [][2]io.Reader{{strings.NewReader("a"), iotest.ErrReader(broken)}, {iotest.ErrReader(broken), bytes.NewReader(nil)}} {
		if same, err := Same(pair[0], pair[1]); same || !errors.Is(err, broken) {
			t.Errorf("%v, %v", same, err)
		}
	}
}
