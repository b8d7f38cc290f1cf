package spool_test

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"datamove.dev/mover/engine/spool"
	"datamove.dev/test/must"
)

type named struct{ Name string }

type kept struct {
	Number int
	Value  named
}

// TestOrder: what was added comes back in order and in reverse, from disk and from memory, and a directory that takes no file is said.
func TestOrder(t *testing.T) {
	for _, n := range []int{0, 1, 511, 512, 513, 1024, 1300} {
		s := spool.New[kept](t.TempDir())
		var want []int
		for i := range n {
			must.Do(t, s.Add(kept{Number: i, Value: named{"x"}}))
			want = append(want, i)
		}
		if s.Len() != int64(n) {
			t.Errorf("%d of %d", s.Len(), n)
		}
		for _, backwards := range []bool{false, true} {
			var got []int
			must.Do(t, s.Each(backwards, func(items []kept) error {
				for _, it := range items {
					if it.Value.Name != "x" {
						t.Errorf("item %d came back as %+v", it.Number, it)
					}
					got = append(got, it.Number)
				}
				return nil
			}))
			if backwards {
				slices.Reverse(got)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d items, backwards %v: %d came back, or in another order", n, backwards, len(got))
			}
		}
		must.Do(t, s.Close())
	}
	s := spool.New[kept](t.TempDir() + "/gone")
	for range 511 {
		must.Do(t, s.Add(kept{}))
	}
	if err := s.Add(kept{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a chunk is kept nowhere")
	}
}
