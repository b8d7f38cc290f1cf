package client

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre/uapi"
)

// LazySize is how large a file is, as its MDT believes, without asking an OST.
type LazySize struct {
	Bytes, Blocks int64 // Blocks of 512 bytes
	Exact         bool  // else it was so when the file was last closed
}

// ErrNoSize says that an MDT has no size of a file.
var ErrNoSize = errors.New("its MDT keeps no size")

// LazySize returns the size that the MDT keeps of an open file. Only root can see it, and
// it costs a request: a walk asks statx with AT_STATX_DONT_SYNC instead, which is answered
// with the same size.
func (c *Client) LazySize(ctx context.Context, fd int) (LazySize, error) {
	if err := ctx.Err(); err != nil {
		return LazySize{}, err
	}
	b, err := c.k.getxattr(fd, uapi.LazySizeName)
	if errors.Is(err, unix.ENODATA) { // also the answer to callers other than root
		return LazySize{}, fmt.Errorf("lazy size: %w, or the caller is not root", ErrNoSize)
	}
	if err != nil {
		return LazySize{}, fmt.Errorf("lazy size: %w", unsupported(err))
	}
	s, err := uapi.DecodeLazySize(b)
	if err != nil {
		return LazySize{}, fmt.Errorf("lazy size: %w", err)
	}
	if s.Valid&(uapi.SizeStrict|uapi.SizeLazy) == 0 {
		return LazySize{}, fmt.Errorf("lazy size: %w that holds", ErrNoSize)
	}
	return LazySize{s.Bytes, s.Blocks, s.Valid&uapi.SizeStrict != 0}, nil
}
