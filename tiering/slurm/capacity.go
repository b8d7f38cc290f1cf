package slurm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/claim"
	"datamove.dev/lustre/detect"
	"datamove.dev/mover"
	"datamove.dev/mover/trash"
)

// Capacity is the limit of a job's directory on this node.
type Capacity struct {
	Run   string `json:"run,omitempty"`   // of the job, as RunLabel has it
	Bytes int64  `json:"bytes,omitempty"` // that the file system holds it to; 0 is no limit
	Why   string `json:"why,omitempty"`   // there is none, where the job asks for one
}

// variables are those of the job's tasks.
func (c Capacity) variables() (vars [][2]string) {
	if c.Bytes > 0 {
		return [][2]string{{VarCapacity, strconv.FormatInt(c.Bytes, 10)}}
	}
	if c.Why != "" {
		return [][2]string{{VarCapacity, ""}, {VarNoCapacity, strings.Join(strings.Fields(c.Why), " ")}}
	}
	return nil
}

func (s *Site) capacityFile(j Job) string { return filepath.Join(s.State, j.Dir()+".capacity") }

// capacityOf is what Make has left for the prolog.
func (s *Site) capacityOf(j Job) (c Capacity) {
	text, err := os.ReadFile(s.capacityFile(j))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return Capacity{} // nothing is known to hold it
	}
	return c
}

// claims is the folder of the tier that has the project IDs of jobs.
const claims = mover.TempPrefix + "projects"

// Make makes the directory of a job before anything comes into it, and holds it to the capacity that a Space task has in its labels; other tasks change
// nothing. Where the file system can not hold it, the directory is made, and the prolog tells the job why. What another run has left there goes; where that is to leave
// still, it is mover.ErrConflict. That a job which runs has its directory is not changed.
func (s *Site) Make(ctx context.Context, dir string, gid uint32, labels map[string]string) error {
	id, uid, ok := parseDir(dir)
	bytes, err := strconv.ParseInt(labels[CapacityLabel], 10, 64)
	if !ok || err != nil || bytes <= 0 || labels[PartLabel] != Space {
		return nil
	}
	j := Job{Cluster: s.Cluster, ID: id, UID: uid, GID: gid}
	unlock, locked := s.lock(ctx, j)
	defer unlock()
	if !locked {
		return fmt.Errorf("%w: a hook of job %d is at work on %s", mover.ErrTransient, id, s.Scratch)
	}
	if r, err := s.recall(j); err == nil && !r.Ended && r.Dir != "" {
		return nil
	}
	root, err := s.scratch()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(root) }()
	c := Capacity{Run: labels[RunLabel], Bytes: bytes}
	if was := s.capacityOf(j); was.Run != c.Run || c.Run == "" {
		if err := s.clear(ctx, root, j); err != nil {
			return err
		}
	}
	if err := s.hold(ctx, root, j, bytes); err != nil {
		c.Bytes, c.Why = 0, err.Error()
	}
	if err := s.put(s.capacityFile(j), c); err != nil {
		return err
	}
	home, err := s.home(root, j)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(home) }()
	return spaces(home, j, labels)
}

// spaces makes the directories that labels name.
func spaces(home int, j Job, labels map[string]string) error {
	for label := range labels {
		name, is := strings.CutPrefix(label, SpaceLabel)
		if !is || !validLink(name) || strings.Contains(name, "/") {
			continue
		}
		err := unix.Mkdirat(home, name, 0o700)
		if err == nil {
			err = unix.Fchownat(home, name, int(j.UID), int(j.GID), unix.AT_SYMLINK_NOFOLLOW)
		}
		if err != nil && err != unix.EEXIST {
			return fmt.Errorf("make %s in the directory of job %d: %w", mover.Printable(name), j.ID, err)
		}
	}
	return nil
}

