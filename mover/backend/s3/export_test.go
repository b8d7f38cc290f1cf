package s3

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/test/must"
)

// lockWritten puts a lock of another process and returns its holder.
func lockWritten(t *testing.T, p *Backend, h holder) {
	t.Helper()
	text := must.Get(json.Marshal(&h))(t)
	if _, err := p.store.Put(t.Context(), s3api.Put{Key: p.ownKey("lock"), Data: text}); err != nil {
		t.Fatal(err)
	}
}

// deadPID is the id of a process that was.
func deadPID(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	must.Do(t, cmd.Run())
	return cmd.Process.Pid
}

var me = mover.WriterID{Task: "me", Epoch: 3}

// LockOfTheDead: a lock whose process was on this host and is gone is taken over
// at once; one of another host is not.
func LockOfTheDead(t *testing.T, p *Backend) {
	h := newHolder(mover.WriterID{Task: "dead", Epoch: 1})
	h.PID = deadPID(t)
	lockWritten(t, p, h)
	_, unlock, err := p.Lock(t.Context(), "", me)
	if err != nil {
		t.Fatalf("lock of the dead: %v", err)
	}
	must.Tell(t, unlock())
	h.Host = "another"
	lockWritten(t, p, h)
	if _, _, err := p.Lock(t.Context(), "", me); !errors.Is(err, mover.ErrHeld) || !strings.Contains(err.Error(), "task dead on another") {
		t.Errorf("lock of another host: %v", err)
	}
}

// LockOfTheFenced: who is known to be over loses the lock, and nobody else.
func LockOfTheFenced(t *testing.T, p *Backend) {
	over := mover.WriterID{Task: "fenced", Epoch: 3}
	_, unlock, err := p.Lock(t.Context(), "", over)
	must.Do(t, err)
	_, _, err = p.Lock(t.Context(), "", me)
	if held := (*mover.HeldError)(nil); !errors.As(err, &held) || held.By != over {
		t.Fatalf("a lock that is held: %v", err)
	}
	for _, other := range []mover.WriterID{{Task: "fenced", Epoch: 2}, {Task: "another", Epoch: 3}} {
		must.Tell(t, p.BreakLock(t.Context(), "", other))
		if _, _, err := p.Lock(t.Context(), "", me); !errors.Is(err, mover.ErrHeld) {
			t.Errorf("the lock of %v was broken for %v: %v", over, other, err)
		}
	}
	for range 2 { // the second time there is nothing to break
		must.Tell(t, p.BreakLock(t.Context(), "", over))
	}
	_, mine, err := p.Lock(t.Context(), "", me)
	if err != nil {
		t.Fatalf("a lock that was broken: %v", err)
	}
	_ = unlock() // may say that it was lost
	if _, _, err := p.Lock(t.Context(), "", mover.WriterID{Task: "third"}); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("who lost it gave ours back: %v", err)
	}
	must.Tell(t, mine())
}

// LockOfTheSilent: a lock that was not refreshed for two minutes by the server's
// clock is nobody's. file is where the server keeps it.
func LockOfTheSilent(t *testing.T, p *Backend, file string) {
	h := newHolder(mover.WriterID{Task: "silent", Epoch: 1})
	h.Host = "another"
	lockWritten(t, p, h)
	old := time.Now().Add(-lockStale - 5*time.Second)
	must.Do(t, os.Chtimes(file, old, old))
	_, unlock, err := p.Lock(t.Context(), "", me)
	must.Do(t, err)
	must.Tell(t, unlock())
}

// LockLost: who lost the lock is told at once and when it is given back, and leaves the new
// holder's alone. A refresh of one's own keeps it.
func LockLost(t *testing.T, p *Backend) {
	text := []byte(`{"task":"me"}`)
	held, lose := context.WithCancelCause(t.Context())
	l := &objectLock{place: p, key: p.ownKey("lock"), text: text, lose: lose}
	must.Do(t, l.write(t.Context(), s3api.Put{}))
	if !l.refreshOnce(t.Context()) {
		t.Fatal("a refresh lost the lock")
	}
	lockWritten(t, p, newHolder(mover.WriterID{Task: "usurper"}))
	if l.refreshOnce(t.Context()) {
		t.Error("the refresh of a lock that was taken goes on")
	}
	if !errors.Is(context.Cause(held), mover.ErrHeld) {
		t.Errorf("what is done under the lock goes on: %v", context.Cause(held))
	}
	if err := l.release(); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("release of a lost lock: %v", err)
	}
	if h, _, err := l.look(t.Context()); err != nil || h.Task != "usurper" {
		t.Errorf("the lock is %v, %v", h, err)
	}
}

// LockUnanswered: a lock stays ours when lose loses the answer to a refresh, and to the last one before it is given back.
func LockUnanswered(t *testing.T, p *Backend, lose func(), often int) {
	h := newHolder(me)
	l := &objectLock{place: p, key: p.ownKey("lock"), text: must.Get(json.Marshal(&h))(t), salt: h.Salt, lose: func(why error) { t.Errorf("lost: %v", why) }}
	must.Do(t, l.write(t.Context(), s3api.Put{}))
	refresh := func() {
		if !l.refreshOnce(t.Context()) {
			t.Fatal("a refresh lost the lock")
		}
	}
	for range often {
		lose()
		refresh()
		refresh()
	}
	lose()
	refresh()
	must.Tell(t, l.release())
}

// Distrust makes the place one that was never probed.
func Distrust(p *Backend) { p.profile = Profile{} }

// WalkInSteps makes walks list ahead from small directories on.
func WalkInSteps(p *Backend) { p.walks = walkSizes{flat: 10, level: 4} }

// CopyInParts makes the store copy what is larger than the smallest part in such parts.
func CopyInParts(p *Backend) { p.copies = copySizes{whole: partMin, part: partMin} }

// ErrSilent is the end of a listening in which nothing comes.
var ErrSilent = s3api.ErrSilent

// ListenFor sets how long nothing may come in a listening.
func (p *Backend) ListenFor(t *testing.T, silence time.Duration) {
	t.Helper()
	o := p.client.Options()
	o.Silence = silence
	p.client = must.Get(s3api.Dial(t.Context(), o))(t)
}

// OpenBy opens a place whose connections go where lead says that a host and port is; "" is nowhere.
func OpenBy(ctx context.Context, o Options, lead func(address string) string) (*Backend, error) {
	p := &Backend{opts: o, address: address(&o), walks: defaultSizes, copies: defaultCopies}
	api := o.API()
	api.ConnectTo = func(address string) (string, error) {
		to := lead(address)
		if to == "" {
			return "", &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
		}
		return to, nil
	}
	if err := p.dial(ctx, api); err != nil {
		return nil, err
	}
	err := p.client.CheckRegion(ctx)
	if err == nil {
		err = p.learn(ctx)
	}
	if err != nil {
		p.hangUp()
		return nil, p.wrap("open", "", err)
	}
	return p, nil
}

// Know keeps a profile of the bucket of o, which names an endpoint, as if its server had been probed.
func Know(o Options, found Profile) error {
	client, err := s3api.Dial(context.Background(), o.API())
	if err != nil {
		return err
	}
	p := &Backend{opts: o, client: client, profile: found, bucket: o.Bucket}
	p.profile.Address = p.profileName()
	return p.writeProfile()
}
