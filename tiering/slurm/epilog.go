package slurm

import (
	"context"
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"datamove.dev/mover/trash"
)

// Epilog ends a job on a node. It releases what was held for the job. The directory goes to the trash by one rename, however much is in
// it. Where something is to be brought out of it still, or that is not known, it stays, for Reconcile. An error is a [Fault] of the node.
func (s *Site) Epilog(ctx context.Context, j Job) (out Outcome, err error) {
	j.Cluster = s.Cluster
	ctx, cancel := context.WithTimeout(ctx, s.waitMost())
	defer cancel()
	moves, err := s.Mover.Moves(ctx, j)
	stays := err != nil || leaving(moves)
	if err != nil {
		out.note("it is not known whether something is to leave the job's directory, and it stays for now", err)
	} else if err := s.letGo(ctx, j); err != nil {
		out.note("what was held for the job is held still, for now", err)
	}
	if stays {
		out.Dir = path.Join(s.Scratch, Jobs, j.Dir())
		if err := s.ended(j); err != nil {
			out.note("that the job has ended can not be noted, and its directory stays longer", err)
		}
		return out, nil
	}
	if err := s.remove(j); err != nil {
		var f *Fault
		if errors.As(err, &f) {
			return out, f
		}
		out.note("the job's directory stays for now", err)
		return out, nil
	}
	return out, s.forget(j)
}

// letGo drops all that a job holds on the node.
func (s *Site) letGo(ctx context.Context, j Job) error {
	held, err := s.Mover.Held(ctx, j.holders())
	errs := []error{err}
	for _, h := range held {
		errs = append(errs, s.Mover.LetGo(ctx, h))
	}
	return errors.Join(errs...)
}

// remove moves the directory of a job into the trash.
func (s *Site) remove(j Job) error {
	root, err := s.scratch()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(root) }()
	_, err = trash.Move(root, path.Join(Jobs, j.Dir()), "job-"+j.Dir())
	return s.fault(err)
}
