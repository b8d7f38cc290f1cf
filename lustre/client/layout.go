package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// xattrLayout is the attribute that everybody may read: trusted.lov has the same bytes, and
// for an ordinary user no data, which is not the same as no layout.
const xattrLayout = "lustre.lov"

// Layout is lustre.Layouts: that of a file is zero when nothing was ever stored for it.
func (c *Client) Layout(ctx context.Context, fd int) (lustre.Layout, error) {
	if err := ctx.Err(); err != nil {
		return lustre.Layout{}, err
	}
	l, err := c.readLayout(fd)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, unix.ENODATA) && c.isDir(fd):
		return lustre.Layout{}, lustre.ErrInherited
	case errors.Is(err, unix.ENODATA):
		return lustre.Layout{}, nil
	case errors.Is(err, unix.EOPNOTSUPP):
		if l, ferr := c.program.layout(ctx, fd, c.isDir(fd)); !errors.Is(ferr, errors.ErrUnsupported) {
			return l, ferr
		}
	}
	return lustre.Layout{}, fmt.Errorf("read the layout of a file on %s: %w", c.Mount, unsupported(err))
}

func (c *Client) readLayout(fd int) (lustre.Layout, error) {
	b, err := c.k.getxattr(fd, xattrLayout)
	if err != nil {
		return lustre.Layout{}, err
	}
	return uapi.DecodeLayout(b)
}

// SetDefault is lustre.Layouts. On the directory that is the root of the file system it
// sets the default of all of it.
func (c *Client) SetDefault(ctx context.Context, dir int, l lustre.Layout) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.IsZero() || saysNothing(&l) {
		return c.removeDefault(dir)
	}
	request, _, err := c.request(ctx, &l)
	if err != nil {
		return fmt.Errorf("set the default layout of a directory on %s: %w", c.Mount, err)
	}
	if err := c.set(dir, request, &l); err != nil {
		return fmt.Errorf("set the default layout of a directory on %s: %w", c.Mount, unsupported(err))
	}
	err = c.anew(dir, func(fd int) error {
		got, err := c.readLayout(fd)
		if err != nil {
			return fmt.Errorf("%w: it can not be read again: %w", lustre.ErrNotApplied, err)
		}
		return differs(&l, &got, 0)
	})
	if err != nil {
		return fmt.Errorf("set the default layout of a directory on %s: %w", c.Mount, err)
	}
	return nil
}

// saysNothing reports whether l leaves everything to the file system. A default that does is
// one that Lustre takes away (LOVEA_DELETE_VALUES).
func saysNothing(l *lustre.Layout) bool {
	if len(l.Components) != 1 {
		return false
	}
	c := &l.Components[0]
	return c.Start == 0 && c.End == lustre.EOF && (c.Pattern == 0 || c.Pattern == lustre.RAID0) && c.StripeBytes == 0 && c.StripeCount == 0 &&
		c.FirstTarget == lustre.AnyTarget && c.Pool == "" && len(c.Objects) == 0
}

func (c *Client) removeDefault(dir int) error {
	if err := c.k.removexattr(dir, xattrLayout); err != nil && !errors.Is(err, unix.ENODATA) {
		return fmt.Errorf("take the default layout away from a directory on %s: %w", c.Mount, unsupported(err))
	}
	return c.anew(dir, func(fd int) error {
		if _, err := c.readLayout(fd); !errors.Is(err, unix.ENODATA) {
			return fmt.Errorf("take the default layout away from a directory on %s: %w: it still has one", c.Mount, lustre.ErrNotApplied)
		}
		return nil
	})
}

// anew asks a question of what is open as fd by a descriptor of now.
func (c *Client) anew(fd int, ask func(fd int) error) (err error) {
	now, err := c.fresh(fd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.k.close(now)) }()
	return ask(now)
}

// request is the bytes that ask for a layout, when there is what it names: Lustre takes the
// name of a pool that there is not, and chooses among all OSTs. targets is how many may
// serve the file, 0 when that is not known.
func (c *Client) request(ctx context.Context, l *lustre.Layout) (b []byte, targets int, err error) {
	if len(l.Opaque) > 0 {
		return nil, 0, fmt.Errorf("%w: its format is not known here, and it names the objects of another file", lustre.ErrNotApplied)
	}
	if b, err = uapi.EncodeRequest(l); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", lustre.ErrNotApplied, err)
	}
	targets, err = c.checkPools(ctx, l)
	return b, targets, err
}

// differs is ErrNotApplied with the first difference between what was asked for and what is there.
func differs(wanted, got *lustre.Layout, targets int) error {
	if d := lustre.Same(wanted, got, targets); d != "" {
		return fmt.Errorf("%w: %s", lustre.ErrNotApplied, d)
	}
	return nil
}

// fileSystemDefault is the layout of files in directories that have no other: that of the
// root, or else what the servers' parameters say. It is zero where neither is known.
func (c *Client) fileSystemDefault(ctx context.Context) (lustre.Layout, error) {
	if !c.inner {
		l, err := c.Layout(ctx, c.root)
		if !errors.Is(err, lustre.ErrInherited) {
			return l, err
		}
	}
	count, size := c.number("stripecount"), c.number("stripesize")
	if count == 0 || size <= 0 || size%lustre.StripeUnit != 0 {
		return lustre.Layout{}, nil
	}
	return lustre.Layout{Components: []lustre.Component{{
		End: lustre.EOF, Pattern: lustre.RAID0, StripeBytes: size, StripeCount: int(count), FirstTarget: lustre.AnyTarget,
	}}}, nil
}

// number is a parameter of the client's striping; 0 where it can not be read.
func (c *Client) number(name string) int64 {
	text, err := c.parameter("lov", "clilov-", name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || n < lustre.AllTargets:
		return 0
	case n == math.MaxUint32 || n == math.MaxUint16: // -1, written as an unsigned number
		return lustre.AllTargets
	}
	return n
}
