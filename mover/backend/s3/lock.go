package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
)

// A lock that was not refreshed for lockStale has no holder any more. Its age is told by the
// server's clock alone.
const (
	lockRefresh = 30 * time.Second
	lockStale   = 2 * time.Minute
)

// holder is the holder of a lock, as the lock says.
type holder struct {
	Task  string    `json:"task"`
	Epoch uint64    `json:"epoch"`
	Host  string    `json:"host"`
	Boot  string    `json:"boot"` // id of the boot of that host
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
	Salt  string    `json:"salt"` // makes each lock's ETag its own
}

func newHolder(o mover.WriterID) holder {
	host, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return holder{o.Task, o.Epoch, host, strings.TrimSpace(string(boot)), os.Getpid(), time.Now().UTC().Truncate(time.Second), randomName()}
}

func (h *holder) String() string {
	return fmt.Sprintf("task %s on %s, process %d, since %s", mover.Printable(h.Task), mover.Printable(h.Host), h.PID, h.Since.Format(time.RFC3339))
}

// held is the error of another run that wants the lock meanwhile.
func (h *holder) held() error {
	return &mover.HeldError{By: h.owner(), Text: h.String()}
}

func (h *holder) owner() mover.WriterID { return mover.WriterID{Task: h.Task, Epoch: h.Epoch} }

// dead reports whether the holder was a process of this host and is no more.
func (h *holder) dead(me *holder) bool {
	return h.Host == me.Host && h.Boot == me.Boot && h.Boot != "" && h.PID > 0 && over(h.PID)
}

// over reports whether a process has ended. One that its parent has not yet
// waited for, a zombie, has: in a container that may last for ever.
func over(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // PID (NAME) STATE ...; see proc_pid_stat(5)
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return len(state) > 0 && (state[0] == 'Z' || state[0] == 'X')
}

// Lock implements mover.Target: by an object where the bucket has conditional
// writes, else by a file that only keeps out runs on this host and with this state
// directory, and then it says so.
func (p *Backend) Lock(ctx context.Context, name string, o mover.WriterID) (held context.Context, unlock func() error, err error) {
	if !mover.ValidName(name) {
		return nil, nil, p.wrap("lock", name, fmt.Errorf("%w: bad name", mover.ErrUsage))
	}
	me, key := newHolder(o), lockKey(name)
	if p.locksObjects() {
		held, unlock, err = p.lockObject(ctx, p.ownKey(key), &me)
	} else {
		p.opts.Logger.WarnContext(ctx, "the bucket has no conditional writes: the lock holds on this host only", "place", p.address)
		held = ctx
		unlock, err = p.lockFile(p.prefix, key, &me)
	}
	return held, unlock, p.wrap("lock", "", err)
}

func lockKey(name string) string {
	if name == "" {
		return "lock"
	}
	return fmt.Sprintf("lock-%016x", s3api.Checksum([]byte(name)))
}

// locksObjects reports whether the bucket has the conditional writes that a lock needs.
func (p *Backend) locksObjects() bool { return p.profile.CreatesOnce && p.profile.MatchesPut }

// objectLock is a lock that is held by an object, and refreshed.
type objectLock struct {
	place *Backend
	key   string
	text  []byte
	salt  string                  // of text
	lose  context.CancelCauseFunc // ends what is done under the lock

	mu      sync.Mutex // guards all below
	etag    string
	version string // of the last refresh, in a bucket that keeps all
	lost    error  // why it is not ours any more
}

func (p *Backend) lockObject(ctx context.Context, key string, me *holder) (context.Context, func() error, error) {
	text, err := json.Marshal(me)
	if err != nil {
		return nil, nil, err
	}
	l := &objectLock{place: p, key: key, text: text, salt: me.Salt}
	for try := 0; ; try++ {
		err := l.write(ctx, s3api.Put{IfNoneMatch: true})
		if err != nil && !s3api.Declined(err) {
			p.unanswered.Store(me.Salt, true)
		}
		if errors.Is(err, mover.ErrChanged) || errors.Is(err, mover.ErrConflict) {
			err = l.takeOver(ctx, me)
		}
		if err == nil {
			break
		}
		if gone := errors.Is(err, mover.ErrNotExist) || errors.Is(err, mover.ErrChanged); !gone || try == 2 {
			return nil, nil, err // else it was just given up, or taken by another one
		}
	}
	held, lose := context.WithCancelCause(ctx)
	l.lose = lose
	alive, stop := context.WithCancel(context.Background())
	var refreshing sync.WaitGroup
	refreshing.Go(func() { l.refresh(alive) })
	return held, sync.OnceValue(func() error {
		stop()
		refreshing.Wait()
		lose(nil)
		return p.wrap("unlock", "", l.release())
	}), nil
}

// write stores the lock under a condition and remembers its ETag.
func (l *objectLock) write(ctx context.Context, w s3api.Put) error {
	w.Key, w.Data, w.ContentType = l.key, l.text, "application/json"
	got, err := l.place.store.Put(ctx, w)
	if err != nil {
		return err
	}
	l.mu.Lock()
	old := l.version
	l.etag, l.version = got.ETag, got.Version
	l.mu.Unlock()
	if old != "" && got.Version != "" { // else each refresh would stay for ever
		if err := l.place.store.Remove(ctx, l.key, old, ""); err != nil {
			l.place.opts.Logger.DebugContext(ctx, "an old version of the lock stays", "place", l.place.address, "err", err)
		}
	}
	return nil
}

