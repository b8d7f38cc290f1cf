package replicadir

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"datamove.dev/mover"
)

// acl is a POSIX ACL as the kernel keeps it (system.posix_acl_access): in the order of tags
// and ids.
type acl []aclEntry

type aclEntry struct {
	tag, perm uint16
	id        uint32
}

// The tags of entries, as in linux/posix_acl.h.
const (
	tagOwner  = 0x01 // of the folder
	tagUser   = 0x02
	tagGroup  = 0x04 // of the folder
	tagNamed  = 0x08 // a group by its id
	tagMask   = 0x10 // what users and groups have at most
	tagOthers = 0x20

	mayEnter = 1 // x
	mayAll   = 7

	aclVersion = 2
	nobody     = ^uint32(0) // the id of entries that have none
)

// closed is the ACL of a gate that only root may pass.
func closed() acl {
	return acl{{tagOwner, mayAll, nobody}, {tagGroup, 0, nobody}, {tagOthers, 0, nobody}}
}

// has reports whether the user is let in.
func (a acl) has(uid uint32) bool {
	return slices.ContainsFunc(a, func(e aclEntry) bool { return e.tag == tagUser && e.id == uid && e.perm&mayEnter != 0 })
}

// users is how many users are named.
func (a acl) users() (n int) {
	for _, e := range a {
		if e.tag == tagUser {
			n++
		}
	}
	return n
}

// of is what the entry of the user allows, within the mask.
func (a acl) of(uid uint32) (perm uint16, named bool) {
	mask := uint16(mayAll)
	for _, e := range a {
		switch {
		case e.tag == tagUser && e.id == uid:
			perm, named = e.perm, true
		case e.tag == tagMask:
			mask = e.perm
		}
	}
	return perm & mask, named
}

// with is a with permission for the user to enter, and with no other new entry. Entries
// that an administrator has added by hand stay.
func (a acl) with(uid uint32) acl {
	out := a.without(uid)
	out = append(out, aclEntry{tagUser, mayEnter, uid})
	mask := uint16(mayEnter)
	out = slices.DeleteFunc(out, func(e aclEntry) bool {
		if e.tag == tagMask {
			mask |= e.perm
		}
		return e.tag == tagMask
	})
	return append(out, aclEntry{tagMask, mask, nobody}).sorted()
}

// without is a without the user, and closed to the group and to others.
func (a acl) without(uid uint32) acl {
	var out acl
	for _, e := range a {
		switch {
		case e.tag == tagUser && e.id == uid:
			continue
		case e.tag == tagGroup || e.tag == tagOthers:
			e.perm = 0
		}
		out = append(out, e)
	}
	return out
}

func (a acl) sorted() acl {
	slices.SortFunc(a, func(x, y aclEntry) int { return cmp.Or(cmp.Compare(x.tag, y.tag), cmp.Compare(x.id, y.id)) })
	return a
}

// encode writes it as the kernel reads it.
func (a acl) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range a {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// parseACL is the inverse of encode.
func parseACL(b []byte) (a acl, err error) {
	if len(b) < 4 || len(b)%8 != 4 || binary.LittleEndian.Uint32(b) != aclVersion {
		return nil, fmt.Errorf("%w: an ACL of %d bytes that can not be read", mover.ErrUnsupported, len(b))
	}
	for b = b[4:]; len(b) > 0; b = b[8:] {
		a = append(a, aclEntry{binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:]), binary.LittleEndian.Uint32(b[4:])})
	}
	return a, nil
}
