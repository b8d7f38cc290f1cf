package client

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

// needsStriping skips where a site says who may give layouts, and it is not the caller.
func (s *site) needsStriping() {
	s.t.Helper()
	if who, err := s.parameter("llite", "", "enable_setstripe_gid"); os.Geteuid() != 0 && err == nil && who != "-1" {
		s.t.Skipf("needs a user who may give layouts: llite.*.enable_setstripe_gid is %s", who)
	}
}

func TestRealCreate(t *testing.T) {
	s := onLustre(t)
	s.needsStriping()
	cluster := s.cluster()
	osts := len(cluster.OSTs)
	last := cluster.OSTs[osts-1].Index
	extending := lustre.Layout{Components: []lustre.Component{part(0, 64*mib, mib, 1), part(64*mib, lustre.EOF, 64*mib, 1)}}
	extending.Components[1].Flags = lustre.Extension
	onMDT := lustre.Component{End: 64 << 10, Pattern: lustre.OnMDT, FirstTarget: lustre.AnyTarget}
	tests := map[string]struct {
		l     lustre.Layout
		check func(l *lustre.Layout) bool
	}{
		"one stripe":                  {striped(mib, 1), func(l *lustre.Layout) bool { return len(l.Components[0].Objects) == 1 }},
		"two stripes":                 {striped(2*mib, 2), func(l *lustre.Layout) bool { return len(l.Components[0].Objects) == min(2, osts) }},
		"all targets":                 {striped(mib, lustre.AllTargets), func(l *lustre.Layout) bool { return l.Components[0].StripeCount == osts }},
		"more targets than there are": {striped(mib, osts+95), func(l *lustre.Layout) bool { return l.Components[0].StripeCount == osts }},
		"overstriped": {edit(striped(mib, 2*osts), func(c *lustre.Component) { c.Pattern = lustre.Overstriped }),
			func(l *lustre.Layout) bool { return len(l.Components[0].Objects) == 2*osts }},
		"a first target": {edit(striped(mib, 1), func(c *lustre.Component) { c.FirstTarget = last }), func(l *lustre.Layout) bool { return l.Components[0].Objects[0].Target == last }},
		"the lowest target first": {edit(striped(mib, 1), func(c *lustre.Component) { c.FirstTarget = cluster.OSTs[0].Index }),
			func(l *lustre.Layout) bool { return l.Components[0].Objects[0].Target == cluster.OSTs[0].Index }},
		"given targets": {edit(striped(mib, 2), func(c *lustre.Component) {
			c.Objects = []lustre.Object{{Target: last}, {Target: cluster.OSTs[0].Index}}
		}),
			func(l *lustre.Layout) bool {
				return reflect.DeepEqual(targetsOf(l.Components[0]), []int{last, cluster.OSTs[0].Index})
			}},
		"progressive":    {progressive(), func(l *lustre.Layout) bool { return len(l.Components) == 3 && len(l.Components[1].Objects) == 0 }},
		"self-extending": {extending, func(l *lustre.Layout) bool { return l.Components[1].StripeBytes == 64*mib }},
		"two mirrors": {lustre.Layout{Components: []lustre.Component{part(0, lustre.EOF, mib, 1), part(0, lustre.EOF, mib, min(2, osts))}},
			func(l *lustre.Layout) bool { return l.Mirrors == 2 && l.Components[1].Mirror() == 2 }},
		"on the MDT": {lustre.Layout{Components: []lustre.Component{onMDT, part(64<<10, lustre.EOF, mib, min(2, osts))}},
			func(l *lustre.Layout) bool { return l.Components[0].Pattern == lustre.OnMDT }},
		"foreign":      {lustre.Layout{Foreign: &lustre.Foreign{Value: []byte("hello")}}, func(l *lustre.Layout) bool { return string(l.Foreign.Value) == "hello" }},
		"nothing said": {lustre.Layout{}, func(*lustre.Layout) bool { return true }},
	}
	if osts < 2 {
		delete(tests, "given targets")
	}
	for name, members := range cluster.Pools {
		tests["the pool "+name] = struct {
			l     lustre.Layout
			check func(l *lustre.Layout) bool
		}{edit(striped(mib, osts+1), func(c *lustre.Component) { c.Pool = name }),
			func(l *lustre.Layout) bool {
				return l.Components[0].Pool == name && l.Components[0].StripeCount == len(members)
			}}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &site{Client: s.Client, t: t, path: s.path, dir: s.dir}
			fd := must.Get(s.Create(t.Context(), s.dir, name, unix.O_RDWR, 0o644, tt.l))(t)
			defer func() { _ = unix.Close(fd) }()
			if l := s.layout(fd); !tt.check(&l) {
				t.Errorf("it has %+v", l)
			}
			if tt.l.Foreign != nil {
				return // nobody writes one
			}
			if n, err := unix.Pwrite(fd, []byte("content"), 2*mib); n != 7 || err != nil {
				t.Errorf("it can not be written: %d, %v", n, err)
			}
			l := s.layout(s.open(name, unix.O_RDONLY)) // of a progressive one the second component now has objects
			if w := l.Wanted(); tt.l.Foreign == nil {
				again, err := s.Create(t.Context(), s.dir, name+" again", unix.O_RDWR, 0o644, w)
				if err != nil {
					t.Fatalf("with the same layout: %v", err)
				}
				_ = unix.Close(again)
			}
		})
	}
	if len(cluster.Pools) == 0 {
		t.Log("note: this Lustre has no pool")
	}
}

