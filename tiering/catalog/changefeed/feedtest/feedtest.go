// Package feedtest holds what a feed has made of a catalog to what a scan would.
package feedtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/dataset"
)

// Difference says where the catalog is not what a scan would make of a tree; "" is nowhere. Of that something was read no feed tells.
func Difference(t testing.TB, c *catalog.Catalog, tree catalog.Tree, src catalog.Source) string {
	t.Helper()
	var want, got []dataset.File
	for e, err := range src.Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
		want = append(want, dataset.FileOf(&e, 0).Proven())
	}
	for f, err := range c.Below(t.Context(), tree, "") {
		if errors.Is(err, mover.ErrNotExist) {
			return "it was never scanned"
		}
		must.Do(t, err)
		f.Seen = 0
		got = append(got, f)
	}
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("%d entries of %d: there is no %+v", len(got), len(want), want[i])
		case i >= len(want):
			return fmt.Sprintf("%d entries, and there are %d: %+v", len(got), len(want), got[i])
		}
		want[i].Atime, got[i].Atime = 0, 0
		if want[i] != got[i] {
			return fmt.Sprintf("%+v\nis known as\n%+v", want[i], got[i])
		}
	}
	return ""
}

// Settled waits until there is no difference: nothing changes any more, so each look makes the catalog more like the tree.
func Settled(t testing.TB, c *catalog.Catalog, tree catalog.Tree, src catalog.Source) {
	t.Helper()
	difference := ""
	for range 3000 {
		if difference = Difference(t, c, tree, src); difference == "" {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("after a minute without changes: %s", difference)
}
