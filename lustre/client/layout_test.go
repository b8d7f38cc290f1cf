package client

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

const mib = 1 << 20

// noProgram is a machine without lfs.
func noProgram(context.Context, ...string) (string, error) { return "", errNoProgram }

// striped is a layout of one component over the whole file.
func striped(size int64, count int) lustre.Layout {
	return lustre.Layout{Components: []lustre.Component{part(0, lustre.EOF, size, count)}}
}

func part(start, end, size int64, count int) lustre.Component {
	return lustre.Component{Start: start, End: end, Pattern: lustre.RAID0, StripeBytes: size, StripeCount: count, FirstTarget: lustre.AnyTarget}
}

func progressive() lustre.Layout {
	return lustre.Layout{Components: []lustre.Component{part(0, mib, mib, 1), part(mib, 64*mib, 4*mib, 2), part(64*mib, lustre.EOF, 4*mib, -1)}}
}

func edit(l lustre.Layout, f func(c *lustre.Component)) lustre.Layout {
	l.Components = append([]lustre.Component(nil), l.Components...)
	f(&l.Components[0])
	return l
}

func targetsOf(c lustre.Component) (targets []int) {
	for _, o := range c.Objects {
		targets = append(targets, o.Target)
	}
	return targets
}

func TestCreateWithLayout(t *testing.T) {
	t.Parallel()
	extending := lustre.Layout{Components: []lustre.Component{part(0, 64*mib, mib, 1), part(64*mib, lustre.EOF, 64*mib, 1)}}
	extending.Components[1].Flags = lustre.Extension
	for _, tt := range []struct {
		name  string
		l     lustre.Layout
		lacks string // what ErrNotApplied says; "" when the file is made
		check func(l *lustre.Layout) bool
	}{
		{"plain", striped(mib, 2), "", func(l *lustre.Layout) bool { return len(l.Components[0].Objects) == 2 }},
		{"all targets", striped(mib, lustre.AllTargets), "", func(l *lustre.Layout) bool { return l.Components[0].StripeCount == 4 }},
		{"more targets than there are", striped(mib, 99), "", func(l *lustre.Layout) bool { return l.Components[0].StripeCount == 4 }},
		{"a pool", edit(striped(mib, 2), func(c *lustre.Component) { c.Pool = "p1" }), "", func(l *lustre.Layout) bool { return l.Components[0].Pool == "p1" }},
		{"more than a pool has", edit(striped(mib, 3), func(c *lustre.Component) { c.Pool = "p1" }), "", func(l *lustre.Layout) bool { return l.Components[0].StripeCount == 2 }},
		{"overstriped", edit(striped(mib, 8), func(c *lustre.Component) { c.Pattern = lustre.Overstriped }), "", func(l *lustre.Layout) bool { return len(l.Components[0].Objects) == 8 }},
		{"a first target", edit(striped(mib, 1), func(c *lustre.Component) { c.FirstTarget = 1 }), "", func(l *lustre.Layout) bool { return l.Components[0].Objects[0].Target == 1 }},
		{"OST 0 first", edit(striped(mib, 2), func(c *lustre.Component) { c.FirstTarget = 0; c.Pool = "p1" }), "", func(l *lustre.Layout) bool { return reflect.DeepEqual(targetsOf(l.Components[0]), []int{0, 1}) }},
		{"given targets", edit(striped(mib, 2), func(c *lustre.Component) { c.Objects = []lustre.Object{{Target: 2}, {Target: 0}} }), "",
			func(l *lustre.Layout) bool { return reflect.DeepEqual(targetsOf(l.Components[0]), []int{2, 0}) }},
		{"progressive", progressive(), "", func(l *lustre.Layout) bool { return len(l.Components) == 3 && len(l.Components[1].Objects) == 0 }},
		{"self-extending", extending, "", func(l *lustre.Layout) bool { return l.Components[1].StripeBytes == 64*mib }},
		{"two mirrors", lustre.Layout{Components: []lustre.Component{part(0, lustre.EOF, mib, 1), part(0, lustre.EOF, mib, 2)}}, "",
			func(l *lustre.Layout) bool { return l.Mirrors == 2 && l.Components[1].Mirror() == 2 }},
		{"on the MDT", lustre.Layout{Components: []lustre.Component{{End: 64 << 10, Pattern: lustre.OnMDT, FirstTarget: lustre.AnyTarget}, part(64<<10, lustre.EOF, mib, 2)}}, "",
			func(l *lustre.Layout) bool { return l.Components[0].StripeBytes == 64<<10 }},
		{"foreign", lustre.Layout{Foreign: &lustre.Foreign{Value: []byte("hello")}}, "", func(l *lustre.Layout) bool { return string(l.Foreign.Value) == "hello" }},
		{"nothing said", lustre.Layout{}, "", func(l *lustre.Layout) bool { return l.Components[0].StripeBytes == 4*mib }},

		{"a pool that there is not", edit(striped(mib, 2), func(c *lustre.Component) { c.Pool = "nopool" }), "no pool nopool with OSTs (it has p1)", nil},
		{"a stripe size of 100 KiB", striped(100<<10, 1), "no multiple of 64 KiB", nil},
		{"a target that there is not", edit(striped(mib, 1), func(c *lustre.Component) { c.Objects = []lustre.Object{{Target: 9}} }), "does not take such a layout", nil},
		{"of an unknown format", lustre.Layout{Opaque: []byte("something")}, "not known here", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.mkdir(t, "d")
			c := newClient(t, f)
			dir := f.openDir(t, "d")
			fd, err := c.Create(t.Context(), dir, "new", unix.O_RDWR, 0o644, tt.l)
			if tt.lacks != "" {
				if !errors.Is(err, lustre.ErrNotApplied) || !strings.Contains(err.Error(), tt.lacks) {
					t.Errorf("%v; want one that says %q", err, tt.lacks)
				}
				if len(f.root.children["d"].children) > 0 {
					t.Error("a file was left behind")
				}
				return
			}
			must.Do(t, err)
			defer func() { _ = f.close(fd) }()
			got, err := c.Layout(t.Context(), fd)
			if err != nil || !tt.check(&got) {
				t.Errorf("it has %+v, %v", got, err)
			}
			if err := f.write(fd, 1); err != nil {
				t.Errorf("it can not be written: %v", err)
			}
		})
	}
}

