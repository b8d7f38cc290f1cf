package inotify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/tiering/catalog/changefeed"
)

// Options says how a tree is watched. The zero value works.
type Options struct {
	Window time.Duration // how long names are gathered before they are handed over; 0 means 1 s
	Names  int           // most names that wait; 0 means 200,000
	// Watches is how many directories are watched at most; 0 means as many as the kernel allows.
	Watches int

	stall func() // before the queue is read: tests have it overflow
}

func (o Options) window() *changefeed.Window {
	return &changefeed.Window{Wait: o.Window, Names: o.Names}
}

// Feed is the feed of a directory.
type Feed struct {
	dir     string
	options Options
}

// New returns the feed of a directory.
func New(dir string, o Options) *Feed { return &Feed{dir, o} }

// inotifyMask is what changes what a catalog knows, or where directories are. The kernel merges many writes in a row into one IN_MODIFY until the event is read.
const inotifyMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// errLost says that not all was heard.
var errLost = errors.New("not all changes were heard")

// Run implements changefeed.Feed.
func (f *Feed) Run(ctx context.Context, _ changefeed.Marks, take changefeed.Take) error {
	if err := refuse(f.dir); err != nil {
		return err
	}
	w := f.options.window()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.Hand(gctx, take) })
	g.Go(func() error {
		why := "what happened before this was not heard"
		for {
			err := f.listen(gctx, w, why)
			if !errors.Is(err, errLost) {
				return err
			}
			why = err.Error()
		}
	})
	return cmp.Or(g.Wait(), context.Cause(ctx))
}

// listen watches all directories, says that anything may have happened, and tells what happens until the queue overflows.
func (f *Feed) listen(ctx context.Context, w *changefeed.Window, why string) error {
	t, err := newTracker(f.dir, f.options, w)
	if err != nil {
		return err
	}
	defer t.close()
	defer context.AfterFunc(ctx, t.wake)()
	return t.run(ctx, why)
}

// tracker knows the directories that are watched, and where they are.
//
// A watch is of a directory, whatever its name is, and one that is asked for again is the same. So it tells directories apart where names do not: what happened to a name is heard late, and
// by then something else may be there. When a directory appears under a name, it is watched there, and what was watched already has moved. The cookies that pair the two
// events of a rename are not needed, and would be wrong when something else has taken the name meanwhile.
//
// Each directory of the tree is found: the last event of all that tell of a name in its path is handled when the path is as it will stay.
type tracker struct {
	Options
	root    int // the directory
	queue   int // of inotify
	wakes   int // an eventfd: it is to end
	window  *changefeed.Window
	nodes   map[int32]*node // by their watch
	top     *node
	todo    []place // directories that were seen, to be watched and read
	adrift  []lost  // that left their name, and have no other yet
	buffer  []byte
	silent  bool // all is said to have changed afterwards
	overrun bool
	gone    error
}

// node is a watched directory.
type node struct {
	watch  int32
	parent *node // nil: the root, or it is adrift
	name   string
	in     map[string]*node
}

// place is a name in a directory.
type place struct {
	in   *node
	name string
}

type lost struct {
	*node
	since time.Time
}

func newTracker(dir string, o Options, w *changefeed.Window) (t *tracker, err error) {
	t = &tracker{root: -1, queue: -1, wakes: -1, Options: o, window: w, nodes: map[int32]*node{}, buffer: make([]byte, 64<<10)}
	defer func() {
		if err != nil {
			t.close()
			err = &mover.Error{Op: "watch", Location: dir, Err: err}
		}
	}()
	if t.root, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return t, err
	}
	if t.wakes, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return t, err
	}
	t.queue, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == unix.EMFILE {
		err = fmt.Errorf("%w: this user has %s, which is as many queues of inotify as there may be (fs.inotify.max_user_instances), or too many open files", mover.ErrFull, setting("inotify/max_user_instances"))
	}
	return t, err
}

