package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/trash"
	"datamove.dev/test/must"
	"datamove.dev/tiering/dataset/datasetclient"
)

// ledger is a mover of which a test says what it knows. What fails tells nothing and changes nothing, and what was let go is held no more, as
// at the service. That knows whose a call is, besides: TestPlanted of the controller asks it.
type ledger struct {
	held    []datasetclient.Holding
	moves   []Move // of job 7
	err     error  // of every call
	dropped []string
	renewed []string
	mute    bool // it does not answer
}

func (l *ledger) wait(ctx context.Context) error {
	if !l.mute {
		return l.err
	}
	<-ctx.Done()
	return mover.ErrUnreachable
}

func (l *ledger) Held(ctx context.Context, prefix string) (all []datasetclient.Holding, err error) {
	if err := l.wait(ctx); err != nil {
		return nil, err
	}
	for _, h := range l.held {
		if strings.HasPrefix(h.Holder, prefix) {
			all = append(all, h)
		}
	}
	return all, nil
}

func (l *ledger) LetGo(ctx context.Context, h datasetclient.Holding) error {
	if err := l.wait(ctx); err != nil {
		return err
	}
	at := slices.Index(l.held, h)
	if at < 0 {
		return fmt.Errorf("%w: %s holds nothing there", mover.ErrNotExist, h.Holder)
	}
	l.held = slices.Delete(l.held, at, at+1)
	l.dropped = append(l.dropped, h.Holder)
	return nil
}

func (l *ledger) Renew(ctx context.Context, j Job, before time.Time) error {
	l.renewed = append(l.renewed, fmt.Sprintf("%d before %s", j.ID, before.Format(time.DateTime)))
	return l.wait(ctx)
}

func (l *ledger) Moves(ctx context.Context, j Job) ([]Move, error) {
	if err := l.wait(ctx); err != nil || j.ID != 7 {
		return nil, err
	}
	return l.moves, nil
}

// site is a node with a replica of a dataset on it. uid is whose jobs can be run here.
func site(t *testing.T) (*Site, *ledger, Job) {
	t.Helper()
	dir := t.TempDir()
	l := &ledger{}
	s := &Site{Tier: "scratch", Scratch: filepath.Join(dir, "nvme"), State: filepath.Join(dir, "run"), Mover: l, Patience: 50 * time.Millisecond}
	must.Do(t, os.MkdirAll(filepath.Join(s.Scratch, ".datasets/imagenet/1234"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(s.Scratch, ".datasets/imagenet/1234/file"), []byte("data"), 0o644))
	j := Job{ID: 7, UID: 65534, GID: 65534}
	if os.Geteuid() != 0 {
		j.UID, j.GID = uint32(os.Geteuid()), uint32(os.Getegid())
	}
	return s, l, j
}

func (l *ledger) hold(s *Site, holder string) {
	l.held = append(l.held, datasetclient.Holding{Holder: holder, Owner: uint32(os.Geteuid()), Place: datasetclient.Staged{Root: s.Scratch, Path: ".datasets/imagenet/1234"}})
}

//safety:6 the environment, lists of nodes, scripts, comments and names of Slurm jobs
func TestJobOf(t *testing.T) {
	whole := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "1000", "SLURM_JOB_GID": "100", "SLURM_JOB_USER": "alice", "SLURMD_NODENAME": "n1", "SLURM_JOB_COMMENT": "hello"}
	for _, row := range []struct {
		what string
		set  map[string]string
		want Job
		err  error
	}{
		{"as Slurm sets it", nil, Job{7, 1000, 100, "alice", "n1", "hello", ""}, nil},
		{"of an old Slurm", map[string]string{"SLURM_JOB_ID": "", "SLURM_JOBID": "8", "SLURM_JOB_UID": "", "SLURM_UID": "1001"}, Job{8, 1001, 100, "alice", "n1", "hello", ""}, nil},
		{"without a group", map[string]string{"SLURM_JOB_GID": ""}, Job{7, 1000, 1000, "alice", "n1", "hello", ""}, nil},
		{"without a job", map[string]string{"SLURM_JOB_ID": ""}, Job{}, mover.ErrUsage},
		{"job 0", map[string]string{"SLURM_JOB_ID": "0"}, Job{}, mover.ErrUsage},
		{"a path", map[string]string{"SLURM_JOB_ID": "../../etc"}, Job{}, mover.ErrUsage},
		{"a sign", map[string]string{"SLURM_JOB_ID": "+7"}, Job{}, mover.ErrUsage},
		{"below nothing", map[string]string{"SLURM_JOB_UID": "-1"}, Job{}, mover.ErrUsage},
		{"nobody that there is", map[string]string{"SLURM_JOB_UID": "4294967295"}, Job{}, mover.ErrUsage},
		{"too large", map[string]string{"SLURM_JOB_ID": "4294967296"}, Job{}, mover.ErrUsage},
		{"root", map[string]string{"SLURM_JOB_UID": "0"}, Job{}, mover.ErrRefused},
		{"$(rm -rf /)", map[string]string{"SLURM_JOB_ID": "$(rm -rf /)"}, Job{}, mover.ErrUsage},
	} {
		got, err := JobOf(func(name string) string {
			if value, ok := row.set[name]; ok {
				return value
			}
			return whole[name]
		})
		if got != row.want || !errors.Is(err, row.err) {
			t.Errorf("%s: %+v, %v", row.what, got, err)
		}
	}
}

