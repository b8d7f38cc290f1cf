package cephfs

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// A file system that has no such attributes is said to be none, and nothing is left on it.
func TestNoCephFS(t *testing.T) {
	for _, at := range []string{"/dev/shm", os.TempDir()} {
		t.Run(at, func(t *testing.T) {
			dir, err := os.MkdirTemp(at, "ceph-")
			if err != nil {
				t.Skip("no such directory: ", err)
			}
			defer os.RemoveAll(dir)
			d := opened(t, dir)
			f := opened(t, made(t, dir+"/file"))
			one := lustre.Layout{Components: []lustre.Component{{End: lustre.EOF, StripeCount: 2}}}
			c, ctx := Client{}, t.Context()
			create := func(int) error { _, err := c.Create(ctx, d, "new", unix.O_WRONLY, 0o600, one); return err }
			for name, ask := range map[string]func(fd int) error{
				"Answer":         func(fd int) error { return Answer(&lustre.System{Mount: at}, fd) },
				"Layout":         func(fd int) error { _, err := c.Layout(ctx, fd); return err },
				"Default":        func(fd int) error { _, _, err := Default(ctx, fd); return err },
				"SetDefault":     func(int) error { return c.SetDefault(ctx, d, one) },
				"no default":     func(int) error { return c.SetDefault(ctx, d, lustre.Layout{}) },
				"Create":         create,
				"Cluster":        func(fd int) error { _, err := c.Cluster(ctx, fd); return err },
				"Project":        func(fd int) error { _, err := c.Project(ctx, fd); return err },
				"Quota":          func(fd int) error { _, err := c.Quota(ctx, fd, lustre.Project{}); return err },
				"SetQuota":       func(fd int) error { return c.SetQuota(ctx, fd, lustre.Project{}, lustre.Limits{HardBytes: 1 << 30}) },
				"RecursiveUsage": func(fd int) error { _, err := RecursiveUsage(fd); return err },
			} {
				for _, fd := range []int{d, f} {
					if err := ask(fd); !errors.Is(err, errors.ErrUnsupported) {
						t.Errorf("%s: %v, want an errors.ErrUnsupported", name, err)
					}
				}
			}
			if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
				t.Errorf("%d files, %v; want the one that was there", len(names), err)
			}
		})
	}
}

func TestBadRequests(t *testing.T) {
	dir := t.TempDir()
	d := opened(t, dir)
	c, ctx := Client{}, t.Context()
	for _, name := range []string{"", ".", "..", "a/b", "/a", "a\x00b"} {
		if _, err := c.Create(ctx, d, name, unix.O_WRONLY, 0o600, lustre.Layout{}); err == nil {
			t.Errorf("%q was created", name)
		}
	}
	made(t, dir+"/there")
	if _, err := c.Create(ctx, d, "there", unix.O_WRONLY, 0o600, lustre.Layout{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("what is there was created: %v", err)
	}
	must.Do(t, os.Symlink("there", dir+"/link"))
	if _, err := c.Create(ctx, d, "link", unix.O_WRONLY, 0o600, lustre.Layout{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("a link was followed: %v", err)
	}
	for name, err := range map[string]error{
		"a numbered project":         c.SetProject(ctx, d, lustre.Project{ID: 3}),
		"a soft limit":               c.SetQuota(ctx, d, lustre.Project{}, lustre.Limits{SoftBytes: 1, HardBytes: 2}),
		"a directory of another one": c.SetQuota(ctx, d, lustre.Project{Name: "/proc"}, lustre.Limits{}),
		"a directory that is not":    c.SetQuota(ctx, d, lustre.Project{Name: dir + "/none"}, lustre.Limits{}),
		"a file":                     c.SetQuota(ctx, d, lustre.Project{Name: dir + "/there"}, lustre.Limits{}),
		"less than nothing":          c.SetQuota(ctx, d, lustre.Project{}, lustre.Limits{HardFiles: -1}),
		"another directory":          c.SetProject(ctx, d, lustre.Project{Name: os.TempDir()}),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := c.SetProject(ctx, d, lustre.Project{Name: dir}); err != nil {
		t.Errorf("a directory is its own project: %v", err)
	}
}

func opened(t testing.TB, name string) int {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(name, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func made(t testing.TB, name string) string {
	t.Helper()
	must.Do(t, os.WriteFile(name, nil, 0o600))
	return name
}
