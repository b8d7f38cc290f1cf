package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// room refuses a directory whose project has used up a quota that the file system enforces. One that there is not yet will be in the project of
// that above it. What can not be seen from here is let through: who writes there hears of it.
func (a *app) room(ctx context.Context, dir string) error {
	v, err := question(ctx, a, dir, a.quotaOf)
	for errors.Is(err, mover.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		v, err = question(ctx, a, dir, a.quotaOf)
	}
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	return v.full()
}

// full says that nothing more can be written into a project, because of its own limits or of those of one around it.
func (v *quotaView) full() error {
	refused := func(q *quotaView, what string) error {
		return fmt.Errorf("%w: %s: the project %s %s; datamove quota show %[2]s tells more", mover.ErrFull, mover.Printable(v.Path), limitRow{q, nil}.project(), what)
	}
	for _, q := range append([]*quotaView{v}, v.Around...) {
		switch {
		case !q.Enforced:
		case q.HardBytes > 0 && q.UsedBytes >= q.HardBytes:
			return refused(q, fmt.Sprintf("has used %s, and may hold %s", units.Bytes(q.UsedBytes), units.Bytes(q.HardBytes)))
		case q.HardFiles > 0 && q.UsedFiles != nil && *q.UsedFiles >= q.HardFiles:
			return refused(q, fmt.Sprintf("has %s files, and may have %s", units.Count(*q.UsedFiles), units.Count(q.HardFiles)))
		case past(q.BytesUntil):
			return refused(q, fmt.Sprintf("has used %s, which is over its soft limit of %s, for too long", units.Bytes(q.UsedBytes), units.Bytes(q.SoftBytes)))
		case past(q.FilesUntil):
			return refused(q, fmt.Sprintf("has had more files than its soft limit of %s for too long", units.Count(q.SoftFiles)))
		}
	}
	return nil
}

// past says that a soft limit, which is passed, is a hard one by now.
func past(until *time.Time) bool { return until != nil && until.Before(time.Now()) }
