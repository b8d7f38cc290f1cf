package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// GroupLock is a lock on the content of an open file. Holders of the same number share it;
// all other readers and writers wait.
type GroupLock struct {
	k      kernel
	fd     int
	Number uint32
}

// LockGroup locks an open file for a group with a random number, known to no other process, and
// waits until all others have released it. That is in the kernel: ctx does not end it.
func (c *Client) LockGroup(ctx context.Context, fd int) (*GroupLock, error) {
	return lockGroup(ctx, c.k, fd, rand.Uint32N(1<<31-1)+1) // a positive int to the kernel
}

func lockGroup(ctx context.Context, k kernel, fd int, number uint32) (*GroupLock, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := k.ioctlValue(fd, uapi.IocGroupLock, uintptr(number)); err != nil {
		return nil, fmt.Errorf("group lock: %w", unsupported(err))
	}
	return &GroupLock{k, fd, number}, nil
}

// Unlock lets go. Closing the file does, too.
func (g *GroupLock) Unlock() error {
	if _, err := g.k.ioctlValue(g.fd, uapi.IocGroupUnlock, uintptr(g.Number)); err != nil {
		return fmt.Errorf("group unlock: %w", err)
	}
	return nil
}

// Lease is a file that is open here and nowhere else. Other processes are not kept out: an
// open of the file breaks the lease, and its holder can find out.
type Lease struct {
	k    kernel
	fd   int
	mode int // uapi.LeaseRead, uapi.LeaseWrite
}

// LeaseToWrite takes a lease on a file that is open for writing: lustre.ErrInUse when
// another process or client has it open.
func (c *Client) LeaseToWrite(ctx context.Context, fd int) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	_, err := c.k.ioctlValue(fd, uapi.IocSetLease, uapi.LeaseWrite)
	if errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("lease: %w: %w", lustre.ErrInUse, err)
	}
	if err != nil {
		return nil, fmt.Errorf("lease: %w", unsupported(err))
	}
	return &Lease{c.k, fd, uapi.LeaseWrite}, nil
}

// Held reports whether the lease is not broken. It may be in the next moment.
func (l *Lease) Held() (bool, error) {
	mode, err := l.k.ioctlValue(l.fd, uapi.IocGetLease, 0)
	if err != nil {
		return false, fmt.Errorf("lease: %w", err)
	}
	return mode == l.mode, nil
}

// Release gives the lease up, and reports whether it was held until now.
func (l *Lease) Release() (held bool, err error) {
	mode, err := l.k.ioctlValue(l.fd, uapi.IocSetLease, uapi.LeaseNone)
	if errors.Is(err, unix.ENOLCK) {
		return false, nil // it was broken, and is gone
	}
	if err != nil {
		return false, fmt.Errorf("give a lease up: %w", err)
	}
	return mode == l.mode, nil
}