// TestTaskOf: a task finds the job of its own component on its node.
func TestTaskOf(t *testing.T) {
	two := map[string]string{"SLURM_JOB_ID": "8", "SLURM_HET_SIZE": "2", "SLURM_JOB_ID_HET_GROUP_0": "8", "SLURM_JOB_NODELIST_HET_GROUP_0": "n1", "SLURM_JOB_ID_HET_GROUP_1": "9", "SLURM_JOB_NODELIST_HET_GROUP_1": "n[2-3]"}
	for _, row := range []struct {
		what, node string
		set        map[string]string
		want       uint32
	}{
		{"of one job", "n1", map[string]string{"SLURM_JOB_ID": "8"}, 8},
		{"of the first component", "n1", two, 8},
		{"of the second component", "n3", two, 9},
		{"on a node of none", "n4", two, 8},
		{"a size that is none", "n3", map[string]string{"SLURM_JOB_ID": "8", "SLURM_HET_SIZE": "many"}, 8},
		{"without their numbers", "n3", map[string]string{"SLURM_JOB_ID": "8", "SLURM_HET_SIZE": "4294967294"}, 8},
	} {
		got, err := TaskOf(func(name string) string {
			if name == "SLURMD_NODENAME" {
				return row.node
			}
			return row.set[name]
		}, 1000)
		if want := (Job{ID: row.want, UID: 1000, GID: 1000, Node: row.node}); got != want || err != nil {
			t.Errorf("%s: %+v, %v", row.what, got, err)
		}
	}
}

func TestProlog(t *testing.T) {
	s, l, j := site(t)
	l.hold(s, j.Holder("imagenet"))
	l.hold(s, j.Holder("sets/second"))
	l.hold(s, "slurm:70:other")
	l.hold(s, j.Holder("planted"))
	l.held[3].Owner = 4242 // who is neither root nor of the job
	for range 2 {          // the second time finds what the first one did
		out := must.Get(s.Prolog(t.Context(), j))(t)
		if len(out.Links) != 2 || len(out.Notes) > 0 {
			t.Fatalf("%+v", out)
		}
		for _, name := range []string{"imagenet/file", "sets/second/file"} {
			if text, err := os.ReadFile(filepath.Join(out.Dir, name)); err != nil || string(text) != "data" {
				t.Errorf("%s: %q, %v", name, text, err)
			}
		}
		var st unix.Stat_t
		must.Do(t, unix.Stat(out.Dir, &st))
		if st.Uid != j.UID || st.Gid != j.GID || st.Mode&0o7777 != 0o700 {
			t.Errorf("it belongs to %d:%d, %04o", st.Uid, st.Gid, st.Mode)
		}
	}
}