// clear moves what another run has left as the job's directory to the trash.
func (s *Site) clear(ctx context.Context, root int, j Job) error {
	name := path.Join(Jobs, j.Dir())
	var st unix.Stat_t
	if unix.Fstatat(root, name, &st, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.waitMost())
	defer cancel()
	moves, err := s.Mover.Moves(ctx, j)
	if err != nil {
		return err
	}
	if remains(moves) {
		return errRemains(j)
	}
	_, err = trash.Move(root, name, "job-"+j.Dir())
	return errors.Join(err, ignoreGone(os.Remove(s.file(j)))) // of that run
}

// errRemains is why a job does not begin.
func errRemains(j Job) error {
	return fmt.Errorf("%w: what an earlier run has left is brought away still, or waits for that: datamove task list --slurm-job %d", mover.ErrConflict, j.ID)
}

// hold makes the directory of a job as a project with a limit, or finds it made.
func (s *Site) hold(ctx context.Context, root int, j Job, bytes int64) error {
	p, err := s.projects(root)
	if err != nil {
		return err
	}
	defer p.close()
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	defer unlock()
	l := lustre.Limits{HardBytes: bytes}
	home, project, err := p.make(ctx, j, l)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(home) }()
	if err := p.quotas.SetQuota(ctx, home, project, l); err != nil {
		return err
	}
	q, err := p.quotas.Quota(ctx, home, project)
	if err == nil && !q.Enforced {
		err = fmt.Errorf("%w: quotas are counted on %s, and not enforced", mover.ErrUnsupported, s.Scratch)
	}
	return err
}

// projects are the open tier of jobs, and its quotas.
type projects struct {
	handle *detect.Handle
	quotas lustre.Quotas
	jobs   int // the folder of their directories
	book   claim.Book
	top    int // the root of the file system, as far as it is seen
}

