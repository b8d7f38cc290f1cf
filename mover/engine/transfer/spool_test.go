package transfer

import (
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/spool"
	"datamove.dev/test/must"
)

// TestSpooledItems: an item is after a spool what it was before it, but that it is not built as a draft any more.
func TestSpooledItems(t *testing.T) {
	s := spool.New[item](t.TempDir())
	defer s.Close()
	const many = 600 // more than are kept in memory
	of := func(i int) item {
		return item{Seq: int64(i), Tries: i % 3, Action: plan.Action{Op: plan.Replace, Link: "l", Why: "w",
			Source: mover.Entry{Name: "n", Kind: mover.File, Size: int64(i)}, Target: mover.Entry{Name: "n", Kind: mover.Symlink, Target: "t"}}}
	}
	for i := range many {
		must.Do(t, s.Add(of(i)))
	}
	n := 0
	must.Do(t, s.Each(false, func(items []item) error {
		for _, it := range items {
			if w := of(n); it.Seq != w.Seq || it.Tries != w.Tries || it.Op != w.Op || it.Link != w.Link || it.Why != w.Why ||
				it.Source.Size != w.Source.Size || it.Source.Name != w.Source.Name || it.Target.Target != w.Target.Target {
				t.Errorf("item %d is %+v", n, it)
			}
			n++
		}
		return nil
	}))
	if n != many {
		t.Errorf("%d of %d", n, many)
	}
}
