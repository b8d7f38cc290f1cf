package quota

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Room refuses a directory of a project that has used up a quota that the file system enforces. One that there is not yet will be in the project of
// that above it. What can not be seen from here is let through: the write hears of it.
func Room(ctx context.Context, a *cli.App, dir string) error {
	full, err := cli.ProbePath(ctx, a, dir, isFull)
	for errors.Is(err, mover.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		full, err = cli.ProbePath(ctx, a, dir, isFull)
	}
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	return full
}

// isFull says that nothing more can be written into the project of an open directory; nil is that something can.
func isFull(ctx context.Context, m *cli.Mounted) (full, err error) {
	quota, err := readQuota(ctx, m)
	if err != nil {
		return nil, err
	}
	q, limit := quota.Exhausted(time.Now())
	what := ""
	switch limit {
	case lustre.NoLimit:
		return nil, nil
	case lustre.HardBytesLimit:
		what = fmt.Sprintf("has used %s, and may hold %s", units.Bytes(q.UsedBytes), units.Bytes(q.HardBytes))
	case lustre.HardFilesLimit:
		what = fmt.Sprintf("has %s files, and may have %s", units.Count(q.UsedFiles), units.Count(q.HardFiles))
	case lustre.SoftBytesLimit:
		what = fmt.Sprintf("has used %s, which is over its soft limit of %s, for too long", units.Bytes(q.UsedBytes), units.Bytes(q.SoftBytes))
	case lustre.SoftFilesLimit:
		what = fmt.Sprintf("has had more files than its soft limit of %s for too long", units.Count(q.SoftFiles))
	}
	return fmt.Errorf("%w: %s: the project %s %s; datamove quota show %[2]s tells more", mover.ErrFull, mover.Printable(m.Path), limitRow{ViewOf(m, q), nil}.project(), what), nil
}
