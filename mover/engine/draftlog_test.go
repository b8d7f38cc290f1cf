package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// memory is what a service remembers of the drafts of a task.
type memory struct {
	sync.Mutex
	drafts map[mover.Token]Draft
	refuse func() error // what is said to all who want something kept; nil is taken
}

func (m *memory) keep(_ context.Context, d Draft, on bool) error {
	m.Lock()
	defer m.Unlock()
	if on && m.refuse != nil {
		return m.refuse()
	}
	if !on {
		delete(m.drafts, d.Token)
		return nil
	}
	d.Pieces = append(m.drafts[d.Token].Pieces, d.Pieces...)
	m.drafts[d.Token] = d
	return nil
}

func (m *memory) all() (all []Draft) {
	for _, d := range m.drafts {
		all = append(all, d)
	}
	return all
}

// world is a large file that takes 100 seconds, and a service that remembers.
type world struct {
	t      *testing.T
	dir    string
	want   []byte
	known  memory
	epochs []uint64
	home   string // of all leads; "" is a host of its own for each
	stuck  bool   // nothing can be dropped
}

// stuck is a target whose drafts stay.
type stuck struct{ mover.Backend }

func (s stuck) Unwrap() any                           { return s.Backend }
func (stuck) Drop(context.Context, mover.Token) error { return mover.ErrPermission }

const (
	worldBytes = 64 << 20
	worldTime  = 100 * time.Second
)

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), want: backendtest.Pattern(worldBytes), known: memory{drafts: map[mover.Token]Draft{}}}
	err := errors.Join(os.MkdirAll(filepath.Join(w.dir, "source"), 0o755), os.WriteFile(filepath.Join(w.dir, "source", "file"), w.want, 0o644))
	must.Do(t, err)
	return w
}

// lead leads the copy until ctx ends, and says how long it took.
func (w *world) lead(ctx context.Context) (time.Duration, error) {
	open := func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
		place, err := posix.Open(l.Path, posix.Options{Create: o.Write, Buffers: o.Buffers})
		if err == nil && w.stuck {
			return stuck{place}, nil
		}
		return place, err
	}
	at := func(name string) location.Location {
		return location.Location{Scheme: location.POSIX, Path: filepath.Join(w.dir, name)}
	}
	begun, epoch := time.Now(), uint64(len(w.epochs)+1)
	task, err := Start(ctx, Request{
		Work: Copy, Source: at("source"), Target: at("target"), Reflink: ReflinkNever, Jobs: 2, Bandwidth: worldBytes / int64(worldTime/time.Second), StateDir: cmp.Or(w.home, w.t.TempDir()),
		Lead: &Coordination{Epoch: epoch, Before: w.epochs, SaveDraft: w.known.keep, InheritedDrafts: w.known.all()},
	}, open)
	if err != nil {
		return 0, err
	}
	w.epochs = append(w.epochs, epoch)
	_, err = task.Wait()
	return time.Since(begun), err
}

// dies has the first lead end after a time, and returns the file that it leaves.
func (w *world) dies(after time.Duration) (draft string) {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	defer stop()
	time.AfterFunc(after, stop)
	_, ended := w.lead(ctx)
	if ended == nil {
		w.t.Fatal("the first lead came to the end")
	}
	left, err := filepath.Glob(filepath.Join(w.dir, "target", ".datamove-*"))
	if err != nil || len(left) != 1 || len(w.known.drafts) != 1 {
		w.t.Fatalf("%v, %v are left, %d known; it ended with %v", left, err, len(w.known.drafts), ended)
	}
	return left[0]
}

// ends has another lead take over. The source is read for so many seconds, at most.
func (w *world) ends(want []byte, least, most time.Duration) {
	w.t.Helper()
	took, err := w.lead(w.t.Context())
	must.Do(w.t, err)
	if took < least || took > most {
		w.t.Errorf("the second lead took %v, and %v to %v are right", took, least, most)
	}
	got, err := os.ReadFile(filepath.Join(w.dir, "target", "file"))
	if err != nil || !bytes.Equal(got, want) {
		w.t.Errorf("the file is not what it should be: %v", err)
	}
	names, err := os.ReadDir(filepath.Join(w.dir, "target"))
	for _, n := range names {
		if strings.HasPrefix(n.Name(), ".datamove-") {
			w.t.Errorf("%s is left", n.Name())
		}
	}
	if err != nil || len(w.known.drafts) > 0 {
		w.t.Errorf("%v; still remembered: %d", err, len(w.known.drafts))
	}
}

// A helper of the first lead that was killed late leaves a draft that the second one has
// not seen when it walked. It goes at the end, and nobody else's does.
//
//safety:3/takeover a draft that a helper of an earlier lead has left when the next lead had walked past, because the helper was cut off and killed: the draft goes at the end
func TestTakeOverLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		was, _, _ := mover.ParseTempName(filepath.Base(w.dies(10 * time.Second)))
		must.Do(t, os.Mkdir(filepath.Join(w.dir, "source", "in"), 0o755))
		late := filepath.Join(w.dir, "target", "in", was.TempName(7))
		other := filepath.Join(w.dir, "target", "in", mover.WriterID{Task: "another", Epoch: was.Epoch}.TempName(7))
		time.AfterFunc(50*time.Second, func() {
			must.Tell(t, errors.Join(os.WriteFile(late, nil, 0o600), os.WriteFile(other, nil, 0o600)))
		})
		w.ends(w.want, 90*time.Second, worldTime+5*time.Second)
		if _, err := os.Stat(late); !os.IsNotExist(err) {
			t.Errorf("the late draft: %v", err)
		}
		if _, err := os.Stat(other); err != nil {
			t.Errorf("somebody else's draft: %v", err)
		}
	})
}

