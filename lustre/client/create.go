package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// Create is lustre.Layouts. The file is made without objects, gets its layout, and what it
// got is read and compared; when that is not what was asked for it is taken away again: a
// file that was opened so and has no layout fails every write.
func (c *Client) Create(ctx context.Context, dir int, base string, flags int, mode uint32, l lustre.Layout) (int, error) {
	if err := ctx.Err(); err != nil {
		return -1, err
	}
	flags |= unix.O_CREAT | unix.O_EXCL
	if l.IsZero() {
		return c.k.openat(dir, base, flags, mode)
	}
	if flags&unix.O_ACCMODE == unix.O_RDONLY {
		return -1, fmt.Errorf("create %q on %s: a layout is set by who may write: %w", base, c.Mount, unix.EINVAL)
	}
	request, targets, err := c.request(ctx, &l)
	if err != nil {
		return -1, fmt.Errorf("create %q on %s with a layout: %w", base, c.Mount, err)
	}
	fd, err := c.k.openat(dir, base, flags|uapi.DelayCreate, mode)
	if err != nil {
		return -1, err
	}
	if err := c.apply(ctx, fd, request, &l, targets); err != nil {
		closed, gone := c.k.close(fd), c.k.unlinkat(dir, base)
		if errors.Is(gone, unix.ENOENT) { // a volatile file, which had no name
			gone = nil
		}
		return -1, errors.Join(fmt.Errorf("create %q on %s with a layout: %w", base, c.Mount, err), closed, gone)
	}
	return fd, nil
}

// apply gives the new file fd a layout.
func (c *Client) apply(ctx context.Context, fd int, request []byte, l *lustre.Layout, targets int) error {
	if err := c.set(fd, request, l); err != nil {
		return fmt.Errorf("%w: %w%s", lustre.ErrNotApplied, unsupported(err), advice(err))
	}
	got, err := c.readLayout(fd)
	if errors.Is(err, unix.ENODATA) {
		// A caller outside of the group of enable_setstripe_gid gets this answer.
		return fmt.Errorf("%w: it has no layout after it was set; does llite.*.enable_setstripe_gid forbid it?", lustre.ErrNotApplied)
	}
	if err != nil {
		return fmt.Errorf("%w: it can not be read again: %w", lustre.ErrNotApplied, err)
	}
	if targets > 0 && differs(l, &got, targets) != nil {
		// With an OST that is off or full, all of them are fewer than there are.
		targets = c.usable(ctx, l.Components[0].Pool, targets)
	}
	return differs(l, &got, targets)
}

// set asks for a layout: by attribute, which takes all of them, but makes of a plain one that
// begins on OST 0 one that begins anywhere. That is asked for by ioctl.
func (c *Client) set(fd int, request []byte, l *lustre.Layout) error {
	byAttribute := func() error { return c.k.setxattr(fd, xattrLayout, request) }
	byIoctl := func() error { // which answers in place
		_, err := c.k.ioctl(fd, uapi.IocSetStripe, bytes.Clone(request))
		return err
	}
	ways := []func() error{byAttribute, byIoctl}
	switch magic := binary.LittleEndian.Uint32(request); {
	case (magic == uapi.MagicV1 || magic == uapi.MagicV3) && l.Components[0].FirstTarget == 0:
		ways = []func() error{byIoctl, byAttribute}
	case magic == uapi.MagicForeign:
		ways = ways[:1]
	}
	var err error
	for _, way := range ways {
		if err = way(); !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOTTY) {
			return err
		}
	}
	return err
}

// advice is what may help against what a layout was refused with.
func advice(err error) string {
	switch {
	case errors.Is(err, unix.EINVAL):
		return " (Lustre does not take such a layout: a stripe size, an end, a target or a version)"
	case errors.Is(err, unix.ENOSPC):
		return " (the OSTs that it may use have no room)"
	case errors.Is(err, unix.EACCES):
		return " (llite.*.enable_setstripe_gid says who may)"
	}
	return ""
}

// usable is how many OSTs, of a pool where one is named, new objects can be made on; known
// when they can not be asked.
func (c *Client) usable(ctx context.Context, pool string, known int) int {
	const unusable = lustre.ReadOnlyState | lustre.NoCreate | lustre.NoSpace | lustre.NoInodes
	osts, err := c.targets(ctx, lustre.OST)
	if err != nil {
		return known
	}
	var members []int
	if pool != "" {
		if members, err = c.pool(ctx, pool); err != nil {
			return known
		}
	}
	n := 0
	for _, o := range osts {
		if o.Inactive == "" && o.State&unusable == 0 && (pool == "" || slices.Contains(members, o.Index)) {
			n++
		}
	}
	return n
}