// projects opens the tier; an error says why it has no limits for jobs.
func (s *Site) projects(root int) (p *projects, err error) {
	p = &projects{jobs: -1, top: -1, book: claim.Book{Dir: -1, IDs: s.IDs}}
	defer func() {
		if err != nil {
			p.close()
			p = nil
		}
	}()
	if p.handle, err = detect.At(root, detect.Options{}); err != nil {
		return p, err
	}
	if p.quotas = p.handle.System.Quota; p.quotas == nil {
		return p, p.handle.System.Lack(lustre.AskQuota)
	}
	kind := p.handle.System.Kind
	if kind != lustre.IsBtrfs && kind != lustre.IsExt4 && kind != lustre.IsXFS {
		return p, fmt.Errorf("%w: directories of jobs have limits on btrfs, ext4 and xfs, and %s is on %s", mover.ErrUnsupported, s.Scratch, kind)
	}
	if kind != lustre.IsBtrfs && s.IDs == (claim.Range{}) {
		return p, fmt.Errorf("%w: slurm.project_ids of the configuration of this node has no range of project IDs", mover.ErrUnsupported)
	}
	for _, folder := range []struct {
		name string
		mode uint32
		fd   *int
	}{{Jobs, 0o711, &p.jobs}, {claims, 0o700, &p.book.Dir}} {
		if err := unix.Mkdirat(root, folder.name, folder.mode); err != nil && err != unix.EEXIST {
			return p, fmt.Errorf("make %s/%s: %w", s.Scratch, folder.name, err)
		}
		if *folder.fd, err = s.owned(root, folder.name); err != nil {
			return p, err
		}
	}
	at := "."
	if p.handle.Mount.Root == "/" {
		at = p.handle.Mount.Point
	}
	p.top, err = unix.Openat(root, at, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return p, err
}

func (p *projects) close() {
	for _, fd := range []int{p.jobs, p.book.Dir, p.top} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if p.handle != nil {
		_ = p.handle.Close()
	}
}

// lock keeps what else gives project IDs on this file system waiting.
func (p *projects) lock() (unlock func(), err error) { return claim.Lock(p.top) }

// make makes a job's directory as a project, or finds it, and opens it.
func (p *projects) make(ctx context.Context, j Job, l lustre.Limits) (home int, project lustre.Project, err error) {
	maker, makes := p.quotas.(lustre.ProjectMaker)
	if makes {
		if _, err := p.quotas.Quota(ctx, p.jobs, lustre.Project{ID: topSubvolume}); err != nil { // quotas may be off
			return -1, project, err
		}
	}
	home, err = openDir(p.jobs, j.Dir())
	if err != nil && err != unix.ENOENT {
		return -1, project, err
	}
	if err == unix.ENOENT {
		if makes {
			_, err = maker.MakeProject(ctx, p.jobs, j.Dir(), 0o700)
		} else {
			err = unix.Mkdirat(p.jobs, j.Dir(), 0o700)
		}
		if err == nil {
			home, err = openDir(p.jobs, j.Dir())
		}
		if err != nil {
			return -1, project, err
		}
	}
	if project, err = p.of(ctx, home, j, l); err != nil {
		_ = unix.Close(home)
		return -1, project, err
	}
	return home, project, nil
}

// topSubvolume is the ID of the top of a btrfs.
const topSubvolume = 5

// of is the project of an open directory of a job, which is claimed for it.
func (p *projects) of(ctx context.Context, home int, j Job, l lustre.Limits) (project lustre.Project, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(home, &st); err != nil {
		return project, err
	}
	mark := markOf(j, st.Ino)
	if _, makes := p.quotas.(lustre.ProjectMaker); makes {
		around, err := p.quotas.Project(ctx, p.jobs)
		if err == nil {
			project, err = p.quotas.Project(ctx, home)
		}
		if err == nil && project.ID == around.ID {
			err = fmt.Errorf("%w: the directory of job %d was made by other means, and is no subvolume", mover.ErrConflict, j.ID)
		}
		if err == nil {
			_, err = p.book.Claim(project.ID, mark)
		}
		return project, err
	}
	project.Inherit = true
	if project.ID, err = p.book.Take(mark, claim.Fresh(ctx, p.quotas, home, l)); err != nil {
		return project, err
	}
	return project, p.quotas.SetProject(ctx, home, project)
}

// markOf is the mark of a job's directory. One that had its name, and is in the trash, has another inode.
func markOf(j Job, inode uint64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", j.Cluster, j.Dir(), inode))
	return hex.EncodeToString(sum[:16])
}

// Tend gives back the projects of jobs without a directory, also what a killed process has left. What a job has made as subvolumes outside of its limit is
// put under it.
func (s *Site) Tend(ctx context.Context) error {
	root, err := s.scratch()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(root) }()
	var st unix.Stat_t
	if unix.Fstatat(root, claims, &st, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT {
		return nil // no job ever had one
	}
	p, err := s.projects(root)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, mover.ErrUnsupported) { // quotas are switched off by now
		return nil
	}
	if err != nil {
		return err
	}
	defer p.close()
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	err = p.book.Each(func(id uint32) error {
		errs = append(errs, p.tend(ctx, id))
		return ctx.Err()
	})
	return errors.Join(append(slices.Clip(errs), err)...)
}

// tend looks after one project.
func (p *projects) tend(ctx context.Context, id uint32) error {
	project := lustre.Project{ID: id, Inherit: true}
	if t, ok := p.quotas.(lustre.ProjectTender); ok {
		return errors.Join(t.Gather(ctx, p.jobs, project), p.book.Forget(ctx, t, p.jobs, id))
	}
	q, err := p.quotas.Quota(ctx, p.jobs, project)
	if err != nil || q.UsedFiles > 0 || q.UsedBytes > 0 {
		return err
	}
	if err := p.quotas.SetQuota(ctx, p.jobs, project, lustre.Limits{}); err != nil {
		return err
	}
	return p.book.Drop(id)
}
