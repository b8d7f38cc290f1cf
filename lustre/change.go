package lustre

import "time"

// Change is one record of a change log.
type Change struct {
	Index uint64 // of the record in its feed; they grow, and may have gaps
	Time  time.Time
	Type  ChangeType
	Flags uint16 // CLF_*, of that type

	File, Parent FID
	Name         string // in Parent; "" where the record has none
	// Of a rename: where it was, and which file. Other replaced file is File.
	OldParent, OldFile FID
	OldName            string

	UID, GID uint32
	Known    ChangeFacts // which of these a record told
	Job      string
	OpenMode uint32
	Xattr    string
	Client   string // NID
}

// ChangeFacts says which optional fields a record had.
type ChangeFacts uint8

// The optional fields.
const (
	KnowsOwner ChangeFacts = 1 << iota
	KnowsJob
	KnowsClient
	KnowsOpenMode
	KnowsXattr
)

// ChangeType is what happened (CL_* of lustre_user.h).
type ChangeType uint8

// The types.
const (
	ChangeMark ChangeType = iota
	ChangeCreate
	ChangeMkdir
	ChangeHardLink
	ChangeSymlink
	ChangeMknod
	ChangeUnlink
	ChangeRmdir
	ChangeRename
	ChangeRenameTo
	ChangeOpen
	ChangeClose
	ChangeLayout
	ChangeTruncate
	ChangeSetattr
	ChangeXattr
	ChangeHSM
	ChangeMtime
	ChangeCtime
	ChangeAtime
	ChangeMigrate
	ChangeMirrorWrite
	ChangeResync
	ChangeGetXattr
	ChangeDeniedOpen
)

var changeNames = [...]string{"MARK", "CREAT", "MKDIR", "HLINK", "SLINK", "MKNOD", "UNLNK", "RMDIR", "RENME", "RNMTO", "OPEN", "CLOSE", "LYOUT",
	"TRUNC", "SATTR", "XATTR", "HSM", "MTIME", "CTIME", "ATIME", "MIGRT", "FLRW", "RESYNC", "GXATR", "NOPEN"}

// String is the word of lfs changelog.
func (t ChangeType) String() string {
	if int(t) < len(changeNames) {
		return changeNames[t]
	}
	return "unknown"
}

// Feed is one stream of changes: an MDT's.
type Feed struct {
	Name string // lab-MDT0000
}