// A draft of an earlier lead whose file is gone from the source goes before its directory gets its times. One that
// can not go keeps back nothing else, and is told of at the end.
//
//safety:3/takeover a draft of an earlier lead that is of no use any more: it goes before the directory around it gets its times
func TestDroppedBeforeTimes(t *testing.T) {
	for name, how := range map[string]struct{ one, stuck bool }{"on one host": {one: true}, "on another": {}, "not at all": {one: true, stuck: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if how.one {
					w.home = t.TempDir()
				}
				from, to, then := filepath.Join(w.dir, "source", "in"), filepath.Join(w.dir, "target", "in"), time.Unix(1_500_000_000, 1)
				drafts := func() []string {
					left := must.Get(filepath.Glob(filepath.Join(to, ".datamove-*")))(t)
					return left
				}
				err := errors.Join(os.Mkdir(from, 0o755), os.Rename(filepath.Join(w.dir, "source", "file"), filepath.Join(from, "file")))
				ctx, stop := context.WithTimeout(t.Context(), 85*time.Second)
				defer stop()
				if _, ended := w.lead(ctx); err != nil || ended == nil || len(drafts()) != 1 {
					t.Fatalf("%v; the first lead ended with %v, and left %q", err, ended, drafts())
				}
				err = errors.Join(os.Remove(filepath.Join(from, "file")), os.Chtimes(from, then, then))
				w.stuck = how.stuck
				if _, ended := w.lead(t.Context()); err != nil || errors.Is(ended, mover.ErrPermission) != how.stuck || ended != nil && !how.stuck {
					t.Fatalf("%v; the second lead ended with %v", err, ended)
				}
				now, err := os.Stat(to)
				if err != nil || !now.ModTime().Equal(then) || (len(drafts()) > 0) != how.stuck {
					t.Errorf("%v; the directory is of %v, want %v; %q are left", err, now.ModTime(), then, drafts())
				}
			})
		})
	}
}

// A lead that dies after 85 of 100 seconds has told of what was stored after 60 or more. One
// on another host goes on there, on an inode of its own.
//
//safety:3/takeover another host goes on with the parts that were on stable storage, on an inode of its own; the first one wakes up and writes
func TestTakeOverElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		draft := must.Get(os.OpenFile(w.dies(85*time.Second), os.O_RDWR, 0))(t)
		defer draft.Close()
		w.ends(w.want, 20*time.Second, 45*time.Second)
		if _, err := draft.WriteAt([]byte("too late"), 0); err != nil { // by the first, which wakes up
			t.Error(err)
		}
		if got, err := os.ReadFile(filepath.Join(w.dir, "target", "file")); err != nil || !bytes.Equal(got, w.want) {
			t.Errorf("who is late has written: %v", err)
		}
	})
}

// A draft that the service does not take, since another one leads by now, is not left: its
// maker ends it.
//
//safety:1 a draft that a lead begins after it lost its task: it is ended at once, because no other agent knows of it
func TestKeptByNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, stop := context.WithCancelCause(t.Context())
		w.known.refuse = func() error {
			stop(mover.ErrHeld) // it is told to stop, too
			return mover.ErrHeld
		}
		if _, err := w.lead(ctx); !errors.Is(err, mover.ErrHeld) {
			t.Errorf("who does not lead ended with %v", err)
		}
		if left, err := filepath.Glob(filepath.Join(w.dir, "target", ".datamove-*")); err != nil || len(left) > 0 {
			t.Errorf("%v, %q are left", err, left)
		}
	})
}

// What the draft has is not believed: parts that are not what they were are moved again.
//
//safety:3/takeover the draft of the earlier lead was cut, the source is another one, what is told of it is nonsense: those parts are moved again
func TestTakeOverDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		must.Do(t, os.Truncate(w.dies(70*time.Second), 0))
		w.ends(w.want, 95*time.Second, 130*time.Second)
	})
}

// Of another file nothing is taken over, and of nonsense nothing.
//
//safety:3/takeover with TestTakeOverDamaged
func TestTakeOverChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dies(70 * time.Second)
		other := bytes.Repeat([]byte("another "), worldBytes/8)
		must.Do(t, os.WriteFile(filepath.Join(w.dir, "source", "file"), other, 0o644))
		w.ends(other, 95*time.Second, 130*time.Second)
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dies(70 * time.Second)
		for token, d := range w.known.drafts {
			d.Pieces = [][]byte{nil, []byte("nonsense"), d.Pieces[0][:len(d.Pieces[0])-1]}
			w.known.drafts[token] = d
		}
		w.ends(w.want, 95*time.Second, 130*time.Second)
	})
}

func TestIntention(t *testing.T) {
	for _, name := range []string{"a", "a b/c", "new\nline", "\xff\xfe", "begun:a"} {
		if got, ok := intended(intention(name)); !ok || got != name {
			t.Errorf("%q came back as %q, %v", name, got, ok)
		}
	}
	for _, token := range []mover.Token{"", "begun:", "begun:!", "u AAAA", intention(".."), intention("../a"), intention("/a")} {
		if name, ok := intended(token); ok {
			t.Errorf("%q is the intention of %q", token, name)
		}
	}
}
