package client

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// table is for how many targets a client has room: it answers EAGAIN for those that there
// are not.
const table = 64

func (f *fake) ioctlName(_ *handle, arg []byte, _ []pointer) (int, error) {
	copy(arg, "lab-clilov-"+fakeInstance+"\x00")
	return 0, nil
}

func (f *fake) ioctlCount(_ *handle, arg []byte, _ []pointer) (int, error) {
	count := uint32(len(f.osts))
	if binary.LittleEndian.Uint32(arg) == 1 {
		count = table // of MDTs it is the size of the table
	}
	binary.LittleEndian.PutUint32(arg, count)
	return 0, nil
}

func (f *fake) ioctlStatfs(_ *handle, arg []byte, at []pointer) (int, error) {
	r, err := uapi.DecodeOBD(arg)
	if err != nil || len(r.Inline) != 2 || len(at) != 2 {
		return 0, unix.EINVAL
	}
	of, index := f.osts, int(binary.LittleEndian.Uint32(r.Inline[1]))
	if binary.LittleEndian.Uint32(r.Inline[0])&^uapi.StatfsSoon == uapi.StatfsMDT {
		of = f.mdts
	}
	switch {
	case index >= table:
		return 0, unix.ENODEV
	case index >= len(of) || of[index].Name == "":
		return 0, unix.EAGAIN // nothing has this number: a hole, or the end
	}
	if f.inactive[of[index].Name] {
		return 0, unix.ENODATA // before its name is known
	}
	copy(at[1].buffer, of[index].Name)
	const block = 4096
	t := &of[index]
	b, err := (&uapi.Statfs{
		Type: 0xEF53, Blocks: uint64(t.TotalBytes) / block, Free: uint64(t.FreeBytes) / block, Available: uint64(t.FreeBytes) / block,
		Files: uint64(t.TotalFiles), FreeFiles: uint64(t.FreeFiles), BlockBytes: block, NameLength: 255, State: uint32(t.State),
	}).Encode()
	copy(at[0].buffer, b)
	return 0, err
}

func (f *fake) ioctlMDTIndex(h *handle, arg []byte, _ []pointer) (int, error) {
	binary.LittleEndian.PutUint32(arg, uint32(h.inode.mdt))
	return 0, nil
}

// ioctlMakeDir makes a striped directory.
func (f *fake) ioctlMakeDir(h *handle, arg []byte, _ []pointer) (int, error) {
	r, err := uapi.DecodeOBD(arg)
	if err != nil || len(r.Inline) != 2 {
		return 0, unix.EINVAL
	}
	s, err := uapi.DecodeStriping(r.Inline[1])
	name := string(r.Inline[0])
	if err != nil || name == "" || name[len(name)-1] != 0 {
		return 0, unix.EINVAL
	}
	name = name[:len(name)-1]
	switch {
	case h.inode.children[name] != nil:
		return 0, unix.EEXIST
	case !f.may(h.inode, 3):
		return 0, unix.EACCES
	case f.full(h.inode):
		return 0, unix.EDQUOT
	case s.FirstMDT >= len(f.mdts):
		return 0, unix.ENODEV
	}
	d := f.makeDir(h.inode, name)
	d.mode = unix.S_IFDIR | r.Type&0o7777
	d.mdt = max(s.FirstMDT, 0)
	if s.Count == lustre.AllTargets || s.Count > len(f.mdts) {
		s.Count = len(f.mdts)
	}
	if s.Count > 1 {
		if s.Hash == 0 {
			s.Hash = lustre.CRUSH
		}
		for i := range s.Count {
			s.Shards = append(s.Shards, lustre.Shard{FID: lustre.FID{Seq: 0x240000bd1, OID: uint32(i + 1)}, MDT: (d.mdt + i) % len(f.mdts)})
		}
		s.FirstMDT = d.mdt
		d.striping = &s
	}
	return 0, nil
}

func (f *fake) ioctlGetDirStripe(h *handle, arg []byte, _ []pointer) (int, error) {
	magic := binary.LittleEndian.Uint32(arg)
	s := h.inode.striping
	if magic == uapi.MagicDefaultStripes {
		s = h.preset // of when it was opened
		if own := binary.LittleEndian.Uint32(arg[16:]) == 1; s == nil && !own {
			s = f.root.preset // what it would inherit
		}
	}
	if s == nil {
		return 0, unix.ENODATA
	}
	b, err := uapi.EncodeStriping(s, magic)
	if err != nil {
		return 0, unix.EINVAL
	}
	if len(b) > len(arg) {
		binary.LittleEndian.PutUint32(arg[4:], uint32(len(s.Shards)))
		return 0, unix.E2BIG
	}
	copy(arg, b)
	return 0, nil
}

func (f *fake) ioctlSetDefaultStripe(h *handle, arg []byte, _ []pointer) (int, error) {
	s, err := uapi.DecodeStriping(arg)
	if err != nil || binary.LittleEndian.Uint32(arg) != uapi.MagicDefaultStripes {
		return 0, unix.EINVAL
	}
	if !f.owns(h.inode) { // mdd_xattr_sanity_check, as for layouts
		return 0, unix.EPERM
	}
	if h.inode.preset = &s; s.Count == 0 && s.FirstMDT == lustre.AnyTarget {
		h.inode.preset = nil // all defaults: none of its own
	}
	return 0, nil
}
