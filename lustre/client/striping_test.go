package client

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

func TestMakeDir(t *testing.T) {
	t.Parallel()
	f := newFake()
	c := newClient(t, f)
	dir := f.openDir(t, ".")
	for base, tt := range map[string]struct{ asked, want lustre.Striping }{
		"two":  {lustre.Striping{Count: 2, FirstMDT: 1, Hash: lustre.FNV1a64}, lustre.Striping{Count: 2, FirstMDT: 1, Hash: lustre.FNV1a64}},
		"all":  {lustre.Striping{Count: lustre.AllTargets, FirstMDT: lustre.AnyTarget}, lustre.Striping{Count: 2, FirstMDT: 0, Hash: lustre.CRUSH}},
		"more": {lustre.Striping{Count: 9, FirstMDT: lustre.AnyTarget}, lustre.Striping{Count: 2, FirstMDT: 0, Hash: lustre.CRUSH}},
		"one":  {lustre.Striping{Count: 1, FirstMDT: 1}, lustre.Striping{Count: 1, FirstMDT: 1}},
	} {
		if err := c.MakeDir(t.Context(), dir, base, 0o755, tt.asked); err != nil {
			t.Errorf("%s: %v", base, err)
			continue
		}
		got, err := c.Striping(t.Context(), f.openDir(t, base))
		if err != nil || got.Count != tt.want.Count || got.FirstMDT != tt.want.FirstMDT || got.Hash != tt.want.Hash || got.Count > 1 && len(got.Shards) != got.Count {
			t.Errorf("%s: %+v, %v; want %+v", base, got, err, tt.want)
		}
	}
	if err := c.MakeDir(t.Context(), dir, "two", 0o755, lustre.Striping{Count: 2, FirstMDT: lustre.AnyTarget}); !errors.Is(err, unix.EEXIST) {
		t.Errorf("one that is there: %v; want EEXIST", err)
	}
	for _, base := range []string{"", ".", "..", "a/b", "a\x00b"} {
		if err := c.MakeDir(t.Context(), dir, base, 0o755, lustre.Striping{Count: 1}); err == nil {
			t.Errorf("%q was made", base)
		}
	}
	// A server that makes a plain directory of it.
	real := f.ioctls[uapi.IocSetDirStripe]
	f.ioctls[uapi.IocSetDirStripe] = func(h *handle, arg []byte, at []pointer) (int, error) {
		n, err := real(h, arg, at)
		h.inode.children["short"].striping = nil
		return n, err
	}
	if err := c.MakeDir(t.Context(), dir, "short", 0o755, lustre.Striping{Count: 2, FirstMDT: lustre.AnyTarget}); !errors.Is(err, lustre.ErrNotApplied) {
		t.Errorf("%v; want not applied", err)
	}
	if f.root.children["short"] != nil {
		t.Error("a directory was left behind")
	}
}

func TestStripingWithManyShards(t *testing.T) {
	t.Parallel()
	f := newFake()
	d := f.mkdir(t, "wide")
	d.striping = &lustre.Striping{Count: 200, Hash: lustre.CRUSH, Shards: make([]lustre.Shard, 200)}
	c := newClient(t, f)
	if got, err := c.Striping(t.Context(), f.openDir(t, "wide")); err != nil || len(got.Shards) != 200 {
		t.Errorf("%d stripes, %v; want 200, asked for with more room", len(got.Shards), err)
	}
}

func TestDefaultStriping(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.mkdir(t, "d")
	c := newClient(t, f)
	f.root.preset = &lustre.Striping{Count: 1, FirstMDT: lustre.AnyTarget, MaxRoundRR: 3}
	dir := f.openDir(t, "d")
	if _, err := c.DefaultStriping(t.Context(), dir); !errors.Is(err, lustre.ErrInherited) {
		t.Errorf("%v; want inherited", err)
	}
	want := lustre.Striping{Count: 2, FirstMDT: lustre.AnyTarget, Hash: lustre.CRUSH, MaxInherit: 3, MaxRoundRR: 1}
	must.Do(t, c.SetDefaultStriping(t.Context(), dir, want))
	// By the descriptor that was open before, which does not know of it.
	if got, err := c.DefaultStriping(t.Context(), dir); err != nil || got.Count != 2 || got.MaxInherit != 3 || got.Hash != lustre.CRUSH {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for range 2 {
		must.Tell(t, c.SetDefaultStriping(t.Context(), dir, lustre.Striping{}))
	}
	f.lies["ioctl 0xc03066f6"] = true
	if err := c.SetDefaultStriping(t.Context(), dir, want); !errors.Is(err, lustre.ErrNotApplied) {
		t.Errorf("done, and not: %v; want not applied", err)
	}
	delete(f.lies, "ioctl 0xc03066f6")
	f.fails["ioctl 0xc03066f6"] = unix.ENOTTY
	if err := c.SetDefaultStriping(t.Context(), dir, want); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v; want unsupported", err)
	}
}