// What would be taken and not done is refused, and leaves nothing.
func TestRealRefused(t *testing.T) {
	s := onLustre(t)
	for name, l := range map[string]lustre.Layout{
		"a pool that there is not":      edit(striped(mib, 1), func(c *lustre.Component) { c.Pool = "nopool" }),
		"a stripe size of 100 KiB":      striped(100<<10, 1),
		"a target that there is not":    edit(striped(mib, 1), func(c *lustre.Component) { c.Objects = []lustre.Object{{Target: 60000}} }),
		"what lies on the MDT for ever": {Components: []lustre.Component{{End: lustre.EOF, Pattern: lustre.OnMDT, FirstTarget: lustre.AnyTarget}}},
	} {
		if fd, err := s.Create(t.Context(), s.dir, "refused", unix.O_RDWR, 0o644, l); !errors.Is(err, lustre.ErrNotApplied) {
			t.Errorf("%s: %d, %v; want not applied", name, fd, err)
		}
		if err := unix.Faccessat(s.dir, "refused", unix.F_OK, 0); !errors.Is(err, unix.ENOENT) {
			t.Errorf("%s: a file was left behind (%v)", name, err)
		}
	}
	pooled := edit(striped(mib, 1), func(c *lustre.Component) { c.Pool = "nopool" })
	if err := s.SetDefault(t.Context(), s.dir, pooled); !errors.Is(err, lustre.ErrNotApplied) {
		t.Errorf("a default in a pool that there is not: %v; want not applied", err)
	}
}

// The traps, as they were seen: the client is built around them.
func TestRealTraps(t *testing.T) {
	s := onLustre(t)
	request := func(l lustre.Layout) []byte {
		b := must.Get(uapi.EncodeRequest(&l))(t)
		return b
	}
	plain := s.open("plain", unix.O_CREAT|unix.O_RDWR)
	before := s.layout(plain)
	other := striped(16*mib, 1)
	err := s.k.setxattr(plain, xattrLayout, request(other))
	after := s.layout(plain)
	s.note(err == nil, "an attribute set on a striped file succeeds")
	if !reflect.DeepEqual(before, after) {
		t.Errorf("a file that has a layout got another: %+v, then %+v", before, after)
	}
	_, err = s.k.ioctl(plain, uapi.IocSetStripe, request(other))
	s.note(errors.Is(err, unix.EEXIST), fmt.Sprintf("the ioctl answers EEXIST of a striped file, and not %v", err))

	delayed := s.open("delayed", unix.O_CREAT|unix.O_RDWR|uapi.DelayCreate)
	_, err = unix.Write(delayed, []byte("x"))
	s.note(errors.Is(err, unix.EBADF), fmt.Sprintf("a file without layout can not be written: EBADF, and not %v", err))
	late := s.open("late", unix.O_CREAT|unix.O_RDWR|uapi.DelayCreate)
	if l, err := s.Layout(t.Context(), late); err != nil || !l.IsZero() {
		t.Errorf("a file without objects has %+v, %v", l, err)
	}
	err = s.k.setxattr(late, xattrLayout, request(edit(striped(mib, 1), func(c *lustre.Component) { c.Pool = "nopool" })))
	s.note(err == nil, fmt.Sprintf("a pool that there is not is taken, and not %v", err))
	odd := s.open("odd", unix.O_CREAT|unix.O_RDWR|uapi.DelayCreate)
	uneven := request(striped(mib, 1))
	copy(uneven[24:], []byte{0, 0x90, 1, 0}) // 100 KiB
	err = s.k.setxattr(odd, xattrLayout, uneven)
	s.note(errors.Is(err, unix.EINVAL), fmt.Sprintf("a stripe size of 100 KiB is EINVAL, and not %v", err))
	_, err = s.k.ioctl(s.dir, uapi.IocSetStripe, request(progressive()))
	s.note(errors.Is(err, unix.EOPNOTSUPP), fmt.Sprintf("a composite default by ioctl is EOPNOTSUPP, and not %v", err))
	trusted, err := s.k.getxattr(plain, "trusted.lov")
	if unix.Geteuid() != 0 {
		s.note(errors.Is(err, unix.ENODATA), fmt.Sprintf("trusted.lov has no data for a user, and not %v", err))
	} else if l, bad := uapi.DecodeLayout(trusted); err != nil || bad != nil || lustre.Same(&before, &l, 0) != "" {
		t.Errorf("trusted.lov of the file: %+v, %v, %v; want %+v", l, err, bad, before)
	}
	if mode, err := s.parameter("llite", "", "enable_setstripe_gid"); err == nil {
		t.Logf("note: enable_setstripe_gid is %s", mode)
	}
}

