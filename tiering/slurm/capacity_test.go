package slurm

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/claim"
	"datamove.dev/lustre/detect"
	"datamove.dev/lustre/localfs"
	"datamove.dev/mover"
	"datamove.dev/mover/trash"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

const mib = 1 << 20

// onDisk is a node whose tier of jobs is a file system of its own.
func onDisk(t *testing.T, point string) (*Site, *ledger, Job) {
	t.Helper()
	s, l, j := site(t)
	s.Scratch, s.IDs = point, claim.Range{First: 1000, Last: 1003}
	return s, l, j
}

func onBtrfs(t *testing.T) string {
	t.Helper()
	point := loopfs.Mount(t, loopfs.Spec{Type: "btrfs"})
	fd := must.Get(unix.Open(point, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(fd)
	must.Do(t, (&localfs.Subvolumes{}).Enable(t.Context(), fd, true))
	return point
}

// asked are the labels of a Space task.
func asked(run string) map[string]string {
	return map[string]string{PartLabel: Space, CapacityLabel: "8388608", RunLabel: run, SpaceLabel + "DW_JOB_STRIPED": "", SpaceLabel + "../x": ""}
}

// project opens the tier as the node does.
func project(t *testing.T, s *Site) *projects {
	t.Helper()
	root := must.Get(s.scratch())(t)
	t.Cleanup(func() { must.Do(t, unix.Close(root)) })
	p := must.Get(s.projects(root))(t)
	t.Cleanup(p.close)
	return p
}

func (p *projects) claimed(t *testing.T) (all []uint32) {
	t.Helper()
	must.Do(t, p.book.Each(func(id uint32) error { all = append(all, id); return nil }))
	return all
}

// settled tends until nothing is claimed: a btrfs removes what was deleted by and by.
func settled(t *testing.T, s *Site, p *projects) {
	t.Helper()
	must.Do(t, trashed(t, s))
	for range 10_000 {
		if must.Do(t, s.Tend(t.Context())); len(p.claimed(t)) == 0 {
			return
		}
		_ = loopfs.CleanUp(s.Scratch) // only a btrfs has it
	}
	t.Errorf("projects %v are given still", p.claimed(t))
}

func trashed(t *testing.T, s *Site) error {
	root := must.Get(s.scratch())(t)
	defer unix.Close(root)
	_, err := trash.Empty(t.Context(), root, trash.Rate{})
	return err
}

// TestCapacity: a job's directory holds what the job has asked for and no more, with what came before its prolog, and leaves no project behind.
func TestCapacity(t *testing.T) {
	for kind, mount := range map[string]func(t *testing.T) string{
		"btrfs": onBtrfs,
		"ext4": func(t *testing.T) string {
			return loopfs.Mount(t, loopfs.Spec{Type: "ext4", Make: []string{"-q", "-O", "quota,project", "-E", "quotatype=prjquota"}, Options: "prjquota", Rare: true})
		},
		"xfs": func(t *testing.T) string {
			return loopfs.Mount(t, loopfs.Spec{Type: "xfs", Make: []string{"-q"}, Options: "prjquota", Rare: true})
		},
	} {
		t.Run(kind, func(t *testing.T) {
			s, l, j := onDisk(t, mount(t))
			taken := others(t, s)
			must.Do(t, s.Make(t.Context(), j.Dir(), j.GID, asked("1")))
			if c := s.capacityOf(j); c != (Capacity{Run: "1", Bytes: 8 * mib}) {
				t.Fatalf("%+v", c)
			}
			home := filepath.Join(s.Scratch, Jobs, j.Dir())
			must.Do(t, os.WriteFile(home+"/staged", make([]byte, 4*mib), 0o600))
			must.Do(t, os.Chown(home+"/staged", int(j.UID), int(j.GID)))
			must.Do(t, s.Make(t.Context(), j.Dir(), j.GID, asked("1"))) // begun again
			out := must.Get(s.Prolog(t.Context(), j))(t)
			if out.Dir != home || len(out.Notes) > 0 {
				t.Errorf("%+v", out)
			}
			if lines := s.Tasks(j, nil); !strings.Contains(strings.Join(lines, "\n"), "export DATAMOVE_CAPACITY=8388608") {
				t.Errorf("%q", lines)
			}
			for _, name := range []string{"staged", "DW_JOB_STRIPED"} {
				var st unix.Stat_t
				if must.Do(t, unix.Lstat(filepath.Join(home, name), &st)); st.Uid != j.UID {
					t.Errorf("%s is of %d", name, st.Uid)
				}
			}
			if err := writeAs(t, j, home+"/DW_JOB_STRIPED/result", 16*mib); !errors.Is(err, unix.EDQUOT) && !errors.Is(err, unix.ENOSPC) {
				t.Errorf("it writes twice as much as it has asked for: %v", err)
			}
			must.Do(t, s.Make(t.Context(), j.Dir(), j.GID, map[string]string{PartLabel: Space, CapacityLabel: "999999999", RunLabel: "9"})) // a task of the user
			p := project(t, s)
			if must.Do(t, s.Tend(t.Context())); len(p.claimed(t)) != 1 || s.capacityOf(j).Bytes != 8*mib {
				t.Errorf("while it runs: %v, %+v", p.claimed(t), s.capacityOf(j))
			}

			must.Get(s.Epilog(t.Context(), j))(t)
			if must.Do(t, s.Tend(t.Context())); len(p.claimed(t)) != 1 {
				t.Error("what is in the trash has its project no more")
			}
			must.Do(t, s.Make(t.Context(), j.Dir(), j.GID, asked("2"))) // it begins again
			if c := s.capacityOf(j); c.Bytes != 8*mib || len(p.claimed(t)) != 2 {
				t.Errorf("%+v, %v", c, p.claimed(t))
			}
			must.Do(t, writeAs(t, j, home+"/again", 4*mib))
			if given := p.claimed(t); slices.ContainsFunc(given, func(id uint32) bool { return slices.Contains(taken, id) }) {
				t.Errorf("of %v, %v is of others", given, taken)
			}
			l.moves = []Move{{Out: true, After: true, State: Moving, Run: "2"}}
			if err := s.Make(t.Context(), j.Dir(), j.GID, asked("3")); !errors.Is(err, mover.ErrConflict) {
				t.Errorf("over what is to leave still: %v", err)
			}
			l.moves = nil
			must.Get(s.Epilog(t.Context(), j))(t)
			settled(t, s, p)
		})
	}
}

// others have project IDs of the tier, where there are such.
func others(t *testing.T, s *Site) (ids []uint32) {
	t.Helper()
	h := must.Get(detect.Open(s.Scratch, detect.Options{}))(t)
	defer h.Close()
	if h.System.Kind == lustre.IsBtrfs {
		return nil
	}
	dir := filepath.Join(s.Scratch, "volume")
	must.Do(t, os.Mkdir(dir, 0o700))
	fd := must.Get(unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(fd)
	if err := h.System.Quota.SetQuota(t.Context(), fd, lustre.Project{ID: 1001, Inherit: true}, lustre.Limits{HardBytes: mib}); err != nil {
		loopfs.SkipRare(t, "this kernel has no project quotas: "+err.Error())
	}
	must.Do(t, h.System.Quota.SetProject(t.Context(), fd, lustre.Project{ID: 1002, Inherit: true}))
	return []uint32{1001, 1002}
}

// writeAs writes a file as the user of a job.
func writeAs(t *testing.T, j Job, name string, bytes int) error {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	must.Do(t, f.Chown(int(j.UID), int(j.GID)))
	must.Do(t, loopfs.As(int(j.UID), func() {
		_, err = f.Write(make([]byte, bytes))
		err = errors.Join(err, f.Sync())
	}))
	return err
}

// TestCapacityElsewhere: where nothing can hold it the job begins, and is told.
func TestCapacityElsewhere(t *testing.T) {
	for _, row := range []struct{ what, want string }{{"no quotas", "quota"}, {"btrfs", "quotas are not switched on"}, {"ext4", "project"}} {
		t.Run(row.what, func(t *testing.T) {
			point := must.Get(os.MkdirTemp("/dev/shm", "hook-"))(t)
			t.Cleanup(func() { must.Do(t, os.RemoveAll(point)) })
			if row.what != "no quotas" {
				point = loopfs.Mount(t, loopfs.Spec{Type: row.what})
			}
			s, _, j := onDisk(t, point)
			s.IDs = claim.Range{}
			must.Do(t, s.Make(t.Context(), j.Dir(), j.GID, asked("1")))
			must.Get(s.Prolog(t.Context(), j))(t)
			said := strings.Join(s.Tasks(j, nil), "\n")
			if !strings.Contains(said, "unset DATAMOVE_CAPACITY\n") || !strings.Contains(said, "export DATAMOVE_CAPACITY_WHY=") || !strings.Contains(said, row.want) {
				t.Errorf("%s", said)
			}
			if _, err := os.Stat(filepath.Join(point, Jobs, j.Dir(), "DW_JOB_STRIPED")); err != nil {
				t.Error(err)
			}
			must.Get(s.Epilog(t.Context(), j))(t)
			must.Do(t, s.Tend(t.Context()))
		})
	}
}

// TestMakeRefuses: no other label, and no other name, makes anything.
func TestMakeRefuses(t *testing.T) {
	s, _, j := site(t)
	for dir, labels := range map[string]map[string]string{
		j.Dir(): {PartLabel: Watch, CapacityLabel: "1"}, "8.1": {PartLabel: Space, CapacityLabel: "-1"}, "9.1": {PartLabel: Space}, "x": asked("1"), "../7.1": asked("1"),
	} {
		must.Do(t, s.Make(t.Context(), dir, j.GID, labels))
	}
	if _, err := os.Stat(filepath.Join(s.Scratch, Jobs)); err == nil {
		t.Error("something was made")
	}
}
