package lustre

import "time"

// Change is one record of a change log.
type Change struct {
	Index uint64 // of the record in its feed: they are counted, so that a missing one is seen
	Time  time.Time
	Type  ChangeType
	Flags uint16 // CLF_*, of that type

	File, Parent FID
	Name         string // in Parent; "" where the record has none
	// Of a rename: which file it was, and where. File is then the one that it replaced,
	// zero when there was none.
	OldParent, OldFile FID
	OldName            string
	Marker             uint32 // of a ChangeMark: what happened to the log itself (CLM_*)

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

// LastName reports whether an unlink or a rename took the last name of a file away, so that
// its content is gone (CLF_UNLINK_LAST, CLF_RENAME_LAST).
func (c *Change) LastName() bool {
	return (c.Type == ChangeUnlink || c.Type == ChangeRmdir || c.Type == ChangeRename) && c.Flags&0x1 != 0
}

// LeftInArchive reports whether the file that LastName speaks of still has a copy in the
// archive (CLF_UNLINK_HSM_EXISTS, CLF_RENAME_LAST_EXISTS): the caller has to remove it there.
func (c *Change) LeftInArchive() bool { return c.LastName() && c.Flags&0x2 != 0 }

// HSMEvent is what a ChangeHSM tells (bits 7 to 9 of its flags).
type HSMEvent uint8

// The events (HE_*).
const (
	HSMArchived HSMEvent = iota
	HSMRestored
	HSMCancelled
	HSMReleased
	HSMRemoved
	HSMStateChanged
)

// HSM returns what a ChangeHSM tells: what was done, the errno with which it failed (0 when
// it did not), and whether the file changed since it was archived.
func (c *Change) HSM() (event HSMEvent, errno int, dirty bool) {
	return HSMEvent(c.Flags >> 7 & 0x7), int(c.Flags & 0x7f), c.Flags&0x400 != 0
}

// LogTurnedOff reports whether a ChangeMark says that nothing was recorded from here to the
// next one (CLM_FINI).
func (c *Change) LogTurnedOff() bool { return c.Type == ChangeMark && c.Marker&0x20000 != 0 }

// Feed is one stream of changes: an MDT's.
type Feed struct {
	Name string // lab-MDT0000
}
