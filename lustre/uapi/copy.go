package uapi

import (
	"strings"

	"datamove.dev/lustre"
)

// CopyAction is what an MDT hands to a copytool (HSMA_*).
type CopyAction uint32

// The actions.
const (
	CopyArchive CopyAction = 20
	CopyRestore CopyAction = 21
	CopyRemove  CopyAction = 22
	CopyCancel  CopyAction = 23
)

var copyActionNames = map[CopyAction]string{CopyArchive: "archive", CopyRestore: "restore", CopyRemove: "remove", CopyCancel: "cancel"}

// String is the word for people; "unknown" for an action of another version.
func (a CopyAction) String() string {
	if name, ok := copyActionNames[a]; ok {
		return name
	}
	return "unknown"
}

// Extent is a range of a file in bytes; with the Length WholeFile it has no end.
type Extent struct{ Off, Length uint64 }

// ActionItem is one action (struct hsm_action_item).
type ActionItem struct {
	Action CopyAction
	FID    lustre.FID // the file
	Data   lustre.FID // the one that has, or gets, the content: the file itself, or a volatile one that a restore fills
	Extent Extent
	Cookie uint64 // of the action: names it to the MDT
	GID    uint64 // a group lock; 0 is none
	Blob   []byte // what the request brought along
}

// ActionList is the body of a message (struct hsm_action_list): actions for one archive of
// one file system.
type ActionList struct {
	Compound  uint64
	Flags     uint64
	ArchiveID uint32
	Name      string // of the file system
	Items     []ActionItem
}

const (
	sizeList     = 32 // without the name
	sizeItem     = 72 // without its blob
	listVersion  = 1  // HAL_VERSION
	maxFSName    = 8  // LUSTRE_MAXFSNAME
	sizeCopy     = 16 + sizeItem
	sizeProgress = 48
)

func aligned(n int) int { return (n + 7) &^ 7 }

// DecodeActionList reads the body of a message of Actions. Of a list that is cut or
// contradicts itself, the items before the mistake are returned with ErrMalformed. They
// have cookies, and the MDT waits for their end.
func DecodeActionList(b []byte) (l ActionList, err error) {
	if len(b) < sizeList {
		return l, malformed("a list of actions in %d bytes: it has %d and more", len(b), sizeList)
	}
	if version := le.Uint32(b); version != listVersion {
		return l, malformed("a list of actions of version %d: %d is known", version, listVersion)
	}
	count := le.Uint32(b[4:])
	l = ActionList{Compound: le.Uint64(b[8:]), Flags: le.Uint64(b[16:]), ArchiveID: le.Uint32(b[24:])}
	b = b[sizeList:]
	l.Name = text(b[:min(len(b), maxFSName+1)])
	if !ValidFSName(l.Name) || aligned(len(l.Name)+1) > len(b) {
		return l, malformed("a list of actions for the file system %q", l.Name)
	}
	b = b[aligned(len(l.Name)+1):]
	for i := range count {
		item, size, err := decodeItem(b)
		if err != nil {
			return l, malformed("action %d of %d: %v", i+1, count, err)
		}
		l.Items = append(l.Items, item)
		b = b[min(aligned(size), len(b)):]
	}
	return l, nil
}