func (t *tracker) close() {
	for _, fd := range []int{t.root, t.queue, t.wakes} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// wake has run look whether it is to end.
func (t *tracker) wake() { _, _ = unix.Write(t.wakes, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// setting is one of the kernel's limits, for people.
func setting(name string) string {
	b, err := os.ReadFile("/proc/sys/fs/" + name)
	if err != nil {
		return "an unknown number"
	}
	return strings.TrimSpace(string(b))
}

const (
	someTodo = 32 // directories that are read before the queue is emptied again
	todoMost = 1 << 20
)

func (t *tracker) run(ctx context.Context, why string) error {
	t.silent = true
	t.todo = []place{{}}
	for {
		for n := 0; len(t.todo) > 0 && n < someTodo; n++ {
			last := len(t.todo) - 1
			p := t.todo[last]
			t.todo = t.todo[:last]
			if err := t.enter(p); err != nil {
				return err
			}
		}
		if len(t.todo) > todoMost {
			return fmt.Errorf("%w: directories appear faster than they can be watched", errLost)
		}
		if t.silent && len(t.todo) == 0 {
			t.silent = false
			t.window.Lose(why)
		}
		if err := t.wait(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := t.drain(); err != nil {
			return err
		}
	}
}

// wait returns when there are events, directories to read, or is an end.
func (t *tracker) wait() error {
	forever := -1
	switch {
	case len(t.todo) > 0:
		forever = 0
	case len(t.adrift) > 0:
		forever = int(adriftMost / time.Millisecond)
	}
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(t.queue), Events: unix.POLLIN}, {Fd: int32(t.wakes), Events: unix.POLLIN}}, forever)
	if err != nil && err != unix.EINTR {
		return fmt.Errorf("poll: %w", err)
	}
	return nil
}

// drain handles the events that there are by now.
func (t *tracker) drain() error {
	if t.stall != nil {
		t.stall()
	}
	for reads := 0; reads < 64; reads++ { // and then the caller checks whether its context is done
		n, err := unix.Read(t.queue, t.buffer)
		if err == unix.EAGAIN {
			t.forget()
			return nil
		}
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		err = eachEvent(t.buffer[:n], t.event)
		switch {
		case err != nil:
			return err
		case t.gone != nil:
			return t.gone
		case t.overrun:
			return fmt.Errorf("%w: the kernel's queue of %s overflowed; fs.inotify.max_queued_events makes a longer one", errLost, setting("inotify/max_queued_events"))
		}
	}
	return nil
}

// event handles one.
func (t *tracker) event(e event) {
	if e.mask&unix.IN_Q_OVERFLOW != 0 {
		t.overrun = true
		return
	}
	n := t.nodes[e.watch]
	if n == nil {
		return // it is not watched any more
	}
	if e.name == "" {
		t.self(n, e.mask)
		return
	}
	name, inside := t.path(n)
	if !inside || changefeed.Ours(e.name) {
		return
	}
	full := mover.Join(name, e.name)
	if e.mask&unix.IN_ISDIR != 0 {
		child := n.in[e.name]
		appears := e.mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0
		switch {
		case appears, child == nil && e.mask&unix.IN_ATTRIB != 0: // it may be read from now on
			t.todo = append(t.todo, place{n, e.name})
			return // it is told of when it is watched
		case child != nil && e.mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
			t.setAdrift(child)
		}
	}
	t.window.Add(full)
}

// self handles what happened to a watched directory itself; most of that is told by the one that it is in, too.
func (t *tracker) self(n *node, mask uint32) {
	switch name, inside := t.path(n); {
	case n == t.top && mask&(unix.IN_IGNORED|unix.IN_DELETE_SELF|unix.IN_UNMOUNT) != 0:
		t.gone = fmt.Errorf("%w: it was removed, or unmounted", mover.ErrNotExist)
	case mask&unix.IN_UNMOUNT != 0 && inside: // what was below it is there again
		t.window.Add(name + "/")
	case mask&unix.IN_IGNORED != 0 && n != t.top:
		t.drop(n)
	}
}

// path is the name of a directory from the root; it reports false of one that has none.
func (t *tracker) path(n *node) (string, bool) {
	if n == t.top {
		return "", true
	}
	size, depth := 0, 0
	for at := n; at != t.top; at = at.parent {
		if at == nil {
			return "", false
		}
		size += len(at.name) + 1
		depth++
	}
	b := make([]byte, size)
	for at, end := n, size; at != t.top; at = at.parent {
		end--
		b[end] = '/'
		end -= len(at.name)
		copy(b[end:], at.name)
	}
	return string(b[:size-1]), true
}
