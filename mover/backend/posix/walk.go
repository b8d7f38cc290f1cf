package posix

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
)

// walk is one walk. The consumer, which is the loop over Walk, goes through the
// tree in order; workers list and examine what it will need next. What no worker
// has begun when the consumer comes to it, the consumer does itself, so it never
// waits for something that waits for it.
//
// Memory: what is ahead of the consumer is bounded by aheadDirs, aheadNames and
// aheadEntries; beside that each worker may be listing one directory, however
// large, and the directories that the consumer is in are kept as listings.
type walk struct {
	place *Backend
	opts  mover.WalkOptions
	yield func(mover.Entry, error) bool

	workers sync.WaitGroup
	started bool // of the consumer: whether there are workers

	mu      sync.Mutex
	wake    sync.Cond // of mu: there is work, or room for it, or the end
	stopped bool      // guarded by mu, like all below
	ahead   []*node   // listed, with something that no goroutine has begun
	dirs    int       // begun ahead and not reached by the consumer
	names   int       // bytes of their names
	entries int       // examined ahead and not reached
	open    map[*node]struct{}
}

const (
	aheadDirs    = 8 // for each reader: more would only be cold again when it is their turn
	aheadNames   = 16 << 20
	aheadEntries = 16 << 10
	openDirs     = 64 // directories that stay open until all of their entries are examined
)

// node is one directory of a walk.
type node struct {
	name  string
	after string // only what is behind this path in it is wanted; "" is all
	ready chan struct{}
	early bool // begun by a worker: counted in walk.dirs

	// Set before ready is closed:
	err     error
	listing listing
	inner   bool   // the first record was walked before, but not all that it contains
	rest    string // what is behind this path in it is wanted

	// Guarded by walk.mu:
	chunks []chunk
	subs   map[int]*node // directories in it that a goroutine has begun
	at     int           // records before this one have been begun
	fd     int           // -1 when not open
	left   int           // chunks that are not examined yet
}

// chunk is chunkLen consecutive entries of a directory.
type chunk struct {
	begun   bool
	early   bool          // by a worker: counted in walk.entries
	done    chan struct{} // closed when entries and err are set; nil when the consumer did it
	entries []mover.Entry
	err     error
}

// Walk implements mover.Source.
func (p *Backend) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		if !mover.ValidName(opts.Dir) || !opts.ValidAfter() {
			yield(mover.Entry{}, p.fail("walk", opts.Dir, fmt.Errorf("%w: not a name below the root", mover.ErrUsage)))
			return
		}
		after, left := within(opts.Dir, opts.After)
		if !left {
			return
		}
		w := &walk{place: p, opts: opts, yield: yield, open: map[*node]struct{}{}}
		w.wake.L = &w.mu
		defer w.end()
		top := &node{name: opts.Dir, after: after, ready: make(chan struct{}), fd: -1}
		w.do(top)
		self := mover.Entry{Name: opts.Dir, Kind: mover.Dir}
		if errors.Is(top.err, mover.ErrNotExist) {
			self = mover.Entry{} // there is no directory of which the content is not known
		}
		w.emit(ctx, top, self)
	}
}

// within makes after relative to dir. It reports false when all of dir is before it.
func within(dir, after string) (string, bool) {
	switch {
	case after == "" || after == dir:
		return "", true
	case !mover.Within(after, dir):
		o := mover.WalkOptions{After: after}
		return "", o.Behind(dir, mover.Dir)
	case dir == "":
		return after, true
	}
	return after[len(dir)+1:], true
}

// emit yields what is in n, which is the directory self. It reports false when the
// walk is over.
func (w *walk) emit(ctx context.Context, n *node, self mover.Entry) bool {
	if n.err != nil {
		return w.yield(self, w.place.fail("list", n.name, n.err))
	}
	for c := range n.chunks {
		if ctx.Err() != nil {
			w.yield(mover.Entry{}, context.Cause(ctx))
			return false
		}
		ch := w.chunk(n, c)
		for i := range ch.entries {
			e := &ch.entries[i]
			if e.Kind != 0 && !w.emitOne(ctx, n, c*chunkLen+i, e) {
				return false
			}
		}
		if ch.err != nil {
			w.abandon(n)
			return w.yield(self, w.place.fail("list", n.name, ch.err))
		}
		w.consumed(n, c)
	}
	return true
}

