package slurm

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/beneath"
)

// Grace is for how long a job counts as being there that has no process yet, or none any more: its prolog, or its epilog, is at work.
const Grace = 10 * time.Minute

// Reconcile does what epilogs have left undone: of jobs that are not on the node any more it lets go of what they hold, and moves their
// directories to the trash, where nothing is to leave them. Of jobs that are there it renews what they hold: a lease lasts for a week, and a job may run
// for longer. Live has the jobs that are there, as Live returns them. It can be called at any time, beside hooks.
func (s *Site) Reconcile(ctx context.Context, live map[uint32]bool, now time.Time) error {
	errs := []error{s.see(ctx, live, now)}
	jobs, err := s.left(live, now)
	errs = append(errs, err)
	for _, j := range jobs {
		errs = append(errs, s.end(ctx, j, func() bool {
			again, err := s.left(live, now)
			return err == nil && slices.Contains(again, j)
		}))
	}
	held, err := s.Mover.Held(ctx, holdersOf(s.Cluster))
	errs = append(errs, err)
	for _, h := range held {
		id, ours := JobOfHolder(s.Cluster, h.Holder)
		if _, there := live[id]; ours && !there && now.Sub(h.Since) > Grace {
			errs = append(errs, s.Mover.LetGo(ctx, h))
		}
	}
	return errors.Join(errs...)
}

// end ends a job that no epilog has ended, unless something is to leave its directory.
func (s *Site) end(ctx context.Context, j Job, still func() bool) error {
	moves, err := s.Mover.Moves(ctx, j)
	if err != nil || leaving(moves) {
		return err
	}
	unlock, locked := s.lock(ctx, j)
	defer unlock()
	if !locked || !still() { // it has begun again
		return nil
	}
	return errors.Join(s.remove(j), s.forget(j))
}

// renewEvery is between two looks whether what a job holds is to be renewed.
const renewEvery = time.Hour

// see notes in the records of jobs that a step was seen which lasts as long as they do, and renews what they hold.
func (s *Site) see(ctx context.Context, live map[uint32]bool, now time.Time) error {
	names, err := filepath.Glob(filepath.Join(s.State, "*.json"))
	errs := []error{err}
	for _, name := range names {
		id, uid, ok := parseDir(strings.TrimSuffix(filepath.Base(name), ".json"))
		j := Job{Cluster: s.Cluster, ID: id, UID: uid}
		r, err := s.recall(j)
		lasting, there := live[id]
		if !ok || !there || err != nil {
			continue
		}
		was := r
		r.Seen = r.Seen || lasting
		if latest := cmp.Or(r.Renewed, r.Began); !r.Ended && now.Sub(latest) > renewEvery {
			if err := s.Mover.Renew(ctx, j, now.Add(LeaseTTL/2)); err != nil {
				errs = append(errs, err)
			} else {
				r.Renewed = now
			}
		}
		if r.Seen != was.Seen || r.Renewed != was.Renewed {
			errs = append(errs, s.write(j, r))
		}
	}
	return errors.Join(errs...)
}

// left are the jobs that have a directory here, and nothing else.
func (s *Site) left(live map[uint32]bool, now time.Time) (jobs []Job, err error) {
	all, err := s.Present(live, now)
	for _, p := range all {
		if p.Over {
			jobs = append(jobs, p.Job)
		}
	}
	return jobs, err
}

// Present is a job that has a directory here.
type Present struct {
	Job
	Over bool // and nothing else: it has ended
}

// Present are the jobs that have a directory here.
func (s *Site) Present(live map[uint32]bool, now time.Time) (jobs []Present, err error) {
	dir, err := s.folder()
	if dir == nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if id, uid, ok := parseDir(name); ok {
			j := Job{Cluster: s.Cluster, ID: id, UID: uid, GID: uid}
			_, there := live[id]
			jobs = append(jobs, Present{j, !there && s.over(int(dir.Fd()), j, now)})
		}
	}
	return jobs, nil
}

// folder opens the folder of the directories of jobs; nil is none.
func (s *Site) folder() (*os.File, error) {
	root, err := s.scratch()
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(root) }()
	fd, err := openDir(root, Jobs)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), s.Scratch+"/"+Jobs), nil
}

// Open opens a directory in that of a job, over no link; fs.ErrNotExist is none.
func (s *Site) Open(j Job, name string) (*os.File, error) {
	folder, err := s.folder()
	if err != nil {
		return nil, err
	}
	if folder == nil {
		return nil, unix.ENOENT
	}
	defer folder.Close()
	name = path.Join(j.Dir(), name)
	fd, err := beneath.SameMount.Open(int(folder.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path.Join(s.Scratch, Jobs, name), Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// over says whether a job that has no process here is over. One that had a step which lasts as long as the job is; of another one, which may be
// between two steps, only the next boot tells: then its record is gone.
func (s *Site) over(dir int, j Job, now time.Time) bool {
	switch r, err := s.recall(j); {
	case err == nil && r.Ended:
		return true
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