// TestDegraded: whatever the mover does, the job has a directory, and the node is good.
//
//safety:5/jobs with TestLeaving
func TestDegraded(t *testing.T) {
	for _, l := range []*ledger{{err: mover.ErrUnreachable}, {mute: true}, {err: mover.ErrPermission}} {
		s, _, j := site(t)
		s.Mover = l
		out := must.Get(s.Prolog(t.Context(), j))(t)
		if info, err := os.Stat(out.Dir); err != nil || !info.IsDir() || len(out.Notes) != 1 {
			t.Errorf("%+v, %v", out, err)
		}
		must.Do(t, os.WriteFile(filepath.Join(out.Dir, "result"), []byte("worth something"), 0o644))
		out = must.Get(s.Epilog(t.Context(), j))(t)
		if _, err := os.Stat(filepath.Join(out.Dir, "result")); err != nil || len(out.Notes) != 1 {
			t.Errorf("what may have to leave is gone: %+v, %v", out, err)
		}
	}
}

func TestEpilog(t *testing.T) {
	s, l, j := site(t)
	l.hold(s, j.Holder("imagenet"))
	out := must.Get(s.Prolog(t.Context(), j))(t)
	must.Do(t, os.WriteFile(filepath.Join(out.Dir, "result"), nil, 0o644))
	for range 2 {
		again := must.Get(s.Epilog(t.Context(), j))(t)
		if len(again.Notes) > 0 {
			t.Errorf("%+v", again)
		}
	}
	if _, err := os.Lstat(out.Dir); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("its directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.Scratch, ".datasets/imagenet/1234/file")); err != nil {
		t.Errorf("the dataset went with the job: %v", err)
	}
	if !slices.Contains(l.dropped, j.Holder("imagenet")) {
		t.Errorf("%v were let go of", l.dropped)
	}
	if left, err := os.ReadDir(s.State); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// TestCopies: what was copied into the directory counts when it is whole. Half of it is nothing to read.
func TestCopies(t *testing.T) {
	s, l, j := site(t)
	l.moves = []Move{{Name: "whole", State: Moved}, {Name: "half"}, {Name: "given", State: Given}, {Out: true, Name: "out"}}
	out := must.Get(s.Prolog(t.Context(), j))(t)
	var environ []string
	for _, name := range []string{"whole", "half"} {
		must.Do(t, os.Mkdir(filepath.Join(out.Dir, name), 0o755))
		environ = append(environ, VarIn+strings.ToUpper(name)+"="+filepath.Join(out.Dir, name), VarWarm+strings.ToUpper(name)+"=/lustre/"+name)
	}
	want := []string{"export DATAMOVE_DIR=" + out.Dir, "export DATAMOVE_IN_HALF=/lustre/half", "export DATAMOVE_IN_WHOLE=" + filepath.Join(out.Dir, "whole"), "export DATAMOVE_HOT=0"}
	if got := s.Tasks(j, environ); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestLeaving: what is to be brought away stays until it is.
//
//safety:5/jobs what is to leave a job's directory, or may be, stays when the job ends; also when the mover is away
func TestLeaving(t *testing.T) {
	s, l, j := site(t)
	first := must.Get(s.Prolog(t.Context(), j))(t)
	l.moves = []Move{{Out: true, State: Moved}, {Out: true}}
	out := must.Get(s.Epilog(t.Context(), j))(t)
	if out.Dir != first.Dir {
		t.Errorf("%+v", out)
	}
	r := must.Get(s.recall(j))(t)
	r.Seen = true
	must.Do(t, s.write(j, r))
	later := time.Now().Add(2 * Grace)
	must.Do(t, s.Reconcile(t.Context(), nil, later))
	if _, err := os.Stat(out.Dir); err != nil {
		t.Errorf("it is gone: %v", err)
	}
	l.moves = []Move{{Out: true, State: Moved}, {Out: true, State: Given}, {Name: "in"}}
	must.Do(t, s.Reconcile(t.Context(), nil, later))
	if _, err := os.Stat(out.Dir); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("it is there still: %v", err)
	}
}

// TestForeign: what somebody put where the directory of a job will be is neither used nor followed.
//
//safety:6 links, files and directories of others where the directory of a job will be; names that lead out of it
func TestForeign(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: others own what is in the way")
	}
	outside := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(outside, "precious"), nil, 0o644))
	for _, row := range []struct {
		what string
		put  func(at string) error
	}{
		{"a link elsewhere", func(at string) error { return os.Symlink(outside, at) }},
		{"a file", func(at string) error { return os.WriteFile(at, nil, 0o644) }},
		{"a directory of somebody else", func(at string) error {
			return errors.Join(os.Mkdir(at, 0o777), os.Chown(at, 4242, 4242))
		}},
	} {
		s, l, j := site(t)
		l.hold(s, j.Holder("imagenet"))
		must.Do(t, os.MkdirAll(filepath.Join(s.Scratch, Jobs), 0o711))
		must.Do(t, row.put(filepath.Join(s.Scratch, Jobs, j.Dir())))
		out := must.Get(s.Prolog(t.Context(), j))(t)
		var st unix.Stat_t
		must.Do(t, unix.Lstat(out.Dir, &st))
		if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != j.UID || len(out.Notes) > 0 || len(out.Links) != 1 {
			t.Errorf("%s: %+v, %+v", row.what, st, out)
		}
		left := must.Get(os.ReadDir(outside))(t)
		if len(left) != 1 {
			t.Errorf("%s: something was made outside: %v", row.what, left)
		}
	}
}

