package client

import (
	"context"
	"fmt"
	"math"

	"datamove.dev/lustre/uapi"
)

// WillRead lets the servers fetch a range of an open file into their memory, so that a
// later reader does not wait for disks. size 0 is up to the end. It returns at
// once, and servers do not report whether they did it.
func (c *Client) WillRead(ctx context.Context, fd int, off, size int64) error {
	return c.advise(ctx, fd, uapi.WillRead, off, size)
}

// DontNeed lets the servers forget what they have of a range in their memory.
func (c *Client) DontNeed(ctx context.Context, fd int, off, size int64) error {
	return c.advise(ctx, fd, uapi.DontNeed, off, size)
}

func (c *Client) advise(ctx context.Context, fd int, kind uint16, off, size int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	end := int64(math.MaxInt64)
	if size > 0 && size < end-off {
		end = off + size
	}
	if off < 0 || size < 0 {
		return fmt.Errorf("advise servers of %d bytes at %d: there is no such range", size, off)
	}
	_, err := c.k.ioctl(fd, uapi.IocLadvise, uapi.EncodeAdvice(true, uapi.Advice{Kind: kind, Start: off, End: end}))
	if err != nil {
		return fmt.Errorf("advise servers of %d bytes at %d: %w", size, off, unsupported(err))
	}
	return nil
}
