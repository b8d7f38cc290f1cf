package client

import (
	"errors"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

func TestProject(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.mkdir(t, "d")
	c := newClient(t, f)
	dir := f.openDir(t, "d")
	if p, err := c.Project(t.Context(), dir); err != nil || p != (lustre.Project{}) {
		t.Errorf("%+v, %v; want none", p, err)
	}
	must.Do(t, c.SetProject(t.Context(), dir, lustre.Project{ID: 4242}))
	// By the descriptor that was open before: it tells the old project and the new flags.
	if p, err := c.Project(t.Context(), dir); err != nil || p != (lustre.Project{ID: 4242, Inherit: true}) {
		t.Errorf("%+v, %v; want 4242, for what is made in it, too", p, err)
	}
	fd := must.Get(f.openat(dir, "file", unix.O_CREAT|unix.O_RDWR, 0o600))(t)
	defer func() { _ = f.close(fd) }()
	if p, err := c.Project(t.Context(), fd); err != nil || p != (lustre.Project{ID: 4242}) {
		t.Errorf("a file in it: %+v, %v", p, err)
	}
	f.root.children["d"].children["file"].project = 7
	if p, err := c.Project(t.Context(), fd); err != nil || p.ID != 7 {
		t.Errorf("a file that was put elsewhere: %+v, %v", p, err)
	}
	if err := c.SetProject(t.Context(), fd, lustre.Project{ID: 1}); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("of a file: %v; want ENOTDIR", err)
	}
	f.lies["ioctl 0x401c5820"] = true
	if err := c.SetProject(t.Context(), dir, lustre.Project{ID: 5}); !errors.Is(err, lustre.ErrNotApplied) {
		t.Errorf("done, and not: %v; want not applied", err)
	}
	delete(f.lies, "ioctl 0x401c5820")
	f.user = true
	if err := c.SetProject(t.Context(), dir, lustre.Project{ID: 5}); !errors.Is(err, unix.EPERM) {
		t.Errorf("by a user: %v; want EPERM", err)
	}
	f.fails["ioctl 0x801c581f"] = unix.ENOTTY
	if _, err := c.Project(t.Context(), dir); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v; want unsupported", err)
	}
}

func TestProjectOfWhatCanNotBeOpened(t *testing.T) {
	t.Parallel()
	f := newFake()
	c := newClient(t, f)
	dir := f.openDir(t, ".")
	f.fails["openat"] = unix.EACCES
	f.root.project = 9
	if p, err := c.Project(t.Context(), dir); err != nil || p.ID != 0 {
		t.Errorf("%+v, %v; want what the old descriptor knows", p, err)
	}
}

// A device is not opened to be asked something.
func TestProjectOfDevices(t *testing.T) {
	t.Parallel()
	f := newFake()
	c := newClient(t, f)
	fd := f.openDir(t, ".")
	f.root.mode = unix.S_IFCHR | 0o600
	f.fails["openat"] = errors.New("it was opened")
	if _, err := c.Project(t.Context(), fd); err != nil {
		t.Error(err)
	}
	f.root.mode = unix.S_IFDIR | 0o755
}

