package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// Striping is how the entries of an open directory are spread over MDTs. One that is not
// striped has a Count of 1, and FirstMDT is where it is.
func (c *Client) Striping(ctx context.Context, dir int) (lustre.Striping, error) {
	if err := ctx.Err(); err != nil {
		return lustre.Striping{}, err
	}
	s, err := c.readStriping(dir, uapi.MagicStripes)
	if errors.Is(err, unix.ENODATA) {
		index := make([]byte, 4)
		if _, err = c.k.ioctl(dir, uapi.IocMDTIndex, index); err == nil {
			return lustre.Striping{Count: 1, FirstMDT: int(binary.LittleEndian.Uint32(index))}, nil
		}
	}
	if err != nil {
		return s, fmt.Errorf("ask how a directory on %s is striped: %w", c.Mount, unsupported(err))
	}
	if len(s.Shards) > 0 {
		s.FirstMDT = s.Shards[0].MDT
	}
	return s, nil
}

// DefaultStriping is how new directories in an open directory will be: lustre.ErrInherited
// when it does not say.
func (c *Client) DefaultStriping(ctx context.Context, dir int) (s lustre.Striping, err error) {
	if err := ctx.Err(); err != nil {
		return s, err
	}
	err = c.anew(dir, func(fd int) error { // an old descriptor answers what was so when it was opened
		s, err = c.readStriping(fd, uapi.MagicDefaultStripes)
		return err
	})
	switch {
	case errors.Is(err, unix.ENODATA):
		return s, lustre.ErrInherited
	case err != nil:
		return s, fmt.Errorf("ask how new directories on %s are striped: %w", c.Mount, unsupported(err))
	}
	return s, nil
}

// readStriping asks again with more room when a kernel says that it needs it.
func (c *Client) readStriping(dir int, magic uint32) (lustre.Striping, error) {
	for room := 64; ; {
		arg := uapi.AskStriping(magic, room)
		_, err := c.k.ioctl(dir, uapi.IocGetDirStripe, arg)
		if errors.Is(err, unix.E2BIG) {
			if needed := uapi.NeededShards(arg); needed > room {
				room = needed
				continue
			}
		}
		if err != nil {
			return lustre.Striping{}, err
		}
		return uapi.DecodeStriping(arg)
	}
}

// SetDefaultStriping sets how new directories in an open directory will be; the zero
// Striping takes it away. It is read again.
func (c *Client) SetDefaultStriping(ctx context.Context, dir int, s lustre.Striping) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	none := s.Count == 0
	if none {
		s = lustre.Striping{FirstMDT: lustre.AnyTarget} // a count of 0 from any: no default
	}
	s.Shards = nil
	arg, err := uapi.EncodeStriping(&s, uapi.MagicDefaultStripes)
	if err == nil {
		_, err = c.k.ioctl(dir, uapi.IocSetDefaultStripe, arg)
	}
	if err != nil {
		return fmt.Errorf("set how new directories on %s are striped: %w", c.Mount, unsupported(err))
	}
	got, err := c.DefaultStriping(ctx, dir)
	if none && errors.Is(err, lustre.ErrInherited) || err == nil && !none && sameStriping(&s, &got) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("it is %d from MDT %d (%v)", got.Count, got.FirstMDT, got.Hash)
	}
	return fmt.Errorf("set how new directories on %s are striped: %w: %w", c.Mount, lustre.ErrNotApplied, err)
}

func sameStriping(wanted, got *lustre.Striping) bool {
	return wanted.Count == got.Count && wanted.FirstMDT == got.FirstMDT && wanted.MaxInherit == got.MaxInherit &&
		(wanted.Hash == 0 || wanted.Hash == got.Hash)
}

// MakeDir makes a directory in an open one, spread over MDTs. What it became is read and
// compared; an error leaves no directory behind. More MDTs than there are is all of them.
func (c *Client) MakeDir(ctx context.Context, dir int, base string, mode uint32, s lustre.Striping) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !isBase(base) {
		return fmt.Errorf("make the directory %q on %s: that is no name", base, c.Mount)
	}
	s.Shards = nil
	stripes, err := uapi.EncodeStriping(&s, uapi.MagicDefaultStripes)
	if err != nil {
		return fmt.Errorf("make the directory %q on %s: %w", base, c.Mount, err)
	}
	r := uapi.OBDRequest{Flags: uapi.ForCreate, Type: mode & 0o7777, Inline: [][]byte{append([]byte(base), 0), stripes}}
	arg, err := r.Encode()
	if err == nil {
		_, err = c.k.ioctl(dir, uapi.IocSetDirStripe, arg)
	}
	if err != nil {
		return fmt.Errorf("make the directory %q on %s: %w", base, c.Mount, unsupported(err))
	}
	if err := c.madeAs(ctx, dir, base, &s); err != nil {
		return errors.Join(fmt.Errorf("make the directory %q on %s: %w", base, c.Mount, err), c.k.rmdirat(dir, base))
	}
	return nil
}

func (c *Client) madeAs(ctx context.Context, dir int, base string, s *lustre.Striping) (err error) {
	fd, err := c.k.openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.k.close(fd)) }()
	got, err := c.Striping(ctx, fd)
	if err != nil {
		return err
	}
	count := s.Count
	if count == lustre.AllTargets || count > 1 && got.Count < count {
		mdts, err := c.targets(ctx, lustre.MDT)
		if err != nil {
			return err
		}
		if count == lustre.AllTargets || count > len(mdts) {
			count = len(mdts)
		}
	}
	switch {
	case count > 0 && got.Count != count:
		return fmt.Errorf("%w: it is on %d MDTs instead of %d", lustre.ErrNotApplied, got.Count, count)
	case s.FirstMDT != lustre.AnyTarget && got.FirstMDT != s.FirstMDT:
		return fmt.Errorf("%w: it is on MDT %d instead of %d", lustre.ErrNotApplied, got.FirstMDT, s.FirstMDT)
	case s.Hash != 0 && got.Count > 1 && got.Hash != s.Hash:
		return fmt.Errorf("%w: its hash is %v instead of %v", lustre.ErrNotApplied, got.Hash, s.Hash)
	}
	return nil
}
