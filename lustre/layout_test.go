package lustre

import (
	"strings"
	"testing"
)

const (
	testMiB = 1 << 20
	testGiB = 1 << 30
)

func piece(start, end int64) Component {
	return Component{Start: start, End: end, Pattern: RAID0, StripeBytes: testMiB, StripeCount: 2, FirstTarget: AnyTarget}
}

func layoutOf(components ...Component) Layout { return Layout{Components: components} }

func with(c Component, f func(c *Component)) Component { f(&c); return c }

func TestValidate(t *testing.T) {
	t.Parallel()
	grows := func(start, end int64) Component {
		return with(piece(start, end), func(c *Component) { c.Flags, c.StripeBytes = Extension, 64*testMiB })
	}
	onMDT := Component{End: testMiB, Pattern: OnMDT, FirstTarget: AnyTarget}
	mirrors := func(n int) (l Layout) {
		for range n {
			l.Components = append(l.Components, piece(0, EOF))
		}
		return l
	}
	steps := func(n int64) (l Layout) {
		for i := range n {
			l.Components = append(l.Components, with(piece(i*testMiB, (i+1)*testMiB), func(c *Component) { c.StripeCount = 0 }))
		}
		return l
	}
	wide := func(c *Component) { c.StripeCount = MaxStripes }
	for _, tt := range []struct {
		name string
		l    Layout
		says string // "" when it is valid
	}{
		{"plain", layoutOf(piece(0, EOF)), ""},
		{"all that is left to the file system", layoutOf(Component{End: EOF, FirstTarget: AnyTarget}), ""},
		{"progressive", layoutOf(piece(0, testMiB), piece(testMiB, EOF)), ""},
		{"one that ends", layoutOf(piece(0, testMiB)), ""},
		{"self-extending", layoutOf(piece(0, testMiB), grows(testMiB, testGiB), piece(testGiB, testGiB), grows(testGiB, EOF)), ""},
		{"on the MDT first", layoutOf(onMDT, piece(testMiB, EOF)), ""},
		{"mirrors", mirrors(16), ""},
		{"foreign", Layout{Foreign: &Foreign{}}, ""},
		{"nothing", Layout{}, "0 components"},
		{"a gap", layoutOf(piece(0, testMiB), piece(2*testMiB, EOF)), "component 2 does not begin"},
		{"an overlap", layoutOf(piece(0, 2*testMiB), piece(testMiB, EOF)), "component 2 does not begin"},
		{"not from the beginning", layoutOf(piece(testMiB, EOF)), "component 1 does not begin"},
		{"an uneven end", layoutOf(piece(0, 1000), piece(1000, EOF)), "no multiple of 64 KiB"},
		{"no bytes", layoutOf(piece(0, testMiB), piece(testMiB, testMiB), piece(testMiB, EOF)), "has no bytes"},
		{"an extension of nothing", layoutOf(grows(0, EOF)), "none before it"},
		{"an extension of an extension", layoutOf(piece(0, testMiB), grows(testMiB, testGiB), grows(testGiB, EOF)), "none before it"},
		{"on the MDT last", layoutOf(piece(0, testMiB), with(onMDT, func(c *Component) { c.Start, c.End = testMiB, testGiB })), "beginning of a file"},
		{"more on the MDT than there can be", layoutOf(with(onMDT, func(c *Component) { c.End = 2 * testGiB }), piece(2*testGiB, EOF)), "limit of 1073741824"},
		{"on the MDT in a pool", layoutOf(with(onMDT, func(c *Component) { c.Pool = "p1" }), piece(testMiB, EOF)), "no pool of OSTs"},
		{"an end within a stripe", layoutOf(with(piece(0, 3*testMiB), func(c *Component) { c.StripeBytes = 2 * testMiB }), piece(3*testMiB, EOF)), "no multiple of its stripe size"},
		{"growing by 1 MiB", layoutOf(piece(0, testMiB), with(grows(testMiB, EOF), func(c *Component) { c.StripeBytes = testMiB })), "no multiple of 64 MiB"},
		{"growing by nothing", layoutOf(piece(0, testMiB), with(grows(testMiB, EOF), func(c *Component) { c.StripeBytes = 0 })), "no multiple of 64 MiB"},
		{"an uneven stripe", layoutOf(with(piece(0, EOF), func(c *Component) { c.StripeBytes = 100 << 10 })), "no multiple of 64 KiB"},
		{"a stripe of 4 GiB", layoutOf(with(piece(0, EOF), func(c *Component) { c.StripeBytes = 4 << 30 })), "larger than"},
		{"a negative count", layoutOf(with(piece(0, EOF), func(c *Component) { c.StripeCount = -2 })), "not within"},
		{"a count of 2001", layoutOf(with(piece(0, EOF), func(c *Component) { c.StripeCount = 2001 })), "not within"},
		{"17 mirrors", mirrors(17), "17 mirrors"},
		{"more components than an attribute holds", steps(700), "it would take 67232 bytes"},
		{"more stripes than an attribute holds", layoutOf(with(piece(0, testMiB), wide), with(piece(testMiB, EOF), wide)), "it would take 96224 bytes"},
		{"a pool with a path", layoutOf(with(piece(0, EOF), func(c *Component) { c.Pool = "../p" })), "letters, digits"},
		{"a pool with a meaning", layoutOf(with(piece(0, EOF), func(c *Component) { c.Pool = "inherit" })), "meaning of its own"},
		{"a long pool", layoutOf(with(piece(0, EOF), func(c *Component) { c.Pool = "sixteen-letters-" })), "up to 15 bytes"},
	} {
		err := tt.l.Validate()
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.says)
		}
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	on := func(targets ...int) func(c *Component) {
		return func(c *Component) {
			for _, target := range targets {
				c.Objects = append(c.Objects, Object{Target: target, FID: FID{OID: uint32(target + 1)}})
			}
			c.StripeCount = len(targets)
		}
	}
	count := func(n int) Layout { return layoutOf(with(piece(0, EOF), func(c *Component) { c.StripeCount = n })) }
	for _, tt := range []struct {
		name        string
		wanted, got Layout
		targets     int
		says        string // "" when they are the same
	}{
		{"stored", layoutOf(piece(0, EOF)), layoutOf(with(piece(0, EOF), on(3, 1))), 4, ""},
		{"what is not said is as it is", layoutOf(Component{End: EOF, FirstTarget: AnyTarget}), layoutOf(with(piece(0, EOF), on(3))), 4, ""},
		{"all targets", count(AllTargets), count(4), 4, ""},
		{"more than there are", count(99), count(4), 4, ""},
		{"more than there are, as a default", count(99), count(99), 4, ""},
		{"fewer than there are", count(4), count(3), 4, "stripe count 3 instead of 4"},
		{"more than were asked for", count(2), count(4), 4, "stripe count 4 instead of 2"},
		{"given targets", layoutOf(with(piece(0, EOF), on(2, 0))), layoutOf(with(piece(0, EOF), on(2, 0))), 4, ""},
		{"other targets", layoutOf(with(piece(0, EOF), on(2, 0))), layoutOf(with(piece(0, EOF), on(0, 2))), 4, "on the targets [0 2] instead of [2 0]"},
		{"another first target", layoutOf(with(piece(0, EOF), func(c *Component) { c.FirstTarget = 1 })), layoutOf(with(piece(0, EOF), on(2, 3))), 4, "begins on target 2"},
		{"another pattern", layoutOf(piece(0, EOF)), layoutOf(with(piece(0, EOF), func(c *Component) { c.Pattern = Overstriped })), 4, "pattern raid0,overstriped"},
		{"another stripe size", layoutOf(piece(0, EOF)), layoutOf(with(piece(0, EOF), func(c *Component) { c.StripeBytes = 4 << 20 })), 4, "stripe size 4194304"},
		{"the directory's pool", layoutOf(piece(0, EOF)), layoutOf(with(piece(0, EOF), func(c *Component) { c.Pool = "p1" })), 4, ""},
		{"no pool", layoutOf(with(piece(0, EOF), func(c *Component) { c.Pool = "p1" })), layoutOf(piece(0, EOF)), 4, `pool "" instead of "p1"`},
		{"other ends", layoutOf(piece(0, testMiB), piece(testMiB, EOF)), layoutOf(piece(0, testGiB), piece(testGiB, EOF)), 4, "component 1: it covers"},
		{"one component", layoutOf(piece(0, testMiB), piece(testMiB, EOF)), layoutOf(piece(0, EOF)), 4, "1 components instead of 2"},
		{"foreign", Layout{Foreign: &Foreign{Value: []byte("a")}}, Layout{Foreign: &Foreign{Value: []byte("a")}}, 0, ""},
		{"another value", Layout{Foreign: &Foreign{Value: []byte("a")}}, Layout{Foreign: &Foreign{Value: []byte("b")}}, 0, "a foreign layout"},
		{"one is foreign", Layout{Foreign: &Foreign{}}, layoutOf(piece(0, EOF)), 0, "one is foreign"},
		{"it does not grow", layoutOf(piece(0, testMiB), with(piece(testMiB, EOF), func(c *Component) { c.Flags = Extension })),
			layoutOf(piece(0, testMiB), piece(testMiB, EOF)), 4, "component 2: only one of them"},
	} {
		if d := Same(&tt.wanted, &tt.got, tt.targets); (d == "") != (tt.says == "") || !strings.Contains(d, tt.says) {
			t.Errorf("%s: %q; want %q", tt.name, d, tt.says)
		}
	}
}

