package client

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// Project is lustre.Quotas.
func (c *Client) Project(ctx context.Context, fd int) (lustre.Project, error) {
	if err := ctx.Err(); err != nil {
		return lustre.Project{}, err
	}
	x, err := c.readProject(fd)
	if err != nil {
		return lustre.Project{}, fmt.Errorf("ask for the project of a file on %s: %w", c.Mount, unsupported(err))
	}
	return lustre.Project{ID: x.Project, Inherit: x.XFlags&uapi.InheritProject != 0}, nil
}

// readProject asks by a descriptor of now: an old one knows the project that the file had
// when it was opened, and the flags that it has now. Where the caller may not open the
// file again, the old one has to do.
func (c *Client) readProject(fd int) (x uapi.FSXattr, err error) {
	ask := func(fd int) error {
		b := make([]byte, uapi.SizeFSXattr)
		if _, err := c.k.ioctl(fd, uapi.IocGetFSXattr, b); err != nil {
			return err
		}
		var err error
		x, err = uapi.DecodeFSXattr(b)
		return err
	}
	mode, err := c.k.stat(fd)
	if err != nil {
		return x, err
	}
	if kind := mode & unix.S_IFMT; kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return x, ask(fd) // a device may do anything when it is opened
	}
	err = c.anew(fd, ask)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM) {
		err = ask(fd)
	}
	return x, err
}

// SetProject is lustre.Quotas. What is in the directory already stays where it is.
func (c *Client) SetProject(ctx context.Context, dir int, p lustre.Project) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.setProject(dir, p.ID); err != nil {
		return fmt.Errorf("put a directory on %s under project %d: %w", c.Mount, p.ID, err)
	}
	return nil
}

func (c *Client) setProject(dir int, id uint32) error {
	if !c.isDir(dir) {
		return unix.ENOTDIR
	}
	x, err := c.readProject(dir)
	if err != nil {
		return unsupported(err)
	}
	x.Project, x.XFlags = id, x.XFlags|uapi.InheritProject
	if _, err := c.k.ioctl(dir, uapi.IocSetFSXattr, x.Encode()); err != nil {
		return fmt.Errorf("%w%s", unsupported(err), projectAdvice(err))
	}
	got, err := c.readProject(dir)
	switch {
	case err != nil:
		return fmt.Errorf("%w: it can not be read again: %w", lustre.ErrNotApplied, err)
	case got.Project != id || got.XFlags&uapi.InheritProject == 0:
		return fmt.Errorf("%w: its project is %d, with flags %#x", lustre.ErrNotApplied, got.Project, got.XFlags)
	}
	return nil
}

func projectAdvice(err error) string {
	switch {
	case errors.Is(err, unix.EPERM):
		return " (only root may change a project)"
	case errors.Is(err, unix.EINVAL):
		return " (projects are not changed from within a user namespace)"
	}
	return ""
}
