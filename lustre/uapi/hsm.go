package uapi

import (
	"math"

	"datamove.dev/lustre"
)

// Requests about HSM.
const (
	IocHSMState    = 0x802066d3 // LL_IOC_HSM_STATE_GET: of an open file
	IocHSMSetState = 0x401866d4 // LL_IOC_HSM_STATE_SET
	IocHSMRequest  = 0x401866d9 // LL_IOC_HSM_REQUEST: on any directory
	IocHSMAction   = 0x801866dc // LL_IOC_HSM_ACTION: of an open file
)

// The sizes of their structs.
const (
	hsmStateSize    = 32 // struct hsm_user_state
	hsmSetSize      = 24 // struct hsm_state_set
	hsmRequestSize  = 24 // struct hsm_request
	hsmItemSize     = 32 // struct hsm_user_item
	hsmActionSize   = 24 // struct hsm_current_action
	hsmProgressRuns = 2  // HPS_RUNNING; HPS_WAITING is 1
)

// WholeFile is the length of an extent that reaches to the end of a file.
const WholeFile = math.MaxUint64

// MaxRequest is how many files one request names. A server takes what fits into a third of
// its largest message; lfs sends up to 50, too.
const MaxRequest = 50

// hsmNoAction is HUA_NONE: that nothing is asked for has a number of its own.
const hsmNoAction = 1

// DecodeHSMState reads struct hsm_user_state. A server tells states and the archive, and
// leaves the rest at zero: for what is done at the moment, ask with IocHSMAction.
func DecodeHSMState(b []byte) (lustre.HSMState, error) {
	if len(b) < hsmStateSize {
		return lustre.HSMState{}, short("a state of HSM", len(b), hsmStateSize)
	}
	return lustre.HSMState{
		Archived:  lustre.Archived(le.Uint32(b)),
		ArchiveID: le.Uint32(b[4:]),
		Running:   le.Uint32(b[8:]) == hsmProgressRuns,
		Doing:     userAction(le.Uint32(b[12:])),
	}, nil
}

func userAction(number uint32) lustre.Action {
	if number == hsmNoAction {
		return lustre.NoAction
	}
	return lustre.Action(number)
}

// EncodeHSMState writes struct hsm_user_state.
func EncodeHSMState(s lustre.HSMState) []byte {
	b := make([]byte, hsmStateSize)
	le.PutUint32(b, uint32(s.Archived))
	le.PutUint32(b[4:], s.ArchiveID)
	le.PutUint32(b[8:], hsmProgress(s))
	le.PutUint32(b[12:], uint32(s.Doing))
	return b
}

func hsmProgress(s lustre.HSMState) uint32 {
	switch {
	case s.Doing == lustre.NoAction:
		return 0
	case s.Running:
		return hsmProgressRuns
	}
	return 1
}

// What a change of state names (HSS_*).
const (
	hsmSetMask   = 1
	hsmClearMask = 2
	hsmSetID     = 4
)

// EncodeHSMSet writes struct hsm_state_set: set and clear are states; archive 0 keeps the
// archive that the file belongs to.
func EncodeHSMSet(set, clear lustre.Archived, archive uint32) []byte {
	b := make([]byte, hsmSetSize)
	valid := uint32(hsmSetMask | hsmClearMask)
	if archive != 0 {
		valid |= hsmSetID
	}
	le.PutUint32(b, valid)
	le.PutUint32(b[4:], archive)
	le.PutUint64(b[8:], uint64(set))
	le.PutUint64(b[16:], uint64(clear))
	return b
}

// DecodeHSMSet is the inverse of EncodeHSMSet.
func DecodeHSMSet(b []byte) (set, clear lustre.Archived, archive uint32, err error) {
	if len(b) < hsmSetSize {
		return 0, 0, 0, short("a change of a state of HSM", len(b), hsmSetSize)
	}
	valid := le.Uint32(b)
	if valid&hsmSetMask != 0 {
		set = lustre.Archived(le.Uint64(b[8:]))
	}
	if valid&hsmClearMask != 0 {
		clear = lustre.Archived(le.Uint64(b[16:]))
	}
	if valid&hsmSetID != 0 {
		archive = le.Uint32(b[4:])
	}
	return set, clear, archive, nil
}

