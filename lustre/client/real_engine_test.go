package client_test

import (
	"bytes"
	"cmp"
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
	"datamove.dev/lustre/detect"
	"datamove.dev/lustre/fshints"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
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
	dir, err := os.MkdirTemp(cmp.Or(os.Getenv("LUSTRE_DIR"), mount), "datamove-engine-")
	if err != nil {
		t.Fatalf("%v (LUSTRE_DIR names a directory of that Lustre which you may write)", err)
	}
	t.Cleanup(func() {
		must.Tell(t, os.RemoveAll(dir))
	})
	return mount, dir
}

// realClient asks that Lustre.
func realClient(t *testing.T, mount string) *client.Client {
	t.Helper()
	c := must.Get(client.Open(mount))(t)
	t.Cleanup(func() {
		must.Tell(t, c.Close())
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
func place(_ context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
	return posix.Open(l.Path, posix.Options{Create: o.Write, StateDir: o.StateDir, Layouts: o.Layouts, FileSystem: fshints.Of})
}

// realCopy copies a tree by the engine.
func realCopy(t *testing.T, r engine.Request, source, target string) (engine.Report, error) {
	t.Helper()
	r.Work, r.StateDir = engine.Copy, t.TempDir()
	r.Source, r.Target = location.Location{Scheme: location.POSIX, Path: source}, location.Location{Scheme: location.POSIX, Path: target}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	task := must.Get(engine.Start(ctx, r, place))(t)
	return task.Wait()
}

// TestRealSystem: who does not know what is mounted finds a Lustre, by any directory of it,
// and every question has an answer.
func TestRealSystem(t *testing.T) {
	_, dir := realDir(t)
	path := filepath.Join(dir, "data")
	must.Do(t, os.WriteFile(path, make([]byte, 3*mib), 0o600))
	h, err := detect.Open(dir, detect.Options{})
	must.Do(t, err)
	defer func() {
		must.Tell(t, h.Close())
	}()
	s := h.System
	if s.Kind != lustre.IsLustre || s.Layout == nil || s.Quota == nil || s.Usage == nil || s.HSM == nil || s.Change == nil {
		t.Fatalf("%+v", s)
	}
	moved, ok := s.Layout.(lustre.Restriper)
	if !ok {
		t.Fatal("it moves no content to other layouts")
	}
	cluster, err := s.Layout.Cluster(t.Context(), h.FD())
	must.Do(t, err)
	wanted := lustre.Layout{Components: []lustre.Component{{
		End: lustre.EOF, Pattern: lustre.RAID0, StripeBytes: 2 * mib, StripeCount: min(2, len(cluster.OSTs)), FirstTarget: lustre.AnyTarget,
	}}}
	var done int64
	o := lustre.RestripeOptions{Progress: func(bytes, _ int64) { done = bytes }}
	err = moved.Restripe(t.Context(), h.FD(), "data", wanted, o)
	if os.Geteuid() != 0 && errors.Is(err, lustre.ErrNotApplied) {
		t.Skip("needs a user who may give layouts: ", err)
	}
	if err != nil || done != 3*mib {
		t.Errorf("restripe: %v, %d bytes told", err, done)
	}
}

// TestRealPlace: the contract of a place.
func TestRealPlace(t *testing.T) {
	_, dir := realDir(t)
	backendtest.Run(t, func(t *testing.T) func() mover.Backend {
		at := must.Get(os.MkdirTemp(dir, "place-"))(t)
		return func() mover.Backend {
			p := must.Get(posix.Open(at, posix.Options{StateDir: t.TempDir(), FileSystem: fshints.Of}))(t)
			return p
		}
	})
}

// sparse makes a file of that size with some bytes at its beginning and its end.
func sparse(t *testing.T, path string, size int64) []byte {
	t.Helper()
	b := make([]byte, 64<<10)
	_, _ = rand.Read(b)
	f := must.Get(os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644))(t)
	_, err1 := f.WriteAt(b, 0)
	_, err2 := f.WriteAt(b, size-int64(len(b)))
	must.Do(t, errors.Join(err1, err2, f.Close()))
	return b
}

// TestRealLayoutOfCopies: a large file gets the layout that is advised, where nobody gave
// its directory another one, or that of its source where that is asked for.
func TestRealLayoutOfCopies(t *testing.T) {
	mount, dir := realDir(t)
	c := realClient(t, mount)
	source := t.TempDir()
	content := sparse(t, filepath.Join(source, "large"), 20*gib)
	must.Do(t, os.WriteFile(filepath.Join(source, "small"), content, 0o644))
	layoutOf := func(path string) lustre.Layout {
		l := must.Get(c.Layout(t.Context(), realOpen(t, path, client.OpenToAsk)))(t)
		return l
	}

	root := realOpen(t, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if l, err := c.Layout(t.Context(), root); !errors.Is(err, lustre.ErrInherited) {
		t.Skipf("needs a directory without a default of its own (LUSTRE_DIR): %+v, %v", l, err)
	}
	cluster := must.Get(c.Cluster(t.Context(), root))(t)
	advised := filepath.Join(dir, "advised")
	if report, err := realCopy(t, engine.Request{}, source, advised); err != nil {
		t.Fatalf("%v; %+v", err, report)
	}
	got, want := layoutOf(filepath.Join(advised, "large")), lustre.Advise(lustre.Request{Bytes: 20 * gib, Use: lustre.Dataset}, cluster)
	stripes := func(l *lustre.Layout) int { return len(l.Components[len(l.Components)-1].Objects) }
	switch d := lustre.Same(&want.Layout, &got, len(cluster.OSTs)); {
	case d != "" && stripes(&got) == min(want.Layout.Components[len(want.Layout.Components)-1].StripeCount, len(cluster.OSTs)):
		t.Logf("note: what is usual here has as many stripes as is advised, and was left: %s", d)
	case d != "":
		t.Errorf("large: %s; advised was %+v, and it has %+v", d, want.Layout, got)
	}
	if b, err := os.ReadFile(filepath.Join(advised, "small")); err != nil || !bytes.Equal(b, content) {
		t.Errorf("small has another content (%v)", err)
	}

	own := filepath.Join(dir, "own")
	must.Do(t, os.Mkdir(own, 0o755))
	two := lustre.Layout{Components: []lustre.Component{{End: lustre.EOF, Pattern: lustre.RAID0, StripeBytes: 2 * mib, StripeCount: 2, FirstTarget: lustre.AnyTarget}}}
	must.Do(t, c.SetDefault(t.Context(), realOpen(t, own, unix.O_RDONLY|unix.O_DIRECTORY), two))
	if report, err := realCopy(t, engine.Request{}, source, own); err != nil {
		t.Fatalf("%v; %+v", err, report)
	}
	for _, name := range []string{"large", "small"} {
		if got := layoutOf(filepath.Join(own, name)); lustre.Same(&two, &got, len(cluster.OSTs)) != "" {
			t.Errorf("%s in a directory with a default of its own has %+v", name, got)
		}
	}

	kept := filepath.Join(dir, "kept")
	if report, err := realCopy(t, engine.Request{Preserve: mover.AllFacts | mover.FactLayout}, own, kept); err != nil {
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
	must.Do(t, os.Mkdir(target, 0o755))
	fd := realOpen(t, target, unix.O_RDONLY|unix.O_DIRECTORY)
	project := lustre.Project{ID: 900_000 + uint32(os.Getpid())%100_000, Inherit: true}
	must.Do(t, c.SetProject(t.Context(), fd, project))
	must.Do(t, c.SetQuota(t.Context(), fd, project, lustre.Limits{HardBytes: 8 * mib}))
	defer func() {
		must.Tell(t, c.SetQuota(context.Background(), fd, project, lustre.Limits{}))
	}()
	if q, err := c.Quota(t.Context(), fd, project); err != nil || !q.Enforced {
		t.Skipf("needs quotas of projects that are enforced (%+v, %v)", q, err)
	}
	source := t.TempDir()
	for i := range 16 {
		must.Do(t, os.WriteFile(filepath.Join(source, fmt.Sprint(i)), make([]byte, 2*mib), 0o644))
	}
	report, err := realCopy(t, engine.Request{OnNoSpace: engine.NoSpaceFail, Reflink: engine.ReflinkNever}, source, target)
	if q, _ := c.Quota(t.Context(), fd, project); !q.Enforced { // what it holds by now tells
		t.Skipf("needs quotas of projects that are enforced (%+v)", q)
	}
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

// askedOf is the answer to a question about a file. It is open for that long only: what is
// open anywhere is not released. Nothing is restored by it.
func askedOf[T any](t *testing.T, dir int, name string, question func(context.Context, int) (T, error)) T {
	t.Helper()
	fd, err := unix.Openat(dir, name, client.OpenToAsk, 0)
	if err != nil {
		t.Fatal(name, err)
	}
	answer, err := question(t.Context(), fd)
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		t.Fatal(name, err)
	}
	return answer
}

// serveArchive runs our copytool until the test ends.
func serveArchive(t *testing.T, mount string, archive uint32) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	tool := copytool.New(copytool.Options{Mount: mount, Archives: []uint32{archive}, Archive: directory(t.TempDir())})
	served := make(chan error, 1)
	go func() { served <- tool.Run(ctx) }()
	select {
	case err := <-served:
		stop()
		if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EEXIST) {
			t.Skip("needs HSM on the MDT, and a mount without another copytool: ", err)
		}
		t.Fatal(err)
	case <-time.After(time.Second): // it is registered, or will say why not
	}
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("the copytool ended with %v", err)
		}
	})
}

