package client

import "golang.org/x/sys/unix"

// Encrypted reports whether the content of an open file is encrypted by Lustre's clients
// (2.14). Each file has a key of its own, made of that of its directory and of a number that
// is the file's: objects that were written for one are noise in another, and neither the
// exchange of contents nor the end of a restore by a copytool takes that number along.
func Encrypted(fd int) (bool, error) {
	var st unix.Statx_t
	_, err := again(func() (int, error) { return 0, unix.Statx(fd, "", unix.AT_EMPTY_PATH, 0, &st) })
	return st.Attributes&unix.STATX_ATTR_ENCRYPTED != 0, err
}
