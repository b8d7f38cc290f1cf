package volumestore

import (
	"context"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/volume"
	"datamove.dev/mover"
	"datamove.dev/mover/beneath"
)

// Found is a volume, or a snapshot, that is whole. Close it.
type Found struct {
	Record Record
	at     dir // the one with the record
	data   dir // what pods see
}

// Data is the directory that pods see, open as the caller needs it for questions and for mounts.
func (f *Found) Data() int { return int(f.data) }

// Path is where the directory of a volume is, below the Root of the file system.
func (b *Base) Path(id volume.ID) string {
	return path.Join(b.spec.Volumes, homeOf(id.Kind), id.Key, dataDir)
}

// Is reports why an open directory is not that of the volume: it may have been reached another way.
func (f *Found) Is(fd int) error { return f.Record.marks(dir(fd)) }

// Close lets go of it.
func (f *Found) Close() {
	f.data.close()
	f.at.close()
}

// Find opens a volume. mover.ErrNotExist where there is none that is whole.
func (b *Base) Find(ctx context.Context, id volume.ID) (*Found, error) {
	if !id.Ours() || id.FileSystem != b.spec.Name {
		return nil, fmt.Errorf("%w: %s is no volume that was made on file system %s", mover.ErrUsage, id, b.spec.Name)
	}
	home, err := b.in(homeOf(id.Kind))
	if err != nil {
		return nil, err
	}
	defer home.close()
	at, err := home.sub(id.Key)
	if errors.Is(err, mover.ErrNotExist) {
		return nil, fmt.Errorf("%w: file system %s has no %s", mover.ErrNotExist, b.spec.Name, id)
	}
	if err != nil {
		return nil, err
	}
	f, err := open(at, id)
	if err != nil {
		at.close()
		return nil, err
	}
	return f, nil
}

// open reads the record in at, and opens what it is of. Data that does not carry the mark of its
// record is something else that was put there, and nothing of ours.
func open(at dir, id volume.ID) (*Found, error) {
	f := &Found{at: at}
	if err := at.read(recordFile, &f.Record); err != nil {
		return nil, err
	}
	if err := f.Record.whole(id); err != nil {
		return nil, err
	}
	data, err := at.data()
	if err != nil {
		return nil, err
	}
	if err := f.Record.marks(data); err != nil {
		data.close()
		return nil, err
	}
	f.data = data
	return f, nil
}

// data opens the directory that pods see. A subvolume and a fileset are file systems of their own to the kernel.
func (d dir) data() (dir, error) {
	fd, err := openBeneath(d, dataDir, asDir, beneath.NoLinks)
	return dir(fd), err
}

// markName is where data carries its mark: only a process with CAP_SYS_ADMIN sees and sets it.
const markName = "trusted.datamove.csi"

// marks reports why data is not what r is the record of. Where a file system keeps no such
// attributes (NFS) its inode has to do.
func (r *Record) marks(data dir) error {
	not := func(why string) error {
		return fmt.Errorf("%w: %s is not the directory that was made for %s: %s; it is left alone", mover.ErrConflict, mover.Printable(data.name()), r.ID, why)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(data), &st); err != nil {
		return err
	}
	if st.Ino != r.Inode {
		return not("it has another inode")
	}
	b := make([]byte, 64)
	n, err := unix.Fgetxattr(int(data), markName, b)
	switch {
	case err == unix.EOPNOTSUPP:
		return nil
	case err == unix.ENODATA:
		return not("it has no mark")
	case err != nil:
		return &mover.Error{Op: "read the mark of", Location: data.name(), Err: err}
	case string(b[:n]) != r.Mark:
		return not("it has the mark of another one")
	}
	return nil
}

// mark makes data that of r. What is marked may be frozen already, by one that was killed.
func (r *Record) mark(data dir) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(data), &st); err != nil {
		return err
	}
	if r.Inode = st.Ino; r.marks(data) == nil {
		return nil
	}
	if err := unix.Fsetxattr(int(data), markName, []byte(r.Mark), 0); err != nil && err != unix.EOPNOTSUPP {
		return &mover.Error{Op: "mark", Location: data.name(), Err: full(err)}
	}
	return nil
}
