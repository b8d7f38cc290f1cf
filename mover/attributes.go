package mover

import "strings"

// Extended attributes of ours. A place that keeps no extended attributes may keep these: S3
// does, as user metadata.
const (
	// XattrPath is where a content was, for people, and for a tool that has to rebuild a tree from
	// copies with other names.
	XattrPath = "user.datamove.path"
	// XattrCRC is the CRC-64/NVME of a content when it was written, in 16 hexadecimal digits.
	XattrCRC = "user.datamove.crc64nvme"
)

// The ACLs of POSIX (acl(5)), as Linux shows them (linux/posix_acl_xattr.h).
const (
	XattrAccessACL  = "system.posix_acl_access"
	XattrDefaultACL = "system.posix_acl_default"
)

// XattrNFS4ACL is where Linux shows the ACL of a file on NFS 4.
const XattrNFS4ACL = "system.nfs4_acl"

// XattrNames are names of extended attributes (xattr(7)), by the system that governs them. A file system knows some kinds and not others,
// and some may be set only with a capability. 0 is all names.
type XattrNames uint8

// The names. What is in none of them, as settings of one file system are, is brought over where that works, and not compared.
const (
	XattrsOfUsers  XattrNames = 1 << iota // user.*
	XattrsOfACL                           // system.posix_acl_access and system.posix_acl_default
	XattrsOfNFS4                          // system.nfs4_acl
	XattrsOfRights                        // security.capability, which CAP_SETFCAP gives
	XattrsOfLabels                        // the rest of security.*; CAP_SYS_ADMIN
	XattrsOfRoot                          // trusted.*; CAP_SYS_ADMIN
)

// XattrsOfPrivileges are the names that give rights, or tell of them: FactPrivileges.
const XattrsOfPrivileges = XattrsOfRights | XattrsOfLabels | XattrsOfRoot

// Without are those names but some.
func (n XattrNames) Without(m XattrNames) XattrNames {
	if n == 0 {
		n = XattrsOfUsers | XattrsOfACL | XattrsOfNFS4 | XattrsOfPrivileges
	}
	return n &^ m
}

// Has reports whether a name is among them.
func (n XattrNames) Has(name string) bool {
	of := xattrNames(name)
	return of != 0 && (n == 0 || n&of != 0)
}

// Both are the names that two places have.
func (n XattrNames) Both(m XattrNames) (both XattrNames, any bool) {
	switch {
	case n == 0:
		return m, true
	case m == 0:
		return n, true
	}
	return n & m, n&m != 0
}

func xattrNames(name string) XattrNames {
	space, _, _ := strings.Cut(name, ".")
	switch {
	case name == XattrAccessACL, name == XattrDefaultACL:
		return XattrsOfACL
	case name == XattrNFS4ACL:
		return XattrsOfNFS4
	case name == "security.capability":
		return XattrsOfRights
	case name == "security.evm": // a signature of this very inode
		return 0
	case space == "user":
		return XattrsOfUsers
	case space == "security":
		return XattrsOfLabels
	case space == "trusted":
		return XattrsOfRoot
	}
	return 0
}
