package agent

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/account"
	"datamove.dev/mover/location"
	"datamove.dev/mover/site"
	"datamove.dev/mover/wire"
)

// A dataset is staged to .datasets/NAME/DIGEST of a tier that many users share. As root we
// make these folders: the last one belongs to who stages it, those around it to nobody of
// them, so that the first one who stages anything is not the one who may. Where root
// may not (a server that does not believe it), users make their folders as they can.

// shelfOf is where a task stages a dataset, or removes one from: the root of the tier,
// and the folders below it.
func (a *Agent) shelfOf(spec *pb.TaskSpec) (root string, folders []string) {
	l, err := wire.Locate(spec.GetTarget())
	t := a.conf().Tiers[l.Tier]
	if err != nil || os.Geteuid() != 0 || l.Scheme != location.InTier || t.S3 != nil || t.Path == "" || site.Mounted(t) != nil {
		return "", nil // the process will see, and say it better
	}
	if folders = strings.Split(l.Path, "/"); len(folders) != 3 || folders[0] != ".datasets" {
		return "", nil
	}
	return t.Path, folders
}

// makeShelf makes the folders that a dataset is staged to.
func (a *Agent) makeShelf(spec *pb.TaskSpec, who account.Account) error {
	root, folders := a.shelfOf(spec)
	if folders == nil || spec.GetKind() != pb.TaskKind_TASK_KIND_STAGE {
		return nil
	}
	var err error
	for range 3 { // somebody may just be removing the empty ones
		if err = a.makeFolders(root, folders, who); !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	if errors.Is(err, mover.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOENT) {
		return nil // the process will see, and say it better
	}
	return err
}

func (a *Agent) makeFolders(root string, folders []string, who account.Account) error {
	return below(root, folders, func(at int, name string, last bool) error {
		err := unix.Mkdirat(at, name, 0o700)
		if err == unix.EEXIST {
			return nil
		}
		if err != nil {
			return err
		}
		fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		if last {
			err = unix.Fchown(fd, int(who.UID), int(who.GID))
		}
		return errors.Join(err, unix.Fchmod(fd, 0o755))
	})
}

// clearShelf removes the folders that are empty when a replica is gone: its own, and that
// of the name of the dataset.
func (a *Agent) clearShelf(spec *pb.TaskSpec) {
	root, folders := a.shelfOf(spec)
	if folders == nil || spec.GetKind() != pb.TaskKind_TASK_KIND_RELEASE {
		return
	}
	for n := len(folders); n > 1; n-- {
		gone := false
		err := below(root, folders[:n], func(at int, name string, last bool) error {
			if !last {
				return nil
			}
			err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
			gone = err == nil || err == unix.ENOENT
			return err
		})
		if !gone && !errors.Is(err, unix.ENOENT) {
			return
		}
	}
}

// below goes down from a directory, over no symbolic link, and calls do before each step.
func below(root string, folders []string, do func(at int, name string, last bool) error) error {
	at, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(at) }()
	for i, name := range folders {
		if err := do(at, name, i == len(folders)-1); err != nil {
			return err
		}
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.ENOTDIR || err == unix.ELOOP {
			return &mover.Error{Op: "open", Place: root, Name: strings.Join(folders[:i+1], "/"), Err: fmt.Errorf("%w: it is a symbolic link, or no folder", mover.ErrConflict)}
		}
		if err != nil {
			return err
		}
		_ = unix.Close(at)
		at = next
	}
	return nil
}