// What a stored layout was is not asked for again: the file system chooses anew.
func TestWanted(t *testing.T) {
	t.Parallel()
	stored := with(piece(0, EOF), func(c *Component) {
		c.ID, c.Flags, c.FirstTarget = 0x10001, Initialised|Stale|Released|PreferRead, 3
		c.Objects = []Object{{Target: 3}}
		c.Stored = Stored{File: FID{Seq: 1}, Generation: 7, HasGeneration: true}
	})
	parity := with(stored, func(c *Component) { c.ID, c.Flags = 0x20002, Initialised|Parity })
	elsewhere := Component{ID: 0x30003, End: EOF, Pattern: IsForeign, Foreign: &Foreign{Type: 4}}
	l := Layout{Components: []Component{stored, parity, elsewhere}, Mirrors: 3, Mirrored: WritePending, Generation: 9}
	w := l.Wanted()
	c := w.Components[0]
	if c.ID != 0 || c.Flags != PreferRead || c.FirstTarget != AnyTarget || c.Objects != nil || c.Stored != (Stored{}) || w.Generation != 0 || w.Mirrored != ReadOnly || len(w.Components) != 1 || w.Mirrors != 0 {
		t.Errorf("%+v", w)
	}
	if err := w.Validate(); err != nil || l.Components[0].ID != 0x10001 {
		t.Errorf("%v; and the layout it was made of is %+v", err, l)
	}
}

