package posix

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// loss counts the syncs that failed. The kernel tells a lost write once for each
// descriptor, and not whose it was, so a failure spoils every draft that was
// begun before it: their batches find a count that is not the one they saw.
type loss struct {
	mu    sync.Mutex // one sync at a time, so that a failure is counted before anybody looks
	count atomic.Uint64
}

func (l *loss) seen() uint64 { return l.count.Load() }

func (l *loss) sync(fd int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := again(func() error { return unix.Syncfs(fd) })
	if err != nil {
		l.count.Add(1)
	}
	return err
}

// parallelSyncs is how many directories are synced at once: they wait for servers.
const parallelSyncs = 16

// syncNames puts the directories with the new names on stable storage.
func (p *Place) syncNames(todo []pending) {
	if p.system.durable == volatile {
		return
	}
	seats := map[string]error{}
	whole := false
	for _, w := range todo {
		switch {
		case w.d.in != nil || w.out.Err != nil:
		case p.system.durable == eachFile || w.d.foreign:
			seats[w.d.seat] = nil
		default:
			whole = true
		}
	}
	var err error
	if whole {
		err = p.loss.sync(p.root)
	}
	p.syncDirs(seats)
	for _, w := range todo {
		if w.out.Err != nil {
			continue
		}
		why, alone := seats[w.d.base()]
		if !alone {
			why = err
		}
		w.out.Err = w.d.fail("sync", why)
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
func (p *Place) syncDirs(seats map[string]error) {
	var mu sync.Mutex // guards seats while goroutines write to it
	var g errgroup.Group
	g.SetLimit(parallelSyncs)
	names := make([]string, 0, len(seats))
	for seat := range seats {
		names = append(names, seat)
	}
	for _, seat := range names {
		g.Go(func() error {
			if err := p.syncDir(seat); err != nil {
				mu.Lock()
				defer mu.Unlock()
				seats[seat] = err
			}
			return nil
		})
	}
	_ = g.Wait() // every error is noted
}

func (p *Place) syncDir(seat string) error {
	fd, err := p.openDir(seat, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return fsyncDir(fd)
}

func fsyncDir(fd int) error {
	err := again(func() error { return unix.Fsync(fd) })
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
	seats map[string]error // guarded by mu
	err   error            // guarded by mu; of those that were synced early
}

// add remembers a directory. When there are too many, they are synced now.
func (c *changedDirs) add(p *Place, at *handle) {
	c.addSeat(p, at.seat, at.foreign)
}

func (c *changedDirs) addSeat(p *Place, seat string, foreign bool) {
	if p.system.durable == volatile || p.system.durable == wholeSystem && !foreign {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seats == nil {
		c.seats = make(map[string]error)
	}
	c.seats[seat] = nil
	if len(c.seats) >= maxChanged {
		c.flush(p)
	}
}

// flush syncs what is remembered. A directory that was removed since has nothing
// left to sync: its parent is remembered too.
func (c *changedDirs) flush(p *Place) {
	p.syncDirs(c.seats)
	for _, err := range c.seats {
		if ignoreMissing(err) != nil && c.err == nil {
			c.err = err
		}
	}
	c.seats = nil
}

// Sync implements mover.Target.
func (p *Place) Sync(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.changed.mu.Lock()
	p.changed.flush(p)
	err := p.changed.err
	p.changed.err = nil
	p.changed.mu.Unlock()
	if err == nil && p.system.durable == wholeSystem {
		err = p.loss.sync(p.root)
	}
	return p.fail("sync", "", err)
}

var _ mover.Target = (*Place)(nil)