func (w *walk) emitOne(ctx context.Context, n *node, i int, e *mover.Entry) bool {
	walked := n.inner && i == 0
	if !walked && !w.yield(*e, nil) {
		return false
	}
	if e.Kind != mover.Dir {
		return true
	}
	if !w.emit(ctx, w.sub(n, i), *e) {
		return false
	}
	w.mu.Lock()
	delete(n.subs, i)
	w.mu.Unlock()
	return true
}

// list reads the directory, and examines its first entries while it is open.
func (w *walk) list(n *node) {
	fd, err := w.openDir(n.name)
	if err == nil {
		err = w.read(n, fd)
	}
	if err != nil {
		kernel.Close(fd)
		n.err, n.listing = err, listing{}
		return
	}
	n.chunks = make([]chunk, (len(n.listing.records)+chunkLen-1)/chunkLen)
	n.left = len(n.chunks)
	if n.left == 0 {
		kernel.Close(fd)
		return
	}
	n.chunks[0].begun = true
	w.examine(n, 0, fd)
	n.left--
	w.keepOpen(n, fd)
}

// keepOpen leaves the directory open for the chunks that are to come, unless too
// many are: then it is opened again for each.
func (w *walk) keepOpen(n *node, fd int) {
	w.mu.Lock()
	keep := n.left > 0 && len(w.open) < openDirs && !w.stopped
	if keep {
		w.open[n] = struct{}{}
		n.fd = fd
	}
	w.mu.Unlock()
	if !keep {
		kernel.Close(fd)
	}
}

func (w *walk) openDir(name string) (int, error) {
	fd, err := w.place.openDir(name, unix.O_RDONLY|unix.O_NOATIME)
	if err == unix.EPERM { // not ours: reading it leaves a trace
		fd, err = w.place.openDir(name, unix.O_RDONLY)
	}
	return fd, err
}

// read lists the names that are wanted, in order.
func (w *walk) read(n *node, fd int) error {
	l := &n.listing
	if w.opts.Lazy {
		l.lazy = unix.AT_STATX_DONT_SYNC
	}
	l.place = w.place
	l.xattrs = w.opts.Xattrs && w.place.traits.Keeps.Has(mover.FactXattrs)
	err := list(fd, func(name []byte, kind mover.Kind) error {
		if w.hides(n, fd, name) {
			return nil
		}
		return l.add(name, kind)
	})
	if err == nil {
		err = l.tell(fd)
	}
	if err != nil {
		return err
	}
	if skip := w.opts.Skip; skip != nil {
		kept := l.records[:0]
		for _, r := range l.records {
			if !skip(mover.Join(n.name, string(l.name(r))), r.kind) {
				kept = append(kept, r)
			}
		}
		l.records = kept
	}
	l.sort()
	if n.after != "" {
		n.rest, n.inner = l.trim(n.after)
	}
	return nil
}

// hides leaves out what is ours: drafts, of which it tells, the lock, the backup, the trash.
func (w *walk) hides(n *node, fd int, name []byte) bool {
	if w.place.hidden != "" && mover.Join(n.name, string(name)) == w.place.hidden {
		return true
	}
	if len(name) < len(mover.TempPrefix) || string(name[:len(mover.TempPrefix)]) != mover.TempPrefix {
		return false
	}
	base := string(name)
	owner, _, temp := mover.ParseTempName(base)
	if temp && w.opts.Stray != nil {
		var st unix.Statx_t
		if kernel.StatxSegment(fd, base, &st) == nil { // else it is gone by now
			w.opts.Stray(mover.Stray{
				Token: mover.Token(mover.Join(n.name, base)),
				Owner: owner,
				Since: time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec)),
			})
		}
	}
	return temp || isLock(base) || base == mover.TrashName || base == mover.KeptName
}

var entryChunks = sync.Pool{New: func() any { return new([chunkLen]mover.Entry) }}

// examine fills chunk c of n. fd is the open directory of n.
func (w *walk) examine(n *node, c int, fd int) {
	lo := c * chunkLen
	ch := &n.chunks[c]
	ch.entries = entryChunks.Get().(*[chunkLen]mover.Entry)[:min(chunkLen, len(n.listing.records)-lo)]
	ch.err = n.listing.examine(fd, n.name, lo, ch.entries)
	if ch.err != nil {
		clear(ch.entries) // nothing of what is not known is yielded
	}
}
