package client

import "io/fs"

// kernel is what the client asks of the kernel that has mounted a Lustre. There is the
// real one, and in tests one that behaves as a Lustre 2.17 was seen to, traps included.
type kernel interface {
	// ioctl exchanges arg with the kernel, in place; it returns what the call returned.
	// arg is as long as the struct of the request: the implementation gives the kernel more
	// room, because modules of other versions copy more.
	ioctl(fd int, request uint, arg []byte) (int, error)
	// ioctlAt is ioctl for a struct that has addresses in it: of each of at, which the
	// kernel fills, the address is put into arg before the call.
	ioctlAt(fd int, request uint, arg []byte, at ...pointer) (int, error)
	// ioctlValue is for requests with a number as their argument.
	ioctlValue(fd int, request uint, arg uintptr) (int, error)
	getxattr(fd int, name string) ([]byte, error)
	setxattr(fd int, name string, value []byte) error
	removexattr(fd int, name string) error
	openat(dir int, name string, flags int, mode uint32) (int, error)
	unlinkat(dir int, name string) error
	rmdirat(dir int, name string) error
	close(fd int) error
	// stat returns the type and permissions of an open file (S_IFMT and below).
	stat(fd int) (mode uint32, err error)
	// privileged reports whether the caller is root.
	privileged() bool
	// files is what can be read of the client below the root directory: its parameters in
	// proc/fs/lustre and sys/fs/lustre, and proc/self/mountinfo.
	files() fs.FS
}

// pointer is a buffer with its address in a struct: 64 bits, little-endian.
type pointer struct {
	offset int // of the address in the struct
	buffer []byte
}
