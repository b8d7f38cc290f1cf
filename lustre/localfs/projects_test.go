package localfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// projectSystem is a file system with project quotas, and how it is made and mounted.
type projectSystem struct {
	kind            lustre.Kind
	enforced, count loopfs.Spec
	rootToo         bool
	full            error // of a write beyond a hard limit
}

var withProjects = []projectSystem{
	{lustre.IsExt4,
		loopfs.Spec{Type: "ext4", Make: []string{"-q", "-O", "quota,project", "-E", "quotatype=prjquota"}, Options: "prjquota", Rare: true},
		loopfs.Spec{Type: "ext4", Make: []string{"-q", "-O", "quota,project", "-E", "quotatype=prjquota"}, Rare: true},
		false, unix.EDQUOT},
	{lustre.IsXFS,
		loopfs.Spec{Type: "xfs", Make: []string{"-q"}, Options: "prjquota", Rare: true},
		loopfs.Spec{Type: "xfs", Make: []string{"-q"}, Options: "pqnoenforce", Rare: true},
		true, unix.ENOSPC},
}

// onEach runs a test on each file system with project quotas, asked in both ways.
func onEach(t *testing.T, run func(t *testing.T, dir string, q *Projects, f projectSystem)) {
	for _, f := range withProjects {
		for way, byDevice := range map[string]bool{"by descriptor": false, "by device": true} {
			t.Run(string(f.kind)+" "+way, func(t *testing.T) {
				dir := mountedWithQuotas(t, f.enforced)
				run(t, dir, asked(t, f.kind, dir, byDevice), f)
			})
		}
	}
}

// mountedWithQuotas skips where a mount takes the option and does nothing, too.
func mountedWithQuotas(t *testing.T, spec loopfs.Spec) string {
	t.Helper()
	dir := loopfs.Mount(t, spec)
	if _, _, err := asked(t, lustre.Kind(spec.Type), dir, false).state(opened(t, dir)); err != nil {
		loopfs.SkipRare(t, "this kernel has no quotas for "+spec.Type+": "+err.Error())
	}
	return dir
}

// asked answers for what is mounted on dir. A name that is not its device is passed over.
func asked(t *testing.T, kind lustre.Kind, dir string, byDevice bool) *Projects {
	t.Helper()
	var st unix.Stat_t
	must.Do(t, unix.Stat(dir, &st))
	s := &lustre.System{Kind: kind}
	Answer(s, fmt.Sprintf("/dev/loop%d", unix.Minor(st.Dev)))
	p := s.Quota.(*Projects)
	p.byDevice = byDevice
	return p
}

// under makes a directory of a project.
func under(t *testing.T, q lustre.Quotas, path string, id uint32) lustre.Project {
	t.Helper()
	p := lustre.Project{ID: id, Inherit: true}
	must.Do(t, os.Mkdir(path, 0o755))
	must.Do(t, q.SetProject(t.Context(), opened(t, path), p))
	return p
}

func TestProjectsHoldLimits(t *testing.T) {
	onEach(t, func(t *testing.T, dir string, q *Projects, f projectSystem) {
		p := under(t, q, dir+"/p", 77)
		fd := opened(t, dir)
		if got := quotaOf(t, q, fd, p); got.HardBytes != 0 || !got.Enforced || !got.CountsFiles || !got.HasSoft || got.UsedFiles != 1 || got.Doubt != "" {
			t.Errorf("an empty project: %+v", got)
		}
		holdLimit(t, q, dir+"/p", p, f.rootToo, f.full)
	})
}

// TestProjectsFiles: the number of files is held, too.
func TestProjectsFiles(t *testing.T) {
	onEach(t, func(t *testing.T, dir string, q *Projects, f projectSystem) {
		p := under(t, q, dir+"/p", 78)
		fd := opened(t, dir)
		must.Do(t, os.Chmod(dir+"/p", 0o777))
		must.Do(t, q.SetQuota(t.Context(), fd, p, lustre.Limits{HardFiles: 5}))
		asNobody(t, func() {
			for i := range 4 { // the directory is one
				must.Do(t, os.WriteFile(fmt.Sprint(dir, "/p/", i), nil, 0o644))
			}
			if err := os.WriteFile(dir+"/p/5", nil, 0o644); !errors.Is(err, f.full) {
				t.Errorf("the sixth file: %v", err)
			}
		})
		if got := quotaOf(t, q, fd, p); got.UsedFiles != 5 || got.HardFiles != 5 {
			t.Errorf("it is %+v", got)
		}
		if err := os.WriteFile(dir+"/p/root", nil, 0o644); errors.Is(err, f.full) != f.rootToo {
			t.Errorf("root makes a file: %v", err)
		}
	})
}

