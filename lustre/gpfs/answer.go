package gpfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// asked is one of the two ways to ask. [Client] and [Commands] are both.
type asked interface {
	FileSystem(ctx context.Context, name string) (FileSystem, error)
	Filesets(ctx context.Context, fileSystem string) ([]Fileset, error)
	Fileset(ctx context.Context, fileSystem, name string) (Fileset, error)
	FilesetQuota(ctx context.Context, fileSystem, name string) (found bool, quota lustre.Quota, err error)
	SetFilesetQuota(ctx context.Context, fileSystem, name string, l lustre.Limits) error
	CreateFileset(ctx context.Context, fileSystem string, n NewFileset) error
	LinkFileset(ctx context.Context, fileSystem, name, junction string) error
	UnlinkFileset(ctx context.Context, fileSystem, name string, force bool) error
	DeleteFileset(ctx context.Context, fileSystem, name string) error
	Pools(ctx context.Context, fileSystem string) ([]Pool, error)
}

// Answer gives s, of which mount and name (that of the device) are known, its answers, and
// the reasons for those that it has not. A way that is not there or not usable is such a
// reason; nothing is asked yet.
func Answer(s *lustre.System, o Options) {
	if s.Lacks == nil {
		s.Lacks = map[lustre.Question]string{}
	}
	s.Lacks[lustre.AskHSM] = "content on tape is moved by the tools of its archive (eeadm, dsmmigrate), which are not spoken here; a file that is there has the flag released in its layout"
	s.Lacks[lustre.AskChange] = "watch folders of Storage Scale write to a message queue, which is not read here; changes are found by a scan with mmapplypolicy"
	at := mounted{name: cmp.Or(o.FileSystem, strings.TrimPrefix(s.Name, "/dev/")), mount: s.Mount}
	s.Usage = usage{mounted: at}
	commands, err := NewCommands(o)
	if err == nil {
		at.asked, at.commands = commands, commands
		s.Layout = layouts{at}
	} else {
		s.Lacks[lustre.AskLayout] = "the pool of a file is told by mmlsattr: " + err.Error()
		s.Lacks[lustre.AskQuota] = "no GUI is configured, and " + err.Error()
	}
	if o.URL != "" {
		client, err := NewClient(o)
		if err != nil { // no fallback to the commands: the site configured the URL to ask
			s.Lacks[lustre.AskQuota] = err.Error()
			return
		}
		at.asked = client
	}
	if at.asked != nil {
		s.Quota, s.Usage = quotas{at}, usage{at}
		delete(s.Lacks, lustre.AskQuota)
	}
}

// mounted is a mounted file system and the ways to ask about it.
type mounted struct {
	name, mount string
	asked       asked     // nil where there is no way
	commands    *Commands // nil where there are none
}

// pathOf is the path by which a command can be asked about an open file. It checks that the path
// still names that file; callers that change something check it again afterwards.
func pathOf(fd int) (string, error) {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "", err
	}
	return name, sameAs(fd, name)
}

func sameAs(fd int, name string) error {
	var open, named unix.Stat_t
	if err := unix.Fstat(fd, &open); err != nil {
		return err
	}
	if err := unix.Lstat(name, &named); err != nil {
		return fmt.Errorf("%q, which is open: %w", name, err)
	}
	if open.Dev != named.Dev || open.Ino != named.Ino {
		return fmt.Errorf("%q is not what is open: it was moved or replaced meanwhile: %w", name, ErrConflict)
	}
	return nil
}

// place is where an open file is.
type place struct {
	path    string // here
	theirs  string // where the cluster says that the file system is mounted
	fileset Fileset
	all     []Fileset
}

// whereIs finds the fileset of an open file by the longest junction that its path is
// below. The cluster says junctions as it mounts the file system itself; that here they
// are where we think is checked by the inode of the root of the fileset.
func (m mounted) whereIs(ctx context.Context, fd int) (p place, err error) {
	if p.path, err = pathOf(fd); err != nil {
		return p, err
	}
	system, err := m.asked.FileSystem(ctx, m.name)
	if err != nil {
		return p, err
	}
	p.theirs = system.Mount
	if p.all, err = m.asked.Filesets(ctx, m.name); err != nil {
		return p, err
	}
	at := ""
	for _, f := range p.all {
		here, ok := rebase(f.Junction, p.theirs, m.mount)
		if ok && below(p.path, here) && len(here) >= len(at) {
			p.fileset, at = f, here
		}
	}
	if at == "" {
		return p, fmt.Errorf("%q is below no fileset of %s: %w", p.path, m.name, fs.ErrNotExist)
	}
	var st unix.Stat_t
	if err := unix.Stat(at, &st); err != nil {
		return p, fmt.Errorf("junction %q: %w", at, err)
	}
	if st.Ino != p.fileset.RootInode {
		return p, fmt.Errorf("fileset of %q: %w: %q is not the root of fileset %s; a part of the file system is mounted there, and which one is not known",
			p.path, errors.ErrUnsupported, at, p.fileset.Name)
	}
	return p, m.agrees(ctx, p)
}

// agrees compares what the GUI has collected with what a file is told to belong to, where we
// may ask that: a fileset that was linked a moment ago would be taken for the one around it,
// and that one be given its limits.
func (m mounted) agrees(ctx context.Context, p place) error {
	if _, collects := m.asked.(*Client); !collects || m.commands == nil {
		return nil
	}
	a, err := m.commands.Attributes(ctx, p.path)
	if err != nil || a.Fileset == p.fileset.Name { // it may be that only root can ask
		return ctx.Err()
	}
	return fmt.Errorf("fileset of %q: %w: mmlsattr says %s, and the GUI %s: what it has collected is behind, try again in a minute",
		p.path, ErrConflict, a.Fileset, p.fileset.Name)
}

func (m mounted) filesetOf(ctx context.Context, fd int) (Fileset, error) {
	p, err := m.whereIs(ctx, fd)
	return p.fileset, err
}

// rebase turns a path as the cluster says it into one below our mount.
func rebase(junction, theirs, ours string) (string, bool) {
	if junction == "" || !below(junction, theirs) {
		return "", false
	}
	return path.Join(ours, strings.TrimPrefix(junction, theirs)), true
}

// below reports whether a path is a directory or something in it.
func below(name, directory string) bool {
	return name == directory || strings.HasPrefix(name, strings.TrimSuffix(directory, "/")+"/")
}
