package rig

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
)

var errKilled = errors.New("it was killed")

// life says whether a worker may do anything.
type life struct {
	refused func(path string) error               // why nothing can be written there
	takes   func(op string) (time.Duration, bool) // how long a call takes, or that the worker dies of it
	ends    func()                                // what is left of it when it dies so

	mu    sync.Mutex
	dead  bool          // guarded by mu, as awake
	awake chan struct{} // closed while it does not sleep, and when it is dead
	lines []net.Conn    // to stores
}

func newLife(refused func(path string) error, takes func(op string) (time.Duration, bool)) *life {
	l := &life{refused: refused, takes: takes, awake: make(chan struct{})}
	close(l.awake)
	return l
}

// pass waits while it sleeps, and fails when it is dead.
func (l *life) pass() error {
	for {
		l.mu.Lock()
		dead, awake := l.dead, l.awake
		l.mu.Unlock()
		if dead {
			return errKilled
		}
		select {
		case <-awake:
			return nil
		default:
		}
		<-awake
	}
}

// does is pass of a call to a backend, which takes its time.
func (l *life) does(op string) error {
	if err := l.pass(); err != nil {
		return err
	}
	d, dies := l.takes(op)
	if dies {
		l.ends()
		return errKilled
	}
	if d == 0 {
		return nil
	}
	time.Sleep(d)
	return l.pass()
}

func (l *life) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *life) sleep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.awake:
		l.awake = make(chan struct{})
	default:
	}
}

func (l *life) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rouse()
}

// rouse ends a sleep. mu is held.
func (l *life) rouse() {
	select {
	case <-l.awake:
	default:
		close(l.awake)
	}
}

func (l *life) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	l.rouse()
	l.hangUpLocked()
}

// conn is the connection of a worker.
type conn struct {
	net.Conn
	life *life

	once   sync.Once
	broken chan struct{} // closed when nothing can be written any more: a client of gRPC that can not write tries again at once until its reader has ended, and holds the clock
}

