package inotify

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// event is one of inotify (struct inotify_event of inotify(7)): i32 watch, u32 mask, u32 cookie, u32 length of the name with the zero bytes behind it.
type event struct {
	watch int32
	mask  uint32
	name  string // in the directory that is watched; "" is the directory
}

var errMalformed = errors.New("the kernel wrote something that is no event")

// eachEvent decodes what was read from a queue.
func eachEvent(b []byte, do func(event)) error {
	const head = 16
	for len(b) > 0 {
		if len(b) < head {
			return fmt.Errorf("%w: %d bytes at its end", errMalformed, len(b))
		}
		size := int(binary.NativeEndian.Uint32(b[12:]))
		if size > len(b)-head {
			return fmt.Errorf("%w: a name of %d bytes in %d", errMalformed, size, len(b)-head)
		}
		do(event{int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:]), upToZero(b[head : head+size])})
		b = b[head+size:]
	}
	return nil
}

func upToZero(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// dirent is an entry of a directory (struct linux_dirent64 of getdents(2)): u64 inode, i64 offset, u16 length, u8 type, name.
type dirent struct {
	kind byte
	name string
}

func nextDirent(b []byte) (d dirent, rest []byte, err error) {
	const head = 19
	if len(b) < head {
		return d, nil, fmt.Errorf("%w of a directory: %d bytes at its end", errMalformed, len(b))
	}
	size := int(binary.NativeEndian.Uint16(b[16:]))
	if size < head || size > len(b) {
		return d, nil, fmt.Errorf("%w of a directory: an entry of %d bytes in %d", errMalformed, size, len(b))
	}
	return dirent{b[18], upToZero(b[head:size])}, b[size:], nil
}
