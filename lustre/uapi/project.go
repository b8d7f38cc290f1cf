package uapi

// InheritProject is the flag of a directory that gives its project to new entries
// (FS_XFLAG_PROJINHERIT of linux/fs.h).
const InheritProject = 0x200

// SizeFSXattr is the size of a struct fsxattr in bytes.
const SizeFSXattr = 28

// FSXattr is the argument of FS_IOC_FSGETXATTR and FS_IOC_FSSETXATTR (linux/fs.h), which
// Lustre has in common with ext4 and xfs.
type FSXattr struct {
	XFlags, ExtentSize, Extents, Project, CowExtentSize uint32
}

// Encode writes the struct.
func (x FSXattr) Encode() []byte {
	b := make([]byte, SizeFSXattr)
	for i, v := range [...]uint32{x.XFlags, x.ExtentSize, x.Extents, x.Project, x.CowExtentSize} {
		le.PutUint32(b[4*i:], v)
	}
	return b
}

// DecodeFSXattr is the inverse of Encode.
func DecodeFSXattr(b []byte) (FSXattr, error) {
	if len(b) < SizeFSXattr {
		return FSXattr{}, malformed("an fsxattr of %d bytes: it has %d", len(b), SizeFSXattr)
	}
	return FSXattr{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[16:])}, nil
}

// lu_project is the argument of LL_IOC_PROJECT: of an entry that can not be opened, by its
// name in an open directory.
const (
	sizeProject = 272
	nameProject = 16
	setProject  = 1
	getProject  = 2
)

// NamedProject is a lu_project.
type NamedProject struct {
	Set        bool // else get
	ID, XFlags uint32
	Name       string // in the directory; up to 255 bytes
}

// Encode writes the struct.
func (p *NamedProject) Encode() ([]byte, error) {
	if len(p.Name) == 0 || len(p.Name) > sizeProject-nameProject-1 {
		return nil, errRange("a name with a length", int64(len(p.Name)))
	}
	b := make([]byte, sizeProject)
	le.PutUint32(b, getProject)
	if p.Set {
		le.PutUint32(b, setProject)
	}
	le.PutUint32(b[4:], p.ID)
	le.PutUint32(b[8:], p.XFlags)
	copy(b[nameProject:], p.Name)
	return b, nil
}

// DecodeNamedProject is the inverse of Encode.
func DecodeNamedProject(b []byte) (NamedProject, error) {
	if len(b) < sizeProject {
		return NamedProject{}, malformed("a lu_project of %d bytes: it has %d", len(b), sizeProject)
	}
	return NamedProject{Set: le.Uint32(b) == setProject, ID: le.Uint32(b[4:]), XFlags: le.Uint32(b[8:]), Name: text(b[nameProject : sizeProject-1])}, nil
}
