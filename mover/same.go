package mover

import (
	"bytes"
	"errors"
	"io"
)

// Same reports whether two readers have the same bytes. It reads no further than where they differ, and a MiB.
func Same(x, y io.Reader) (bool, error) {
	a, b := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, errA := io.ReadFull(x, a)
		m, errB := io.ReadFull(y, b)
		endA, endB := ended(errA), ended(errB)
		switch {
		case errA != nil && !endA:
			return false, errA
		case errB != nil && !endB:
			return false, errB
		case endA != endB || !bytes.Equal(a[:n], b[:m]):
			return false, nil
		case endA:
			return true, nil
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