// TestJobsOfOthers: a folder of all jobs that others may write to is not trusted, and the node is not drained for it.
//
//safety:6 with TestForeign
func TestJobsOfOthers(t *testing.T) {
	s, _, j := site(t)
	must.Do(t, os.Mkdir(filepath.Join(s.Scratch, Jobs), 0o777))
	must.Do(t, os.Chmod(filepath.Join(s.Scratch, Jobs), 0o777))
	out := must.Get(s.Prolog(t.Context(), j))(t)
	if out.Dir != "" || len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "remove it") {
		t.Errorf("%+v", out)
	}
}

// TestHostileLinks: names of what is held lead nowhere but into the directory of the job, whatever the user has put there.
//
//safety:6 with TestForeign
func TestHostileLinks(t *testing.T) {
	s, l, j := site(t)
	outside := t.TempDir()
	for _, name := range []string{"", "..", "../x", "/etc/x", "a/../../x", ".", "a\x00b", "out/x"} {
		l.hold(s, j.Holder(name))
	}
	l.hold(s, j.Holder("gone")) // with its tier
	l.held[8].Place = datasetclient.Staged{}
	out := must.Get(s.Prolog(t.Context(), j))(t)
	must.Do(t, os.RemoveAll(filepath.Join(out.Dir, "out")))
	must.Do(t, os.Symlink(outside, filepath.Join(out.Dir, "out")))
	out = must.Get(s.Prolog(t.Context(), j))(t)
	if len(out.Links) > 0 || len(out.Notes) != 9 {
		t.Errorf("%+v", out)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside there are %v, %v", left, err)
	}
}

// TestFaults: only what the node can not do takes it out of service, and the reason says what.
func TestFaults(t *testing.T) {
	s, _, j := site(t)
	for _, row := range []struct {
		err   error
		fault bool
	}{{unix.EROFS, true}, {unix.EIO, true}, {unix.ENODEV, true}, {unix.ENOSPC, false}, {unix.EDQUOT, false}, {unix.EACCES, false}, {mover.ErrUnreachable, false}, {nil, false}} {
		var f *Fault
		if got := errors.As(s.fault(fmt.Errorf("open: %w", row.err)), &f); got != row.fault {
			t.Errorf("%v: %v", row.err, got)
		}
	}
	s.Mounted = func() error { return fmt.Errorf("%w: xfs is not mounted there", mover.ErrUnreachable) }
	_, err := s.Prolog(t.Context(), j)
	if f := new(Fault); !errors.As(err, &f) || !strings.Contains(err.Error(), s.Scratch) || !strings.Contains(err.Error(), "not mounted") {
		t.Errorf("%v", err)
	}
	if _, err := s.Epilog(t.Context(), j); err == nil {
		t.Error("an epilog on a node without its disk")
	}
	s.Mounted = nil
	s.Scratch = filepath.Join(s.Scratch, "gone")
	if _, err := s.Prolog(t.Context(), j); err != nil {
		t.Errorf("a tier that is not made yet is no broken disk: %v", err)
	}
}

