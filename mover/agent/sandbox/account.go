package sandbox

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Account is the ids of a process: from the kernel or the name service, never from
// a request.
type Account struct {
	UID    uint32
	GID    uint32
	Groups []uint32 // supplementary ones; GID may be among them

	// Apart has no process of the UID trace or limit this one, because its saved uid is another: ptrace_may_access and prlimit of Linux compare all
	// three. Files are opened as without it, but for FUSE file systems of the UID alone, which compare them, too. As root only.
	Apart bool `json:",omitempty"`
}

const (
	nobody    = ^uint32(0) // -1: to the kernel "leave it as it is"
	overflow  = 65534      // of no account, as kernel.overflowuid
	maxGroups = 65536      // NGROUPS_MAX
)

// has reports whether a process of the account may be in a group.
func (a Account) has(gid uint32) bool { return gid == a.GID || slices.Contains(a.Groups, gid) }

// uids are the real, effective and saved uid of a process of the account.
func (a Account) uids() [3]int {
	saved := int(a.UID)
	if a.Apart {
		saved = overflow
	}
	return [3]int{int(a.UID), int(a.UID), saved}
}

// self is the account of this process.
func self() (Account, error) {
	groups, err := os.Getgroups()
	a := Account{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	for _, g := range groups {
		a.Groups = append(a.Groups, uint32(g))
	}
	return a, err
}

// check reports why a process that runs as me can not act as a. Root has to be meant:
// zero is also what a forgotten account says.
func (a Account) check(root bool, me Account) error {
	switch {
	case a.UID == nobody || a.GID == nobody || slices.Contains(a.Groups, nobody) || len(a.Groups) > maxGroups:
		return fmt.Errorf("%w: it is no account", mover.ErrUsage)
	case a.UID == 0 && !root:
		return fmt.Errorf("%w: it is root, which was not asked for", mover.ErrPermission)
	case a.Apart && (a.UID == 0 || me.UID != 0):
		return fmt.Errorf("%w: only root starts a process apart, and not as root", mover.ErrUsage)
	case me.UID == 0:
		return nil
	case a.UID != me.UID:
		return fmt.Errorf("%w: the service runs as uid %d and can act as no other account; as root it could", mover.ErrPermission, me.UID)
	case a.GID != me.GID:
		return fmt.Errorf("%w: the service runs with gid %d and can not change it; as root it could", mover.ErrPermission, me.GID)
	}
	return a.within(me)
}

// within reports the groups that a process has beyond those of the account.
func (a Account) within(process Account) error {
	for _, g := range process.Groups {
		if !a.has(g) {
			return fmt.Errorf("%w: the process is in group %d, the account is not", mover.ErrPermission, g)
		}
	}
	return nil
}

// verify reports why this process is not the account and nothing more.
func (a Account) verify() error {
	var ids [2][3]int
	ids[0][0], ids[0][1], ids[0][2] = unix.Getresuid()
	ids[1][0], ids[1][1], ids[1][2] = unix.Getresgid()
	for i, want := range [2][3]int{a.uids(), {int(a.GID), int(a.GID), int(a.GID)}} {
		if ids[i] != want {
			return fmt.Errorf("%w: the process has the ids %v, not %v", mover.ErrPermission, ids[i], want)
		}
	}
	me, err := self()
	if err != nil {
		return err
	}
	if err := a.within(me); err != nil || a.UID == 0 {
		return err
	}
	return noCapabilities()
}

// noCapabilities reports the capabilities that a process has which should have none.
func noCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	for _, s := range sets {
		if s.Effective|s.Permitted != 0 {
			return fmt.Errorf("%w: the process has capabilities (%#x, %#x)", mover.ErrPermission, sets[1].Permitted, sets[0].Permitted)
		}
	}
	return nil
}
