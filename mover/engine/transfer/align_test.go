package transfer_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/journal"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/test/must"
)

// laid is a target that lays files out when they are made.
type laid struct {
	*mem.Backend
	width int64

	mu    sync.Mutex
	parts []mover.Part // guarded by mu
}

func (l *laid) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	d, err := l.Backend.Draft(ctx, e, h)
	return laidDraft{d, l}, err
}

type laidDraft struct {
	mover.Draft
	in *laid
}

func (d laidDraft) Unwrap() any              { return d.Draft }
func (d laidDraft) PartMultiple(int64) int64 { return d.in.width }
func (d laidDraft) WritePart(ctx context.Context, p mover.Part, f mover.Feed) (mover.Receipt, error) {
	d.in.mu.Lock()
	d.in.parts = append(d.in.parts, p)
	d.in.mu.Unlock()
	return d.Draft.WritePart(ctx, p, f)
}

// TestPartsFitTheDraft: parts are multiples of what the draft says when it is made.
func TestPartsFitTheDraft(t *testing.T) {
	source, target := mem.NewTree(), mem.NewTree()
	source.Files(map[string]string{"large": strings.Repeat("0123456789abcdef", 1<<16)})
	from, to := mem.New(source, mem.Options{}), &laid{Backend: mem.New(target, mem.Options{}), width: 3 << 14}
	j := must.Get(journal.Open(t.TempDir(), journal.Options{}))(t)
	defer j.Close()
	actions := plan.Diff(from.Walk(t.Context(), mover.WalkOptions{}), to.Walk(t.Context(), mover.WalkOptions{}), plan.Options{})
	must.Do(t, transfer.Run(t.Context(), from, to, actions, transfer.Options{By: mover.WriterID{Task: "test", Epoch: 1}, Journal: j}))
	same(t, source, target, mem.Options{})
	if len(to.parts) < 8 {
		t.Errorf("%d parts", len(to.parts))
	}
	for _, p := range to.parts {
		if p.Off%to.width != 0 || p.Length%to.width != 0 && p.Off+p.Length != 1<<20 {
			t.Errorf("part %+v is no multiple of %d", p, to.width)
		}
	}
}