// TestReadOnly: with a real file system.
func TestReadOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts")
	}
	s, _, j := site(t)
	if err := unix.Mount("tmpfs", s.Scratch, "tmpfs", unix.MS_RDONLY, "size=1m"); err != nil {
		t.Skipf("can not mount: %v", err)
	}
	defer func() { must.Do(t, unix.Unmount(s.Scratch, 0)) }()
	_, err := s.Prolog(t.Context(), j)
	if f := new(Fault); !errors.As(err, &f) || !errors.Is(err, unix.EROFS) {
		t.Errorf("%v", err)
	}
}

func TestTasks(t *testing.T) {
	s, l, j := site(t)
	l.hold(s, j.Holder("imagenet"))
	out := must.Get(s.Prolog(t.Context(), j))(t)
	in := filepath.Join(out.Dir, "imagenet")
	for _, row := range []struct {
		what    string
		job     Job
		environ []string
		want    []string
	}{
		{"all is here", j, nil, []string{"export DATAMOVE_DIR=" + out.Dir, "export DATAMOVE_IN_IMAGENET=" + in, "export DATAMOVE_HOT=1"}},
		{"as the controller said", j, []string{"DATAMOVE_IN_IMAGENET=" + in, "DATAMOVE_WARM_IMAGENET=/lustre/x"},
			[]string{"export DATAMOVE_DIR=" + out.Dir, "export DATAMOVE_IN_IMAGENET=" + in, "export DATAMOVE_HOT=1"}},
		{"one is not here", j, []string{"DATAMOVE_IN_OTHER=" + filepath.Join(out.Dir, "other"), "DATAMOVE_WARM_OTHER=/lustre/other"},
			[]string{"export DATAMOVE_DIR=" + out.Dir, "export DATAMOVE_IN_IMAGENET=" + in, "export DATAMOVE_IN_OTHER=/lustre/other", "export DATAMOVE_HOT=0"}},
		{"and nowhere else", j, []string{"DATAMOVE_IN_OTHER=" + filepath.Join(out.Dir, "other")},
			[]string{"export DATAMOVE_DIR=" + out.Dir, "export DATAMOVE_IN_IMAGENET=" + in, "unset DATAMOVE_IN_OTHER", "export DATAMOVE_HOT=0"}},
		{"no prolog ran", Job{ID: 8, UID: 1}, []string{"DATAMOVE_IN_X=/nvme/x", "DATAMOVE_WARM_X=/lustre/x"},
			[]string{"unset DATAMOVE_DIR", "export DATAMOVE_IN_X=/lustre/x", "export DATAMOVE_HOT=0"}},
		{"a value that would be two lines", Job{ID: 8, UID: 1}, []string{"DATAMOVE_IN_X=/nvme/x", "DATAMOVE_WARM_X=/lustre/x\nexport PATH=/evil"},
			[]string{"unset DATAMOVE_DIR", "unset DATAMOVE_IN_X", "export DATAMOVE_HOT=0"}},
		{"a name that is none", Job{ID: 8, UID: 1}, []string{"DATAMOVE_IN_=1", "DATAMOVE_IN_a b=1"}, []string{"unset DATAMOVE_DIR", "export DATAMOVE_HOT=0"}},
	} {
		if got := s.Tasks(row.job, row.environ); !slices.Equal(got, row.want) {
			t.Errorf("%s:\n%s", row.what, strings.Join(got, "\n"))
		}
	}
}