// TestProjectsSoft: a soft limit holds after its grace, and the time is told.
func TestProjectsSoft(t *testing.T) {
	onEach(t, func(t *testing.T, dir string, q *Projects, _ projectSystem) {
		p := under(t, q, dir+"/p", 79)
		fd := opened(t, dir)
		want := lustre.Limits{SoftBytes: 2 * mib, HardBytes: 20 * mib, SoftFiles: 2, HardFiles: 100}
		must.Do(t, q.SetQuota(t.Context(), fd, p, want))
		if got := quotaOf(t, q, fd, p); got.Limits != want || !got.BytesUntil.IsZero() || !got.FilesUntil.IsZero() {
			t.Errorf("before it is passed: %+v", got)
		}
		must.Do(t, os.Chmod(dir+"/p", 0o777))
		asNobody(t, func() { must.Do(t, write(dir+"/p/f", 3*mib)); must.Do(t, write(dir+"/p/g", 1)) })
		got := quotaOf(t, q, fd, p)
		for what, when := range map[string]time.Time{"bytes": got.BytesUntil, "files": got.FilesUntil} {
			if left := time.Until(when); left < time.Hour || left > 30*24*time.Hour {
				t.Errorf("the grace of %s ends in %v", what, left)
			}
		}
		if got := quotaOf(t, q, fd, lustre.Project{}); !got.BytesUntil.IsZero() || !got.FilesUntil.IsZero() {
			t.Errorf("outside of a project nothing is passed: %v, %v", got.BytesUntil, got.FilesUntil)
		}
	})
}

// TestProjectsCounted: without enforcement it is said that nothing is held.
func TestProjectsCounted(t *testing.T) {
	for _, f := range withProjects {
		t.Run(string(f.kind), func(t *testing.T) {
			dir := mountedWithQuotas(t, f.count)
			q := asked(t, f.kind, dir, false)
			p := under(t, q, dir+"/p", 80)
			fd := opened(t, dir)
			must.Do(t, q.SetQuota(t.Context(), fd, p, lustre.Limits{HardBytes: mib}))
			must.Do(t, os.Chmod(dir+"/p", 0o777))
			asNobody(t, func() { must.Do(t, write(dir+"/p/f", 3*mib)) })
			if got := quotaOf(t, q, fd, p); got.Enforced || got.RootToo || got.UsedBytes < 3*mib || got.HardBytes != mib {
				t.Errorf("it is %+v", got)
			}
		})
	}
}

// TestProjectsAndUsers: who may not is told what is missing, and numbers have ends.
func TestProjectsAndUsers(t *testing.T) {
	onEach(t, func(t *testing.T, dir string, q *Projects, _ projectSystem) {
		p := under(t, q, dir+"/p", 81)
		fd := opened(t, dir)
		asNobody(t, func() {
			_, err := q.Quota(t.Context(), fd, p)
			refused(t, err, fs.ErrPermission, "CAP_SYS_ADMIN")
			refused(t, q.SetQuota(t.Context(), fd, p, lustre.Limits{}), fs.ErrPermission, "CAP_SYS_ADMIN")
			_, err = q.Quota(t.Context(), opened(t, dir+"/p"), lustre.Project{ID: 82})
			refused(t, err, fs.ErrPermission, "CAP_SYS_ADMIN")
		})
		for _, id := range []uint32{0, math.MaxUint32} {
			refused(t, q.SetQuota(t.Context(), fd, lustre.Project{ID: id}, lustre.Limits{HardBytes: mib}), fs.ErrInvalid, "from 1 to")
		}
		for _, id := range []uint32{1, 1 << 31, MaxProject} {
			p := lustre.Project{ID: id}
			if got := quotaOf(t, q, fd, p); got.UsedBytes != 0 || got.HardBytes != 0 {
				t.Errorf("nobody's project %d is %+v", id, got)
			}
			must.Do(t, q.SetQuota(t.Context(), fd, p, lustre.Limits{HardBytes: mib + 1, HardFiles: 3}))
			if got := quotaOf(t, q, fd, p); got.HardBytes < mib+1 || got.HardBytes > mib+64<<10 || got.HardFiles != 3 {
				t.Errorf("project %d is %+v", id, got)
			}
		}
	})
}

