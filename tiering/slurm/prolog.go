package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/trash"
	"datamove.dev/tiering/dataset/datasetclient"
)

// Outcome is what a prolog or an epilog has to tell, for the log of slurmd.
type Outcome struct {
	Dir    string   // of the job; "" is none
	Links  []Link   // of the prolog
	Copies []string // of the prolog: names of what was copied into the directory
	Notes  []string // what did not go well, and does not matter to the node
}

// Link is something that was staged for the job.
type Link struct {
	Name string `json:"name"` // in the job's directory
	Path string `json:"path"` // where it leads
}

// Prolog prepares a node for a job: its directory, and names in it for what was staged and is held. An error is a [Fault] of the node; what else does not
// go well is in the notes, and the job begins without it.
func (s *Site) Prolog(ctx context.Context, j Job) (out Outcome, err error) {
	j.Cluster = s.Cluster
	unlock, _ := s.lock(ctx, j)
	defer unlock()
	root, err := s.scratch()
	if err == nil {
		defer func() { _ = unix.Close(root) }()
		err = s.prepare(ctx, root, j, &out)
	}
	var f *Fault
	if err = s.fault(err); errors.As(err, &f) {
		return out, f
	}
	if err != nil {
		out.note("the job has no directory of its own", err)
	}
	if err := s.remember(j, out); err != nil {
		out.note("the record of the job can not be written", err)
	}
	return out, nil
}

func (s *Site) prepare(ctx context.Context, root int, j Job, out *Outcome) error {
	dir, err := s.home(root, j)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	held, moves, err := s.staged(ctx, j)
	if wrong := s.alone(root, j, moves, err); wrong != nil {
		return wrong
	}
	out.Dir = path.Join(s.Scratch, Jobs, j.Dir())
	out.Copies = brought(moves)
	if err != nil {
		out.note("what was staged for the job is not known, and it reads what is elsewhere", err)
		return nil
	}
	for _, h := range held {
		if h.Owner != j.UID && h.Owner != uint32(unix.Geteuid()) {
			continue // anybody can hold something in the name of a job
		}
		if h.Place == (datasetclient.Staged{}) {
			out.note("what is staged has no name in the job's directory", fmt.Errorf("%s holds it on a tier that has no directory on this node", mover.Printable(h.Holder)))
			continue
		}
		name := strings.TrimPrefix(h.Holder, j.holders())
		target := path.Join(h.Place.Root, h.Place.Path)
		if err := s.fault(link(dir, j, name, target)); err != nil {
			if f := new(Fault); errors.As(err, &f) {
				return err
			}
			out.note("what is staged has no name in the job's directory", err)
			continue
		}
		out.Links = append(out.Links, Link{name, target})
	}
	return nil
}

// alone keeps what another run has left out of the directory of a job: one before a requeue, or of another job that had the number. What has come
// for this run stays. Where something of the other one is to leave still, or that is not known, this one has no directory. unknown is why the moves are not known.
func (s *Site) alone(root int, j Job, moves []Move, unknown error) error {
	r, err := s.recall(j)
	again := errors.Is(err, mover.ErrNotExist)
	switch {
	case err != nil && !again, err == nil && !r.Ended && r.Dir != "":
		return nil // the prolog of this run, once more
	case again && unknown != nil:
		return nil // it may be all of this run
	case unknown != nil:
		return fmt.Errorf("an earlier run has left its own, and it is not known whether that is to be brought away: %w", unknown)
	case remains(moves):
		return errRemains(j)
	}
	ours := coming(moves)
	if ours[""] || again && s.capacityOf(j) != (Capacity{}) {
		return nil // Make has taken away what is of others
	}
	dir, err := openDir(root, path.Join(Jobs, j.Dir()))
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(dir), j.Dir())
	defer f.Close()
	names, err := f.Readdirnames(-1)
	errs := []error{err}
	for _, name := range names {
		if !ours[name] && !strings.HasPrefix(name, mover.TempPrefix) {
			_, err := trash.Move(root, path.Join(Jobs, j.Dir(), name), "job-"+j.Dir())
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Site) staged(ctx context.Context, j Job) ([]datasetclient.Holding, []Move, error) {
	ctx, cancel := context.WithTimeout(ctx, s.waitMost())
	defer cancel()
	held, err := s.Mover.Held(ctx, j.holders())
	if err != nil {
		return nil, nil, err
	}
	moves, err := s.Mover.Moves(ctx, j)
	return held, moves, err
}

func (o *Outcome) note(what string, err error) { o.Notes = append(o.Notes, what+": "+err.Error()) }
