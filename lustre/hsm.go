package lustre

// Archived is a set of what is known of a file and its copy in the archive (HS_* of
// lustre_user.h).
type Archived uint32

// The states of a file in HSM.
const (
	HasCopy       Archived = 0x1  // HS_EXISTS: a copy was begun or is there
	Dirty         Archived = 0x2  // the file changed since
	ReleasedState Archived = 0x4  // the content is in the archive only
	WholeCopy     Archived = 0x8  // HS_ARCHIVED: the copy is whole
	NoRelease     Archived = 0x10 // it must not be released
	NoArchive     Archived = 0x20
	Lost          Archived = 0x40 // the copy is gone
)

// Has reports whether all states of b are in a.
func (a Archived) Has(b Archived) bool { return a&b == b }

// Action is what HSM is asked to do (HUA_*).
type Action uint32

// The actions.
const (
	NoAction Action = 0
	Archive  Action = 10
	Restore  Action = 11
	Release  Action = 12
	Remove   Action = 13
	Cancel   Action = 14
)

var actionNames = map[Action]string{NoAction: "none", Archive: "archive", Restore: "restore", Release: "release", Remove: "remove", Cancel: "cancel"}

func (a Action) String() string {
	if name, ok := actionNames[a]; ok {
		return name
	}
	return "unknown"
}

// HSMState is what HSM knows of a file.
type HSMState struct {
	Archived  Archived
	ArchiveID uint32
	// Doing is the action that waits or runs; Running that a copytool has it.
	Doing   Action
	Running bool
}

// NeedsRestore reports whether a reader would have to wait for the archive. With no copytool
// alive, a reader of such a file waits for ever, and can not be killed.
func (s *HSMState) NeedsRestore() bool { return s.Archived.Has(ReleasedState) }