// TestReconcile: of jobs that are gone nothing stays, and of those that are there, or may be, everything.
//
//safety:5/jobs jobs that are at work, begin just now, or are between two steps are not ended by a later reconciliation
func TestReconcile(t *testing.T) {
	later := time.Now().Add(2 * Grace)
	for _, row := range []struct {
		what string
		live map[uint32]bool // at first
		then map[uint32]bool // later
		at   time.Time
		boot bool // in between
		gone bool
	}{
		{"it is at work", map[uint32]bool{7: true}, map[uint32]bool{7: true}, later, false, false},
		{"its batch step has ended, and no epilog ran", map[uint32]bool{7: true}, nil, later, false, true},
		{"it had steps of a moment, and may have another one", map[uint32]bool{7: false}, nil, later, false, false},
		{"it has no process yet", nil, nil, time.Now(), false, false},
		{"the node was started anew", nil, nil, later, true, true},
		{"and just now", nil, nil, time.Now(), true, false},
	} {
		t.Run(row.what, func(t *testing.T) {
			s, l, j := site(t)
			out, err := s.Prolog(t.Context(), j)
			must.Do(t, err)
			l.hold(s, "slurm:7") // by somebody, for a time that was said
			l.hold(s, j.Holder("imagenet"))
			l.held[1].Since = time.Now()
			must.Do(t, s.Reconcile(t.Context(), row.live, time.Now()))
			if row.boot {
				must.Do(t, os.RemoveAll(s.State))
			}
			must.Do(t, s.Reconcile(t.Context(), row.then, row.at))
			_, err = os.Lstat(out.Dir)
			if gone := errors.Is(err, mover.ErrNotExist); gone != row.gone {
				t.Errorf("gone: %v", gone)
			}
			var want []string
			if _, there := row.then[7]; !there && row.at.Equal(later) {
				want = []string{j.Holder("imagenet")}
			}
			if !slices.Equal(l.dropped, want) {
				t.Errorf("%v were let go of, want %v", l.dropped, want)
			}
		})
	}
}

// TestRenewed: what a job holds is renewed while it runs, once in a while, also of one that has only steps of a moment; that of one that has ended,
// or is not here, is not.
func TestRenewed(t *testing.T) {
	s, l, j := site(t)
	_, err := s.Prolog(t.Context(), j)
	must.Do(t, err)
	ended := Job{ID: 8, UID: j.UID, GID: j.GID}
	must.Do(t, s.ended(ended))
	began := time.Now()
	at := func(after time.Duration, live map[uint32]bool, want ...string) {
		t.Helper()
		l.renewed = nil
		if err := s.Reconcile(t.Context(), live, began.Add(after)); !errors.Is(err, l.err) {
			t.Errorf("after %s: %v", after, err)
		}
		if !slices.Equal(l.renewed, want) {
			t.Errorf("after %s: %q, want %q", after, l.renewed, want)
		}
	}
	before := func(after time.Duration) string {
		return "7 before " + began.Add(after+LeaseTTL/2).Format(time.DateTime)
	}
	both := map[uint32]bool{7: true, 8: true}
	at(time.Minute, both)
	at(2*time.Hour, both, before(2*time.Hour))
	at(2*time.Hour+time.Minute, both)
	at(4*time.Hour, map[uint32]bool{7: false}, before(4*time.Hour))
	l.err = mover.ErrUnreachable
	at(6*time.Hour, both, before(6*time.Hour))
	l.err = nil
	at(6*time.Hour+time.Minute, both, before(6*time.Hour+time.Minute)) // what did not go well is done soon
	at(100*time.Hour, nil)
}

// TestMillion: an epilog takes a directory away, whatever is in it.
func TestMillion(t *testing.T) {
	s, _, j := site(t)
	out, err := s.Prolog(t.Context(), j)
	must.Do(t, err)
	for i := range 2000 {
		must.Do(t, os.WriteFile(filepath.Join(out.Dir, fmt.Sprint(i)), nil, 0o644))
	}
	_, err = s.Epilog(t.Context(), j)
	must.Do(t, err)
	root, err := os.Open(s.Scratch)
	must.Do(t, err)
	defer root.Close()
	report, err := trash.Empty(t.Context(), int(root.Fd()), trash.Rate{})
	if err != nil || report.Entries != 2001 {
		t.Errorf("%+v, %v", report, err)
	}
}

//safety:5/jobs with TestReconcile
func TestLive(t *testing.T) {
	proc := t.TempDir()
	for pid, line := range map[string]string{
		"1": "init", "10": "slurmstepd: [7.batch]\x00\x00", "11": "slurmstepd: [7.0]\x00", "12": "slurmstepd: [8.extern]", "13": "slurmstepd: [9.3]", "14": "slurmstepd: [10+1.batch]",
		"15": "slurmd", "16": "slurmstepd: [x.0]", "17": "slurmstepd: [99", "18": "/bin/sh\x00slurmstepd: [50.batch]", "self": "slurmstepd: [60.batch]",
	} {
		must.Do(t, os.MkdirAll(filepath.Join(proc, pid), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(proc, pid, "cmdline"), []byte(line), 0o644))
	}
	must.Do(t, os.Mkdir(filepath.Join(proc, "20"), 0o755)) // it has just ended
	got := must.Get(Live(proc))(t)
	want := map[uint32]bool{7: true, 8: true, 9: false, 10: true, 99: false}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v", got)
	}
}

