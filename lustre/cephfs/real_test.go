package cephfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// TestReal… run on a mounted CephFS, as somebody who may set layouts and quotas:
//
//	CEPH_MOUNT        where; it has the data pools data and cephfs.fast.data, and elsewhere is not one of it
//	CEPH_MOUNT_USER   the same, mounted with a key that has no right "p"; may be missing
//	CEPH_MOUNT_BELOW  a mount of its directory CEPH_BELOW alone; may be missing
//
// test/e2e-ceph makes all of that.
func place(t *testing.T, variable string) string {
	t.Helper()
	mount := os.Getenv(variable)
	if mount == "" {
		t.Skip("elsewhere: make e2e-ceph: needs a mounted CephFS in " + variable + ": test/e2e-ceph makes one")
	}
	return mount
}

// fresh is a new directory of the CephFS, and open.
func fresh(t *testing.T) (name string, fd int) {
	t.Helper()
	name = must.Get(os.MkdirTemp(place(t, "CEPH_MOUNT"), "test-"))(t)
	t.Cleanup(func() {
		must.Tell(t, os.RemoveAll(name))
	})
	return name, opened(t, name)
}

func within(t *testing.T, name string) (path string, fd int) {
	t.Helper()
	must.Do(t, os.Mkdir(name, 0o777))
	return name, opened(t, name)
}

func striped(count int, pool string) lustre.Layout {
	return lustre.Layout{Components: []lustre.Component{{
		End: lustre.EOF, Pattern: lustre.RAID0, FirstTarget: lustre.AnyTarget,
		StripeBytes: 64 << 10, StripeCount: count, ObjectBytes: 1 << 20, Pool: pool,
	}}}
}

func check(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(what, ": ", err)
	}
}

func TestRealAnswer(t *testing.T) {
	dir, fd := fresh(t)
	for _, fd := range []int{fd, opened(t, made(t, dir+"/file"))} {
		s := &lustre.System{Kind: lustre.IsCephFS, Mount: dir}
		check(t, "Answer", Answer(s, fd))
		if s.Layout == nil || s.Quota == nil || s.Usage == nil || s.HSM != nil || s.Change != nil {
			t.Errorf("it answers %+v", s)
		}
		for _, q := range []lustre.Question{lustre.AskHSM, lustre.AskChange} {
			if s.Lacks[q] == "" {
				t.Errorf("why there is no answer to %s is not said", q)
			}
		}
		c, err := s.Layout.Cluster(t.Context(), fd)
		if err != nil || len(c.Name) != 36 || c.Default.IsZero() {
			t.Errorf("the cluster is %+v, %v", c, err)
		}
		var targets []lustre.Target
		until(t, "the cluster knows how large it is", func() bool {
			targets, err = s.Usage.Targets(t.Context(), fd)
			return err != nil || targets[0].Inactive == ""
		})
		if err != nil || len(targets) != 1 || targets[0].TotalBytes <= 0 || targets[0].FreeBytes <= 0 || targets[0].FreeBytes > targets[0].TotalBytes {
			t.Errorf("its targets are %+v, %v", targets, err)
		}
	}
}

func TestRealDefault(t *testing.T) {
	name, fd := fresh(t)
	c, ctx := Client{}, t.Context()
	if _, err := c.Layout(ctx, fd); !errors.Is(err, lustre.ErrInherited) {
		t.Errorf("a new directory has a layout of its own: %v", err)
	}
	inner, innerFD := within(t, name+"/inner")
	want := striped(3, "cephfs.fast.data")
	want.Components[0].PoolNamespace = "vision"
	check(t, "SetDefault", c.SetDefault(ctx, fd, want))
	got, err := c.Layout(ctx, fd)
	if diff := lustre.Same(&want, &got, 0); err != nil || diff != "" {
		t.Fatalf("%v, %s", err, diff)
	}
	got, from, err := Default(ctx, innerFD)
	if diff := lustre.Same(&want, &got, 0); err != nil || diff != "" || from != name {
		t.Errorf("the default is from %q, %v, %s; want it from %q", from, err, diff, name)
	}
	got, from, err = Default(ctx, opened(t, made(t, inner+"/file")))
	if err != nil || from != name {
		t.Errorf("the default of a file's directory is %+v from %q, %v", got, from, err)
	}
	got, err = c.Layout(ctx, opened(t, inner+"/file"))
	if diff := lustre.Same(&want, &got, 0); err != nil || diff != "" {
		t.Errorf("a new file did not get the default: %v, %s", err, diff)
	}

	// The namespace goes with its pool.
	want = striped(2, "data")
	check(t, "SetDefault", c.SetDefault(ctx, fd, want))
	got, err = c.Layout(ctx, fd)
	if diff := lustre.Same(&want, &got, 0); err != nil || diff != "" {
		t.Fatalf("%v, %s", err, diff)
	}
	for range 2 { // what is away can be taken away
		check(t, "take away", c.SetDefault(ctx, fd, lustre.Layout{}))
	}
	if _, err := c.Layout(ctx, fd); !errors.Is(err, lustre.ErrInherited) {
		t.Errorf("the layout was not taken away: %v", err)
	}
	root := opened(t, place(t, "CEPH_MOUNT"))
	if err := c.SetDefault(ctx, root, lustre.Layout{}); err == nil || !strings.Contains(err.Error(), "always has one") {
		t.Errorf("the layout of the root was taken away: %v", err)
	}
}

