package client

// Ioctl exchanges the struct arg with the kernel, in place, on an open file of a Lustre, and
// returns what the call returned. It is for callers that encode requests themselves, as a
// copytool does; the bytes are those of package uapi.
func Ioctl(fd int, request uint, arg []byte) (int, error) { return linux{}.ioctl(fd, request, arg) }
