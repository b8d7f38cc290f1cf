package hook

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Grace is for how long a job counts as being there that has no process yet, or none any more: its prolog, or its epilog, is at work.
const Grace = 10 * time.Minute

// Reconcile does what epilogs have left undone: of jobs that are not on the node any more it lets go of what they hold, and moves their
// directories to the trash, where nothing is to leave them. Live has the jobs that are there, as Live returns them. It can be called at any time, beside hooks.
func (s *Site) Reconcile(ctx context.Context, live map[uint32]bool, now time.Time) error {
	errs := []error{s.see(live)}
	jobs, err := s.left(live, now)
	errs = append(errs, err)
	for _, j := range jobs {
		errs = append(errs, s.end(ctx, j, func() bool {
			again, err := s.left(live, now)
			return err == nil && slices.Contains(again, j)
		}))
	}
	held, err := s.Mover.Held(ctx, holderPrefix)
	errs = append(errs, err)
	for _, h := range held {
		id, ours := jobOfHolder(h.Holder)
		if _, there := live[id]; ours && !there && now.Sub(h.Since) > Grace {
			errs = append(errs, s.Mover.LetGo(ctx, h))
		}
	}
	return errors.Join(errs...)
}

// end ends a job that nobody has ended, unless something is to leave its directory.
func (s *Site) end(ctx context.Context, j Job, still func() bool) error {
	leaving, err := s.Mover.Leaving(ctx, j)
	if err != nil || leaving {
		return err
	}
	unlock, locked := s.lock(ctx, j)
	defer unlock()
	if !locked || !still() { // it has begun again
		return nil
	}
	return errors.Join(s.remove(j), s.forget(j))
}

// see notes in the records of jobs that a step was seen which lasts as long as they do.
func (s *Site) see(live map[uint32]bool) error {
	names, err := filepath.Glob(filepath.Join(s.State, "*.json"))
	errs := []error{err}
	for _, name := range names {
		id, uid, ok := parseDir(strings.TrimSuffix(filepath.Base(name), ".json"))
		j := Job{ID: id, UID: uid}
		if !ok || !live[id] {
			continue
		}
		if r, err := s.recall(j); err == nil && !r.Seen {
			r.Seen = true
			errs = append(errs, s.write(j, r))
		}
	}
	return errors.Join(errs...)
}

// left are the jobs that have a directory here, and nothing else.
func (s *Site) left(live map[uint32]bool, now time.Time) (jobs []Job, err error) {
	root, err := s.scratch()
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(root) }()
	fd, err := beneath(root, Jobs)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), s.Scratch+"/"+Jobs)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		id, uid, ok := parseDir(name)
		j := Job{ID: id, UID: uid, GID: uid}
		if _, there := live[id]; ok && !there && s.over(fd, j, now) {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// over says whether a job that has no process here is over. One that had a step which lasts as long as the job is; of another one, which may be
// between two steps, only the next boot tells: then its record is gone.
func (s *Site) over(dir int, j Job, now time.Time) bool {
	switch r, err := s.recall(j); {
	case err == nil && (!r.Seen || now.Sub(r.Began) < Grace):
		return false
	case err != nil && !errors.Is(err, mover.ErrNotExist):
		return false
	}
	var st unix.Statx_t
	err := unix.Statx(dir, j.Dir(), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_CTIME|unix.STATX_BTIME, &st)
	if err != nil {
		return false
	}
	born := st.Ctime
	if st.Mask&unix.STATX_BTIME != 0 {
		born = st.Btime
	}
	return now.Sub(time.Unix(born.Sec, int64(born.Nsec))) > Grace
}
