package posix

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
)

// Some file systems take names of different bytes for one: exFAT, vfat, NTFS and CIFS compare without case, as do
// directories of ext4, f2fs and tmpfs that have the flag casefold (FS_CASEFOLD_FL of linux/fs.h) and an XFS that was made
// with version=ci; others compare forms of Unicode. A name that is given there must not take the place of an entry
// of another spelling, so a draft is first given a name that has to be free. What the kernel says decides, because
// no two file systems fold the same letters.

// fold is what is known of how a directory compares names.
type fold struct {
	state atomic.Int32 // one of the folding states
	names names
}

const (
	unknownFold int32 = iota
	exactFold         // names of other bytes are other names
	caseFold
)

// folds reports whether the directory at compares names without case. temp is a name in it with lower-case letters.
func (p *Backend) folds(at *handle, temp string) (bool, error) {
	switch at.fold.state.Load() {
	case exactFold:
		return false, nil
	case caseFold:
		return true, nil
	}
	if !at.foreign && p.exact.Load() {
		return false, nil
	}
	same, err := oneName(at.fd, temp, strings.ToUpper(temp))
	switch {
	case err != nil:
		return false, err
	case same:
		at.fold.state.Store(caseFold)
		return true, nil
	}
	at.fold.state.Store(exactFold)
	if !at.foreign && !p.system.Mixed {
		p.exact.Store(true)
	}
	return false, nil
}

// oneName reports whether two names of a directory lead to one inode. The first one is there.
func oneName(dirfd int, name, other string) (bool, error) {
	var a, b unix.Statx_t
	switch err := kernel.StatxSegment(dirfd, other, &b); err {
	case nil:
	case unix.ENOENT:
		return false, nil
	default:
		return false, err
	}
	err := kernel.StatxSegment(dirfd, name, &a)
	return err == nil && a.Ino == b.Ino && kernel.DeviceOf(&a) == kernel.DeviceOf(&b), err
}

// give gives a draft its name in the directory at, in place of what has that very name.
func (p *Backend) give(at *handle, d *draft, base string) error {
	folds, err := p.folds(at, d.temp)
	if err != nil {
		return err
	}
	if folds {
		switch err := renameNew(at.fd, d.temp, at.fd, base); err {
		case nil:
			at.fold.names.add(base)
			return nil
		case unix.EEXIST:
		default:
			return err
		}
		if err := at.fold.names.namesake(at.fd, base); err != nil {
			return err
		}
	}
	return p.replace(at.fd, d.temp, at.fd, base, d.name, d.kind)
}

// Spelled implements mover.Speller.
func (p *Backend) Spelled(ctx context.Context, name string) error {
	if err := p.checkNew("look at", name); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	at, err := p.find(name)
	if err != nil {
		return p.fail("look at", name, err)
	}
	defer at.release()
	return p.fail("look at", name, namesake(at.fd, at.base))
}

// names is what a directory that folds names was seen to contain: it is listed again only for a name that was not seen.
type names struct {
	mu     sync.Mutex
	exact  map[string]struct{} // guarded by mu, as is folded
	folded map[string]string   // by the name in lower case
}

// mostNames is of how many names of a directory are kept in memory.
const mostNames = 1 << 16

func (n *names) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.exact != nil && len(n.exact) < mostNames {
		n.put(name)
	}
}

func (n *names) put(name string) {
	n.exact[name] = struct{}{}
	n.folded[strings.ToLower(name)] = name
}

// namesake is an error when what has the name base has another spelling.
func (n *names) namesake(dirfd int, base string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.exact[base]; ok {
		return nil
	}
	if other, ok := n.folded[strings.ToLower(base)]; ok {
		return mover.Namesake(other)
	}
	all, err := listNames(dirfd)
	if err != nil {
		return err
	}
	n.exact, n.folded = nil, nil
	if len(all) < mostNames {
		n.exact, n.folded = make(map[string]struct{}, len(all)), make(map[string]string, len(all))
		for _, name := range all {
			n.put(name)
		}
	}
	return spelled(all, base)
}

func listNames(dirfd int) ([]string, error) {
	fd, err := openList(dirfd, ".")
	if err != nil {
		return nil, err
	}
	defer kernel.Close(fd)
	return readNames(fd)
}

// spelled is an error when none of the names of a directory, in which something has the name base, is base.
func spelled(all []string, base string) error {
	other := "another spelling of it"
	for _, name := range all {
		if name == base {
			return nil
		}
		if strings.EqualFold(name, base) {
			other = name
		}
	}
	return mover.Namesake(other)
}

// namesake is names.namesake of a directory of which nothing is known yet. Where the name with its letters in the other case
// leads elsewhere, or nowhere, the directory is not listed.
func namesake(dirfd int, base string) error {
	other, ascii := swapCase(base)
	if ascii {
		if other == base {
			return nil
		}
		if same, err := oneName(dirfd, base, other); err != nil || !same {
			return err
		}
	}
	all, err := listNames(dirfd)
	if err != nil {
		return err
	}
	return spelled(all, base)
}

// swapCase changes the case of each letter of ASCII, and reports whether there are only characters of ASCII.
func swapCase(name string) (string, bool) {
	b := []byte(name)
	ascii := true
	for i, c := range b {
		switch {
		case c >= 0x80:
			ascii = false
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			b[i] = c ^ 0x20
		}
	}
	return string(b), ascii
}
