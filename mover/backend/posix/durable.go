package posix

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/mover/backend/posix/kernel"
)

// flush is the system calls that put something on stable storage. A test of a place that
// is in memory sees by them what would survive a power cut.
type flush struct{ file, data, system func(fd int) error }

var byKernel = flush{unix.Fsync, unix.Fdatasync, unix.Syncfs}

// loss counts the syncs that failed, of a file system or of some directories. The kernel
// tells a lost write once for each descriptor, without the file that it belonged to. So a failure spoils
// every draft that was begun before it, or every name that was made. Their batches find
// a count that is not the one they saw.
type loss struct {
	mu    sync.Mutex // one sync at a time, so that a failure is counted before the count is read
	count atomic.Uint64
}

func (l *loss) seen() uint64 { return l.count.Load() }

// syncSystem puts everything on stable storage. A file system that has become read-only,
// as it does when its disk fails, says at once that all is well, whatever it has lost
// (sync_filesystem of fs/sync.c).
func (p *Backend) syncSystem() error {
	return p.loss.during(func() error {
		err := kernel.Again(func() error { return p.flush.system(p.root) })
		if err != nil || !p.system.Writable {
			return err
		}
		writable, err := isWritable(p.root)
		if err == nil && !writable {
			err = unix.EROFS
		}
		return err
	})
}

func isWritable(fd int) (bool, error) {
	var st unix.Statfs_t
	err := kernel.Again(func() error { return unix.Fstatfs(fd, &st) })
	return st.Flags&unix.ST_RDONLY == 0, err
}

func (l *loss) during(sync func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := sync()
	if err != nil {
		l.count.Add(1)
	}
	return err
}

// dirLosses has the losses of directories; some share one.
type dirLosses [256]loss

var seatSeed = maphash.MakeSeed()

func (l *dirLosses) of(seat string) *loss { return &l[maphash.String(seatSeed, seat)%uint64(len(l))] }

// errEarlierSync is why a sync that went well is not believed.
var errEarlierSync = fmt.Errorf("%w: an earlier sync failed, and this may be what it lost", mover.ErrTransient)

// dirSync is the sync of one directory.
type dirSync struct {
	losses uint64 // before names were made in it
	err    error
}

// dirsOf finds the directories that have to be synced one by one, before names are made
// in them.
func (p *Backend) dirsOf(todo []pending) map[string]*dirSync {
	dirs := map[string]*dirSync{}
	for _, w := range todo {
		if w.d.in == nil && (p.system.Durable == fstype.EachFile || w.d.foreign) {
			dirs[w.d.seat] = &dirSync{losses: p.dirLosses.of(w.d.seat).seen()}
		}
	}
	return dirs
}

// parallelSyncs is how many directories are synced at once: they wait for servers.
const parallelSyncs = 16

// syncNames puts the directories with the new names on stable storage. A name that no
// sync has confirmed is there, and its draft is broken: another sync may go well because
// it knows nothing of the name any more.
func (p *Backend) syncNames(todo []pending, dirs map[string]*dirSync) {
	if p.system.Durable == fstype.Volatile {
		return
	}
	whole, named := false, map[string]bool{}
	for _, w := range todo {
		if w.d.in == nil && w.out.Err == nil {
			_, alone := dirs[w.d.seat]
			whole = whole || !alone
			named[w.d.seat] = alone
		}
	}
	maps.DeleteFunc(dirs, func(seat string, _ *dirSync) bool { return !named[seat] })
	var err error
	if whole {
		err = p.syncSystem()
	}
	p.syncDirs(dirs)
	for _, w := range todo {
		if w.out.Err != nil {
			continue
		}
		why := err
		if dir, alone := dirs[w.d.base()]; alone {
			why = dir.err
		}
		if why != nil {
			why = mover.Unconfirmed(fmt.Errorf("%w; it can be seen, and a power cut may take it back", why))
			w.out.Err = w.d.fail("sync", w.d.spoil(why))
		}
	}
}

// base is the directory in which the name of d, or of what it is built in, became
// visible.
func (d *draft) base() string {
	if d.in != nil {
		return d.in.top().seat
	}
	return d.seat
}

// syncDirs syncs each directory and notes what became of it.
func (p *Backend) syncDirs(dirs map[string]*dirSync) {
	var g errgroup.Group
	g.SetLimit(parallelSyncs)
	for seat, dir := range dirs {
		g.Go(func() error {
			if dir.err = p.syncDir(seat); dir.err == nil && p.dirLosses.of(seat).seen() != dir.losses {
				dir.err = errEarlierSync
			}
			return nil
		})
	}
	_ = g.Wait() // every error is noted
}

func (p *Backend) syncDir(seat string) error {
	fd, err := p.openDir(seat, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer kernel.Close(fd)
	return p.dirLosses.of(seat).during(func() error { return p.fsyncDir(fd) })
}

func (p *Backend) fsyncDir(fd int) error {
	err := kernel.Again(func() error { return p.flush.file(fd) })
	if err == unix.EINVAL || err == unix.EROFS { // a file system that has nothing to sync in a directory
		return nil
	}
	return err
}

// maxChanged bounds the directories that are remembered until Sync.
const maxChanged = 4096

// changedDirs are directories in which something was removed or updated and that
// have to be synced one by one.
type changedDirs struct {
	mu    sync.Mutex
	seats map[string]*dirSync // guarded by mu
	err   error               // guarded by mu; of those that were synced early
}

// around remembers a directory before it is changed, when what was lost of it until then
// is known, and again when the change is done: it may have been synced in between.
func (c *changedDirs) around(p *Backend, at *handle) (done func()) {
	c.add(p, at.seat, at.foreign)
	return func() { c.add(p, at.seat, at.foreign) }
}

// add remembers a directory. When there are too many, they are synced now.
func (c *changedDirs) add(p *Backend, seat string, foreign bool) {
	if p.system.Durable == fstype.Volatile || p.system.Durable == fstype.WholeSystem && !foreign {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seats == nil {
		c.seats = make(map[string]*dirSync)
	}
	if c.seats[seat] == nil {
		c.seats[seat] = &dirSync{losses: p.dirLosses.of(seat).seen()}
	}
	if len(c.seats) >= maxChanged {
		c.flush(p)
	}
}

// flush syncs what is remembered. A directory that was removed since has nothing
// left to sync: its parent is remembered too.
func (c *changedDirs) flush(p *Backend) {
	p.syncDirs(c.seats)
	for _, dir := range c.seats {
		if ignoreMissing(dir.err) != nil && c.err == nil {
			c.err = dir.err
		}
	}
	c.seats = nil
}

// Sync implements mover.Target.
func (p *Backend) Sync(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.changed.mu.Lock()
	p.changed.flush(p)
	err := p.changed.err
	p.changed.err = nil
	p.changed.mu.Unlock()
	if err == nil && p.system.Durable == fstype.WholeSystem {
		err = p.syncSystem()
	}
	return p.fail("sync", "", err)
}

var _ mover.Target = (*Backend)(nil)
