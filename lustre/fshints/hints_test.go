package fshints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/engine/recall"
	"datamove.dev/test/must"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// site is a Lustre of 16 OSTs, as whoever answers for it says.
type site struct {
	defaults  lustre.Layout // of the file system
	own       bool          // the directory has a default
	broken    error         // of Create
	silent    error         // of Cluster
	secret    error         // of the default of a directory
	made      []lustre.Layout
	asked     int // for the cluster
	directory int // for the default of a directory
	layout    lustre.Layout
	requests  [][]lustre.FID
	quota     lustre.Quota
}

func (s *site) Layout(_ context.Context, fd int) (lustre.Layout, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return lustre.Layout{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return s.layout, nil
	}
	if _, err := unix.Fgetxattr(fd, "lustre.lov", nil); errors.Is(err, unix.EBADF) { // as of a Lustre: O_PATH
		return lustre.Layout{}, err
	}
	if s.directory++; s.own || s.secret != nil {
		return s.defaults, s.secret
	}
	return lustre.Layout{}, lustre.ErrInherited
}

func (*site) SetDefault(context.Context, int, lustre.Layout) error { return errors.ErrUnsupported }

func (s *site) Create(_ context.Context, dir int, base string, flags int, mode uint32, l lustre.Layout) (int, error) {
	if s.broken != nil {
		return -1, s.broken
	}
	s.made = append(s.made, l)
	return unix.Openat(dir, base, flags, mode)
}

func (s *site) Cluster(context.Context, int) (lustre.Cluster, error) {
	if s.asked++; s.silent != nil {
		return lustre.Cluster{}, s.silent
	}
	c := lustre.Cluster{Name: "lab", Version: "2.17.0", Default: s.defaults, Can: lustre.Capabilities{Progressive: true, OnMDT: true, Overstripes: true}}
	for i := range 16 {
		c.OSTs = append(c.OSTs, lustre.Target{Kind: lustre.OST, Index: i, TotalBytes: 100 << 40, FreeBytes: 60 << 40})
	}
	return c, nil
}

func (s *site) State(context.Context, int) (lustre.HSMState, error) { return lustre.HSMState{}, nil }
func (*site) ID(_ context.Context, fd int) (lustre.FID, error) {
	return lustre.FID{Seq: 0x200000402, OID: uint32(fd)}, nil
}
func (s *site) Request(_ context.Context, _ int, a lustre.Action, _ uint32, files []lustre.FID) error {
	if a != lustre.Restore {
		return errors.New("not asked for")
	}
	s.requests = append(s.requests, files)
	return nil
}

func (s *site) Project(context.Context, int) (lustre.Project, error) { return s.quota.Project, nil }
func (*site) SetProject(context.Context, int, lustre.Project) error  { return errors.ErrUnsupported }
func (s *site) Quota(context.Context, int, lustre.Project) (lustre.Quota, error) {
	return s.quota, nil
}
func (*site) SetQuota(context.Context, int, lustre.Project, lustre.Limits) error {
	return errors.ErrUnsupported
}

// plain is a layout of one component.
func plain(count int) lustre.Layout {
	return lustre.Layout{Components: []lustre.Component{{End: lustre.EOF, Pattern: lustre.RAID0, StripeBytes: mib, StripeCount: count, FirstTarget: lustre.AnyTarget}}}
}