func TestRealCreate(t *testing.T) {
	name, fd := fresh(t)
	c, ctx := Client{}, t.Context()
	for i, want := range []lustre.Layout{{}, striped(4, ""), striped(4, "cephfs.fast.data"), striped(2000, "data"),
		{Components: []lustre.Component{{End: lustre.EOF, StripeCount: 2}}},
		{Components: []lustre.Component{{End: lustre.EOF, StripeBytes: 16 << 20}}},
		{Components: []lustre.Component{{End: lustre.EOF, ObjectBytes: MaxObjectBytes}}}} {
		base := fmt.Sprint("file", i)
		t.Run(base, func(t *testing.T) { writtenWith(t, name, fd, base, want) })
	}
	for _, pool := range []string{"nowhere", "elsewhere"} {
		if _, err := c.Create(ctx, fd, pool, unix.O_WRONLY, 0o600, striped(1, pool)); !errors.Is(err, lustre.ErrNotApplied) || !strings.Contains(err.Error(), "pool") {
			t.Errorf("a file was created in a pool that is not there: %v", err)
		}
		if _, err := os.Lstat(filepath.Join(name, pool)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it was left: %v", err)
		}
		if err := c.SetDefault(ctx, fd, striped(1, pool)); !errors.Is(err, lustre.ErrNotApplied) {
			t.Errorf("a pool that is not there is a default: %v", err)
		}
	}
}

// writtenWith creates a file with a layout, and writes and reads it.
func writtenWith(t *testing.T, dir string, fd int, base string, want lustre.Layout) {
	c, ctx := Client{}, t.Context()
	new, err := c.Create(ctx, fd, base, unix.O_RDWR, 0o640, want)
	check(t, base, err)
	f := os.NewFile(uintptr(new), base)
	got, err := c.Layout(ctx, new)
	if diff := lustre.Same(&want, &got, 0); !want.IsZero() && diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
	content := []byte(strings.Repeat(base, 300_000))
	_, err = f.Write(content)
	check(t, "write", errors.Join(err, f.Sync(), f.Close()))
	path := filepath.Join(dir, base)
	again, err := os.ReadFile(path)
	if err != nil || string(again) != string(content) {
		t.Errorf("%d bytes are not what was written, %v", len(again), err)
	}
	// Now it is too late.
	w, err := wanted(striped(7, ""))
	check(t, "wanted", err)
	if err := w.apply(opened(t, path), file); !errors.Is(err, lustre.ErrNotApplied) || !strings.Contains(err.Error(), "written already") {
		t.Errorf("the layout of a written file was set: %v", err)
	}
}

// What package ceph refuses, a CephFS takes. Nothing is written: the client would never
// get rid of it.
func TestRealTraps(t *testing.T) {
	name, _ := fresh(t)
	fd := opened(t, made(t, name+"/file"))
	for _, value := range []string{"stripe_count=100000", "object_size=268435456", "pool=3"} {
		if err := set(fd, file, value); err != nil {
			t.Errorf("%s: %v: it is refused, and need not be here", value, err)
		}
	}
	for _, value := range []string{"stripe_unit=100000", "stripe_unit=32768", "stripe_count=0", "object_size=100000"} {
		if err := set(fd, file, value); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%s: %v, want EINVAL", value, err)
		}
	}
}

// fill writes slowly, because a quota is held late, until it is refused; it returns how
// much was taken.
func fill(t *testing.T, name string, most int) (written int, err error) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	block := make([]byte, 256<<10)
	for written < most {
		n, err := f.Write(block)
		written += n
		if err != nil {
			return written, err
		}
		time.Sleep(40 * time.Millisecond)
	}
	return written, f.Sync()
}

