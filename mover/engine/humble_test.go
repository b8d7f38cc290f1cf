package engine

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
)

// TestStrip: what gives rights is taken from an entry of a source that is not believed, and from no list that others have; all else stays.
func TestStrip(t *testing.T) {
	note, capability := mover.Xattr{Name: "user.note"}, mover.Xattr{Name: "security.capability"}
	for what, row := range map[string]struct {
		kind   mover.Kind
		mode   uint32
		xattrs []mover.Xattr
		want   uint32
		left   []mover.Xattr
		some   bool
	}{
		"setuid":              {mover.File, 0o4755, nil, 0o755, nil, true},
		"setgid":              {mover.File, 0o2755, nil, 0o755, nil, true},
		"sticky":              {mover.File, 0o1755, nil, 0o1755, nil, false},
		"setgid of a FIFO":    {mover.FIFO, 0o2600, nil, 0o600, nil, true},
		"of a directory":      {mover.Dir, 0o3770, nil, 0o3770, nil, false},
		"capabilities":        {mover.File, 0o755, []mover.Xattr{capability, note}, 0o755, []mover.Xattr{note}, true},
		"trusted":             {mover.Dir, 0o755, []mover.Xattr{{Name: "trusted.overlay.opaque"}}, 0o755, nil, true},
		"an ACL and a note":   {mover.File, 0o640, []mover.Xattr{{Name: mover.XattrAccessACL}, note}, 0o640, []mover.Xattr{{Name: mover.XattrAccessACL}, note}, false},
		"nothing but content": {mover.File, 0o644, nil, 0o644, nil, false},
	} {
		e := mover.Entry{Kind: row.kind, Mode: row.mode, Xattrs: row.xattrs}
		before := slices.Clone(row.xattrs)
		same := func(a, b mover.Xattr) bool { return a.Name == b.Name }
		if some := strip(&e); some != row.some || e.Mode != row.want || !slices.EqualFunc(e.Xattrs, row.left, same) || !slices.EqualFunc(row.xattrs, before, same) {
			t.Errorf("%s: %v, %o, %v; the list was %v", what, some, e.Mode, e.Xattrs, row.xattrs)
		}
	}
}

// said is a source of these entries.
type said struct {
	mover.Source
	entries []mover.Entry
}

func (s said) Walk(context.Context, mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for _, e := range s.entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TestHumble: a walk strips entries and counts them, and devices are seen, so that nothing takes them for gone, and left alone.
func TestHumble(t *testing.T) {
	h := &humble{Source: said{entries: []mover.Entry{
		{Name: "disk", Kind: mover.BlockDevice}, {Name: "plain", Kind: mover.File, Mode: 0o644}, {Name: "tool", Kind: mover.File, Mode: 0o4755}, {Name: "tty", Kind: mover.CharDevice},
	}}}
	var names []string
	for e, err := range h.Walk(t.Context(), mover.WalkOptions{}) {
		if names = append(names, e.Name); err != nil || e.Mode&0o6000 != 0 {
			t.Errorf("%s: %o, %v", e.Name, e.Mode, err)
		}
	}
	if n := h.left.Load(); n != 3 || len(names) != 4 {
		t.Errorf("%q, of which %d were stripped or are devices", names, n)
	}
	nothing := func(func(mover.Entry, error) bool) {}
	var ops []string
	for a, err := range withoutDevices(plan.Diff(h.Walk(t.Context(), mover.WalkOptions{}), nothing, plan.Options{})) {
		if ops = append(ops, a.Source.Name); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(ops, []string{"plain", "tool"}) {
		t.Errorf("planned are %q", ops)
	}
}

// TestNoteCounts: the note of what was left out counts in the singular too.
func TestNoteCounts(t *testing.T) {
	for n, want := range map[int64]string{0: "", 1: "1 entry came without ", 1203: "1,203 entries came without "} {
		h := &humble{}
		h.left.Store(n)
		if got := h.note(); !strings.HasPrefix(got, want) || (n == 0) != (got == "") {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
