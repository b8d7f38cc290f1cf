package client

import (
	"context"
	"fmt"

	"datamove.dev/lustre/uapi"
)

// DataVersion returns a number that is another one as soon as the content of an open file
// is another one. All clients write first what they keep to themselves: without that, a
// write that is still in the memory of one leaves the number as it was.
//
// Two equal numbers, one from before a copy and one from after it, say that the copy is of
// one moment. A write can still happen between the second number and what the caller does
// then.
//
// It waits until a group lock ([Client.LockGroup]) on the file is released, also for the
// caller's own: ask before.
func (c *Client) DataVersion(ctx context.Context, fd int) (uint64, error) {
	return dataVersion(ctx, c.k, fd, uapi.FlushWrites)
}

func dataVersion(ctx context.Context, k kernel, fd int, flush uint32) (uint64, error) {
	v, err := ask(ctx, k, fd, uapi.IocDataVersion, uapi.EncodeDataVersion(flush), func(b []byte) (uint64, error) {
		v, _, err := uapi.DecodeDataVersion(b)
		return v, err
	})
	if err != nil {
		return 0, fmt.Errorf("data version: %w", err)
	}
	return v, nil
}
