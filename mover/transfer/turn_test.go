package transfer_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"datamove.dev/mover/mem"
	"datamove.dev/mover/transfer"
)

// A turn is asked for what a unit weighs, and ends with the bytes that were moved:
// whoever has small files pays for their operations once.
func TestTurnsAreWeighed(t *testing.T) {
	contents := map[string]string{"large": strings.Repeat("0123456789", 50_000)}
	for i := range 1000 {
		contents[fmt.Sprintf("d%d/f%d", i/100, i)] = "0123456789"
	}
	const all = 1000*10 + 500_000
	source, target := mem.NewTree().Files(contents), mem.NewTree()
	var bytes, ops, moved, open atomic.Int64
	turn := func(_ context.Context, b, o int64) (func(int64), error) {
		bytes.Add(b)
		ops.Add(o)
		open.Add(1)
		return func(m int64) { moved.Add(m); open.Add(-1) }, nil
	}
	res, err := syncTo(t.Context(), mem.New(source, mem.Options{}), mem.New(target, mem.Options{}), transfer.Options{Turn: turn})
	if f := res.failed(); err != nil || f != nil {
		t.Fatal(err, f)
	}
	same(t, source, target, mem.Options{})
	if bytes.Load() != all || moved.Load() != all || open.Load() != 0 {
		t.Errorf("%d bytes were asked for and %d were moved, of %d; %d turns are open", bytes.Load(), moved.Load(), all, open.Load())
	}
	if n := ops.Load(); n < 1000 || n > 1020 { // the files, their directories, and the large one that is opened
		t.Errorf("%d operations for 1,001 files in 10 directories", n)
	}
}