func TestWidth(t *testing.T) {
	t.Parallel()
	l := layoutOf(piece(0, testMiB), with(piece(testMiB, EOF), func(c *Component) { c.StripeCount = 4; c.StripeBytes = 4 * testMiB }))
	for off, want := range map[int64]int64{0: 2 * testMiB, testMiB - 1: 2 * testMiB, testMiB: 16 * testMiB, 1 << 50: 16 * testMiB} {
		if got := l.Width(off); got != want {
			t.Errorf("at %d: %d; want %d", off, got, want)
		}
	}
	hostile := layoutOf(with(piece(0, EOF), func(c *Component) { c.StripeBytes, c.StripeCount = 1<<62, 2 }))
	if got := hostile.Width(0); got != 0 {
		t.Errorf("of more than a file can have: %d", got)
	}
	behind := layoutOf(with(piece(0, EOF), func(c *Component) { c.Flags = Stale }), with(piece(0, EOF), func(c *Component) { c.StripeCount = 3 }))
	if got := behind.Width(0); got != 3*testMiB {
		t.Errorf("of a mirror that is behind: %d", got)
	}
	all := layoutOf(with(piece(0, testGiB), func(c *Component) { c.StripeCount = AllTargets }))
	if all.Width(0) != 0 || all.Width(2*testGiB) != 0 {
		t.Errorf("where the count is not known, or there is nothing: %d, %d; want 0", all.Width(0), all.Width(2*testGiB))
	}
}
