package inotify

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/tiering/catalog/changefeed"
)

// enter watches the directory at a place, and then reads which directories are in it: so of each either an event tells, or it is found.
func (t *tracker) enter(p place) error {
	dir, inside := "", true
	if p.in != nil {
		dir, inside = t.path(p.in)
	}
	if !inside || changefeed.Ours(p.name) {
		return nil
	}
	full := mover.Join(dir, p.name)
	fd, err := openDir(t.root, full)
	if err != nil {
		if !passing(err) || p.in == nil {
			return fmt.Errorf("open %s: %w", mover.Printable(full), err)
		}
		if p.in != nil && !t.silent {
			t.window.Add(full)
		}
		return nil // the kernel tells of its move or removal
	}
	defer func() { _ = unix.Close(fd) }()
	n, err := t.watch(fd, p)
	if n == nil && p.in == nil && err == nil {
		err = fmt.Errorf("%w: the root can not be watched", errors.ErrUnsupported)
	}
	if n == nil || err != nil {
		return err
	}
	names, err := subdirs(fd)
	if err != nil && !passing(err) {
		return fmt.Errorf("read %s: %w", mover.Printable(full), err)
	}
	for _, name := range names {
		t.todo = append(t.todo, place{n, name})
	}
	if p.in != nil && !t.silent {
		t.window.Add(full + "/")
	}
	return nil
}

// passing reports whether it is no fault that a directory can not be read: it is another thing by now, or not ours to read.
func passing(err error) bool {
	for _, one := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES, unix.EPERM, unix.ESTALE} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// watch asks for the watch of an open directory, and notes where it is.
func (t *tracker) watch(fd int, p place) (*node, error) {
	wd, err := unix.InotifyAddWatch(t.queue, "/proc/self/fd/"+strconv.Itoa(fd), inotifyMask)
	switch {
	case err == unix.ENOSPC:
		return nil, fmt.Errorf("%w: %d directories are watched, and there are more than this user may watch: fs.inotify.max_user_watches is %s", errors.ErrUnsupported, len(t.nodes), setting("inotify/max_user_watches"))
	case err == unix.ENOENT:
		if unix.Access("/proc/self/fd", unix.F_OK) != nil {
			return nil, fmt.Errorf("%w: /proc is not mounted", errors.ErrUnsupported)
		}
		return nil, nil // it was removed while it was open
	case err != nil && passing(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("watch %s: %w", mover.Printable(p.name), err)
	}
	n := t.nodes[int32(wd)]
	if n == nil {
		if t.Watches > 0 && len(t.nodes) >= t.Watches {
			return nil, fmt.Errorf("%w: it has more directories than the %d that may be watched", errors.ErrUnsupported, t.Watches)
		}
		n = &node{watch: int32(wd)}
		t.nodes[n.watch] = n
	}
	if p.in == nil {
		t.top = n
		return n, nil
	}
	return n, t.settle(n, p)
}

// settle notes that a directory is at a place, and nowhere else; what was there is not. It is not taken from those that are adrift: forget sees that it is not.
func (t *tracker) settle(n *node, p place) error {
	if n.parent == p.in && n.name == p.name {
		return nil
	}
	for at := p.in; at != nil; at = at.parent {
		if at == n { // it was above the place, and so the place is known by an old name
			return fmt.Errorf("%w: a directory seems to be within itself", errLost)
		}
	}
	t.leave(n)
	if was := p.in.in[p.name]; was != nil {
		t.setAdrift(was)
	}
	n.parent, n.name = p.in, p.name
	if p.in.in == nil {
		p.in.in = map[string]*node{}
	}
	p.in.in[p.name] = n
	return nil
}

func (t *tracker) leave(n *node) {
	if n.parent != nil {
		delete(n.parent.in, n.name)
	}
	n.parent = nil
}

// adriftMost is for how long a directory that left its name is still watched: it may have another, of which the event is on its way.
const adriftMost = time.Second

func (t *tracker) setAdrift(n *node) {
	t.leave(n)
	t.adrift = append(t.adrift, lost{n, time.Now()})
}

// forget ends the watches of what left the tree.
func (t *tracker) forget() {
	for len(t.adrift) > 0 && time.Since(t.adrift[0].since) >= adriftMost {
		n := t.adrift[0].node
		t.adrift = t.adrift[1:]
		if t.nodes[n.watch] == n && n.parent == nil {
			t.unwatch(n)
		}
	}
}

func (t *tracker) unwatch(n *node) {
	for stack := []*node{n}; len(stack) > 0; {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, child := range n.in {
			stack = append(stack, child)
		}
		delete(t.nodes, n.watch)
		_, _ = unix.InotifyRmWatch(t.queue, uint32(n.watch)) // a directory that was removed has none any more
	}
}

// drop forgets a directory after its watch has ended: it was removed.
func (t *tracker) drop(n *node) {
	delete(t.nodes, n.watch)
	t.leave(n)
	for _, child := range n.in { // of which events are on their way
		t.setAdrift(child)
	}
}

// openDir opens a directory below another, without following a link.
func openDir(root int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	at := root
	for rest, more := name, true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if segment == "" {
			segment = "."
		}
		fd, err := unix.Openat(at, segment, flags|unix.O_NOATIME, 0)
		if err == unix.EPERM { // it belongs to another
			fd, err = unix.Openat(at, segment, flags, 0)
		}
		if at != root {
			_ = unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = fd
	}
	return at, nil
}

// subdirs reads the names of the directories that are in an open one.
func subdirs(fd int) (names []string, err error) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(fd, buffer)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return names, err
		}
		for rest := buffer[:n]; len(rest) > 0; {
			var d dirent
			if d, rest, err = nextDirent(rest); err != nil {
				return names, err
			}
			if d.name != "." && d.name != ".." && (d.kind == unix.DT_DIR || d.kind == unix.DT_UNKNOWN) {
				names = append(names, d.name) // what is none is not opened
			}
		}
	}
}
