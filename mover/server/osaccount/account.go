// Package osaccount knows the accounts of this node: that of the peer of a
// socket, and that of a user with work from another node.
//
// An [Account] has uid, gid and groups, which are what the kernel goes by, and names,
// which are what a configuration goes by. [Directory.Peer] takes the numbers of a
// caller from the kernel. They are what the process had when it connected, and nothing
// that it sends can change them. [Directory.Lookup] takes them from NSS, so that a
// directory service counts as much as /etc/passwd. A name with another uid here
// than where it was asked is refused, because files would go to another user.
// Neither ever takes a group from a request.
//
// NSS is asked with getent and id, from fixed paths, with lists of arguments, a
// deadline and a bounded answer, because our programs have no C library that could
// load its modules. Where the tools are missing, /etc/passwd and /etc/group are read;
// [In] reads those of another directory, for an agent in a container. What was answered holds for a minute. NSS can tell
// nothing of a uid without a name. It may work on the node with the socket that it connected to, with the
// groups that it had there, for a day.
//
// A Directory may be used from many goroutines and starts at most a few tools at a
// time. Nothing is kept over a restart. What an account may do is left to access, to
// become it to the worker that does. [OwnOnly] is a listener on loopback for one account. TestPeerOfAnother and TestEveryAccountOfThisNode
// ask the real kernel and the real NSS, TestBadAnswers tools that lie.
package osaccount

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"datamove.dev/mover"
)

// Account is an account as this node has it.
type Account struct {
	UID, GID   uint32
	Groups     []uint32 // sorted; GID need not be one of them
	Name       string   // "" when the uid has none
	GroupNames []string // sorted; of GID and Groups, as far as they have names
}

// maxName is the longest name that Linux lets an account have.
const maxName = 256

// valid reports whether a name may be asked for, or believed: what parts fields of
// NSS, begins an option or is read as a number is none.
func valid(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name) && name == strings.TrimSpace(name) &&
		name[0] != '-' && name[0] != '+' && strings.Trim(name, "0123456789") != "" && !strings.ContainsAny(name, ":/,") &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// denied is the error for an account that no work runs as on this node.
func denied(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), mover.ErrPermission)
}
