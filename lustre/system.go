package lustre

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Kind is a type of file system that the questions can be put to.
type Kind string

// The kinds.
const (
	IsLustre  Kind = "lustre"
	IsGPFS    Kind = "gpfs"
	IsCephFS  Kind = "cephfs"
	IsNFS     Kind = "nfs"
	IsBtrfs   Kind = "btrfs"
	IsExt4    Kind = "ext4"
	IsXFS     Kind = "xfs"
	IsBeeGFS  Kind = "beegfs"
	IsJuiceFS Kind = "juicefs"
	IsOther   Kind = "other"
)

// System is one mounted file system, and the packages that answer for it. A question without an
// answer is nil, and Lacks says why, for people.
type System struct {
	Kind   Kind
	Type   string // as the mount table says: "fuse.ceph-fuse"
	Name   string // of a Lustre its fsname; else the source of the mount
	Mount  string // where it is mounted
	Layout Layouts
	Quota  Quotas
	Usage  Usage
	HSM    HSM
	Change Changes
	Lacks  map[Question]string
}

// Question names one of the questions.
type Question string

// The questions.
const (
	AskLayout Question = "layout"
	AskQuota  Question = "quota"
	AskUsage  Question = "usage"
	AskHSM    Question = "hsm"
	AskChange Question = "changes"
)

// Lack is the error for a question that s has no answer to. It is errors.ErrUnsupported.
func (s *System) Lack(q Question) error {
	why := s.Lacks[q]
	if why == "" {
		why = "it has no such thing"
	}
	return fmt.Errorf("%s of %s (%s): %w: %s", q, printable(s.Mount), s.Kind, errors.ErrUnsupported, why)
}

// Descriptors (fd, dir) are open files of the caller and stay the caller's. A released
// file is opened for questions with O_RDONLY|O_NONBLOCK|O_NOCTTY|FASYNC on Lustre, see
// package client, so that nothing is restored by asking.

// Layouts says and sets how files lie on targets.
type Layouts interface {
	// Layout returns that of a file, or the default for new files of a directory:
	// ErrInherited when it has none of its own.
	Layout(ctx context.Context, fd int) (Layout, error)
	// SetDefault sets what new files of a directory get; the zero Layout takes it away.
	// It is read again: ErrNotApplied when the file system said yes and did not do it.
	SetDefault(ctx context.Context, dir int, l Layout) error
	// Create makes and opens the file base in dir with a layout. An error leaves no
	// file. ErrNotApplied, and errors.ErrUnsupported, mean that a file can be made
	// there, but not with that layout.
	Create(ctx context.Context, dir int, base string, flags int, mode uint32, l Layout) (fd int, err error)
	// Cluster returns what advice depends on: targets, pools, fullness, and what the
	// servers can do.
	Cluster(ctx context.Context, fd int) (Cluster, error)
}

// Quotas says and sets what projects may hold.
type Quotas interface {
	// Project is what the open file or directory is accounted under.
	Project(ctx context.Context, fd int) (Project, error)
	// SetProject puts the open directory, and what will be made in it, under a project.
	SetProject(ctx context.Context, dir int, p Project) error
	// Quota is that of a project of the file system of fd.
	Quota(ctx context.Context, fd int, p Project) (Quota, error)
	// SetQuota sets the limits of a project. It is read again.
	SetQuota(ctx context.Context, fd int, p Project, l Limits) error
}

// ProjectMaker is a Quotas of a file system where a project is made together with its
// directory, and a directory that exists can not be put under one (subvolumes of btrfs,
// filesets of GPFS).
type ProjectMaker interface {
	// MakeProject makes the directory base in dir, which is a project of its own.
	// An error leaves nothing.
	MakeProject(ctx context.Context, dir int, base string, mode uint32) (Project, error)
	// RemoveProject removes the directory base in dir with everything in it, if it is
	// that project still. Nothing of it may be open. Where only the directory is gone, and an interrupted
	// removal left something of the project, that is removed; fs.ErrNotExist: neither is there.
	RemoveProject(ctx context.Context, dir int, base string, p Project) error
}

// ProjectCloner is a ProjectMaker that can make a project with the content of another one
// at once, of which both share the bytes until one of them changes them.
type ProjectCloner interface {
	// CloneProject makes the directory base in dir, a project of its own with what the root
	// of another one, open as source, holds at this moment. An error leaves nothing.
	CloneProject(ctx context.Context, source, dir int, base string) (Project, error)
	// Freeze makes the project that is open as root read-only, or writable again.
	Freeze(ctx context.Context, root int, frozen bool) error
}

// ProjectTender is a ProjectMaker with projects that have to be looked after from time to time.
type ProjectTender interface {
	// Gather puts what a user made in a project outside of its limits under
	// them.
	Gather(ctx context.Context, fd int, p Project) error
	// Forget removes what the file system keeps of a project that was removed, and reports whether
	// nothing is left of it.
	Forget(ctx context.Context, fd int, p Project) (gone bool, err error)
}

// Usage says how full a file system is, target by target.
type Usage interface {
	// Targets returns them all: OSTs, MDTs, pools. Those that do not answer are Inactive.
	Targets(ctx context.Context, fd int) ([]Target, error)
}

// HSM moves the content of files to and from an archive.
type HSM interface {
	State(ctx context.Context, fd int) (HSMState, error)
	// ID names an open file for Request.
	ID(ctx context.Context, fd int) (FID, error)
	// Request asks for an action on many files, in as many calls as it takes; it does not
	// wait for its end. root is any open directory of the file system. archive 0 is the default.
	Request(ctx context.Context, root int, a Action, archive uint32, files []FID) error
}

// Changes is a feed of what happened.
type Changes interface {
	// Feeds returns the streams there are, one for each MDT.
	Feeds(ctx context.Context) ([]Feed, error)
	// Read yields the records after the index `after` in their order, and ends when there
	// is none at the moment. ErrGap when records after that one are gone: what happened
	// is not known, and everything has to be looked at.
	Read(ctx context.Context, f Feed, after uint64) iter.Seq2[Change, error]
	// Clear lets the server forget all records up to an index, for one registered reader
	// ("cl1"). It is done when nothing was read, too: a log that is never cleared fills the MDT.
	Clear(ctx context.Context, f Feed, reader string, upTo uint64) error
}

// What questions can be answered with, beside an answer.
var (
	// ErrInherited: the directory has no layout of its own; that of the file system holds.
	ErrInherited = errors.New("it has no layout of its own")
	// ErrNotApplied: the file system took the request and did not do it.
	ErrNotApplied = errors.New("it was taken and not done")
	// ErrGap: records of a change log are gone.
	ErrGap = errors.New("changes were lost: a full scan is needed")
)
