package sandbox

import (
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Enforced is how much of a confinement the kernel sees to.
type Enforced struct {
	Landlock int     // version of the kernel's Landlock ABI; 0 is nothing at all
	Wider    []Wider // roots for which more was opened up than was asked
}

// Wider is a root that is no directory (yet), and the directory that was opened up
// in its place.
type Wider struct{ Asked, Granted string }

const (
	readRights landlock.AccessFSSet = ll.AccessFSReadFile | ll.AccessFSReadDir

	// What a mover does to a target; neither running programs nor ioctls of devices.
	writeRights = readRights | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRefer |
		ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSym |
		ll.AccessFSMakeFifo | ll.AccessFSMakeSock | ll.AccessFSMakeChar | ll.AccessFSMakeBlock

	fileRights landlock.AccessFSSet = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate

	deviceRights = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSIoctlDev

	// Before version 2 of the ABI every rename into another directory fails.
	leastABI = 2
	// The latest version that is known here: later ones are used as this one.
	knownABI = 9
)

// Confine restricts this process, all its threads and whatever it starts, for ever,
// to the roots and what every Go program needs. A second call restricts it further.
//
// go-landlock sees to the threads: with the kernel's own means where it has them,
// else, in a program without cgo, by the Go runtime, and with cgo by libpsx.
func Confine(c Confinement) (Enforced, error) { return confine(c, &step{}) }

func confine(c Confinement, at *step) (Enforced, error) {
	grants, wider, err := c.grants(at)
	if err != nil {
		return Enforced{}, err
	}
	abi := landlockABI()
	if abi < leastABI {
		return Enforced{Wider: wider}, nil
	}
	var rules []landlock.Rule
	for _, g := range append(grants, essentials()...) {
		at.goes(g.path)
		hold(g.path)
		rules = append(rules, landlock.PathAccess(g.rights, g.path))
	}
	at.goes("")
	if err := landlock.V9.BestEffort().RestrictPaths(rules...); err != nil {
		return Enforced{}, &mover.Error{Op: "confine", Location: fmt.Sprintf("process %d", os.Getpid()), Err: err}
	}
	return Enforced{Landlock: min(abi, knownABI), Wider: wider}, nil
}

// hold keeps a file in use for the life of the process. Rules are bound to inodes,
// and procfs or an overlay may make a new one for a file that no process has open when
// the kernel wants its memory back: then the rule would hold no more.
func hold(path string) {
	_, _ = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) // never closed
}

// landlockABI returns the version of the kernel's Landlock, 0 without one.
func landlockABI() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
}