// TestRealReleased: released files are restored by our copytool, and moved then; or left
// out; or they fail. Nobody reads one.
func TestRealReleased(t *testing.T) {
	mount, dir := realDir(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	c := realClient(t, mount)
	archive := client.ArchiveNumber(t)
	serveArchive(t, mount, archive)
	source := filepath.Join(dir, "source")
	must.Do(t, os.Mkdir(source, 0o755))
	content := make([]byte, 3*mib)
	_, _ = rand.Read(content)
	h, at := c.HSM(), realOpen(t, source, unix.O_RDONLY|unix.O_DIRECTORY)
	const files = 20
	var ids [files]lustre.FID
	for i := range files {
		must.Do(t, os.WriteFile(filepath.Join(source, fmt.Sprint(i)), content[:len(content)>>(i%8)], 0o644))
		ids[i] = askedOf(t, at, fmt.Sprint(i), c.FID)
	}
	if err := h.Request(t.Context(), at, lustre.Archive, archive, ids[:]); err != nil {
		t.Skipf("needs HSM on the MDT: %v", err)
	}
	end := time.Now().Add(2 * time.Minute)
	for i := range files {
		s := askedOf(t, at, fmt.Sprint(i), h.State)
		for !s.Archived.Has(lustre.WholeCopy) && time.Now().Before(end) {
			time.Sleep(50 * time.Millisecond)
			s = askedOf(t, at, fmt.Sprint(i), h.State)
		}
		switch {
		case s.Archived.Has(lustre.WholeCopy) && s.Archived&lustre.Dirty == 0:
		case s.Doing == lustre.Archive && !s.Running:
			t.Skipf("needs an MDT that gives actions to copytools (lctl set_param mdt.*.hsm_control=enabled): %d is %+v", i, s)
		default:
			t.Fatalf("the copytool did not archive %d: %+v", i, s)
		}
	}
	// One half as whoever has the archive asks, the other as who has looked at the content.
	must.Do(t, h.Request(t.Context(), at, lustre.Release, archive, ids[:files/2]))
	for i := files / 2; i < files; i++ {
		version := askedOf(t, at, fmt.Sprint(i), c.DataVersion)
		if err := h.Release(t.Context(), at, fmt.Sprint(i), version+1); !errors.Is(err, lustre.ErrChanged) {
			t.Errorf("release of another version: %v; want %v", err, lustre.ErrChanged)
		}
		must.Do(t, h.Release(t.Context(), at, fmt.Sprint(i), version))
	}
	for i := range files {
		if s := askedOf(t, at, fmt.Sprint(i), h.State); !s.NeedsRestore() {
			t.Errorf("%d was released, and is %+v", i, s)
		}
	}

	report, err := realCopy(t, engine.Request{Released: engine.ReleasedFail}, source, t.TempDir())
	if !errors.Is(err, mover.ErrReleased) || report.Failed != files {
		t.Errorf("fail: %v, %d failed", err, report.Failed)
	}
	if report, err = realCopy(t, engine.Request{Released: engine.ReleasedSkip}, source, t.TempDir()); err != nil || report.Files != 0 || len(report.Notes) == 0 {
		t.Errorf("skip: %v, %+v", err, report)
	}
	target := t.TempDir()
	if report, err = realCopy(t, engine.Request{}, source, target); err != nil || report.Files != files {
		t.Errorf("restore: %v, %+v", err, report)
	}
	for i := range files {
		b, err := os.ReadFile(filepath.Join(target, fmt.Sprint(i)))
		if err != nil || !bytes.Equal(b, content[:len(content)>>(i%8)]) {
			t.Errorf("%d has another content (%v)", i, err)
		}
	}
}