// still looks whether the lock is ours although a condition on its ETag was refused: the answer to a refresh was lost, and to KMS the same text is another object.
func (l *objectLock) still(ctx context.Context, why error) (etag string, ours bool) {
	if !errors.Is(why, mover.ErrChanged) {
		return "", false
	}
	h, o, err := l.look(ctx)
	return o.ETag, err == nil && l.salt != "" && h.Salt == l.salt
}

// takeOver replaces a lock that has no live holder.
func (l *objectLock) takeOver(ctx context.Context, me *holder) error {
	other, o, err := l.look(ctx)
	if err != nil {
		return err
	}
	if _, ours := l.place.unanswered.LoadAndDelete(other.Salt); ours { // of an earlier try with a lost answer
		return l.write(ctx, s3api.Put{IfMatch: o.ETag, BareMatch: l.place.profile.BareMatch})
	}
	if !other.dead(me) && age(&o) < lockStale {
		return other.held()
	}
	l.place.opts.Logger.WarnContext(ctx, "taking over a lock that was left", "place", l.place.address, "holder", other.String())
	return l.write(ctx, s3api.Put{IfMatch: o.ETag, BareMatch: l.place.profile.BareMatch})
}

func (l *objectLock) look(ctx context.Context) (h holder, o s3api.Object, err error) {
	body, o, err := l.place.store.Get(ctx, s3api.Get{Key: l.key, N: -1})
	if err != nil {
		return h, o, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, 64<<10))
	if err != nil {
		return h, o, s3api.BodyError(ctx, err)
	}
	if json.Unmarshal(text, &h) != nil {
		h = holder{Task: "of an unreadable lock"}
	}
	return h, o, nil
}

// age is how old an object is by the clock that dated it.
func age(o *s3api.Object) time.Duration {
	now, err := http.ParseTime(o.Header.Get("Date"))
	if err != nil || o.Modified.IsZero() {
		return 0
	}
	return now.Sub(o.Modified)
}

// refresh keeps the lock young until ctx ends.
func (l *objectLock) refresh(ctx context.Context) {
	tick := time.NewTicker(lockRefresh)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !l.refreshOnce(ctx) {
			return
		}
	}
}

// refreshOnce reports whether it makes sense to go on.
func (l *objectLock) refreshOnce(ctx context.Context) bool {
	l.mu.Lock()
	etag := l.etag
	l.mu.Unlock()
	err := l.write(ctx, s3api.Put{IfMatch: etag, BareMatch: l.place.profile.BareMatch})
	if err == nil || ctx.Err() != nil {
		return true
	}
	if now, ours := l.still(ctx, err); ours {
		l.mu.Lock()
		l.etag = now
		l.mu.Unlock()
		return true
	}
	log := l.place.opts.Logger
	if !errors.Is(err, mover.ErrChanged) && !errors.Is(err, mover.ErrNotExist) {
		log.WarnContext(ctx, "the lock was not refreshed, will try again", "place", l.place.address, "err", err)
		return true
	}
	log.ErrorContext(ctx, "the lock was taken by another run", "place", l.place.address, "err", err)
	l.mu.Lock()
	l.lost = fmt.Errorf("the lock was lost while it was held: %w", mover.ErrHeld)
	l.lose(l.place.wrap("lock", "", l.lost))
	l.mu.Unlock()
	return false
}

// release removes the lock if it is still ours. A store that is busy is asked again; one that gives no answer leaves a lock that nothing
// refreshes, and what was done under it is done.
func (l *objectLock) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return l.lost
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.place.opts.Stall)
	defer cancel()
	calls, tries := steady{}, 0
	err := calls.ask(ctx, true, func() error {
		err := l.drop(ctx)
		if tries++; tries > 1 && errors.Is(err, mover.ErrNotExist) { // the answer to a removal was lost
			return nil
		}
		return err
	})
	if err != nil && calls.doubt != nil {
		l.place.opts.Logger.WarnContext(ctx, "the lock stays for some time", "place", l.place.address, "err", err)
		return nil
	}
	return err
}

// drop removes the lock. l.mu is held.
func (l *objectLock) drop(ctx context.Context) error {
	condition := ""
	if l.place.profile.MatchesDrop {
		condition = l.etag
	} else if o, err := l.place.store.Head(ctx, l.key, ""); err == nil && o.ETag != l.etag {
		if _, ours := l.still(ctx, mover.ErrChanged); !ours {
			return fmt.Errorf("the lock was lost while it was held: %w", mover.ErrHeld)
		}
	}
	err := l.place.store.Remove(ctx, l.key, "", condition)
	if now, ours := l.still(ctx, err); ours {
		return l.place.store.Remove(ctx, l.key, "", now)
	}
	return err
}

// lockPath is the file that stands for a lock below a prefix.
func (p *Backend) lockPath(prefix, key string) string {
	return filepath.Join(p.opts.StateDir, "s3", fmt.Sprintf("lock-%016x.json", s3api.Checksum([]byte(p.profileName()+"/"+prefix+"/"+key))))
}

// lockFile holds a lock of this host: flock ends with the process.
func (p *Backend) lockFile(prefix, key string, me *holder) (func() error, error) {
	path := p.lockPath(prefix, key)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		var other holder
		if text, err := io.ReadAll(f); err == nil {
			_ = json.Unmarshal(text, &other) // the holder may be writing it just now
		}
		return nil, other.held()
	}
	text, err := json.Marshal(me)
	if err == nil {
		err = rewrite(f, text)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return sync.OnceValue(func() error {
		// Closing unlocks, too, but only when a child that was forked just now has closed its copy.
		return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
	}), nil
}

func rewrite(f *os.File, text []byte) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(text, 0)
	return err
}
