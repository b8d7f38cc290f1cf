package xattrs

import "encoding/binary"

// What an entry may say without saying more than a mode does (RFC 7530, section 6.2.1):
// it allows or denies, to the owner, to the group, or to everyone, here and not below.
const (
	aceDeny            = 1    // the highest type that a mode needs; 0 allows
	aceIdentifierGroup = 0x40 // the flag of an entry for a group
)

// saysMode reports whether an ACL of NFS 4 speaks only of the principals that a mode speaks of.
// Every file there has an ACL, because a server makes one out of the mode where there is none. Then it
// is a fact about the mode, and is no attribute of the file. The bytes are
// those of fattr4_acl in XDR: a count, and for each entry type, flags, mask, and principal.
func saysMode(acl []byte) bool {
	count, rest, ok := cutUint32(acl)
	for ; ok && count > 0; count-- {
		var kind, flags, length uint32
		if kind, rest, ok = cutUint32(rest); !ok || kind > aceDeny {
			return false
		}
		if flags, rest, ok = cutUint32(rest); !ok || flags&^aceIdentifierGroup != 0 {
			return false
		}
		if _, rest, ok = cutUint32(rest); !ok { // the mask: the bits of the mode, in finer words
			return false
		}
		if length, rest, ok = cutUint32(rest); !ok || uint64(length) > uint64(len(rest)) {
			return false
		}
		padded := (int(length) + 3) &^ 3
		if padded > len(rest) {
			return false
		}
		switch string(rest[:length]) {
		case "OWNER@", "GROUP@", "EVERYONE@":
		default:
			return false
		}
		rest = rest[padded:]
	}
	return ok && len(rest) == 0
}

func cutUint32(b []byte) (n uint32, rest []byte, ok bool) {
	if len(b) < 4 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint32(b), b[4:], true
}
