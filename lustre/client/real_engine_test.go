package client_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/client"
	"datamove.dev/lustre/copytool"
	"datamove.dev/lustre/hints"
	"datamove.dev/mover"
	"datamove.dev/mover/local"
	"datamove.dev/mover/location"
	"datamove.dev/mover/placetest"
	"datamove.dev/mover/posix"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// realDir is a new directory on the Lustre of the environment.
func realDir(t *testing.T) (mount, dir string) {
	t.Helper()
	mount = os.Getenv("LUSTRE_MOUNT")
	if mount == "" {
		t.Skip("elsewhere: make lustre-test: needs a mounted Lustre: LUSTRE_MOUNT=/mnt/lustre")
	}
	dir, err := os.MkdirTemp(mount, "datamove-engine-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return mount, dir
}

// realClient asks that Lustre.
func realClient(t *testing.T, mount string) *client.Client {
	t.Helper()
	c, err := client.Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func realOpen(t *testing.T, path string, flags int) int {
	t.Helper()
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// place opens a directory as the commands do.
func place(_ context.Context, l location.Location, o local.OpenOptions) (mover.Place, error) {
	return posix.Open(l.Path, posix.Options{Create: o.Write, StateDir: o.StateDir, Layouts: o.Layouts, FileSystem: hints.Of})
}

// realCopy copies a tree by the engine.
func realCopy(t *testing.T, r local.Request, source, target string) (local.Report, error) {
	t.Helper()
	r.Work, r.StateDir = local.Copy, t.TempDir()
	r.Source, r.Target = location.Location{Scheme: location.POSIX, Path: source}, location.Location{Scheme: location.POSIX, Path: target}
	task, err := local.Start(t.Context(), r, place)
	if err != nil {
		t.Fatal(err)
	}
	return task.Wait()
}

// TestRealPlace: the contract of a place.
func TestRealPlace(t *testing.T) {
	_, dir := realDir(t)
	placetest.Run(t, func(t *testing.T) func() mover.Place {
		at, err := os.MkdirTemp(dir, "place-")
		if err != nil {
			t.Fatal(err)
		}
		return func() mover.Place {
			p, err := posix.Open(at, posix.Options{StateDir: t.TempDir(), FileSystem: hints.Of})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
	})
}

// sparse makes a file of that size with some bytes at its beginning and its end.
func sparse(t *testing.T, path string, size int64) []byte {
	t.Helper()
	b := make([]byte, 64<<10)
	_, _ = rand.Read(b)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := f.WriteAt(b, 0)
	_, err2 := f.WriteAt(b, size-int64(len(b)))
	if err := errors.Join(err1, err2, f.Close()); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRealLayoutOfCopies: a large file gets the layout that is advised, where nobody gave
// its directory another one, or that of its source where that is asked for.
func TestRealLayoutOfCopies(t *testing.T) {
	mount, dir := realDir(t)
	c := realClient(t, mount)
	source := t.TempDir()
	content := sparse(t, filepath.Join(source, "large"), 20*gib)
	if err := os.WriteFile(filepath.Join(source, "small"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	cluster, err := c.Cluster(t.Context(), realOpen(t, dir, unix.O_RDONLY|unix.O_DIRECTORY))
	if err != nil {
		t.Fatal(err)
	}
	layoutOf := func(path string) lustre.Layout {
		l, err := c.Layout(t.Context(), realOpen(t, path, client.OpenToAsk))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}

	advised := filepath.Join(dir, "advised")
	if report, err := realCopy(t, local.Request{}, source, advised); err != nil {
		t.Fatalf("%v; %+v", err, report)
	}
	got, want := layoutOf(filepath.Join(advised, "large")), lustre.Advise(lustre.Request{Bytes: 20 * gib, Use: lustre.Dataset}, cluster)
	if d := lustre.Same(&want.Layout, &got, len(cluster.OSTs)); d != "" {
		t.Errorf("large: %s; advised was %+v, and it has %+v", d, want.Layout, got)
	}
	if b, err := os.ReadFile(filepath.Join(advised, "small")); err != nil || !bytes.Equal(b, content) {
		t.Errorf("small has another content (%v)", err)
	}

	own := filepath.Join(dir, "own")
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	two := lustre.Layout{Components: []lustre.Component{{End: lustre.EOF, Pattern: lustre.RAID0, StripeBytes: 2 * mib, StripeCount: 2, FirstTarget: lustre.AnyTarget}}}
	if err := c.SetDefault(t.Context(), realOpen(t, own, unix.O_RDONLY|unix.O_DIRECTORY), two); err != nil {
		t.Fatal(err)
	}
	if report, err := realCopy(t, local.Request{}, source, own); err != nil {
		t.Fatalf("%v; %+v", err, report)
	}
	for _, name := range []string{"large", "small"} {
		if got := layoutOf(filepath.Join(own, name)); lustre.Same(&two, &got, len(cluster.OSTs)) != "" {
			t.Errorf("%s in a directory with a default of its own has %+v", name, got)
		}
	}

	kept := filepath.Join(dir, "kept")
	if report, err := realCopy(t, local.Request{Preserve: mover.AllFacts | mover.FactLayout}, own, kept); err != nil {
		t.Fatalf("%v; %+v", err, report)
	}
	for _, name := range []string{"large", "small"} {
		if got := layoutOf(filepath.Join(kept, name)); lustre.Same(&two, &got, len(cluster.OSTs)) != "" {
			t.Errorf("%s, whose layout was to be kept, has %+v", name, got)
		}
	}
}

// TestRealQuotaOfRoot: Lustre does not hold root to the quota of a project, so the engine does.
func TestRealQuotaOfRoot(t *testing.T) {
	mount, dir := realDir(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	c := realClient(t, mount)
	target := filepath.Join(dir, "project")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	fd := realOpen(t, target, unix.O_RDONLY|unix.O_DIRECTORY)
	project := lustre.Project{ID: 900_000 + uint32(os.Getpid())%100_000, Inherit: true}
	if err := c.SetProject(t.Context(), fd, project); err != nil {
		t.Fatal(err)
	}
	if err := c.SetQuota(t.Context(), fd, project, lustre.Limits{HardBytes: 8 * mib}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.SetQuota(context.Background(), fd, project, lustre.Limits{}) }()
	if q, err := c.Quota(t.Context(), fd, project); err != nil || !q.Enforced {
		t.Skipf("needs quotas of projects that are enforced (%+v, %v)", q, err)
	}
	source := t.TempDir()
	for i := range 16 {
		if err := os.WriteFile(filepath.Join(source, fmt.Sprint(i)), make([]byte, 2*mib), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	report, err := realCopy(t, local.Request{OnFull: local.FullFail, Reflink: local.ReflinkNever}, source, target)
	if !errors.Is(err, mover.ErrFull) || !strings.Contains(err.Error(), "project") {
		t.Errorf("32 MiB into a project of 8: %v, %+v", err, report)
	}
}

// directory is an archive in a directory.
type directory string

func (d directory) at(key string) string {
	return filepath.Join(string(d), strings.ReplaceAll(key, "/", "_"))
}

func (d directory) Put(ctx context.Context, c copytool.Copy) error {
	to, err := os.Create(d.at(c.Key) + ".new")
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.NewSectionReader(c.File, 0, c.Size))
	if err = errors.Join(err, to.Close()); err == nil && c.Mine != nil {
		err = c.Mine(ctx)
	}
	if err != nil {
		return err
	}
	return os.Rename(d.at(c.Key)+".new", d.at(c.Key))
}

func (d directory) Get(_ context.Context, c copytool.Copy) error {
	from, err := os.Open(d.at(c.Key))
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(io.NewOffsetWriter(c.File, 0), from)
	return errors.Join(err, c.File.Sync())
}

func (d directory) Delete(_ context.Context, key string) error { return os.Remove(d.at(key)) }

// TestRealReleased: released files are restored by our copytool, and moved then; or left
// out; or they fail. Nobody reads one.
func TestRealReleased(t *testing.T) {
	mount, dir := realDir(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	c := realClient(t, mount)
	ctx, stop := context.WithCancel(t.Context())
	tool := copytool.New(copytool.Options{Mount: mount, Archives: []uint32{1}, Archive: directory(t.TempDir())})
	served := make(chan error, 1)
	go func() { served <- tool.Run(ctx) }()
	defer func() {
		stop()
		if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the copytool ended with %v", err)
		}
	}()
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 3*mib)
	_, _ = rand.Read(content)
	var ids []lustre.FID
	root := realOpen(t, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	files := map[string]int{}
	for i := range 20 {
		path := filepath.Join(source, fmt.Sprint(i))
		if err := os.WriteFile(path, content[:len(content)>>(i%8)], 0o644); err != nil {
			t.Fatal(err)
		}
		fd := realOpen(t, path, client.OpenToAsk)
		id, err := c.FID(t.Context(), fd)
		if err != nil {
			t.Fatal(err)
		}
		ids, files[path] = append(ids, id), fd
	}
	until := func(want, without lustre.Archived) {
		t.Helper()
		end := time.Now().Add(2 * time.Minute)
		for path := range files {
			for {
				s, err := c.HSM().State(t.Context(), files[path])
				if err == nil && s.Archived.Has(want) && s.Archived&without == 0 {
					break
				}
				if time.Now().After(end) {
					t.Skipf("needs HSM on the MDT (lctl set_param mdt.*.hsm_control=enabled): %s is %+v, %v", path, s, err)
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
	}
	if err := c.HSM().Request(t.Context(), root, lustre.Archive, 1, ids); err != nil {
		t.Skipf("needs HSM on the MDT: %v", err)
	}
	until(lustre.WholeCopy, lustre.Dirty)
	for _, fd := range files { // nobody releases what is open
		_ = unix.Close(fd)
	}
	if err := c.HSM().Request(t.Context(), root, lustre.Release, 1, ids); err != nil {
		t.Fatal(err)
	}

	report, err := realCopy(t, local.Request{Released: local.ReleasedFail}, source, t.TempDir())
	if !errors.Is(err, mover.ErrReleased) || report.Failed != 20 {
		t.Errorf("fail: %v, %d failed", err, report.Failed)
	}
	if report, err = realCopy(t, local.Request{Released: local.ReleasedSkip}, source, t.TempDir()); err != nil || report.Files != 0 || len(report.Notes) == 0 {
		t.Errorf("skip: %v, %+v", err, report)
	}
	target := t.TempDir()
	if report, err = realCopy(t, local.Request{}, source, target); err != nil || report.Files != 20 {
		t.Errorf("restore: %v, %+v", err, report)
	}
	for i := range 20 {
		b, err := os.ReadFile(filepath.Join(target, fmt.Sprint(i)))
		if err != nil || !bytes.Equal(b, content[:len(content)>>(i%8)]) {
			t.Errorf("%d has another content (%v)", i, err)
		}
	}
}