// Whatever goes wrong after the file was opened without objects, no file is left that
// fails every write.
//
//safety:1 a layout that Lustre refuses, or takes and does not do: no file without one is left, and the file is made in the usual way
func TestCreateLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		harm func(f *fake)
		want error
		says string
	}{
		"the attribute is refused":     {func(f *fake) { f.fails["setxattr"] = unix.EINVAL }, lustre.ErrNotApplied, "does not take such a layout"},
		"there is no room":             {func(f *fake) { f.fails["setxattr"] = unix.ENOSPC }, unix.ENOSPC, "no room"},
		"it says yes and does nothing": {func(f *fake) { f.lies["setxattr"] = true }, lustre.ErrNotApplied, "enable_setstripe_gid"},
		"it can not be read again":     {func(f *fake) { f.fails["getxattr"] = unix.EIO }, unix.EIO, "read again"},
		"neither way is known": {func(f *fake) {
			f.fails["setxattr"] = unix.EOPNOTSUPP
			f.fails["ioctl 0x4008669a"] = unix.ENOTTY
		}, errors.ErrUnsupported, ""},
		"the ioctl says yes and does nothing": {func(f *fake) {
			f.fails["setxattr"] = unix.EOPNOTSUPP
			f.user, f.setstripe = true, true
			f.root.children["d"].uid = fakeUID
		}, lustre.ErrNotApplied, "enable_setstripe_gid"},
		"another stripe count": {func(f *fake) { f.osts, f.pools = f.osts[:1], nil; f.ioctls[uapi.IocTargetCount] = nil }, lustre.ErrNotApplied, "stripe count 1 instead of 2"},
	} {
		f := newFake()
		f.mkdir(t, "d")
		c := newClient(t, f)
		dir := f.openDir(t, "d")
		tt.harm(f)
		open := len(f.open)
		_, err := c.Create(t.Context(), dir, "new", unix.O_WRONLY, 0o600, striped(mib, 2))
		if !errors.Is(err, tt.want) || !errors.Is(err, lustre.ErrNotApplied) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v; want %v, which says %q", name, err, tt.want, tt.says)
		}
		if len(f.root.children["d"].children) > 0 || len(f.open) != open {
			t.Errorf("%s: a file or descriptor was left behind", name)
		}
	}
}

// With an OST that is off, four stripes are three; that is no reason to have one.
func TestCreateOnFewerTargets(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.inactive["lab-OST0001_UUID"] = true
	c := newClient(t, f)
	dir := f.openDir(t, ".")
	pooled := edit(striped(mib, 2), func(c *lustre.Component) { c.Pool = "p1" })
	for name, tt := range map[string]struct {
		l    lustre.Layout
		want int
	}{"four": {striped(mib, 4), 3}, "two of a pool": {pooled, 1}, "three": {striped(mib, 3), 3}} {
		fd, err := c.Create(t.Context(), dir, name, unix.O_RDWR, 0o600, tt.l)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if l, err := c.Layout(t.Context(), fd); err != nil || len(l.Components[0].Objects) != tt.want {
			t.Errorf("%s: %+v, %v; want %d stripes", name, l, err, tt.want)
		}
		_ = f.close(fd)
	}
}

func TestCreateByIoctl(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.fails["setxattr"] = unix.EOPNOTSUPP
	c := newClient(t, f)
	fd := must.Get(c.Create(t.Context(), f.openDir(t, "."), "new", unix.O_RDWR, 0o600, striped(mib, 2)))(t)
	must.Tell(t, f.close(fd))
}

