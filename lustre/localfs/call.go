package localfs

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// ioctl exchanges arg, which is as large as the request says, with the kernel.
func ioctl(fd int, request uint, arg []byte) error {
	var p unsafe.Pointer
	if len(arg) > 0 {
		p = unsafe.Pointer(&arg[0])
	}
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(p))
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}

// quotactl asks for the file system of fd: by the descriptor (Linux 5.14), or else by the
// block device that is below it. The old way is asked, too, where the new one says that
// there is nothing: an unknown call and an unknown quota are the same error.
func (p *Projects) quotactl(fd int, command, id uint32, arg []byte) error {
	cmd := uintptr(command<<8 | projectType)
	if !p.byDevice {
		_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), cmd, uintptr(id), uintptr(unsafe.Pointer(&arg[0])), 0, 0)
		if errno == 0 {
			return nil
		}
		if errno != unix.ENOSYS {
			return errno
		}
	}
	device, err := p.special(fd)
	if err != nil {
		return err
	}
	name, err := unix.BytePtrFromString(device)
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL, cmd, uintptr(unsafe.Pointer(name)), uintptr(id), uintptr(unsafe.Pointer(&arg[0])), 0, 0)
	if errno == 0 {
		return nil
	}
	return errno
}

// special finds the name of the block device that fd is on. A name from the table of
// mounts can be anything, so it has to be that device.
func (p *Projects) special(fd int) (string, error) {
	var file, device unix.Stat_t
	if err := unix.Fstat(fd, &file); err != nil {
		return "", err
	}
	numbered := fmt.Sprintf("/dev/block/%d:%d", unix.Major(file.Dev), unix.Minor(file.Dev))
	for _, name := range []string{p.device, numbered} {
		if name == "" || unix.Stat(name, &device) != nil {
			continue
		}
		if device.Mode&unix.S_IFMT == unix.S_IFBLK && device.Rdev == file.Dev {
			return name, nil
		}
	}
	return "", unix.ENOSYS
}

// failed says what was not possible where, why, and what to do if that is known.
func failed(what string, fd int, err error, hints map[error]string) error {
	for kind, hint := range hints {
		if errors.Is(err, kind) {
			return fmt.Errorf("%s of %s: %w: %s", what, lustre.Where(fd), err, hint)
		}
	}
	return fmt.Errorf("%s of %s: %w", what, lustre.Where(fd), err)
}

// ended returns the cause of the context's end, nil while it is not done. Calls into the kernel are
// short, and are not interrupted once they are made.
func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