// ValidFSName reports whether a Lustre can have that name: 1 to 8 letters, digits, '-' and
// '_' (mkfs.lustre(8), --fsname).
func ValidFSName(s string) bool {
	return s != "" && len(s) <= maxFSName && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

func decodeItem(b []byte) (item ActionItem, size int, err error) {
	if len(b) < sizeItem {
		return item, 0, malformed("an action in %d bytes: it has %d and more", len(b), sizeItem)
	}
	length := le.Uint32(b)
	if length < sizeItem || uint64(length) > uint64(len(b)) {
		return item, 0, malformed("an action of %d bytes, where %d are left", length, len(b))
	}
	item = ActionItem{
		Action: CopyAction(le.Uint32(b[4:])), FID: getFID(b[8:]), Data: getFID(b[24:]),
		Extent: Extent{le.Uint64(b[40:]), le.Uint64(b[48:])}, Cookie: le.Uint64(b[56:]), GID: le.Uint64(b[64:]),
	}
	if length > sizeItem {
		item.Blob = append(item.Blob, b[sizeItem:length]...)
	}
	return item, int(length), nil
}

// Encode is the inverse of DecodeActionList.
func (l *ActionList) Encode() []byte {
	b := le.AppendUint32(nil, listVersion)
	b = le.AppendUint32(b, uint32(len(l.Items)))
	b = le.AppendUint64(b, l.Compound)
	b = le.AppendUint64(b, l.Flags)
	b = le.AppendUint32(b, l.ArchiveID)
	b = le.AppendUint32(b, 0)
	b = append(b, l.Name...)
	b = append(b, make([]byte, aligned(len(l.Name)+1)-len(l.Name))...)
	for i := range l.Items {
		b = l.Items[i].append(b)
		b = append(b, make([]byte, aligned(len(b))-len(b))...)
	}
	return b
}

func (i *ActionItem) append(b []byte) []byte {
	b = le.AppendUint32(b, uint32(sizeItem+len(i.Blob)))
	b = le.AppendUint32(b, uint32(i.Action))
	b = AppendFID(b, i.FID)
	b = AppendFID(b, i.Data)
	for _, v := range []uint64{i.Extent.Off, i.Extent.Length, i.Cookie, i.GID} {
		b = le.AppendUint64(b, v)
	}
	return append(b, i.Blob...)
}

// CopyFlags say how an action ended (HP_FLAG_*).
type CopyFlags uint16

// The flags.
const (
	CopyCompleted CopyFlags = 1 // there is nothing more to come
	CopyRetry     CopyFlags = 2 // the MDT may hand it out again
)

// Copy says that an action begins or ends (struct hsm_copy).
type Copy struct {
	DataVersion uint64 // of the file when an archive began: the kernel sets it, and compares it at the end
	Flags       CopyFlags
	Errno       uint16 // why it failed; 0 is a success
	Item        ActionItem
}

// Encode gives the 88 bytes of c. A blob is not part of them.
func (c *Copy) Encode() []byte {
	b := le.AppendUint64(make([]byte, 0, sizeCopy), c.DataVersion)
	b = le.AppendUint16(b, uint16(c.Flags))
	b = le.AppendUint16(b, c.Errno)
	b = le.AppendUint32(b, 0)
	item := c.Item
	item.Blob = nil
	return item.append(b)
}

// DecodeCopy is the inverse of Encode.
func DecodeCopy(b []byte) (c Copy, err error) {
	if len(b) < sizeCopy {
		return c, malformed("a copy in %d bytes: it has %d", len(b), sizeCopy)
	}
	c = Copy{DataVersion: le.Uint64(b), Flags: CopyFlags(le.Uint16(b[8:])), Errno: le.Uint16(b[10:])}
	c.Item, _, err = decodeItem(b[16:sizeCopy])
	return c, err
}

// Progress says how far an action is (struct hsm_progress). The kernel answers ECANCELED
// for an action that was cancelled.
type Progress struct {
	FID    lustre.FID
	Cookie uint64
	Extent Extent // what is done
	Flags  CopyFlags
	Errno  uint16
}

// Encode gives the 48 bytes for IocCopyProgress.
func (p *Progress) Encode() []byte {
	b := AppendFID(make([]byte, 0, sizeProgress), p.FID)
	for _, v := range []uint64{p.Cookie, p.Extent.Off, p.Extent.Length} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint16(b, uint16(p.Flags))
	b = le.AppendUint16(b, p.Errno)
	return le.AppendUint32(b, 0)
}

// DecodeProgress is the inverse of Encode.
func DecodeProgress(b []byte) (p Progress, err error) {
	if len(b) < sizeProgress {
		return p, malformed("a progress in %d bytes: it has %d", len(b), sizeProgress)
	}
	return Progress{
		FID: getFID(b), Cookie: le.Uint64(b[16:]), Extent: Extent{le.Uint64(b[24:]), le.Uint64(b[32:])},
		Flags: CopyFlags(le.Uint16(b[40:])), Errno: le.Uint16(b[42:]),
	}, nil
}
