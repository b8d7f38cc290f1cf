package s3

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"datamove.dev/mover"
)

// BreakLock implements mover.LockBreaker. The holder hears of it when it refreshes the
// lock, or gives it back; a lock that is another's by now stays.
func (p *Backend) BreakLock(ctx context.Context, name string, over mover.WriterID) error {
	key := lockKey(name)
	if !p.locksObjects() {
		return p.wrap("unlock", name, p.breakFile(key, over))
	}
	err := p.breakObject(ctx, &objectLock{place: p, key: p.ownKey(key)}, over)
	if errors.Is(err, mover.ErrNotExist) || errors.Is(err, mover.ErrChanged) {
		err = nil // it was given back, or taken by another one
	}
	return p.wrap("unlock", name, err)
}

func (p *Backend) breakObject(ctx context.Context, l *objectLock, over mover.WriterID) error {
	h, o, err := l.look(ctx)
	if err != nil || h.owner() != over {
		return err
	}
	condition := ""
	if p.profile.MatchesDrop {
		condition = o.ETag
	}
	return p.store.Remove(ctx, l.key, "", condition)
}

// breakFile gives the name to another file from now on.
func (p *Backend) breakFile(key string, over mover.WriterID) error {
	text, err := os.ReadFile(p.lockPath(p.prefix, key))
	if errors.Is(err, mover.ErrNotExist) {
		return nil
	}
	var h holder
	if err != nil || json.Unmarshal(text, &h) != nil || h.owner() != over {
		return err
	}
	return os.Remove(p.lockPath(p.prefix, key))
}
