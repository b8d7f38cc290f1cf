package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

// What is called TestReal… runs on a real Lustre, as root and as a user; usage says how.
// Who tries what:
//
//	found by its number and its mount                      Site, Targets, System
//	layouts read and written again, byte by byte: v1, v3,
//	  composite, mirrors, self-extending, on the MDT,
//	  foreign, chosen targets, overstriped, pools          Create, Traps
//	a layout at creation; what is refused, and why         Create, Refused, Traps
//	a default of a directory                               Default
//	directories on several MDTs, their default             Striping
//	OSTs, MDTs, pools, how full they are                   Site, Targets
//	projects, by descriptor and by name                    Project
//	quotas, over all and by OST; who is held to them       Quota, QuotaOfRoot
//	HSM: states, actions, refusals                         HSMStates, HSMRefusals, HSMArchive
//	HSM: archive, release, restore by our copytool         Released (and copytool.test)
//	data versions, with what a client keeps to itself      DataVersion
//	the lazy size, advice to servers                       LazySizeAndAdvice
//	change logs: order, ends, acknowledgement, places      Feeds, Changes, Clear, Device, Follow
//	FIDs to paths, by hard links, opened by FID            FIDs
//	leases, group locks                                    Lease, GroupLock
//	another layout for a file that exists, beside writers  Restripe, RestripeBesideAWriter,
//	                                                       RestripeFromAnMDT, RestripeRefusals,
//	                                                       System
//	the program lfs says the same                          Targets, Quota, each layout
//	the engine: contract of a place, layouts, quotas       Place, LayoutOfCopies, QuotaOfRoot
//	calls that are given up                                GivenUp
//
// Not tried here: a log that is purged and a hole in one, quotas that end on one OST only, a
// target that is down. They need who administers the servers; the fake kernel has them.

// site is a directory on a real Lustre, and who asks it.
type site struct {
	*Client
	t    *testing.T
	path string
	dir  int
}

// onLustre opens the Lustre of the environment, and makes a directory there.
func onLustre(t *testing.T) *site {
	t.Helper()
	mount := os.Getenv("LUSTRE_MOUNT")
	if mount == "" {
		t.Skip("elsewhere: make lustre-test: needs a mounted Lustre: LUSTRE_MOUNT=/mnt/lustre")
	}
	c, err := Open(mount)
	must.Do(t, err)
	t.Cleanup(func() {
		must.Tell(t, c.Close())
	})
	below, err := filepath.EvalSymlinks(cmp.Or(os.Getenv("LUSTRE_DIR"), mount))
	must.Do(t, err)
	path, err := os.MkdirTemp(below, "datamove-")
	if err != nil {
		t.Fatalf("%v (LUSTRE_DIR names a directory of that Lustre which you may write)", err)
	}
	t.Cleanup(func() {
		must.Tell(t, os.RemoveAll(path))
	})
	s := &site{Client: c, t: t, path: path}
	s.dir = s.open("", unix.O_RDONLY|unix.O_DIRECTORY)
	return s
}

// realLustre is onLustre, for who asks by paths.
func realLustre(t *testing.T) (c *Client, dir string) {
	t.Helper()
	s := onLustre(t)
	return s.Client, s.path
}

func (s *site) needsRoot() {
	s.t.Helper()
	if os.Geteuid() != 0 {
		s.t.Skip("needs root")
	}
}