func TestRealQuota(t *testing.T) {
	const mib = 1 << 20
	name, fd := fresh(t)
	c, ctx := Client{}, t.Context()
	inner, innerFD := within(t, name+"/inner")
	if p, err := c.Project(ctx, innerFD); err != nil || p != (lustre.Project{}) {
		t.Fatalf("the project is %+v, %v; want none", p, err)
	}
	limits := lustre.Limits{HardBytes: 8 * mib, HardFiles: 5}
	check(t, "SetQuota", c.SetQuota(ctx, fd, lustre.Project{}, limits))
	p, err := c.Project(ctx, opened(t, made(t, inner+"/file")))
	if err != nil || p.Name != name {
		t.Fatalf("the project is %+v, %v; want %s", p, err, name)
	}
	q, err := c.Quota(ctx, innerFD, p)
	if err != nil || q.Limits != limits || !q.Enforced || !q.RootToo || !q.CountsFiles || q.HasSoft || len(q.Around) > 0 {
		t.Fatalf("the quota is %+v, %v", q, err)
	}

	// The directory, inner and its file: two are left. The kernel's client refuses late.
	var files int
	until(t, "a file too many is refused", func() bool {
		err := os.WriteFile(fmt.Sprint(name, "/", files), nil, 0o600)
		if err == nil {
			files++
		} else if !errors.Is(err, unix.EDQUOT) {
			t.Fatal(err)
		}
		return err != nil
	})
	if files < 2 {
		t.Errorf("%d more files were taken, and there was room for 2", files)
	}
	t.Logf("%d more files were taken, and there was room for 2", files)
	limits.HardFiles = 0
	check(t, "no limit of files", c.SetQuota(ctx, innerFD, p, limits))

	written, err := fill(t, inner+"/large", 200*mib)
	if !errors.Is(err, unix.EDQUOT) {
		t.Fatalf("%d bytes went into a quota of %d: %v", written, limits.HardBytes, err)
	}
	t.Logf("%d KiB went into a quota of %d KiB", written>>10, limits.HardBytes>>10)

	// A limit of an inner directory is one more, whatever it is.
	check(t, "inner", c.SetQuota(ctx, innerFD, lustre.Project{}, lustre.Limits{HardBytes: 100 * mib}))
	until(t, "nothing is left", func() bool {
		q, err = c.Quota(ctx, innerFD, lustre.Project{})
		check(t, "Quota", err)
		left, ok := q.LeftBytes()
		return ok && left == 0
	})
	if q.Project.Name != inner || len(q.Around) != 1 || q.Around[0].Project.Name != name {
		t.Errorf("the quotas are %+v", q)
	}
	check(t, "raise", c.SetQuota(ctx, fd, lustre.Project{Name: name}, lustre.Limits{HardBytes: 200 * mib}))
	if n, err := fill(t, inner+"/large", mib); err != nil {
		t.Errorf("%d bytes went into a raised quota: %v", n, err)
	}
	check(t, "below what is used", c.SetQuota(ctx, fd, lustre.Project{}, lustre.Limits{HardBytes: 1}))
	check(t, "remove", c.SetQuota(ctx, fd, lustre.Project{}, lustre.Limits{}))
	check(t, "remove", c.SetQuota(ctx, innerFD, lustre.Project{}, lustre.Limits{}))
	if p, err := c.Project(ctx, innerFD); err != nil || p != (lustre.Project{}) {
		t.Errorf("the project is %+v, %v; want none", p, err)
	}
	if err := c.SetProject(ctx, innerFD, lustre.Project{Name: name}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a directory is put under another: %v", err)
	}
}

// until waits for what a CephFS knows late.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not even after 90 seconds: %s", what)
		}
	}
}

func TestRealUsage(t *testing.T) {
	name, fd := fresh(t)
	begun := time.Now().Add(-time.Minute)
	inner, _ := within(t, name+"/inner")
	for i := range 3 {
		check(t, "write", os.WriteFile(fmt.Sprint(inner, "/", i), make([]byte, 1000), 0o600))
	}
	check(t, "symlink", os.Symlink("0", inner+"/link"))
	var got Tree
	until(t, "it is counted", func() bool {
		var err error
		got, err = RecursiveUsage(fd)
		check(t, "RecursiveUsage", err)
		return got.Bytes >= 3000 && got.Files >= 4
	})
	if got.Files != 4 || got.Dirs != 1 || got.Bytes > 3100 || got.Changed.Before(begun) {
		t.Errorf("it holds %+v", got)
	}
	check(t, "remove", os.RemoveAll(inner))
	until(t, "it is empty", func() bool {
		got, err := RecursiveUsage(fd)
		return err == nil && got.Bytes == 0 && got.Files == 0 && got.Dirs == 0
	})
	if _, err := RecursiveUsage(opened(t, made(t, name+"/file"))); err == nil {
		t.Error("a file holds something")
	}
}

