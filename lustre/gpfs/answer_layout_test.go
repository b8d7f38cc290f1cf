package gpfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

func TestUsage(t *testing.T) {
	each(t, func(t *testing.T, s *lustre.System, w *world, _ string) {
		targets, err := s.Usage.Targets(t.Context(), open(t, w.Mount))
		// A pool of metadata holds no file, and is not one that does not answer.
		if err != nil || len(targets) != 1 || targets[0].Name != "data" || targets[0].Kind != lustre.InPool || targets[0].FreeBytes == 0 || targets[0].Inactive != "" {
			t.Errorf("%+v, %v", targets, err)
		}
	})
}

func TestLayout(t *testing.T) {
	each(t, func(t *testing.T, s *lustre.System, w *world, dir string) {
		vision := open(t, filepath.Join(w.Mount, "vision"))
		var st unix.Stat_t
		must.Do(t, unix.Fstat(vision, &st))
		blockOfThis := int64(st.Blksize) //nolint:unconvert // it is an int32 on arm64
		component := lustre.Component{End: lustre.EOF, Pattern: lustre.RAID0, StripeCount: lustre.AllTargets, StripeBytes: blockOfThis, FirstTarget: lustre.AnyTarget, Pool: "data"}
		wanted := lustre.Layout{Components: []lustre.Component{component, component}}
		fd, err := s.Layout.Create(t.Context(), vision, "-P", unix.O_WRONLY, 0o640, wanted)
		must.Do(t, err)
		got, err := s.Layout.Layout(t.Context(), fd)
		if err != nil || lustre.Same(&wanted, &got, 0) != "" || got.Mirrored != lustre.ReadOnly || got.Components[1].Mirror() != 2 {
			t.Errorf("%+v, %v", got, err)
		}
		_ = unix.Close(fd)
		if _, err := s.Layout.Create(t.Context(), vision, "-P", unix.O_WRONLY, 0o640, wanted); !errors.Is(err, fs.ErrExist) {
			t.Errorf("again: %v", err)
		}
		if fd, err = s.Layout.Create(t.Context(), vision, "plain", unix.O_WRONLY, 0o640, lustre.Layout{}); err != nil {
			t.Errorf("without a layout: %v", err)
		}
		_ = unix.Close(fd)
		if _, err := s.Layout.Layout(t.Context(), vision); !errors.Is(err, lustre.ErrInherited) {
			t.Errorf("of a directory: %v", err)
		}
		if err := s.Layout.SetDefault(t.Context(), vision, wanted); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a default: %v", err)
		}
		if c, err := s.Layout.Cluster(t.Context(), vision); err != nil || c.Name != "fs1" || len(c.OSTs) > 0 {
			t.Errorf("%+v, %v", c, err)
		} else if _, ok := c.Pools["data"]; !ok {
			t.Errorf("%+v", c)
		}
		change := func(f func(*lustre.Component)) lustre.Layout {
			c := component
			f(&c)
			return lustre.Layout{Components: []lustre.Component{c}}
		}
		now := reload(t, dir)
		now.Deaf = true
		for name, c := range map[string]struct {
			lustre.Layout
			want error
		}{
			"a stripe count":  {change(func(c *lustre.Component) { c.StripeCount = 4 }), errors.ErrUnsupported},
			"a stripe size":   {change(func(c *lustre.Component) { c.StripeBytes = 64 << 10 }), errors.ErrUnsupported},
			"a part":          {change(func(c *lustre.Component) { c.End = 1 << 20 }), errors.ErrUnsupported},
			"on the MDT":      {change(func(c *lustre.Component) { c.Pattern = lustre.OnMDT }), errors.ErrUnsupported},
			"no such pool":    {change(func(c *lustre.Component) { c.Pool = "none" }), lustre.ErrNotApplied},
			"a pool -x":       {change(func(c *lustre.Component) { c.Pool = "-x" }), ErrName},
			"two pools":       {lustre.Layout{Components: []lustre.Component{component, {End: lustre.EOF}}}, errors.ErrUnsupported},
			"four copies":     {lustre.Layout{Components: []lustre.Component{component, component, component, component}}, errors.ErrUnsupported},
			"foreign":         {lustre.Layout{Foreign: &lustre.Foreign{}}, errors.ErrUnsupported},
			"bytes":           {lustre.Layout{Opaque: []byte("x")}, errors.ErrUnsupported},
			"yes and nothing": {wanted, lustre.ErrNotApplied},
		} {
			if name == "yes and nothing" {
				now.save(t, dir)
			}
			fd, err := s.Layout.Create(t.Context(), vision, "other", unix.O_WRONLY, 0o640, c.Layout)
			if !errors.Is(err, c.want) || fd != -1 {
				t.Errorf("%s: %d, %v", name, fd, err)
			}
			if is(filepath.Join(w.Mount, "vision", "other")) {
				t.Errorf("%s left a file", name)
			}
			now.Deaf = false
			now.save(t, dir)
			now.Deaf = true
		}
	})
}

// TestOffline: what is on tape says so, and a copy that is behind, too.
func TestOffline(t *testing.T) {
	a, err := parseAttributes("/gpfs/fs1/vision/part-0007", fixture(t, "commands/mmlsattr.txt"))
	l := a.layout(4 << 20)
	if err != nil || !l.Released() || len(l.Components) != 2 || l.Components[0].Flags.Has(lustre.Stale) || !l.Components[1].Flags.Has(lustre.Stale) {
		t.Errorf("%+v, %v", l, err)
	}
}
