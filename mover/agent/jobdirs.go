package agent

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/replicadir"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
)

// jobDirs is the folder of a node's ephemeral tier that has directories of people for a time, as those of jobs: jobs/NAME.UID. Only
// root makes any there, each for the UID at the end of its name. So no user can take the directory of another one.
const jobDirs = "jobs"

// makeJobDirs makes the directory of the owner of a task that writes into it.
func (a *Agent) makeJobDirs(ctx context.Context, spec *pb.TaskSpec, who osaccount.Account) error {
	l, err := convert.Locate(spec.GetTarget())
	t := a.conf().Tiers[l.Tier]
	folders := strings.SplitN(l.Path, "/", 3)
	if err != nil || os.Geteuid() != 0 || !l.InTier() || t.Path == "" || !t.NodeLocal || !t.Ephemeral || backend.Mounted(t) != nil ||
		len(folders) < 2 || folders[0] != jobDirs || !strings.HasSuffix(folders[1], "."+strconv.FormatUint(uint64(who.UID), 10)) || task.Of(spec).RemovesTarget {
		return nil // the process will see
	}
	if a.o.Home != nil {
		if err := a.o.Home(ctx, l.Tier, folders[1], spec.GetLabels(), who.GID); err != nil {
			return err
		}
	}
	err = replicadir.Below(t.Path, folders[:2], func(at int, name string, last bool) error {
		mode, made := uint32(0o711), unix.Mkdirat(at, name, 0o700)
		if made == unix.EEXIST {
			return nil
		}
		if made != nil {
			return made
		}
		fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		if last {
			mode, err = 0o700, unix.Fchown(fd, int(who.UID), int(who.GID))
		}
		return errors.Join(err, unix.Fchmod(fd, mode))
	})
	if errors.Is(err, mover.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOENT) {
		return nil // as above
	}
	return err
}