// TestProjectsSeen: a user is told of the project of a directory what statfs has.
func TestProjectsSeen(t *testing.T) {
	onEach(t, func(t *testing.T, dir string, q *Projects, f projectSystem) {
		p := under(t, q, dir+"/p", 83)
		must.Do(t, os.MkdirAll(dir+"/p/a/b", 0o755))
		must.Do(t, os.WriteFile(dir+"/p/f", make([]byte, 3*mib), 0o644))
		told := func(path string) (got lustre.Quota) {
			asNobody(t, func() {
				var err error
				got, err = q.Quota(t.Context(), opened(t, path), p)
				if err != nil || got.Doubt == "" {
					t.Errorf("%+v, %v", got, err)
				}
			})
			return got
		}
		if got := told(dir + "/p"); got.Limits != (lustre.Limits{}) || got.Enforced {
			t.Errorf("without limits it is %+v", got)
		}
		must.Do(t, q.SetQuota(t.Context(), opened(t, dir), p, lustre.Limits{HardBytes: 8 * mib, HardFiles: 50}))
		for _, path := range []string{dir + "/p", dir + "/p/a/b"} {
			got := told(path)
			if got.HardBytes != 8*mib || got.HardFiles != 50 || got.UsedBytes < 3*mib || got.UsedBytes > 4*mib || got.UsedFiles != 4 || !got.Enforced || got.RootToo != f.rootToo {
				t.Errorf("%s is told as %+v", path, got)
			}
		}
		asNobody(t, func() { // of a file, statfs has the whole file system
			_, err := q.Quota(t.Context(), opened(t, dir+"/p/f"), p)
			refused(t, err, fs.ErrPermission)
		})
	})
}

// TestProjectsTogether: changes of different projects do not disturb each other.
func TestProjectsTogether(t *testing.T) {
	onEach(t, func(t *testing.T, dir string, q *Projects, _ projectSystem) {
		fd := opened(t, dir)
		var all sync.WaitGroup
		for i := range 8 {
			p := under(t, q, fmt.Sprint(dir, "/", i), uint32(100+i))
			all.Go(func() {
				for n := range 20 {
					must.Tell(t, q.SetQuota(t.Context(), fd, p, lustre.Limits{HardBytes: int64(i*100+n+1) * mib}))
				}
				if got, err := q.Quota(t.Context(), fd, p); err != nil || got.HardBytes != int64(i*100+20)*mib {
					t.Errorf("%d has %+v, %v", i, got, err)
				}
			})
		}
		all.Wait()
	})
}

// TestProjectsOfAnotherDevice: a name that the table of mounts has for a device, and that
// is another one, is not asked.
func TestProjectsOfAnotherDevice(t *testing.T) {
	dir, other := loopfs.Mount(t, loopfs.Spec{Type: "xfs", Make: []string{"-q"}}), loopfs.Mount(t, loopfs.Spec{Type: "xfs", Make: []string{"-q"}})
	q := asked(t, lustre.IsXFS, other, true)
	if name, err := q.special(opened(t, dir)); name == q.device {
		t.Errorf("%s is said to be on %s, %v", dir, name, err)
	}
	q.device = "/dev/null"
	if name, err := q.special(opened(t, dir)); name == q.device {
		t.Errorf("%s is said to be on %s, %v", dir, name, err)
	}
	q = asked(t, lustre.IsXFS, dir, true)
	if name, err := q.special(opened(t, dir)); name != q.device || err != nil {
		t.Errorf("it is on %s: %v", name, err)
	}
}

// TestProjectsSwitchedOff: IDs are there, and quotas are told to be off.
func TestProjectsSwitchedOff(t *testing.T) {
	dir := loopfs.Mount(t, loopfs.Spec{Type: "xfs", Make: []string{"-q"}})
	for _, byDevice := range []bool{false, true} {
		q := asked(t, lustre.IsXFS, dir, byDevice)
		_, err := q.Quota(t.Context(), opened(t, dir), lustre.Project{ID: 1})
		refused(t, err, errors.ErrUnsupported, "prjquota", dir)
		refused(t, q.SetQuota(t.Context(), opened(t, dir), lustre.Project{ID: 1}, lustre.Limits{HardBytes: 1}), errors.ErrUnsupported, "prjquota")
	}
	memory := opened(t, t.TempDir())
	if _, err := asked(t, lustre.IsExt4, dir, false).Project(t.Context(), memory); err != nil {
		refused(t, err, errors.ErrUnsupported)
	}
	if _, err := asked(t, lustre.IsExt4, dir, false).Project(t.Context(), -1); !errors.Is(err, unix.EBADF) {
		t.Errorf("no descriptor: %v", err)
	}
}
