package client

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

func (f *fakeFiles) ioctlFID(h *handle, arg []byte, _ []pointer) (int, error) {
	copy(arg, uapi.AppendFID(nil, h.inode.fid))
	return 0, nil
}

// paths are all names of all files, below the mount.
func (f *fakeFiles) paths() map[*inode][]string {
	all := map[*inode][]string{f.root: {""}}
	var walk func(dir *inode, below string)
	walk = func(dir *inode, below string) {
		for name, n := range dir.children {
			all[n] = append(all[n], below+name)
			slices.Sort(all[n])
			if n.isDir() {
				walk(n, below+name+"/")
			}
		}
	}
	walk(f.root, "")
	return all
}

// ioctlPath counts the link up when there is another one. Beyond the last one is the first. What is asked is a directory:
// names are below it, and one elsewhere is none.
func (f *fakeFiles) ioctlPath(h *handle, arg []byte, _ []pointer) (int, error) {
	if f.user {
		return 0, unix.EPERM
	}
	fid, _ := uapi.DecodeFID(arg)
	for n, paths := range f.paths() {
		if n.fid != fid {
			continue
		}
		link := int(arg[24])
		if link >= len(paths) {
			link = 0
		}
		below := paths[link]
		if root := f.paths()[h.inode][0]; root != "" {
			var inside bool
			if below, inside = strings.CutPrefix(below+"/", root+"/"); !inside {
				return 0, unix.ENOENT
			}
			below = strings.TrimSuffix(below, "/")
		}
		copy(arg[32:], below+"\x00")
		if int(arg[24]) < len(paths)-1 {
			arg[24]++
		}
		return 0, nil
	}
	return 0, unix.ENOENT
}

func (f *fakeFiles) ioctlParent(h *handle, arg []byte, _ []pointer) (int, error) {
	paths := f.paths()[h.inode]
	link := int(arg[16])
	if link >= len(paths) || h.inode == f.root {
		return 0, unix.ENODATA
	}
	parent, base, err := f.find(f.root, paths[link])
	copy(arg, uapi.AppendFID(nil, parent.fid))
	copy(arg[24:], base+"\x00")
	return 0, err
}

// ioctlVersion waits for a group lock, and so for ever when its holder is who asks.
func (f *fakeFiles) ioctlVersion(h *handle, arg []byte, _ []pointer) (int, error) {
	s := f.state(h.inode)
	if len(s.locked) > 0 {
		f.hung = errors.New("a data version of a file under a group lock")
		return 0, unix.EDEADLK
	}
	if arg[12]&(uapi.FlushWrites|uapi.FlushAll) != 0 {
		s.content.flush()
	}
	for i := range 8 {
		arg[i] = byte(s.content.version >> (8 * i))
	}
	return 0, nil
}

func (f *fakeFiles) ioctlAdvise(_ *handle, arg []byte, _ []pointer) (int, error) {
	_, advices, err := uapi.DecodeAdvice(arg)
	if err != nil {
		return 0, unix.EINVAL
	}
	f.advices = append(f.advices, advices...)
	return 0, nil
}

// ioctlSwap compares the version that servers know of: what clients keep is in none, and
// stays with the content that was swapped away.
func (f *fakeFiles) ioctlSwap(h *handle, arg []byte, _ []pointer) (int, error) {
	r, err := uapi.DecodeSwap(arg)
	other, ok := f.open[r.Other]
	if err != nil || !ok || h.inode.isDir() || other.inode.isDir() {
		return 0, unix.EINVAL
	}
	a, b := f.state(h.inode), f.state(other.inode)
	switch {
	case h.flags&unix.O_ACCMODE == unix.O_RDONLY || other.flags&unix.O_ACCMODE == unix.O_RDONLY:
		return 0, unix.EPERM
	case h.inode.uid != other.inode.uid || h.inode.gid != other.inode.gid:
		return 0, unix.EPERM // mdd_layout_swap_allowed of lustre/mdd/mdd_object.c, 2.15 to 2.17
	case h.inode.mdt != other.inode.mdt:
		return 0, unix.EXDEV
	case r.Flags&uapi.SwapCheckFirst != 0 && r.First != a.content.version, r.Flags&uapi.SwapCheckSecond != 0 && r.Second != b.content.version:
		return 0, unix.EAGAIN
	case r.Flags&uapi.SwapClose != 0 && a.lease != h:
		return 0, unix.ESTALE
	case r.Flags&uapi.SwapClose != 0 && r.Flags != uapi.SwapClose:
		return 0, unix.EINVAL
	case onMDTBytes(other.inode.layout) != 0 && onMDTBytes(other.inode.layout) != onMDTBytes(h.inode.layout):
		return 0, unix.EOPNOTSUPP // what is on an MDT does not change places
	case r.Group != 0 && (a.locked[h] || b.locked[other]): // it wants to lock them itself
		return 0, unix.EINVAL
	}
	a.content, b.content = b.content, a.content
	h.inode.layout, other.inode.layout = other.inode.layout, h.inode.layout
	a.mtime, b.mtime = b.mtime, a.mtime // what objects say is what a file has
	if r.Flags&uapi.SwapClose != 0 {
		a.lease = nil
	}
	f.swapped++
	return 0, nil
}