func TestRealDefault(t *testing.T) {
	s := onLustre(t)
	s.needsStriping()
	dir := s.mkdir("d")
	if l, err := s.Layout(t.Context(), dir); err == nil {
		t.Logf("note: a new directory below %s has a default: %+v", s.path, l)
	} else if !errors.Is(err, lustre.ErrInherited) {
		t.Fatalf("a new directory: %v; want inherited", err)
	}
	count := min(2, len(s.cluster().OSTs))
	for i, l := range []lustre.Layout{striped(2*mib, count), progressive(), striped(mib, lustre.AllTargets)} {
		if err := s.SetDefault(t.Context(), dir, l); err != nil {
			t.Errorf("%+v: %v", l, err)
			continue
		}
		got := s.layout(dir)
		if d := lustre.Same(&l, &got, 0); d != "" {
			t.Errorf("the default: %s; %+v", d, got)
		}
		child := s.layout(s.open(fmt.Sprintf("d/%d", i), unix.O_CREAT|unix.O_RDWR))
		if d := lustre.Same(&l, &child, len(s.cluster().OSTs)); d != "" {
			t.Errorf("a new file: %s; %+v", d, child)
		}
	}
	for _, none := range []lustre.Layout{{}, {}, striped(0, 0)} {
		must.Tell(t, s.SetDefault(t.Context(), dir, none))
	}
	if _, err := s.Layout(t.Context(), dir); !errors.Is(err, lustre.ErrInherited) {
		t.Errorf("after it was taken away: %v; want inherited", err)
	}
	for name := range s.cluster().Pools {
		l := edit(striped(mib, 1), func(c *lustre.Component) { c.Pool = name })
		must.Do(t, s.SetDefault(t.Context(), dir, l))
		// A layout that names no pool gets the directory's, and that is no difference.
		fd := must.Get(s.Create(t.Context(), dir, "in "+name, unix.O_RDWR, 0o644, striped(2*mib, 1)))(t)
		got := s.layout(fd)
		t.Logf("note: without a pool below a default in %s a file is in %q", name, got.Components[0].Pool)
		_ = unix.Close(fd)
	}
}

func TestRealStriping(t *testing.T) {
	s := onLustre(t)
	mdts := s.cluster().MDTs
	plain, err := s.Striping(t.Context(), s.dir)
	if err != nil || plain.Count < 1 {
		t.Fatalf("%+v, %v", plain, err)
	}
	if _, err := s.DefaultStriping(t.Context(), s.mkdir("plain")); !errors.Is(err, lustre.ErrInherited) {
		t.Errorf("%v; want inherited", err)
	}
	s.needsRoot() // or enable_remote_dir_gid
	if len(mdts) < 2 {
		t.Skip("needs two MDTs")
	}
	for name, asked := range map[string]lustre.Striping{
		"on the second": {Count: 1, FirstMDT: mdts[1].Index},
		"on two":        {Count: 2, FirstMDT: mdts[1].Index, Hash: lustre.FNV1a64},
		"on all":        {Count: lustre.AllTargets, FirstMDT: lustre.AnyTarget},
		"on more":       {Count: len(mdts) + 5, FirstMDT: lustre.AnyTarget},
	} {
		if err := s.MakeDir(t.Context(), s.dir, name, 0o750, asked); err != nil {
			if asked.Count <= len(mdts) {
				t.Errorf("%s: %v", name, err)
			}
			t.Logf("note: %d MDTs of %d: %v", asked.Count, len(mdts), err)
			if unix.Faccessat(s.dir, name, unix.F_OK, 0) == nil {
				t.Errorf("%s: a directory was left behind", name)
			}
			continue
		}
		got, err := s.Striping(t.Context(), s.open(name, unix.O_RDONLY|unix.O_DIRECTORY))
		t.Logf("%s: %+v, %v", name, got, err)
	}
	if err := s.MakeDir(t.Context(), s.dir, "on two", 0o750, lustre.Striping{Count: 2, FirstMDT: lustre.AnyTarget}); !errors.Is(err, unix.EEXIST) {
		t.Errorf("one that is there: %v; want EEXIST", err)
	}
	dir := s.mkdir("preset")
	want := lustre.Striping{Count: 2, FirstMDT: lustre.AnyTarget, Hash: lustre.CRUSH, MaxInherit: 3}
	must.Do(t, s.SetDefaultStriping(t.Context(), dir, want))
	if got, err := s.DefaultStriping(t.Context(), dir); err != nil || got.Count != 2 || got.MaxInherit != 3 {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if got, err := s.Striping(t.Context(), s.mkdir("preset/child")); err != nil || got.Count != 2 {
		t.Errorf("a directory in it: %+v, %v", got, err)
	}
	must.Tell(t, s.SetDefaultStriping(t.Context(), dir, lustre.Striping{}))
}