//safety:6 with TestJobOf
func FuzzJobOf(f *testing.F) {
	f.Add("7", "1000", "100")
	f.Fuzz(func(t *testing.T, id, uid, gid string) {
		j, err := JobOf(func(name string) string {
			return map[string]string{"SLURM_JOB_ID": id, "SLURM_JOB_UID": uid, "SLURM_JOB_GID": gid}[name]
		})
		if err != nil {
			return
		}
		if back, owner, ok := parseDir(j.Dir()); !ok || back != j.ID || owner != j.UID || strings.ContainsAny(j.Dir(), "/\x00") {
			t.Errorf("%+v has the directory %q", j, j.Dir())
		}
		for _, j.Cluster = range []string{"", "lab"} {
			other := j.Cluster + "2"
			back, ok := JobOfHolder(j.Cluster, j.Holder("x"))
			if _, theirs := JobOfHolder(other, j.Holder("x")); !ok || theirs || back != j.ID {
				t.Errorf("%+v holds as %q", j, j.Holder("x"))
			}
		}
	})
}

// TestAlone: what another run has left in the directory is not in that of this one, however it came there; what has come for this one is.
func TestAlone(t *testing.T) {
	arrives := func(run, name string) Move { return Move{Name: name, Run: run, State: Moved} }
	leaves := func(run string, state MoveState) Move { return Move{Out: true, After: true, Run: run, State: state} }
	mark := Move{Out: true, Run: "20", State: Moving}
	for _, row := range []struct {
		what  string
		moves []Move
		err   error
		ended bool   // the epilog of the other run left the directory; else no record is of this boot
		stays string // of what is there
		home  bool   // the job has a directory
	}{
		{"of a job that asks for nothing", nil, nil, true, "", true},
		{"before a reboot", nil, nil, false, "", true},
		{"beside what has come", []Move{arrives("9", "old"), arrives("20", "notes"), arrives("20", "sets/a"), mark}, nil, true, "notes sets", true},
		{"results that have left", []Move{mark, leaves("9", Moved), leaves("9", Given)}, nil, true, "", true},
		{"results that have not left", []Move{mark, leaves("9", Moving), arrives("20", "notes")}, nil, true, "notes old out sets", false},
		{"nobody can say what leaves", nil, mover.ErrUnreachable, true, "notes old out sets", false},
		{"nobody can say whose it is", nil, mover.ErrUnreachable, false, "notes old out sets", true},
		{"what has come fills the directory", []Move{arrives("20", "")}, nil, true, "notes old out sets", true},
	} {
		s, l, j := site(t)
		if row.ended {
			must.Get(s.Prolog(t.Context(), j))(t)
			must.Do(t, s.ended(j))
		}
		dir := filepath.Join(s.Scratch, Jobs, j.Dir())
		for _, name := range []string{"old", "out", "notes", "sets"} {
			must.Do(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		}
		must.Do(t, errors.Join(os.Chmod(filepath.Dir(dir), 0o711), os.Lchown(dir, int(j.UID), -1)))
		l.moves, l.err = row.moves, row.err
		for range 2 { // the second time it is this run's
			out := must.Get(s.Prolog(t.Context(), j))(t)
			left := must.Get(filepath.Glob(filepath.Join(dir, "*")))(t)
			for i := range left {
				left[i] = filepath.Base(left[i])
			}
			if got := strings.Join(left, " "); got != row.stays || (out.Dir != "") != row.home || row.home && row.err == nil && len(out.Notes) > 0 {
				t.Errorf("%s: %q stays, want %q; %+v", row.what, got, row.stays, out)
			}
			if row.home && row.err == nil && row.stays == "" {
				must.Do(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o644))
				row.stays = "mine"
			}
		}
	}
}