//safety:1 with TestCreateLeavesNothing
func TestCreateDoesNotReplace(t *testing.T) {
	t.Parallel()
	f := newFake()
	c := newClient(t, f)
	dir := f.openDir(t, ".")
	fd := must.Get(f.openat(dir, "old", unix.O_CREAT|unix.O_RDWR, 0o600))(t)
	_ = f.close(fd)
	if _, err := c.Create(t.Context(), dir, "old", unix.O_RDWR, 0o600, striped(mib, 2)); !errors.Is(err, unix.EEXIST) || errors.Is(err, lustre.ErrNotApplied) {
		t.Errorf("%v; want EEXIST alone", err)
	}
	if _, err := c.Create(t.Context(), dir, "read-only", unix.O_RDONLY, 0o600, striped(mib, 2)); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a layout by a reader: %v; want EINVAL", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := c.Create(ctx, dir, "late", unix.O_RDWR, 0o600, striped(mib, 2)); !errors.Is(err, context.Canceled) {
		t.Errorf("after it was given up: %v", err)
	}
	if len(f.root.children) != 1 {
		t.Errorf("%d files; want the old one", len(f.root.children))
	}
}

func TestPoolsThatAreNotKnown(t *testing.T) {
	t.Parallel()
	f := newFake()
	for name := range f.params {
		delete(f.params, name)
	}
	c := newClient(t, f)
	pooled := edit(striped(mib, 2), func(c *lustre.Component) { c.Pool = "p1" })
	if _, err := c.Create(t.Context(), f.openDir(t, "."), "new", unix.O_RDWR, 0o600, pooled); !errors.Is(err, lustre.ErrNotApplied) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v; want not applied, because pools can not be listed", err)
	}
}

func TestLayoutOfFiles(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.mkdir(t, "d")
	c := newClient(t, f)
	dir := f.openDir(t, "d")
	delayed := must.Get(f.openat(dir, "delayed", unix.O_CREAT|unix.O_RDWR|uapi.DelayCreate, 0o600))(t)
	defer func() { _ = f.close(delayed) }()
	if err := f.write(delayed, 1); !errors.Is(err, unix.EBADF) {
		t.Fatalf("the fake lost its trap: %v", err)
	}
	if l, err := c.Layout(t.Context(), delayed); err != nil || !l.IsZero() {
		t.Errorf("a file without objects: %+v, %v; want none", l, err)
	}
	if _, err := c.Layout(t.Context(), dir); !errors.Is(err, lustre.ErrInherited) {
		t.Errorf("a directory without default: %v; want inherited", err)
	}
	f.user = true
	f.root.layout = &lustre.Layout{Components: striped(mib, 2).Components}
	if l, err := c.Layout(t.Context(), f.openDir(t, ".")); err != nil || l.Components[0].StripeCount != 2 {
		t.Errorf("the root, asked by a user: %+v, %v", l, err)
	}
	f.fails["getxattr"] = unix.EOPNOTSUPP
	if _, err := c.Layout(t.Context(), dir); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("where there are no layouts: %v; want unsupported", err)
	}
}

func TestSetDefault(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.mkdir(t, "d")
	c := newClient(t, f)
	dir := f.openDir(t, "d")
	for _, l := range []lustre.Layout{striped(mib, 3), progressive(), edit(striped(mib, 2), func(c *lustre.Component) { c.Pool = "p1" }), striped(mib, 99)} {
		if err := c.SetDefault(t.Context(), dir, l); err != nil {
			t.Errorf("%+v: %v", l, err)
			continue
		}
		got, err := c.Layout(t.Context(), dir)
		if d := lustre.Same(&l, &got, 0); err != nil || d != "" {
			t.Errorf("%+v: %v, %s", l, err, d)
		}
	}
	if err := c.SetDefault(t.Context(), dir, edit(striped(mib, 2), func(c *lustre.Component) { c.Pool = "nopool" })); !errors.Is(err, lustre.ErrNotApplied) {
		t.Errorf("a pool that there is not: %v; want not applied", err)
	}
	// One that is gone is gone; and one that says nothing is none.
	for _, none := range []lustre.Layout{{}, {}, striped(0, 0)} {
		must.Tell(t, c.SetDefault(t.Context(), dir, none))
	}
	if _, err := c.Layout(t.Context(), dir); !errors.Is(err, lustre.ErrInherited) {
		t.Errorf("after it was taken away: %v", err)
	}
	f.lies["setxattr"] = true
	if err := c.SetDefault(t.Context(), dir, striped(mib, 2)); !errors.Is(err, lustre.ErrNotApplied) {
		t.Errorf("done, and not: %v; want not applied", err)
	}
	delete(f.lies, "setxattr")
	must.Tell(t, c.SetDefault(t.Context(), dir, striped(mib, 2)))
	f.lies["removexattr"] = true
	if err := c.SetDefault(t.Context(), dir, lustre.Layout{}); !errors.Is(err, lustre.ErrNotApplied) {
		t.Errorf("taken away, and not: %v; want not applied", err)
	}
}

func TestInheritedPool(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.mkdir(t, "d").layout = &lustre.Layout{Components: edit(striped(mib, 2), func(c *lustre.Component) { c.Pool = "p1" }).Components}
	c := newClient(t, f)
	fd, err := c.Create(t.Context(), f.openDir(t, "d"), "new", unix.O_RDWR, 0o600, striped(mib, 1))
	if err != nil {
		t.Fatalf("a directory's pool is no difference to a layout that names none: %v", err)
	}
	_ = f.close(fd)
}