func (c *conn) Read(p []byte) (int, error) {
	if err := c.life.pass(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	d, dies := c.life.takes("hear")
	if dies {
		c.life.ends()
		return 0, errKilled
	}
	if d > 0 && err == nil {
		select {
		case <-time.After(d):
		case <-c.broken:
		}
	}
	if passErr := c.life.pass(); passErr != nil { // it came while it slept, or died
		return 0, passErr
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := 0, c.life.pass()
	if err == nil {
		n, err = c.Conn.Write(p)
	}
	if err != nil {
		c.once.Do(func() { close(c.broken) })
	}
	return n, err
}

// around opens places for a worker.
func (l *life) around(open engine.Opener) engine.Opener {
	return func(ctx context.Context, at location.Location, o engine.OpenOptions) (mover.Backend, error) {
		if err := l.pass(); err != nil {
			return nil, err
		}
		p, err := open(ctx, at, o)
		if err != nil {
			return nil, err
		}
		return &place{Backend: p, life: l, path: at.Path}, nil
	}
}

// place is a place of a worker.
type place struct {
	mover.Backend
	life *life
	path string // of its root; "" is no path
}

// Unwrap returns the place behind it.
func (p *place) Unwrap() any { return p.Backend }

func (p *place) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		if err := p.life.pass(); err != nil {
			yield(mover.Entry{}, err)
			return
		}
		for e, err := range p.Backend.Walk(ctx, o) {
			if passErr := p.life.pass(); passErr != nil {
				yield(mover.Entry{}, passErr)
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (p *place) Stat(ctx context.Context, name string) (mover.Entry, error) {
	if err := p.life.does("stat"); err != nil {
		return mover.Entry{}, err
	}
	return p.Backend.Stat(ctx, name)
}

func (p *place) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	if err := p.life.does("open"); err != nil {
		return nil, err
	}
	c, err := p.Backend.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	return &content{c, p.life}, nil
}

// Lock has the unlocking leave, of what is dead, what the kernel leaves: a file that
// is locked no more.
func (p *place) Lock(ctx context.Context, name string, holder mover.WriterID) (context.Context, func() error, error) {
	if err := p.life.does("lock"); err != nil {
		return nil, nil, err
	}
	held, unlock, err := p.Backend.Lock(ctx, name, holder)
	if err != nil {
		return nil, nil, err
	}
	return held, func() error {
		if p.life.pass() == nil {
			return unlock()
		}
		if p.path == "" { // of a store, which it does not reach any more
			_ = unlock()
			return errKilled
		}
		return leaveLocks(p.path, unlock)
	}, nil
}

// leaveLocks unlocks, and puts back the lock files of a root and its times.
func leaveLocks(root string, unlock func() error) error {
	info, err := os.Stat(root)
	if err != nil {
		return errors.Join(err, unlock())
	}
	found, err := filepath.Glob(filepath.Join(root, strings.ReplaceAll(mover.TempPrefix, "[", `\[`)+"lock*"))
	if err != nil {
		return errors.Join(err, unlock())
	}
	texts := map[string][]byte{}
	for _, path := range found {
		if texts[path], err = os.ReadFile(path); err != nil {
			return errors.Join(err, unlock())
		}
	}
	err = unlock()
	for path, text := range texts {
		if _, gone := os.Lstat(path); gone != nil {
			err = errors.Join(err, os.WriteFile(path, text, 0o644))
		}
	}
	return errors.Join(err, os.Chtimes(root, info.ModTime(), info.ModTime()))
}

func (p *place) BreakLock(ctx context.Context, name string, over mover.WriterID) error {
	if err := p.life.does("break lock"); err != nil {
		return err
	}
	b, ok := mover.As[mover.LockBreaker](p.Backend)
	if !ok {
		return mover.ErrUnsupported
	}
	return b.BreakLock(ctx, name, over)
}

// writes is does of what writes a name.
func (p *place) writes(op, name string) error {
	if err := p.life.does(op); err != nil {
		return err
	}
	return p.life.refused(filepath.Join(p.path, name))
}

func (p *place) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	if err := p.writes("draft", e.Name); err != nil {
		return nil, err
	}
	d, err := p.Backend.Draft(ctx, e, h)
	if err != nil {
		return nil, err
	}
	return &draft{d, p.life}, nil
}

func (p *place) Adopt(ctx context.Context, t mover.Token) (mover.Draft, error) {
	if err := p.life.does("adopt"); err != nil {
		return nil, err
	}
	d, err := p.Backend.Adopt(ctx, t)
	if err != nil {
		return nil, err
	}
	return &draft{d, p.life}, nil
}

func (p *place) Drop(ctx context.Context, t mover.Token) error {
	if err := p.life.does("drop"); err != nil {
		return err
	}
	return p.Backend.Drop(ctx, t)
}

func (p *place) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	if err := p.life.does("publish"); err != nil {
		out := make([]mover.Outcome, len(batch))
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	return p.Backend.Publish(ctx, batch)
}

func (p *place) Mkdir(ctx context.Context, e mover.Entry) error {
	if err := p.writes("mkdir", e.Name); err != nil {
		return err
	}
	return p.Backend.Mkdir(ctx, e)
}

func (p *place) Update(ctx context.Context, e mover.Entry) error {
	if err := p.life.does("update"); err != nil {
		return err
	}
	return p.Backend.Update(ctx, e)
}

func (p *place) Remove(ctx context.Context, e mover.Entry, by mover.WriterID) error {
	if err := p.life.does("remove"); err != nil {
		return err
	}
	return p.Backend.Remove(ctx, e, by)
}

func (p *place) Sync(ctx context.Context) error {
	if err := p.life.does("sync"); err != nil {
		return err
	}
	return p.Backend.Sync(ctx)
}

// content is what a worker reads.
type content struct {
	mover.Content
	life *life
}

// Unwrap returns the content behind it.
func (c *content) Unwrap() any { return c.Content }

func (c *content) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if err := c.life.does("read"); err != nil {
		return nil, err
	}
	return c.Content.Range(ctx, off, n)
}

func (c *content) Check(ctx context.Context) error {
	if err := c.life.does("check"); err != nil {
		return err
	}
	return c.Content.Check(ctx)
}

// draft is what a worker writes.
type draft struct {
	mover.Draft
	life *life
}

// Unwrap returns the draft behind it.
func (d *draft) Unwrap() any { return d.Draft }

func (d *draft) WritePart(ctx context.Context, p mover.Part, f mover.Feed) (mover.Receipt, error) {
	if err := d.life.does("write"); err != nil {
		return mover.Receipt{}, err
	}
	return d.Draft.WritePart(ctx, p, feed{f, d.life})
}

func (d *draft) Finish(ctx context.Context, e mover.Entry, receipts []mover.Receipt) error {
	if err := d.life.does("finish"); err != nil {
		return err
	}
	return d.Draft.Finish(ctx, e, receipts)
}

// Close leaves the draft of what is dead where it is.
func (d *draft) Close() error {
	if d.life.pass() != nil {
		return d.Draft.Suspend()
	}
	return d.Draft.Close()
}

// feed ends, or waits, in the middle of a part.
type feed struct {
	mover.Feed
	life *life
}

func (f feed) Read(p []byte) (int, error) {
	n, err := f.Feed.Read(p)
	if passErr := f.life.pass(); passErr != nil {
		return 0, passErr
	}
	return n, err
}