func TestQuota(t *testing.T) {
	t.Parallel()
	f := newFake()
	c := newClient(t, f)
	project := lustre.Project{ID: 4242}
	unknown, err := c.Quota(t.Context(), c.root, project)
	if err != nil || unknown.Limits != (lustre.Limits{}) || unknown.UsedBytes != 0 {
		t.Errorf("a project that it has never heard of: %+v, %v; want nothing", unknown, err)
	}
	want := lustre.Limits{SoftBytes: 48 << 20, HardBytes: 64 << 20, SoftFiles: 90, HardFiles: 100}
	must.Do(t, c.SetQuota(t.Context(), c.root, project, want))
	f.quotas[4242].UsedBytes, f.quotas[4242].UsedInodes = 59400<<10, 5
	f.quotas[4242].BlockTime = 1_800_000_000
	q, err := c.Quota(t.Context(), c.root, project)
	if err != nil || q.Limits != want || q.UsedBytes != 59400<<10 || q.UsedFiles != 5 || !q.BytesUntil.Equal(time.Unix(1_800_000_000, 0)) || !q.FilesUntil.IsZero() {
		t.Errorf("%+v, %v", q, err)
	}
	if !q.Enforced || q.RootToo || !q.CountsFiles || !q.HasSoft {
		t.Errorf("%+v; want enforced, but for root", q)
	}
	if len(q.Targets) != 4 || q.Targets[0] != (lustre.TargetQuota{Target: "lab-OST0000_UUID", UsedBytes: 59400 << 10, GrantedBytes: 59400<<10 + 1<<20}) {
		t.Errorf("what each OST holds: %+v", q.Targets)
	}
	if left, ok := q.LeftBytes(); !ok || left != 64<<20-59400<<10 {
		t.Errorf("left %d, %v", left, ok)
	}
	if q, err := c.Quota(t.Context(), c.root, lustre.Project{}); err != nil || !q.BytesUntil.IsZero() || !q.FilesUntil.IsZero() {
		t.Errorf("outside of a project: over since %v, %v: %v", q.BytesUntil, q.FilesUntil, err)
	}
	f.inactive["lab-OST0001_UUID"] = true
	if q, err := c.Quota(t.Context(), c.root, project); err != nil || len(q.Targets) != 3 {
		t.Errorf("with an OST that does not answer: %+v, %v", q.Targets, err)
	}
}

// Limits of files are held by MDTs, and only they know whether they are. Where they are, who
// copies as root has to look by itself.
func TestQuotaOfFilesOnly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		used             uint64
		countsOnly, want bool
	}{{90, false, true}, {90, true, false}, {0, true, true}} {
		f := newFake()
		f.countsOnly = tt.countsOnly
		f.quotas[7] = &uapi.Quotactl{HardInodes: 100, UsedInodes: tt.used}
		f.inactive["lab-MDT0001_UUID"] = true
		c := newClient(t, f)
		q, err := c.Quota(t.Context(), c.root, lustre.Project{ID: 7})
		if left, ok := q.LeftFiles(); err != nil || q.Enforced != tt.want || !ok || left != int64(100-tt.used) {
			t.Errorf("%+v: enforced %v, left %d, %v", tt, q.Enforced, left, err)
		}
	}
}

// A pool can be full for a project that has room, or no other limit at all.
func TestQuotaOfPools(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.pools["p2"] = []int{2}
	f.params["proc/fs/lustre/lov/lab-clilov-"+fakeInstance+"/pools/p2"] = &fstest.MapFile{Data: []byte("lab-OST0002_UUID\n")}
	f.params["proc/fs/lustre/lov/lab-clilov-"+fakeInstance+"/pools/gone"] = &fstest.MapFile{Data: []byte("lab-OST0003_UUID\n")}
	c := newClient(t, f)
	ask := func() []lustre.TargetQuota {
		t.Helper()
		q, err := c.Quota(t.Context(), c.root, lustre.Project{ID: 7})
		if left, limited := q.LeftBytes(); err != nil || limited {
			t.Errorf("%d bytes left, %v: a limit in a pool is none of the project", left, err)
		}
		return q.Targets
	}
	f.poolQuotas = map[string]uapi.Quotactl{"p1": {HardKiB: 64 << 10, SoftKiB: 32 << 10, UsedBytes: 64 << 20}}
	full := lustre.TargetQuota{Target: "p1", Pool: true, UsedBytes: 64 << 20, GrantedBytes: 64 << 20}
	if got := ask(); !slices.Equal(got, []lustre.TargetQuota{full}) {
		t.Errorf("%+v; want the one pool that has a limit", got)
	}
	f.poolQuotas["p2"] = uapi.Quotactl{SoftKiB: 1, UsedBytes: 5}
	if got := ask(); len(got) != 2 || got[1] != (lustre.TargetQuota{Target: "p2", Pool: true, UsedBytes: 5, GrantedBytes: 1024}) {
		t.Errorf("%+v; want the soft limit of p2, too", got)
	}
	f.poolQuotas = nil
	if got := ask(); len(got) != 0 {
		t.Errorf("%+v of servers that know none", got)
	}
	f.poolQuotas = map[string]uapi.Quotactl{"p1": {HardKiB: 1}}
	if got := ask(); len(got) != 0 {
		t.Errorf("%+v: who was refused does not ask again, because servers write that down each time", got)
	}
}