// A key that may not set layouts and quotas says so, and leaves no file.
func TestRealWithoutRight(t *testing.T) {
	user := place(t, "CEPH_MOUNT_USER")
	name, _ := fresh(t)
	dir := filepath.Join(user, filepath.Base(name))
	fd := opened(t, dir)
	c, ctx := Client{}, t.Context()
	for what, err := range map[string]error{
		"SetDefault": c.SetDefault(ctx, fd, striped(2, "")),
		"SetQuota":   c.SetQuota(ctx, fd, lustre.Project{}, lustre.Limits{HardFiles: 3}),
	} {
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "rwp") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.Create(ctx, fd, "file", unix.O_WRONLY, 0o600, striped(2, "")); !errors.Is(err, lustre.ErrNotApplied) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Create: %v", err)
	}
	if _, err := os.Lstat(dir + "/file"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was left: %v", err)
	}
}

// A quota above the mount can not be seen, but in how much room there is.
func TestRealBelow(t *testing.T) {
	const room = 100 << 20
	below, above := place(t, "CEPH_MOUNT_BELOW"), filepath.Dir(filepath.Join(place(t, "CEPH_MOUNT"), os.Getenv("CEPH_BELOW")))
	c, ctx := Client{}, t.Context()
	fd := opened(t, above)
	check(t, "SetQuota", c.SetQuota(ctx, fd, lustre.Project{}, lustre.Limits{HardBytes: room}))
	defer func() { check(t, "remove", c.SetQuota(ctx, fd, lustre.Project{}, lustre.Limits{})) }()
	here := opened(t, below)
	if p, err := c.Project(ctx, here); err != nil || p != (lustre.Project{}) {
		t.Errorf("the project is %+v, %v; want none", p, err)
	}
	until(t, "the quota is seen in the room there is", func() bool {
		targets, err := c.Targets(ctx, here)
		return err == nil && targets[0].TotalBytes == room
	})
	// Where the layout comes from can not be seen, but what it is.
	l, from, err := Default(ctx, here)
	if err != nil || from != "" || l.IsZero() {
		t.Errorf("the default is %+v from %q, %v", l, from, err)
	}
}

// What a directory is in is not what its mount at another name is in.
func TestRealBind(t *testing.T) {
	const mib = 1 << 20
	name, fd := fresh(t)
	c, ctx := Client{}, t.Context()
	inner, innerFD := within(t, name+"/inner")
	other, otherFD := within(t, name+"/other")
	bound, _ := within(t, other+"/bound")
	check(t, "SetQuota", c.SetQuota(ctx, otherFD, lustre.Project{}, lustre.Limits{HardBytes: mib}))
	check(t, "SetDefault", c.SetDefault(ctx, otherFD, striped(2, "")))
	check(t, "SetDefault", c.SetDefault(ctx, fd, striped(3, "")))
	check(t, "mount", unix.Mount(inner, bound, "", unix.MS_BIND, ""))
	defer func() { check(t, "umount", unix.Unmount(bound, unix.MNT_DETACH)) }()
	here := opened(t, bound)
	if q, err := c.Quota(ctx, here, lustre.Project{}); err != nil || len(q.Around) > 0 {
		t.Errorf("the quotas around are of another directory: %+v, %v", q.Around, err)
	}
	if p, err := c.Project(ctx, here); err != nil || p != (lustre.Project{}) {
		t.Errorf("the project is %+v, %v; want none", p, err)
	}
	want, _, err := Default(ctx, innerFD)
	check(t, "Default", err)
	got, from, err := Default(ctx, here)
	if diff := lustre.Same(&want, &got, 0); err != nil || diff != "" || from != "" {
		t.Errorf("the default is from %q, %v, %s", from, err, diff)
	}
}

func TestRealTogether(t *testing.T) {
	_, fd := fresh(t)
	c, ctx := Client{}, t.Context()
	var wg sync.WaitGroup
	for i := range int64(8) {
		wg.Go(func() {
			l := lustre.Limits{HardBytes: (i + 1) << 20, HardFiles: i + 1}
			if err := c.SetQuota(ctx, fd, lustre.Project{}, l); err != nil && !errors.Is(err, lustre.ErrNotApplied) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	q, err := c.Quota(ctx, fd, lustre.Project{})
	if err != nil || q.HardBytes>>20 != q.HardFiles || q.HardFiles < 1 || q.HardFiles > 8 {
		t.Errorf("the limits are of two: %+v, %v", q.Limits, err)
	}
}
