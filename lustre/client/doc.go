// Package client asks a mounted Lustre: by extended attributes and ioctls, with no cgo and
// without the program lfs, which is only asked where the kernel does not answer.
package client
