package engine

import (
	"context"
	"errors"
	"fmt"
	"io"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/checksum"
)

// resumed is a manifest that is read on when the store breaks off: it is opened again, and is to begin as before.
type resumed struct {
	io.ReadCloser
	ctx  context.Context
	open func() (io.ReadCloser, error)
	retry.Options
	read int64
	sum  uint64 // of what was read
}

// opens opens a manifest by its calls, which are retried.
func (p patient) opens(ctx context.Context, open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	r := &resumed{ctx: ctx, open: open, Options: p.Options}
	err := retry.Do(ctx, p.Options, "open", "manifest", func() (err error) { r.ReadCloser, err = open(); return err })
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *resumed) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	if errors.Is(err, mover.ErrTransient) && n == 0 {
		err = retry.Do(r.ctx, r.Options, "read", "manifest", func() (err error) {
			if err := r.again(); err != nil {
				return err
			}
			if n, err = r.ReadCloser.Read(b); n > 0 || err == io.EOF {
				return nil // what is wrong after it is met by the next call
			}
			return err
		})
		if err == nil && n == 0 {
			err = io.EOF
		}
	}
	if n > 0 && errors.Is(err, mover.ErrTransient) {
		err = nil // it is met again by the next call
	}
	r.read += int64(n)
	r.sum = checksum.Update(r.sum, b[:n])
	return n, err
}

// again opens the manifest, and reads it up to where it broke off.
func (r *resumed) again() error {
	body, err := r.open()
	if err != nil {
		return err
	}
	_ = r.Close()
	r.ReadCloser = body
	sum := uint64(0)
	buf := make([]byte, 32<<10)
	for left := r.read; left > 0; {
		n, err := body.Read(buf[:min(left, int64(len(buf)))])
		sum = checksum.Update(sum, buf[:n])
		if left -= int64(n); left > 0 && err != nil {
			if err == io.EOF {
				break
			}
			return err
		}
	}
	if sum != r.sum {
		return fmt.Errorf("%w: the manifest became another one while it was read", mover.ErrChanged)
	}
	return nil
}
