package client

// kernel is what the client asks of the kernel that has mounted a Lustre. There is the
// real one, and in tests one that behaves as a Lustre 2.17 was seen to, traps included.
type kernel interface {
	// ioctl exchanges arg with the kernel, in place; it returns what the call returned.
	// arg is larger than the struct, because modules of other versions copy more.
	ioctl(fd int, request uint, arg []byte) (int, error)
	// ioctlValue is for requests whose argument is a number.
	ioctlValue(fd int, request uint, arg uintptr) (int, error)
	getxattr(fd int, name string) ([]byte, error)
	setxattr(fd int, name string, value []byte) error
	removexattr(fd int, name string) error
	openat(dir int, name string, flags int, mode uint32) (int, error)
	unlinkat(dir int, name string) error
	close(fd int) error
}