// groupLock flushes what others have.
func (f *fakeFiles) groupLock(h *handle, number uintptr) (int, error) {
	s := f.state(h.inode)
	if number == 0 || s.locked[h] { // ll_get_grouplock of lustre/llite/file.c, 2.15 to 2.17
		return 0, unix.EINVAL
	}
	for len(s.locked) > 0 && s.group != uint32(number) {
		f.changed.Wait()
	}
	s.content.flush()
	s.group, s.locked[h] = uint32(number), true
	return 0, nil
}

func (f *fakeFiles) groupUnlock(h *handle, number uintptr) (int, error) {
	s := f.state(h.inode)
	if s.group != uint32(number) || !s.locked[h] {
		return 0, unix.EINVAL
	}
	delete(s.locked, h)
	f.changed.Broadcast()
	return 0, nil
}

func (f *fakeFiles) setLease(h *handle, mode uintptr) (int, error) {
	s := f.state(h.inode)
	if mode == uapi.LeaseNone {
		if s.lease != h {
			return 0, unix.ENOLCK
		}
		s.lease = nil
		return uapi.LeaseWrite, nil
	}
	write := h.flags&unix.O_ACCMODE != unix.O_RDONLY
	switch { // ll_file_set_lease of lustre/llite/file.c, 2.15 to 2.17
	case mode == uapi.LeaseWrite && !write, mode == uapi.LeaseRead && h.flags&unix.O_ACCMODE == unix.O_WRONLY:
		return 0, unix.EPERM
	case mode != uapi.LeaseWrite && mode != uapi.LeaseRead:
		return 0, unix.EINVAL
	}
	for _, other := range f.open {
		if other != h && other.inode == h.inode {
			return 0, unix.EBUSY
		}
	}
	s.content.flush()
	s.lease = h
	return 0, nil
}

func (f *fakeFiles) getLease(h *handle, _ uintptr) (int, error) {
	if f.state(h.inode).lease == h {
		return uapi.LeaseWrite, nil
	}
	return 0, nil
}

// ioctlState leaves what is done empty, though there is room for it.
func (f *fakeFiles) ioctlState(h *handle, arg []byte, _ []pointer) (int, error) {
	s := f.state(h.inode).hsm
	s.Doing, s.Running = lustre.NoAction, false
	copy(arg, uapi.EncodeHSMState(s))
	return 0, nil
}

func (f *fakeFiles) ioctlAction(h *handle, arg []byte, _ []pointer) (int, error) {
	s := f.state(h.inode).hsm
	copy(arg, uapi.EncodeHSMAction(uapi.HSMAction{Action: s.Doing, Running: s.Running, Extent: uapi.Extent{Length: uapi.WholeFile}}))
	return 0, nil
}

func (f *fakeFiles) ioctlSetState(h *handle, arg []byte, _ []pointer) (int, error) {
	set, clear, archive, err := uapi.DecodeHSMSet(arg)
	switch s := f.state(h.inode); {
	case err != nil:
		return 0, unix.EINVAL
	case f.user && (set|clear)&^Settable != 0:
		return 0, unix.EPERM
	default:
		now := s.hsm.Archived&^clear | set
		if !coherent(now) {
			return 0, unix.EINVAL
		}
		s.hsm.Archived = now
		if archive != 0 && now.Has(lustre.HasCopy) {
			s.hsm.ArchiveID = archive
		}
	}
	return 0, nil
}

