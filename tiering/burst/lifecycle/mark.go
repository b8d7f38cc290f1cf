package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"datamove.dev/mover"
)

// mark is an object below the prefix of a burst that names the burst: what lies there goes with the burst, and nothing goes without it. Listings and copies leave it out.
const (
	mark     = ".datamove/burst"
	markMost = 256 // bytes
)

// claim takes a prefix for a burst, in which nothing is, and which is not within that of another one.
func (w *work) claim(ctx context.Context) error {
	owner, err := w.markAt(ctx, w.burst.Prefix())
	switch {
	case err != nil:
		return err
	case owner == w.record.ID:
		return nil
	case owner != "":
		return fmt.Errorf("%w: %s is the prefix of burst %s, of which no record is here", mover.ErrConflict, w.burst.Prefix(), owner)
	}
	if err := w.alone(ctx); err != nil {
		return err
	}
	at, err := w.Find(w.burst.Location(mark))
	if err != nil {
		return err
	}
	return w.Way.Write(ctx, at, []byte(w.record.ID+"\n"))
}

// alone refuses a prefix below which something is, or that is within the prefix of another burst.
func (w *work) alone(ctx context.Context) error {
	for dir := path.Dir(w.burst.Prefix()); dir != "." && dir != "/"; dir = path.Dir(dir) {
		owner, err := w.markAt(ctx, dir)
		if errors.Is(err, mover.ErrPermission) {
			continue // a role that is held to our prefix sees no more
		}
		if err != nil || owner != "" {
			return errors.Join(err, fmt.Errorf("%w: %s is within the prefix %s of burst %s: name another spec.cloud.prefix", mover.ErrConflict, w.burst.Prefix(), dir, owner))
		}
	}
	at, err := w.Find(w.burst.Spec.Cloud.Tier + ":" + w.burst.Prefix())
	if err != nil {
		return err
	}
	empty, err := w.Way.Empty(ctx, at)
	if err == nil && !empty {
		err = fmt.Errorf("%w: there is something below %s that is of no burst: name another spec.cloud.prefix, or remove it", mover.ErrConflict, at)
	}
	return err
}

// marked refuses to take what is not marked as this burst's. Where nothing is, there is nothing to take.
func (w *work) marked(ctx context.Context) error {
	owner, err := w.markAt(ctx, w.burst.Prefix())
	if err != nil || owner == w.record.ID {
		return err
	}
	if owner == "" {
		return w.alone(ctx)
	}
	return fmt.Errorf("%w: what is below %s is marked as that of burst %s: it is not taken away", mover.ErrConflict, w.burst.Prefix(), owner)
}

// markAt is the ID of the burst with a prefix of the tier; "" is none.
func (w *work) markAt(ctx context.Context, prefix string) (string, error) {
	at, err := w.Find(w.burst.Spec.Cloud.Tier + ":" + prefix + "/" + mark)
	if err != nil {
		return "", err
	}
	text, err := w.Way.Text(ctx, at, markMost)
	if errors.Is(err, mover.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(text))
	if id == "" {
		id = "?"
	}
	return mover.Printable(id), nil
}