// of is who answers for a place on that site, in a directory of the machine.
// of is what a place on that file system asks, and a directory in it as places hold them.
func of(t *testing.T, s *site) (*answers, int) {
	t.Helper()
	dir := must.Get(unix.Open(t.TempDir(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	t.Cleanup(func() { _ = unix.Close(dir) })
	return &answers{s: &lustre.System{Kind: lustre.IsLustre, Mount: "/lustre", Layout: s, HSM: s, Quota: s}, root: dir, close: func() error { return nil }}, dir
}

// restriping is a site that can restripe.
type restriping struct {
	*site
	to   []lustre.Layout
	fail error
}

func (r *restriping) Restripe(_ context.Context, _ int, _ string, to lustre.Layout, _ lustre.RestripeOptions) error {
	if r.fail == nil {
		r.to = append(r.to, to)
	}
	return r.fail
}

// TestRestripe: the words of a policy become a layout, or the one that suits the file; who uses a file is not disturbed.
func TestRestripe(t *testing.T) {
	a, dir := of(t, &site{defaults: plain(1)})
	if err := a.Restripe(t.Context(), dir, "f", "count=4"); !errors.Is(err, mover.ErrUnsupported) {
		t.Errorf("where nobody can: %v", err)
	}
	r := &restriping{site: &site{defaults: plain(1)}}
	a.s.Layout = r
	fd, err := unix.Openat(dir, "f", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err == nil {
		err = errors.Join(unix.Ftruncate(fd, 20*gib), unix.Close(fd))
	}
	must.Do(t, err)
	for _, row := range []struct {
		words string
		fail  error
		want  error
		count int
	}{
		{"count=4 size=1MiB", nil, nil, 4},
		{"advised", nil, nil, 8},
		{"wide", nil, mover.ErrUsage, 0},
		{"count=4", lustre.ErrInUse, mover.ErrChanged, 0},
		{"count=4", lustre.ErrReleased, mover.ErrUnsupported, 0},
	} {
		r.to, r.fail = nil, row.fail
		err := a.Restripe(t.Context(), dir, "f", row.words)
		if row.want == nil && err != nil || row.want != nil && !errors.Is(err, row.want) {
			t.Errorf("%s: %v", row.words, err)
		}
		if len(r.to) != 0 != (row.count > 0) || row.count > 0 && stripesOf(&r.to[0], 20*gib) != row.count {
			t.Errorf("%s: %+v", row.words, r.to)
		}
	}
	if err := a.Restripe(t.Context(), dir, "none", "advised"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("what is not there: %v", err)
	}
}

// shelved is an HSM in which a file is as far as that.
type shelved struct {
	*site
	state lustre.Archived
	asked []lustre.Action
}

func (s *shelved) State(context.Context, int) (lustre.HSMState, error) {
	return lustre.HSMState{Archived: s.state}, nil
}

func (s *shelved) Request(_ context.Context, _ int, a lustre.Action, _ uint32, files []lustre.FID) error {
	if s.asked = append(s.asked, a); len(files) != 1 {
		return errors.New("one file was meant")
	}
	return nil
}

// TestRelease: only what is in the archive as it is here is released.
func TestRelease(t *testing.T) {
	a, dir := of(t, &site{})
	for _, row := range []struct {
		state lustre.Archived
		want  error
		asked int
	}{
		{lustre.HasCopy | lustre.WholeCopy, nil, 1},
		{lustre.HasCopy | lustre.WholeCopy | lustre.ReleasedState, nil, 0},
		{0, mover.ErrConflict, 0},
		{lustre.HasCopy, mover.ErrConflict, 0},
		{lustre.HasCopy | lustre.WholeCopy | lustre.Dirty, mover.ErrConflict, 0},
		{lustre.HasCopy | lustre.WholeCopy | lustre.Lost, mover.ErrConflict, 0},
		{lustre.HasCopy | lustre.WholeCopy | lustre.NoRelease, mover.ErrConflict, 0},
	} {
		h := &shelved{site: &site{}, state: row.state}
		a.s.HSM = h
		if err := a.Release(t.Context(), dir); row.want == nil && err != nil || row.want != nil && !errors.Is(err, row.want) || len(h.asked) != row.asked {
			t.Errorf("%b: %v, asked for %v", row.state, err, h.asked)
		}
		if row.asked > 0 && h.asked[0] != lustre.Release {
			t.Errorf("asked for %v", h.asked)
		}
	}
	a.s.HSM = nil
	if err := a.Release(t.Context(), dir); !errors.Is(err, mover.ErrUnsupported) {
		t.Errorf("without an archive: %v", err)
	}
}

// TestCreate: which files get a layout of their own, and how many stripes it has.
//
//safety:1 with lustre/client TestCreateLeavesNothing
func TestCreate(t *testing.T) {
	for _, c := range []struct {
		what    string
		site    site
		file    mover.NewFile
		stripes int // 0 is made in the usual way
	}{
		{"a small file", site{defaults: plain(1)}, mover.NewFile{Size: mib}, 0},
		{"a small file where the default is wide", site{defaults: plain(lustre.AllTargets)}, mover.NewFile{Size: mib}, 1},
		{"a large file", site{defaults: plain(1)}, mover.NewFile{Size: 20 * gib}, 8},
		{"a large file that would get what is advised", site{defaults: plain(8)}, mover.NewFile{Size: 20 * gib}, 0},
		{"a large file, and a directory that has a default of its own", site{defaults: plain(1), own: true}, mover.NewFile{Size: 20 * gib}, 0},
		{"the layout of the source", site{defaults: plain(1), own: true}, mover.NewFile{Size: mib, Layout: text(t, plain(3))}, 3},
		{"a layout that is none", site{defaults: plain(1)}, mover.NewFile{Size: 20 * gib, Layout: []byte("{")}, 0},
		{"a layout that Lustre would refuse", site{defaults: plain(1)}, mover.NewFile{Layout: text(t, plain(5000))}, 0},
		{"a file system that does not do it", site{defaults: plain(1), broken: lustre.ErrNotApplied}, mover.NewFile{Size: 20 * gib}, 0},
		{"a call that is forbidden", site{defaults: plain(1), broken: unix.EACCES}, mover.NewFile{Size: 20 * gib}, 0},
		{"targets that can not be asked", site{defaults: plain(4), silent: unix.EIO}, mover.NewFile{Size: 20 * gib}, 0},
		{"a directory that can not be asked", site{defaults: plain(1), secret: unix.EIO}, mover.NewFile{Size: 20 * gib}, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			a, dir := of(t, &c.site)
			fd, err := a.Create(dir, "file", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600, c.file)
			if c.stripes == 0 {
				if !errors.Is(err, mover.ErrUnsupported) || len(c.site.made) > 0 {
					t.Errorf("%v; made %v", err, c.site.made)
				}
				if (errors.Join(c.site.broken, c.site.silent, c.site.secret) != nil) != (len(a.Notes()) > 0) && c.file.Layout == nil {
					t.Errorf("notes: %q", a.Notes())
				}
				return
			}
			must.Do(t, err)
			defer unix.Close(fd)
			if got := c.site.made[0].Components; got[len(got)-1].StripeCount != c.stripes {
				t.Errorf("made with %+v, want %d stripes", got, c.stripes)
			}
			if _, err := a.Create(dir, "file", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600, c.file); !errors.Is(err, unix.EEXIST) {
				t.Errorf("the same name once more: %v", err)
			}
		})
	}
}

func text(t *testing.T, l lustre.Layout) []byte {
	t.Helper()
	b := must.Get(json.Marshal(l))(t)
	return b
}

// TestAskedSeldom: what costs calls to servers is not asked for each file.
func TestAskedSeldom(t *testing.T) {
	s := &site{defaults: plain(1)}
	a, dir := of(t, s)
	for range 100 {
		if _, ok := a.layoutFor(dir, mover.NewFile{Size: 20 * gib}); !ok {
			t.Fatal("no layout")
		}
	}
	if s.asked != 1 || s.directory != 1 {
		t.Errorf("the cluster was asked for %d times, the directory %d times", s.asked, s.directory)
	}
}

// TestAskedInVain: what can not be asked is not asked for each file, and what was known before holds.
func TestAskedInVain(t *testing.T) {
	s := &site{defaults: plain(1), secret: unix.EIO}
	a, dir := of(t, s)
	for range 100 {
		if _, ok := a.layoutFor(dir, mover.NewFile{Size: 20 * gib}); ok {
			t.Fatal("a layout, though the directory may have another one")
		}
	}
	if s.asked != 1 || s.directory != 1 || len(a.Notes()) != 1 {
		t.Errorf("the cluster was asked for %d times, the directory %d times; notes %q", s.asked, s.directory, a.Notes())
	}
	s = &site{defaults: plain(1)}
	a, dir = of(t, s)
	for _, silent := range []error{nil, unix.EIO} {
		s.silent, a.asked = silent, time.Time{}
		if l, ok := a.layoutFor(dir, mover.NewFile{Size: 20 * gib}); !ok || l.Components[0].StripeCount != 8 {
			t.Errorf("when the cluster says %v: %+v, %v", silent, l, ok)
		}
	}
	if s.asked != 2 || len(a.Notes()) != 1 {
		t.Errorf("asked %d times, notes %q", s.asked, a.Notes())
	}
}

// TestHostileLayout: a layout that somebody else told is looked at before it counts.
func TestHostileLayout(t *testing.T) {
	a, dir := of(t, &site{defaults: plain(1)})
	for _, text := range []string{
		`{"components":[{"start":0,"pattern":"raid0","stripe_bytes":4611686018427387904,"stripe_count":3}]}`,
		`{"components":[{"start":0,"pattern":"raid0","stripe_bytes":65536,"stripe_count":-7}]}`, `{"components":[]}`, `7`, ``,
	} {
		f := mover.NewFile{Size: gib, Layout: []byte(text)}
		if l, ok := a.layoutFor(dir, f); ok {
			t.Errorf("%s: %+v", text, l)
		}
	}
}

// TestKeptOnCephFS: names of pools that are none on a Lustre are names all the same, such as
// that of the pool that ceph fs volume create makes.
func TestKeptOnCephFS(t *testing.T) {
	s := &site{defaults: plain(1)}
	a, dir := of(t, s)
	a.s.Kind = lustre.IsCephFS
	l := plain(3)
	l.Components[0].Pool = "cephfs.cephfs.data"
	f := mover.NewFile{Size: gib, Layout: text(t, l)}
	if got, ok := a.layoutFor(dir, f); !ok || got.Components[0].Pool != "cephfs.cephfs.data" {
		t.Errorf("%+v, %v; notes %q", got, ok, a.Notes())
	}
}

// TestMultiple: parts fit to the layout that the file has, whoever gave it to it, where it
// ends; and there are many of them.
func TestMultiple(t *testing.T) {
	s := &site{layout: lustre.Layout{Components: []lustre.Component{
		{ID: 1, End: 64 * mib, Pattern: lustre.RAID0, StripeBytes: mib, StripeCount: 1, Flags: lustre.Initialised},
		{ID: 2, Start: 64 * mib, End: lustre.EOF, Pattern: lustre.RAID0, StripeBytes: mib, StripeCount: 5, Flags: lustre.Initialised},
	}}}
	a, _ := of(t, s)
	f := file(t, 0)
	for size, want := range map[int64]int64{0: mib, 64 * mib: 8 * mib, gib: 65 * mib, 200 * mib: 15 * mib} {
		if got := a.Multiple(int(f.Fd()), size); got != want {
			t.Errorf("of %d bytes: a part is a multiple of %d MiB, want %d", size, got/mib, want/mib)
		}
	}
	s.layout = lustre.Layout{}
	if got := a.Multiple(int(f.Fd()), gib); got != 0 {
		t.Errorf("without a layout: %d", got)
	}
}

// TestLayoutTravels: what Layout says of a source, Create takes; where it lies does not travel.
func TestLayoutTravels(t *testing.T) {
	s := &site{layout: lustre.Layout{Generation: 7, Components: []lustre.Component{
		{ID: 1, End: 64 * mib, Pattern: lustre.RAID0, StripeBytes: mib, StripeCount: 1, Pool: "flash", Flags: lustre.Initialised, Objects: []lustre.Object{{Target: 3}}},
		{ID: 2, Start: 64 * mib, End: lustre.EOF, Pattern: lustre.RAID0, StripeBytes: 4 * mib, StripeCount: 4, Flags: lustre.Initialised, Objects: make([]lustre.Object, 4)},
	}}}
	a, dir := of(t, s)
	f := file(t, 100*mib)
	layout, width, err := a.Layout(int(f.Fd()))
	if err != nil || width != 16*mib {
		t.Fatalf("width %d, %v", width, err)
	}
	fd, err := a.Create(dir, "copy", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600, mover.NewFile{Size: 100 * mib, Layout: layout})
	must.Do(t, err)
	defer unix.Close(fd)
	made := s.made[0]
	if d := lustre.Same(&s.layout, &made, 16); d != "" {
		t.Error(d)
	}
	for _, c := range made.Components {
		if len(c.Objects) > 0 || c.FirstTarget != lustre.AnyTarget || c.Flags != 0 {
			t.Errorf("it would lie where the source lies: %+v", c)
		}
	}
}

func file(t *testing.T, size int64) *os.File {
	t.Helper()
	f := must.Get(os.CreateTemp(t.TempDir(), ""))(t)
	t.Cleanup(func() { _ = f.Close() })
	must.Do(t, f.Truncate(size))
	return f
}

// TestAway: the layout of a released file says so, and all of them are asked for together.
func TestAway(t *testing.T) {
	s := &site{layout: plain(4)}
	a, _ := of(t, s)
	f, g := file(t, mib), file(t, mib)
	if away, err := a.Away(int(f.Fd())); away || err != nil {
		t.Errorf("away %v, %v", away, err)
	}
	s.layout.Components[0].Flags |= lustre.Released
	if away, err := a.Away(int(f.Fd())); !away || err != nil {
		t.Errorf("away %v, %v", away, err)
	}
	if err := a.Recall(t.Context(), []int{int(f.Fd()), int(g.Fd())}); err != nil || len(s.requests) != 1 || len(s.requests[0]) != 2 {
		t.Errorf("%v; requests %v", err, s.requests)
	}
	a.s.HSM = nil
	if away, err := a.Away(int(f.Fd())); away || err != nil {
		t.Errorf("without HSM: away %v, %v", away, err)
	}
	if err := a.Recall(t.Context(), nil); !errors.Is(err, mover.ErrUnsupported) {
		t.Errorf("without HSM: %v", err)
	}
}

// shelf is a Lustre whose files are released until they were asked for, and then for one look more.
type shelf struct {
	*site
	mu       sync.Mutex
	released map[uint32]int // by the number in the FID, which is that of the inode here: looks that are left; -1 is not asked for
	most     int
}

func (s *shelf) ID(_ context.Context, fd int) (lustre.FID, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return lustre.FID{Seq: 0x200000402, OID: uint32(st.Ino)}, err
}

func (s *shelf) Layout(ctx context.Context, fd int) (lustre.Layout, error) {
	id, err := s.ID(ctx, fd)
	l := plain(4)
	s.mu.Lock()
	defer s.mu.Unlock()
	if left, is := s.released[id.OID]; is && left != 0 {
		l.Components[0].Flags |= lustre.Released
		if left > 0 {
			s.released[id.OID]--
		}
	}
	return l, err
}

func (s *shelf) Request(_ context.Context, _ int, a lustre.Action, _ uint32, files []lustre.FID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range files {
		if s.released[id.OID] != -1 || a != lustre.Restore {
			return errors.New("it was not released")
		}
		s.released[id.OID] = 1
	}
	s.requests, s.most = append(s.requests, files), max(s.most, len(files))
	return nil
}

// TestRecallInBatches: a tree of which only the names were imported comes back through a place of this file system, in batches of what the place holds open for one request.
func TestRecallInBatches(t *testing.T) {
	dir, s := t.TempDir(), &shelf{site: &site{}, released: map[uint32]int{}}
	for i := range 150 {
		name := filepath.Join(dir, fmt.Sprintf("%03d", i))
		must.Do(t, os.WriteFile(name, []byte("content"), 0o644))
		var st unix.Stat_t
		must.Do(t, unix.Stat(name, &st))
		if i%3 > 0 {
			s.released[uint32(st.Ino)] = -1
		}
	}
	p, err := posix.Open(dir, posix.Options{FileSystem: func(root int) (mover.FileSystem, error) {
		return &answers{s: &lustre.System{Kind: lustre.IsLustre, Mount: "/lustre", Layout: s, HSM: s}, root: root, close: func() error { return nil }}, nil
	}})
	must.Do(t, err)
	defer p.Close()
	r, err := recall.Run(t.Context(), p, recall.Options{})
	if err != nil || r.Files != 150 || r.Asked != 100 || r.Back != 100 || r.BackBytes != 700 {
		t.Errorf("%+v, %v", r, err)
	}
	if len(s.requests) != 2 || s.most > 64 {
		t.Errorf("%d requests of up to %d files", len(s.requests), s.most)
	}
	if r, err := recall.Run(t.Context(), p, recall.Options{}); err != nil || r.Asked != 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
}

// TestLeft: what root may write where the file system would let it.
func TestLeft(t *testing.T) {
	project := lustre.Project{ID: 4242, Inherit: true}
	limits := lustre.Limits{HardBytes: 64 * mib}
	for _, c := range []struct {
		what  string
		quota lustre.Quota
		held  bool
		want  mover.Room
		ok    bool
	}{
		{"root is not held", lustre.Quota{Project: project, Limits: limits, UsedBytes: 60 * mib, Enforced: true}, false, mover.Room{Bytes: 4 * mib, Files: -1}, true},
		{"more than there may be", lustre.Quota{Project: project, Limits: limits, UsedBytes: 70 * mib, Enforced: true}, false, mover.Room{Bytes: 0, Files: -1}, true},
		{"files only", lustre.Quota{Project: project, Limits: lustre.Limits{HardFiles: 10}, UsedFiles: 3, Enforced: true}, false, mover.Room{Bytes: -1, Files: 7}, true},
		{"root is held, too", lustre.Quota{Project: project, Limits: limits, Enforced: true, RootToo: true}, false, mover.Room{}, false},
		{"nobody is held", lustre.Quota{Project: project, Limits: limits}, false, mover.Room{}, false},
		{"no limit", lustre.Quota{Project: project, Enforced: true}, false, mover.Room{}, false},
		{"no project", lustre.Quota{Limits: limits, Enforced: true}, false, mover.Room{}, false},
		{"a user", lustre.Quota{Project: project, Limits: limits, UsedBytes: 60 * mib, Enforced: true}, true, mover.Room{}, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			a, dir := of(t, &site{quota: c.quota})
			a.held = c.held
			got, ok, err := a.Left(dir)
			if err != nil || ok != c.ok || got.Bytes != c.want.Bytes || got.Files != c.want.Files {
				t.Errorf("%+v, %v, %v", got, ok, err)
			}
			if ok && !strings.Contains(got.Why, "project 4242 on /lustre") {
				t.Errorf("why: %s", got.Why)
			}
		})
	}
}

// TestOverdraws: root of a container is held to quotas as anybody, when it has not what it takes.
func TestOverdraws(t *testing.T) {
	told := func() bool {
		text, err := os.ReadFile("/proc/thread-self/status")
		_, sets, ok := strings.Cut(string(text), "\nCapEff:")
		effective, parseErr := strconv.ParseUint(strings.Fields(sets)[0], 16, 64)
		if err != nil || !ok || parseErr != nil {
			t.Error(err, parseErr)
		}
		return effective&(1<<unix.CAP_SYS_RESOURCE) != 0
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with what it lost
		if got := overdraws(); got != told() {
			t.Errorf("%v, the kernel has it otherwise", got)
		}
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var sets [2]unix.CapUserData
		err := unix.Capget(&header, &sets[0])
		sets[0].Effective &^= 1 << unix.CAP_SYS_RESOURCE
		if err := errors.Join(err, unix.Capset(&header, &sets[0])); err != nil || overdraws() || told() {
			t.Errorf("without CAP_SYS_RESOURCE it is thought to be beyond quotas, or: %v", err)
		}
	}()
	<-done
}

// TestOf: a file system of which nothing is to be said has nobody.
func TestOf(t *testing.T) {
	dir, err := unix.Open("/dev/shm", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("needs /dev/shm: ", err)
	}
	defer unix.Close(dir)
	if fs, err := Of(dir); fs != nil || err != nil {
		t.Errorf("%v, %v", fs, err)
	}
}

// TestPart: parts are whole widths, as large as is advised where a file has many of them.
func TestPart(t *testing.T) {
	for _, c := range []struct{ size, advised, width, want int64 }{
		{20 * gib, 256 * mib, 32 * mib, 256 * mib},
		{gib, 256 * mib, 32 * mib, 128 * mib},
		{200 * mib, 64 * mib, 4 * mib, 16 * mib},
		{100 * mib, 64 * mib, 4 * mib, 8 * mib},
		{mib, 64 * mib, 4 * mib, 4 * mib},
		{gib, 256 * mib, 0, 0},
	} {
		if got := part(c.size, c.advised, c.width); got != c.want {
			t.Errorf("of %d bytes, %d advised, width %d: %d, want %d", c.size, c.advised, c.width, got, c.want)
		}
	}
}
