package agent

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/quota"
	"datamove.dev/mover/remedy"
	"datamove.dev/mover/server/osaccount"
)

const (
	// journalsEvery is how often the journals of accounts that have a process here are measured.
	journalsEvery = 30 * time.Second
	// leastBytes are counted for every file: many small ones fill a disk, too, and the files that are counted are bounded.
	leastBytes = 16 << 10
	// deepest is how deep directories of journals may be. They are not half as deep, but their owner may make others beside them.
	deepest = 64
)

// journals are what accounts have in their directories. Root lends one to its account while that has a worker: then any process of the account may write
// there, and at other times none.
type journals struct {
	lending sync.Mutex
	lent    map[string]int // directories, to so many workers; guarded by lending

	mu     sync.Mutex
	known  map[uint32]*agentv1.Journals // by uid, as measured last; guarded by mu
	untold map[uint32]bool              // the coordinator has not heard of; guarded by mu
	full   error                        // why the agent takes nothing; guarded by mu
}

// lend gives a directory to an account until back was called as often.
func (j *journals) lend(dir string, who osaccount.Account) (back func(), err error) {
	if os.Geteuid() != 0 || who.UID == 0 {
		return func() {}, nil
	}
	j.lending.Lock()
	defer j.lending.Unlock()
	if err := os.Lchown(dir, int(who.UID), int(who.GID)); err != nil {
		return nil, err
	}
	if j.lent == nil {
		j.lent = map[string]int{}
	}
	j.lent[dir]++
	return sync.OnceFunc(func() {
		j.lending.Lock()
		defer j.lending.Unlock()
		if j.lent[dir]--; j.lent[dir] == 0 {
			delete(j.lent, dir)
			_ = os.Lchown(dir, 0, 0) // it is tried again when the agent begins
		}
	}), nil
}

// takeBack takes back what an agent that was killed had lent.
func (j *journals) takeBack(users string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	dirs, err := os.ReadDir(users)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	j.lending.Lock()
	defer j.lending.Unlock()
	var errs []error
	for _, dir := range dirs {
		path := filepath.Join(users, dir.Name())
		if _, err := strconv.ParseUint(dir.Name(), 10, 32); err == nil && dir.IsDir() && j.lent[path] == 0 {
			errs = append(errs, os.Lchown(path, 0, 0))
		}
	}
	return errors.Join(errs...)
}

// note keeps what an account has for the coordinator.
func (j *journals) note(owner *pb.Account, bytes, limit int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.known == nil {
		j.known, j.untold = map[uint32]*agentv1.Journals{}, map[uint32]bool{}
	}
	j.known[owner.GetUid()] = &agentv1.Journals{Owner: owner, Bytes: bytes, Limit: limit}
	j.untold[owner.GetUid()] = true
}

// tell adds to a status what the coordinator has not heard of, or all.
func (j *journals) tell(s *agentv1.Status, all bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for uid, one := range j.known {
		if all || j.untold[uid] {
			s.Journals = append(s.Journals, one)
		}
	}
	clear(j.untold)
	if j.full != nil {
		s.Full = j.full.Error()
	}
}

// sees whether the disk has room for more journals, and says whether that is another answer than before.
func (j *journals) sees(full error) (changed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	changed = (full == nil) != (j.full == nil)
	j.full = full
	return changed
}

// lookAtRoom has the agent take nothing while journals are on the disk of the ledger, and that has little room.
func (a *Agent) lookAtRoom() {
	if a.o.Spares == nil {
		return
	}
	full := a.o.Spares(a.users())
	if a.journals.sees(full) {
		if full != nil {
			a.log.Error("this agent takes nothing: journals would fill the disk of the ledger", "err", full)
		}
		a.hurry()
	}
}

// mayWrite says why a process of an account may write no more into its directory of journals.
func (a *Agent) mayWrite(owner *pb.Account, dir string) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return a.unready(remedy.Journals, &mover.Error{Op: "measure", Location: dir, Err: err})
	}
	limit := a.conf().Quotas.OfJournals(owner.GetName(), owner.GetUid(), int64(disk.Blocks)*disk.Bsize)
	if limit == 0 {
		return nil
	}
	used, err := measure(dir, limit)
	if err != nil {
		return a.unready(remedy.Journals, &mover.Error{Op: "measure", Location: dir, Err: err})
	}
	a.journals.note(owner, used, limit)
	return quota.Over(owner.GetName(), quota.Journals, dir, used, quota.Limits{quota.Journals: limit})
}

// tendJournals ends processes of accounts with too many journals, until ctx ends.
func (a *Agent) tendJournals(ctx context.Context) {
	tick := time.NewTicker(journalsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		a.lookAtRoom()
		a.checkJournals()
	}
}

// checkJournals measures the journals of accounts that have a process here.
func (a *Agent) checkJournals() {
	a.mu.Lock()
	procs := slices.Collect(maps.Values(a.procs))
	a.mu.Unlock()
	checked := map[string]error{}
	for _, p := range procs {
		dir := p.job.GetStateDir()
		err, is := checked[dir]
		if !is {
			err = a.mayWrite(p.task.GetOwner(), dir)
			checked[dir] = err
		}
		if errors.Is(err, mover.ErrQuota) {
			a.log.Warn("a worker is ended", "task", p.task.GetId(), "err", err)
			p.refused.Store(&err)
			go func() { _ = p.acting.Stop(0) }() // it has no word in why
		}
	}
}

// measure sums what is in the directory of a user, until that is more than limit. The user may change it meanwhile, and mount
// something: nothing outside of its file system is looked at.
func measure(dir string, limit int64) (bytes int64, err error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return 0, err
	}
	m := &measuring{limit: limit, dev: st.Dev}
	err = m.folder(fd, 1)
	return m.bytes, err
}

// measuring is a sum that ends above its limit.
type measuring struct {
	limit int64
	dev   uint64
	bytes int64
}

// folder adds what is in a directory, and closes it.
func (m *measuring) folder(fd, depth int) error {
	f := os.NewFile(uintptr(fd), "journals")
	defer f.Close()
	for {
		names, err := f.Readdirnames(1000)
		for _, name := range names {
			if err := m.entry(fd, name, depth); err != nil || m.bytes > m.limit {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// entry adds one name. What is gone, or something else by now, is not counted.
func (m *measuring) entry(dir int, name string, depth int) error {
	var st unix.Statx_t
	err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st)
	if err != nil || unix.Mkdev(st.Dev_major, st.Dev_minor) != m.dev {
		return goneOr(err)
	}
	m.bytes += max(int64(st.Blocks)*512, leastBytes)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	if depth == deepest {
		m.bytes = max(m.bytes, m.limit+1) // too deep to count
		return nil
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return goneOr(err)
	}
	return m.folder(fd, depth+1)
}

// goneOr is nil for what was changed meanwhile, and for a mount that only its user sees.
func goneOr(err error) error {
	for _, gone := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	return err
}