// Accounting without enforcement: OSTs hold something, and were granted nothing.
func TestQuotaThatIsNotEnforced(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		targets []lustre.TargetQuota
		want    bool
	}{
		{[]lustre.TargetQuota{{UsedBytes: 1 << 30}, {}}, false},
		{[]lustre.TargetQuota{{UsedBytes: 1 << 30, GrantedBytes: 1 << 31}, {}}, true},
		{[]lustre.TargetQuota{{}, {}}, true},
		{nil, true},
	} {
		if got := enforced(&lustre.Quota{Targets: tt.targets}); got != tt.want {
			t.Errorf("%+v: enforced %v; want %v", tt.targets, got, tt.want)
		}
	}
}

func TestSetQuotaKeepsTheOtherHalf(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.quotas[7] = &uapi.Quotactl{HardKiB: 1024, SoftKiB: 512, HardInodes: 10, SoftInodes: 5}
	c := newClient(t, f)
	real := f.ioctls[uapi.IocQuotactl]
	var valid []uint32
	f.ioctls[uapi.IocQuotactl] = func(h *handle, arg []byte, at []pointer) (int, error) {
		if q, err := uapi.DecodeQuotactl(arg); err == nil && q.Command == uapi.SetQuota {
			valid = append(valid, q.Valid)
		}
		return real(h, arg, at)
	}
	project, limits := lustre.Project{ID: 7}, lustre.Limits{SoftBytes: 512 << 10, HardBytes: 1 << 20, SoftFiles: 5, HardFiles: 20}
	for range 2 { // the second time there is nothing to set
		must.Do(t, c.SetQuota(t.Context(), c.root, project, limits))
	}
	limits.HardBytes = 2<<20 + 1
	must.Do(t, c.SetQuota(t.Context(), c.root, project, limits))
	if len(valid) != 2 || valid[0] != uapi.ValidInodeLimits || valid[1] != uapi.ValidBlockLimits {
		t.Errorf("what was said to be valid: %v; want the half that changes", valid)
	}
	if q := f.quotas[7]; q.HardKiB != 2049 || q.SoftKiB != 512 || q.HardInodes != 20 {
		t.Errorf("%+v", q)
	}
}

func TestSetQuotaRefused(t *testing.T) {
	t.Parallel()
	f := newFake()
	c := newClient(t, f)
	for name, tt := range map[string]struct {
		id     uint32
		limits lustre.Limits
		harm   func()
		want   error
	}{
		"soft above hard":         {1, lustre.Limits{SoftBytes: 2, HardBytes: 1}, func() {}, nil},
		"less than nothing":       {1, lustre.Limits{HardFiles: -1}, func() {}, nil},
		"the project of the rest": {0, lustre.Limits{HardFiles: 1}, func() {}, nil},
		"done, and not": {1, lustre.Limits{HardFiles: 1}, func() {
			real := f.ioctls[uapi.IocQuotactl]
			f.ioctls[uapi.IocQuotactl] = func(h *handle, arg []byte, at []pointer) (int, error) {
				if q, err := uapi.DecodeQuotactl(arg); err == nil && q.Command == uapi.SetQuota {
					return 0, nil
				}
				return real(h, arg, at)
			}
		}, lustre.ErrNotApplied},
		"by a user":           {2, lustre.Limits{HardFiles: 1}, func() { f.user = true }, unix.EPERM},
		"where there is none": {3, lustre.Limits{HardFiles: 1}, func() { f.fails["ioctl 0xc0b066a2"] = unix.ENOTTY }, errors.ErrUnsupported},
	} {
		f.fails, f.user, f.ioctls[uapi.IocQuotactl] = map[string]error{}, false, f.ioctlQuota
		tt.harm()
		if err := c.SetQuota(t.Context(), c.root, lustre.Project{ID: tt.id}, tt.limits); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v; want %v", name, err, tt.want)
		}
	}
}