// HSMItem is one file of a request: all of it, or a range.
type HSMItem struct {
	File   lustre.FID
	Extent Extent
}

// HSMRequest asks for an action on files (struct hsm_user_request).
type HSMRequest struct {
	Action  lustre.Action
	Archive uint32 // 0 is the default
	Flags   uint64 // HSM_FORCE_ACTION 1, HSM_REQ_BLOCKING 4
	Items   []HSMItem
	Data    []byte // for the copytool
}

// WholeFiles is a request for all of each file.
func WholeFiles(a lustre.Action, archive uint32, files []lustre.FID) HSMRequest {
	r := HSMRequest{Action: a, Archive: archive, Items: make([]HSMItem, len(files))}
	for i, f := range files {
		r.Items[i] = HSMItem{f, Extent{0, WholeFile}}
	}
	return r
}

// EncodeHSMRequest writes struct hsm_user_request.
func EncodeHSMRequest(r HSMRequest) []byte {
	b := make([]byte, hsmRequestSize, hsmRequestSize+len(r.Items)*hsmItemSize+len(r.Data))
	le.PutUint32(b, uint32(r.Action))
	le.PutUint32(b[4:], r.Archive)
	le.PutUint64(b[8:], r.Flags)
	le.PutUint32(b[16:], uint32(len(r.Items)))
	le.PutUint32(b[20:], uint32(len(r.Data)))
	for _, item := range r.Items {
		b = AppendFID(b, item.File)
		b = le.AppendUint64(b, item.Extent.Off)
		b = le.AppendUint64(b, item.Extent.Length)
	}
	return append(b, r.Data...)
}

// DecodeHSMRequest is the inverse of EncodeHSMRequest.
func DecodeHSMRequest(b []byte) (HSMRequest, error) {
	if len(b) < hsmRequestSize {
		return HSMRequest{}, short("a request of HSM", len(b), hsmRequestSize)
	}
	r := HSMRequest{Action: lustre.Action(le.Uint32(b)), Archive: le.Uint32(b[4:]), Flags: le.Uint64(b[8:])}
	count, size := uint64(le.Uint32(b[16:])), uint64(le.Uint32(b[20:]))
	b = b[hsmRequestSize:]
	if want := count*hsmItemSize + size; uint64(len(b)) < want {
		return HSMRequest{}, malformed("a request of HSM for %d files and %d bytes in %d bytes: it has %d", count, size, len(b), want)
	}
	for ; count > 0; count-- {
		r.Items = append(r.Items, HSMItem{getFID(b), Extent{le.Uint64(b[16:]), le.Uint64(b[24:])}})
		b = b[hsmItemSize:]
	}
	if size > 0 {
		r.Data = append([]byte(nil), b[:size]...)
	}
	return r, nil
}

// HSMAction is what is done with a file at the moment (struct hsm_current_action).
type HSMAction struct {
	Running bool // else it waits
	Action  lustre.Action
	Extent  Extent
}

// DecodeHSMAction reads struct hsm_current_action. Of a file with which nothing is done, a
// server says that NoAction waits.
func DecodeHSMAction(b []byte) (HSMAction, error) {
	if len(b) < hsmActionSize {
		return HSMAction{}, short("an action of HSM", len(b), hsmActionSize)
	}
	return HSMAction{
		Running: le.Uint32(b) == hsmProgressRuns, Action: userAction(le.Uint32(b[4:])),
		Extent: Extent{le.Uint64(b[8:]), le.Uint64(b[16:])},
	}, nil
}

// EncodeHSMAction writes struct hsm_current_action.
func EncodeHSMAction(a HSMAction) []byte {
	b := make([]byte, hsmActionSize)
	progress, action := uint32(1), uint32(a.Action)
	if a.Running {
		progress = hsmProgressRuns
	}
	if a.Action == lustre.NoAction {
		action = hsmNoAction
	}
	le.PutUint32(b, progress)
	le.PutUint32(b[4:], action)
	le.PutUint64(b[8:], a.Extent.Off)
	le.PutUint64(b[16:], a.Extent.Length)
	return b
}
