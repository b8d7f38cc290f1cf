package client

import (
	"encoding/binary"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

func (f *fake) getxattr(fd int, name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.open[fd]
	switch {
	case !ok || h.pathOnly():
		return nil, unix.EBADF
	case f.fails["getxattr"] != nil:
		return nil, f.fails["getxattr"]
	case f.user && name != "lustre.lov": // trusted.* has no data for users, not EPERM
		return nil, unix.ENODATA
	}
	switch name {
	case "lustre.lov", "trusted.lov":
		if h.inode.layout == nil {
			return nil, unix.ENODATA
		}
		return uapi.EncodeLayout(h.inode.layout)
	case "trusted.projid":
		return []byte(strconv.Itoa(int(h.inode.project))), nil
	}
	if value, ok := h.inode.xattrs[name]; ok {
		return slices.Clone(value), nil
	}
	return nil, unix.ENODATA
}

func (f *fake) setxattr(fd int, name string, value []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.open[fd]
	switch {
	case !ok || h.pathOnly():
		return unix.EBADF
	case f.fails["setxattr"] != nil:
		return f.fails["setxattr"]
	case f.lies["setxattr"]:
		return nil
	case !f.owns(h.inode): // mdd_xattr_sanity_check of lustre/mdd/mdd_object.c, 2.15 to 2.17
		return unix.EPERM
	case name != "lustre.lov":
		h.inode.xattrs[name] = slices.Clone(value)
		return nil
	case !h.inode.isDir() && h.inode.layout != nil:
		return nil // so that cp and rsync work: it says yes, and does nothing
	case len(value) < 32:
		return unix.ERANGE
	}
	if magic := binary.LittleEndian.Uint32(value); magic != uapi.MagicComposite && magic != uapi.MagicForeign && value[30] == 0 && value[31] == 0 {
		value = slices.Clone(value)
		value[30], value[31] = 0xff, 0xff // of a plain layout OST 0 means any: getxattr used to say 0
	}
	return f.setLayout(h.inode, value)
}

func (f *fake) removexattr(fd int, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.open[fd]
	switch {
	case !ok || h.pathOnly():
		return unix.EBADF
	case f.lies["removexattr"]:
		return nil
	case !f.owns(h.inode):
		return unix.EPERM
	case name == "lustre.lov" && h.inode.layout == nil:
		return unix.ENODATA
	case name == "lustre.lov" && h.inode.isDir():
		h.inode.layout = nil
		return nil
	case name == "lustre.lov":
		return unix.EPERM
	}
	delete(h.inode.xattrs, name)
	return nil
}

// ioctlSetStripe is the other way to set a layout, which tells of one that is there.
func (f *fake) ioctlSetStripe(h *handle, arg []byte, _ []pointer) (int, error) {
	l, err := uapi.DecodeLayout(arg)
	switch {
	case err != nil:
		return 0, unix.EINVAL
	case f.setstripe && f.user:
		return 0, nil // enable_setstripe_gid: it says yes to who is not lfs, and does nothing
	case !f.owns(h.inode):
		return 0, unix.EPERM
	case h.inode.isDir() && (len(l.Components) != 1 || l.Mirrors > 0):
		return 0, unix.EOPNOTSUPP
	case !h.inode.isDir() && h.inode.layout != nil:
		return 0, unix.EEXIST
	}
	err = f.setLayout(h.inode, arg)
	if err == nil && !h.inode.isDir() {
		clear(arg[28:30]) // it answers with the head of what it made, and no stripes
	}
	return 0, err
}

func (f *fake) setLayout(n *inode, value []byte) error {
	l, err := uapi.DecodeLayout(value)
	if err != nil {
		return unix.EINVAL
	}
	for _, c := range l.Components {
		if c.StripeBytes%lustre.StripeUnit != 0 || c.End != lustre.EOF && c.End%lustre.StripeUnit != 0 {
			return unix.EINVAL
		}
		if c.StripeBytes > 0 && !c.Flags.Has(lustre.Extension) && c.End != lustre.EOF && c.End != c.Start && c.End%c.StripeBytes != 0 {
			return unix.EINVAL
		}
		if c.Pattern == lustre.OnMDT && (c.Pool != "" || c.StripeCount != 0 || c.StripeBytes != c.End) {
			return unix.EINVAL
		}
		for _, o := range c.Objects {
			if o.Target >= len(f.osts) {
				return unix.EINVAL
			}
		}
	}
	if n.isDir() {
		if n.layout = &l; saysNothing(&l) {
			n.layout = nil
		}
		return nil
	}
	n.layout, n.delayed = f.instantiate(n, l, n.parent), false
	return nil
}

// defaultOf is the layout of new files in a directory.
func (f *fake) defaultOf(dir *inode) lustre.Layout {
	for _, d := range []*inode{dir, f.root} {
		if d.layout != nil {
			return *d.layout
		}
	}
	return lustre.Layout{Components: []lustre.Component{{End: lustre.EOF, Pattern: lustre.RAID0, FirstTarget: lustre.AnyTarget}}}
}

// instantiate makes a layout that was asked for one that is stored: what it does not say
// is filled in, components get their identifiers, and the first of each mirror its objects.
func (f *fake) instantiate(n *inode, l lustre.Layout, parent *inode) *lustre.Layout {
	if l.Foreign != nil {
		return &l
	}
	l.Components = slices.Clone(l.Components)
	composite := l.Mirrors > 0
	mirror := 0
	for i := range l.Components {
		c := &l.Components[i]
		c.Stored = lustre.Stored{}
		if c.StripeBytes == 0 {
			c.StripeBytes = 4 << 20
		}
		if c.Pool == "" && len(c.Objects) == 0 && parent.layout != nil && len(parent.layout.Components) > 0 {
			c.Pool = parent.layout.Components[0].Pool // a directory's pool is handed down
		}
		f.count(c)
		if c.Start == 0 {
			mirror++
		}
		if composite {
			l.Generation = uint32(i + 2)
			c.ID = uint32(i + 1)
			if l.Mirrors > 1 {
				c.ID |= uint32(mirror) << 16
			}
		} else {
			c.Stored.File = n.fid
		}
		if c.Flags.Has(lustre.Extension) || c.Start > 0 {
			c.Objects = nil
			continue
		}
		if composite {
			c.Flags |= lustre.Initialised
		}
		f.place(c)
	}
	return &l
}

// count makes a stripe count one that there are targets for: of a pool that there is not, all.
func (f *fake) count(c *lustre.Component) {
	switch {
	case c.Pattern == lustre.OnMDT:
		return
	case len(c.Objects) > 0:
		c.StripeCount = len(c.Objects)
	case c.StripeCount == 0:
		c.StripeCount = 1
	}
	most := len(f.targets(c.Pool))
	if c.Start == 0 && c.StripeCount == lustre.AllTargets || c.Pattern != lustre.Overstriped && c.StripeCount > most {
		c.StripeCount = most
	}
}

// targets are those that are active of a pool; of all where there is no such pool.
func (f *fake) targets(pool string) (active []int) {
	in, ok := f.pools[pool]
	for i := range f.osts {
		if (!ok || slices.Contains(in, i)) && !f.inactive[f.osts[i].Name] {
			active = append(active, i)
		}
	}
	return active
}

// place gives a component its objects.
func (f *fake) place(c *lustre.Component) {
	if c.Pattern == lustre.OnMDT {
		return
	}
	chosen := c.Objects
	c.Objects = nil
	in := f.targets(c.Pool)
	for i := range c.StripeCount {
		target := in[(i+1)%len(in)] // who says nothing does not get OST 0 first
		switch {
		case len(chosen) > 0:
			target = chosen[i].Target
		case c.FirstTarget >= 0:
			target = (c.FirstTarget + i) % len(f.osts)
		}
		f.nextOID++
		c.Objects = append(c.Objects, lustre.Object{Target: target, FID: lustre.FID{Seq: 0x280000401 + uint64(target)<<30, OID: f.nextOID}})
	}
	c.FirstTarget = lustre.AnyTarget
}