// open opens what is in the directory until the test ends.
func (s *site) open(name string, flags int) int {
	s.t.Helper()
	fd, err := unix.Open(filepath.Join(s.path, name), flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		s.t.Fatalf("open %s: %v", name, err)
	}
	s.t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func (s *site) mkdir(name string) int {
	s.t.Helper()
	must.Do(s.t, os.Mkdir(filepath.Join(s.path, name), 0o755))
	return s.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
}

func (s *site) cluster() lustre.Cluster {
	s.t.Helper()
	c := must.Get(s.Cluster(s.t.Context(), s.dir))(s.t)
	return c
}

// layout reads the layout of an open file, and checks that its bytes can be written again
// as they are, and that the program lfs, where there is one, says the same.
func (s *site) layout(fd int) lustre.Layout {
	s.t.Helper()
	raw, err := s.k.getxattr(fd, xattrLayout)
	must.Do(s.t, err)
	l, err := uapi.DecodeLayout(raw)
	if err != nil {
		s.t.Fatalf("%x: %v", raw, err)
	}
	if again, err := uapi.EncodeLayout(&l); err != nil || !bytes.Equal(again, raw) {
		s.t.Errorf("written again, %v:\n got %x\nwant %x", err, again, raw)
	}
	if got, err := s.Layout(s.t.Context(), fd); err != nil || lustre.Same(&l, &got, 0) != "" {
		s.t.Errorf("read again: %+v, %v", got, err)
	}
	s.askProgram(fd, &l)
	return l
}

// askProgram compares what the program lfs prints with what the kernel says. It fails for
// self-extending files of some versions (it can not be asked then).
func (s *site) askProgram(fd int, l *lustre.Layout) {
	s.t.Helper()
	if _, err := exec.LookPath("lfs"); err != nil {
		return
	}
	printed, err := lfs{}.layout(s.t.Context(), fd, s.isDir(fd))
	if err != nil {
		s.t.Logf("note: lfs getstripe: %v", err)
		return
	}
	if d := lustre.Same(l, &printed, 0); d != "" && l.Foreign == nil {
		s.t.Errorf("lfs getstripe says: %s\nkernel %+v\nlfs    %+v", d, l, printed)
	}
}

// note tells of a trap that a version does not have: the client's way round it does no harm.
func (s *site) note(seen bool, trap string) {
	s.t.Helper()
	if !seen {
		s.t.Logf("note: this Lustre does not have the trap: %s", trap)
	}
}

// TestRealSite says on what everything else ran.
func TestRealSite(t *testing.T) {
	s := onLustre(t)
	c := s.cluster()
	t.Logf("%s, Lustre %s on %s, uid %d: %d OSTs, %d MDTs, pools %v, default %+v", c.Name, c.Version, s.Mount, os.Geteuid(), len(c.OSTs), len(c.MDTs), c.Pools, c.Default)
	if len(c.OSTs) == 0 || len(c.MDTs) == 0 || c.Version == "" || !c.Can.Progressive {
		t.Errorf("%+v", c)
	}
	table := must.Get(os.ReadFile("/proc/mounts"))(t)
	found := false
	for line := range strings.Lines(string(table)) {
		if w := strings.Fields(line); len(w) > 3 && w[1] == filepath.Clean(s.Mount) {
			m, ok := ParseMount(w[0], w[2], strings.Split(w[3], ","))
			if found = ok && m.Name == s.Name; !found {
				t.Errorf("%q: %+v, %v; want %s", line, m, ok, s.Name)
			}
		}
	}
	if !found {
		t.Errorf("the mount table does not have %s (LUSTRE_MOUNT has to be the place of the mount)", s.Mount)
	}
}

func TestRealTargets(t *testing.T) {
	s := onLustre(t)
	all, err := s.Targets(t.Context(), s.dir)
	must.Do(t, err)
	osts := 0
	for _, target := range all {
		if target.Kind == lustre.OST {
			osts++
		}
		if kind, index, ok := parseTarget(target.Name, s.Name); target.Kind != lustre.InPool && (!ok || kind != target.Kind || index != target.Index) {
			t.Errorf("%+v has no name of a target", target)
		}
		if target.Inactive == "" && (target.TotalBytes <= 0 || target.FreeBytes > target.TotalBytes || target.FreeFiles > target.TotalFiles) {
			t.Errorf("%+v", target)
		}
	}
	if n, err := s.countOSTs(); err != nil || n < osts {
		t.Errorf("%d OSTs, and a count of %d (%v)", osts, n, err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(s.Mount, &st); err != nil || st.Type != uapi.SuperMagic {
		t.Errorf("statfs: type %#x, %v", st.Type, err)
	}
	count := []byte{1, 0, 0, 0}
	_, err = s.k.ioctl(s.root, uapi.IocTargetCount, count)
	s.note(err == nil && int(count[0]) != len(s.cluster().MDTs), "the count of MDTs is that of a table")
	if _, err := exec.LookPath("lfs"); err != nil {
		return
	}
	printed, err := lfs{}.targets(t.Context(), s.Mount, s.Name)
	must.Do(t, err)
	for _, p := range printed {
		for _, target := range all {
			// On ZFS what there is in all moves a little with what is used.
			if target.Name == p.Name && target.Kind == p.Kind && (max(target.TotalBytes, p.TotalBytes)-min(target.TotalBytes, p.TotalBytes) > target.TotalBytes/64 || target.Index != p.Index) {
				t.Errorf("kernel %+v\nlfs    %+v", target, p)
			}
		}
	}
	known, err := s.Pools(t.Context())
	must.Do(t, err)
	if pools, err := (lfs{}).pools(t.Context(), s.Name); err == nil && !reflect.DeepEqual(pools, known) {
		t.Errorf("lfs pool_list: %v; want %v", pools, known)
	}
}

func TestRealGivenUp(t *testing.T) {
	s := onLustre(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Cluster(ctx, s.dir); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := s.Create(ctx, s.dir, "late", unix.O_RDWR, 0o600, striped(mib, 1)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := s.Restripe(ctx, s.dir, "late", striped(mib, 1), lustre.RestripeOptions{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
