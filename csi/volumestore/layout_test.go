package volumestore

import (
	"context"
	"errors"
	"os"
	"reflect"
	"testing"

	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// striped is a file system with four OSTs, two of them fast, and remembers what directories were given.
type striped struct {
	lustre.Layouts
	given []lustre.Layout
}

func (s *striped) Cluster(context.Context, int) (lustre.Cluster, error) {
	c := lustre.Cluster{Name: "lab", Pools: map[string][]int{"fast": {2, 3}}, Can: lustre.Capabilities{Progressive: true}}
	for i := range 4 {
		c.OSTs = append(c.OSTs, lustre.Target{Index: i, TotalBytes: 1 << 50, FreeBytes: 1 << 49})
	}
	return c, nil
}

func (s *striped) SetDefault(_ context.Context, _ int, l lustre.Layout) error {
	if err := l.Validate(); err != nil {
		return err
	}
	s.given = append(s.given, l)
	return nil
}

// TestLayout: a volume's directory gets the layout that its class asks for, and another one when that is changed; where there are
// no layouts, a class that asks for one is refused.
func TestLayout(t *testing.T) {
	b := opened(t, inMemory(t))
	_, err := b.Make(t.Context(), wish(t, b, "pvc-0", mib, "layout", "checkpoint"))
	if !errors.Is(err, mover.ErrUnsupported) && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
	s := &striped{}
	b.handle.System.Layout = s
	made := func(name string, more ...string) lustre.Layout {
		t.Helper()
		s.given = nil
		_, err := b.Make(t.Context(), wish(t, b, name, mib, more...))
		must.Do(t, err)
		if len(s.given) != 1 {
			t.Fatalf("%d layouts were set", len(s.given))
		}
		return s.given[0]
	}
	if l := made("pvc-1", "stripeCount", "-1", "stripeSize", "4Mi", "ostPool", "fast"); len(l.Components) != 1 || l.Components[0].StripeCount != -1 || l.Components[0].StripeBytes != 4*mib || l.Components[0].Pool != "fast" {
		t.Errorf("%+v", l)
	}
	advised := made("pvc-2", "layout", "checkpoint", "ostPool", "fast")
	want := lustre.Advise(lustre.Request{Use: lustre.Checkpoint, Pool: "fast"}, mustCluster(t, s)).Layout
	if !reflect.DeepEqual(advised, want) || len(advised.Components) == 0 {
		t.Errorf("%v, and not %v", advised, want)
	}
	s.given = nil
	w := wish(t, b, "pvc-3", mib)
	_, err = b.Make(t.Context(), w)
	must.Do(t, err)
	if len(s.given) > 0 {
		t.Errorf("nobody asked for %v", s.given)
	}
	p, err := w.Parameters.Modified(map[string]string{"stripeCount": "2"})
	must.Do(t, err)
	for range 2 {
		_, err = b.Modify(t.Context(), w.ID, p)
		must.Do(t, err)
	}
	if len(s.given) != 1 || s.given[0].Components[0].StripeCount != 2 {
		t.Errorf("%+v", s.given)
	}
	if _, err := os.Stat(pathOf(t, b, w.ID)); err != nil {
		t.Error(err)
	}
}

func mustCluster(t *testing.T, s *striped) lustre.Cluster {
	t.Helper()
	c := must.Get(s.Cluster(t.Context(), 0))(t)
	return c
}
