package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

// writeTo names the file that a process started by a test writes 16 MiB to.
const writeTo = "DATAMOVE_WRITE_TO"

// TestRealWriter is that process: it says what writing ended with.
func TestRealWriter(t *testing.T) {
	path := os.Getenv(writeTo)
	if path == "" {
		t.Skip("elsewhere: make lustre-test: needs to be started by TestRealQuota")
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must.Do(t, err)
	for range 16 {
		if _, err = f.Write(make([]byte, mib)); err != nil {
			break
		}
	}
	err = errors.Join(err, f.Sync(), f.Close())
	if errors.Is(err, unix.EDQUOT) {
		t.Log("refused: EDQUOT")
	} else {
		t.Logf("written: %v", err)
	}
}

// writeAs writes 16 MiB to a file as a user, and returns what that says.
func (s *site) writeAs(uid uint32, path string) string {
	s.t.Helper()
	program, err := os.Executable()
	must.Do(s.t, err)
	ctx, stop := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, program, "-test.v", "-test.run=^TestRealWriter$")
	cmd.Env = append(os.Environ(), writeTo+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Logf("note: a process of user %d: %v", uid, err)
	}
	return string(out)
}

// setProject skips where the storage of servers has no room for projects.
func (s *site) setProject(dir int, p lustre.Project) {
	s.t.Helper()
	err := s.SetProject(s.t.Context(), dir, p)
	if errors.Is(err, errors.ErrUnsupported) {
		s.t.Skip("needs servers that know projects (tune2fs -O project -Q prjquota): ", err)
	}
	must.Do(s.t, err)
}

func TestRealProject(t *testing.T) {
	s := onLustre(t)
	dir := s.mkdir("d")
	project := lustre.Project{ID: 800_000 + uint32(os.Getpid())%100_000, Inherit: true}
	if os.Geteuid() != 0 {
		if err := s.SetProject(t.Context(), dir, project); !errors.Is(err, unix.EPERM) {
			t.Errorf("by a user: %v; want EPERM", err)
		}
		if _, err := s.Project(t.Context(), dir); err != nil {
			t.Error(err)
		}
		return
	}
	s.setProject(dir, project)
	if p, err := s.Project(t.Context(), dir); err != nil || p != project { // by the descriptor of before
		t.Errorf("%+v, %v; want %+v", p, err, project)
	}
	b := make([]byte, uapi.SizeFSXattr)
	if _, err := s.k.ioctl(dir, uapi.IocGetFSXattr, b); err != nil {
		t.Error(err)
	} else if x, err := uapi.DecodeFSXattr(b); err == nil {
		s.note(x.Project != project.ID, "a descriptor of before tells the old project")
	}
	if p, err := s.Project(t.Context(), s.open("d/file", unix.O_CREAT|unix.O_RDWR)); err != nil || p.ID != project.ID {
		t.Errorf("a file in it: %+v, %v", p, err)
	}
	if p, err := s.Project(t.Context(), s.mkdir("d/sub")); err != nil || p != project {
		t.Errorf("a directory in it: %+v, %v", p, err)
	}
	named := uapi.NamedProject{Name: "file"}
	if arg, err := named.Encode(); err != nil {
		t.Error(err)
	} else if _, err := s.k.ioctl(dir, uapi.IocNamedProject, arg); err != nil {
		t.Errorf("by name: %v", err)
	} else if got, err := uapi.DecodeNamedProject(arg); err != nil || got.ID != project.ID {
		t.Errorf("by name: %+v, %v", got, err)
	}
}

func TestRealQuota(t *testing.T) {
	s := onLustre(t)
	dir := s.mkdir("d")
	project := lustre.Project{ID: 600_000 + uint32(os.Getpid())%100_000, Inherit: true}
	want := lustre.Limits{SoftBytes: 4 * mib, HardBytes: 8 * mib, SoftFiles: 5, HardFiles: 10}
	if q, err := s.Quota(t.Context(), dir, project); err != nil || q.Limits != (lustre.Limits{}) || q.UsedBytes != 0 {
		t.Errorf("a project that nobody has heard of: %+v, %v", q, err)
	}
	if os.Geteuid() != 0 {
		if err := s.SetQuota(t.Context(), dir, project, want); !errors.Is(err, unix.EPERM) {
			t.Errorf("by a user: %v; want EPERM", err)
		}
		return
	}
	s.setProject(dir, project)
	must.Do(t, s.SetQuota(t.Context(), dir, project, want))
	defer func() {
		must.Tell(t, s.SetQuota(context.Background(), dir, project, lustre.Limits{}))
	}()
	q, err := s.Quota(t.Context(), dir, project)
	if err != nil || q.Limits != want {
		t.Fatalf("%+v, %v; want %+v", q, err, want)
	}
	more := want
	more.HardFiles = 20 // one half, and the other stays
	must.Tell(t, s.SetQuota(t.Context(), dir, project, more))
	if q, err := s.Quota(t.Context(), dir, project); err != nil || q.Limits != more {
		t.Errorf("%+v, %v; want %+v", q, err, more)
	}
	var st unix.Statfs_t
	must.Tell(t, unix.Fstatfs(s.open("d", unix.O_RDONLY|unix.O_DIRECTORY), &st))
	s.note(int64(st.Blocks)*st.Bsize == more.SoftBytes && int64(st.Files) == more.SoftFiles,
		fmt.Sprintf("statfs of the directory of a project tells its quota: %d bytes, %d files", int64(st.Blocks)*st.Bsize, st.Files))
	s.overQuota(project)
	if _, err := exec.LookPath("lfs"); err == nil {
		printed, err := lfs{}.quota(t.Context(), s.Mount, project)
		if err != nil || printed.Limits != more {
			t.Errorf("lfs quota: %+v, %v; want %+v", printed, err, more)
		}
	}
}

// overQuota writes 16 MiB into 8, as a user and as root.
func (s *site) overQuota(project lustre.Project) {
	s.t.Helper()
	const nobody = 65534
	for _, uid := range []uint32{nobody, 0} {
		path := filepath.Join(s.path, "d", "of-"+map[uint32]string{nobody: "a-user", 0: "root"}[uid])
		must.Do(s.t, errors.Join(os.WriteFile(path, nil, 0o666), os.Chmod(path, 0o666), os.Chmod(s.path, 0o755), os.Chmod(filepath.Dir(path), 0o755)))
		said := s.writeAs(uid, path)
		refused := strings.Contains(said, "refused: EDQUOT")
		q, err := s.Quota(s.t.Context(), s.dir, project)
		s.t.Logf("user %d: refused %v; held %d bytes, %d files; enforced %v, root too %v; %+v, %v", uid, refused, q.UsedBytes, q.UsedFiles, q.Enforced, q.RootToo, q.Targets, err)
		if uid == 0 {
			s.note(!refused, "root is not held to the quota of a project")
			continue
		}
		if !strings.Contains(said, "written") && !refused {
			s.t.Logf("note: the writer could not say: %s", said)
			continue
		}
		if refused != q.Enforced && q.UsedBytes > 0 {
			s.t.Errorf("writing was refused: %v; and the quota says that it is enforced: %v", refused, q.Enforced)
		}
	}
}
