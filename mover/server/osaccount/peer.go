package osaccount

import (
	"fmt"
	"net"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxGroups is how many groups the kernel gives a process (NGROUPS_MAX).
const maxGroups = 65536

// peer asks the kernel for the account at the other end.
func peer(conn *net.UnixConn) (Account, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Account{}, err
	}
	var a Account
	var asked error
	if err := raw.Control(func(fd uintptr) { a, asked = credentials(int(fd)) }); err != nil {
		return Account{}, err
	}
	return a, asked
}

func credentials(fd int) (Account, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Account{}, fmt.Errorf("SO_PEERCRED: %w", err)
	}
	if cred.Uid == ^uint32(0) {
		return Account{}, denied("the kernel does not tell the account of the caller")
	}
	groups, err := peerGroups(fd)
	if err != nil {
		return Account{}, fmt.Errorf("SO_PEERGROUPS: %w", err)
	}
	slices.Sort(groups)
	return Account{UID: cred.Uid, GID: cred.Gid, Groups: slices.Compact(groups)}, nil
}

// peerGroups asks again with more room when the kernel says how much it needs.
func peerGroups(fd int) ([]uint32, error) {
	for room := 32; ; {
		gids := make([]uint32, room)
		bytes := uint32(4 * room)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&gids[0])), uintptr(unsafe.Pointer(&bytes)), 0)
		need := int(bytes / 4)
		switch {
		case errno == 0:
			return gids[:min(need, room)], nil
		case errno != unix.ERANGE || need <= room || need > maxGroups:
			return nil, errno
		}
		room = need
	}
}