// coherent is what mdt_hsm_state_set of lustre/mdt/mdt_hsm.c takes.
func coherent(a lustre.Archived) bool {
	return (!a.Has(lustre.Dirty) || a.Has(lustre.HasCopy)) && !a.Has(lustre.ReleasedState|lustre.Dirty) &&
		(!a.Has(lustre.ReleasedState) || a.Has(lustre.WholeCopy)) && (!a.Has(lustre.Lost) || a.Has(lustre.WholeCopy))
}

// ioctlRequest looks at all files before it does anything with one.
func (f *fakeFiles) ioctlRequest(_ *handle, arg []byte, _ []pointer) (int, error) {
	r, err := uapi.DecodeHSMRequest(arg)
	if err != nil || len(r.Items) > uapi.MaxRequest {
		return 0, unix.EINVAL
	}
	if f.user && r.Action != lustre.Release {
		return 0, unix.EPERM
	}
	var files []*inode
	for _, item := range r.Items {
		n := f.byFID(item.File)
		if n == nil {
			return 0, unix.ENOENT
		}
		files = append(files, n)
	}
	for _, n := range files { // it stops at the first one, whatever the others are
		if s := f.state(n); needed(&s.hsm, r.Action) && !compatible(&s.hsm, r.Action, r.Archive) {
			return 0, unix.EPERM
		}
	}
	for _, n := range files {
		if err := f.request(n, r.Action, r.Archive); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// needed is hsm_action_is_needed of lustre/mdt/mdt_hsm_cdt_client.c: what is not is passed by.
func needed(s *lustre.HSMState, a lustre.Action) bool {
	switch a {
	case lustre.Archive:
		return s.Archived.Has(lustre.Dirty) || !s.Archived.Has(lustre.WholeCopy)
	case lustre.Restore:
		return s.Archived&(lustre.ReleasedState|lustre.Dirty) != 0
	case lustre.Remove:
		return s.Archived&(lustre.WholeCopy|lustre.HasCopy) != 0
	}
	return a == lustre.Cancel
}

// compatible is mdt_hsm_is_action_compat of lustre/mdt/mdt_coordinator.c.
func compatible(s *lustre.HSMState, a lustre.Action, archive uint32) bool {
	switch a {
	case lustre.Archive:
		return !s.Archived.Has(lustre.NoArchive) && (!s.Archived.Has(lustre.HasCopy) || archive == 0 || archive == s.ArchiveID)
	case lustre.Restore:
		return s.Archived.Has(lustre.ReleasedState|lustre.WholeCopy) && s.Archived&(lustre.Dirty|lustre.Lost) == 0
	case lustre.Remove:
		return !s.Archived.Has(lustre.ReleasedState)
	}
	return true
}

func (f *fakeFiles) byFID(fid lustre.FID) *inode {
	for n := range f.paths() {
		if n.fid == fid {
			return n
		}
	}
	return nil
}

func (f *fakeFiles) request(n *inode, a lustre.Action, archive uint32) error {
	s := f.state(n)
	if a != lustre.Release {
		if !needed(&s.hsm, a) {
			return nil
		}
		s.hsm.Doing, s.hsm.ArchiveID = a, max(archive, 1)
		if f.agent {
			f.serve(s)
		}
		return nil
	}
	for _, h := range f.open {
		if h.inode == n {
			return unix.EBUSY
		}
	}
	s.content.flush()
	if !s.hsm.Archived.Has(lustre.WholeCopy) || s.hsm.Archived&(lustre.Dirty|lustre.NoRelease) != 0 || s.copied != s.content.version {
		return unix.EPERM
	}
	s.hsm.Archived |= lustre.ReleasedState
	return nil
}

// serve is a copytool.
func (f *fakeFiles) serve(s *fileState) {
	switch s.hsm.Doing {
	case lustre.Archive:
		s.content.flush()
		s.hsm.Archived = s.hsm.Archived&^lustre.Dirty | lustre.HasCopy | lustre.WholeCopy
		s.copied = s.content.version
	case lustre.Restore:
		s.hsm.Archived &^= lustre.ReleasedState
	case lustre.Remove:
		s.hsm.Archived &^= lustre.HasCopy | lustre.WholeCopy
	}
	s.hsm.Doing = lustre.NoAction
}
