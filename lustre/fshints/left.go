package fshints

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/mover"
)

// overdraws reports whether this process may go beyond quotas: Linux (fs/quota/dquot.c) and the
// clients of Lustre (osc) let CAP_SYS_RESOURCE do that, which root mostly has. In a container it often has not;
// then it is held as anybody, and may not even ask.
func overdraws() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	return unix.Capget(&header, &sets[0]) == nil && sets[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// Left implements mover.FileSystem.
func (a *answers) Left(dir int) (mover.Room, bool, error) {
	if a.held {
		return mover.Room{}, false, nil
	}
	ctx := context.Background()
	p, err := a.s.Quota.Project(ctx, dir)
	if errors.Is(err, errors.ErrUnsupported) || err == nil && p.ID == 0 && p.Name == "" {
		return mover.Room{}, false, nil // no project
	}
	if err != nil {
		return mover.Room{}, false, err
	}
	q, err := a.s.Quota.Quota(ctx, dir, p)
	if errors.Is(err, errors.ErrUnsupported) {
		return mover.Room{}, false, nil
	}
	if err != nil {
		return mover.Room{}, false, err
	}
	room, limited := left(&q, a.s.Mount)
	return room, limited, nil
}

// left is what a quota leaves to root, where the file system does not enforce it for root. Limits
// that are not enforced at all are none.
func left(q *lustre.Quota, mount string) (mover.Room, bool) {
	bytes, hasBytes := q.LeftBytes()
	files, hasFiles := q.LeftFiles()
	if !q.Enforced || q.RootToo || !hasBytes && !hasFiles {
		return mover.Room{}, false
	}
	if !hasBytes {
		bytes = -1
	}
	if !hasFiles {
		files = -1
	}
	who := fmt.Sprintf("project %d", q.Project.ID)
	if q.Project.Name != "" {
		who = "project " + q.Project.Name
	}
	return mover.Room{Bytes: bytes, Files: files, Why: fmt.Sprintf(
		"%s on %s holds %d of %d bytes and %d of %d files (0 is no limit); the file system does not hold root to that, so datamove does",
		mover.Printable(who), mover.Printable(mount), q.UsedBytes, q.HardBytes, q.UsedFiles, q.HardFiles)}, true
}
