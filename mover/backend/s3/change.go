package s3

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
)

// dirType is the content type of a directory's marker.
const dirType = "application/x-directory"

// markers remembers which markers this place has written and with what, so that
// a directory that gets its final facts at once is written once.
type markers struct {
	mu   sync.Mutex
	sums map[string]uint64 // key -> sum of what it has; bounded by markersMax
}

const markersMax = 1 << 16

var markerSeed = maphash.MakeSeed()

func sumOf(w *s3api.Put) (sum uint64) {
	for k, v := range w.Metadata {
		sum ^= maphash.String(markerSeed, k+"="+v)
	}
	for k, v := range w.AllHeaders() {
		sum ^= maphash.String(markerSeed, k+": "+v)
	}
	return sum
}

func (m *markers) has(key string) (sum uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum, ok = m.sums[key]
	return sum, ok
}

func (m *markers) set(key string, w *s3api.Put) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sums == nil || len(m.sums) >= markersMax {
		m.sums = map[string]uint64{}
	}
	m.sums[key] = sumOf(w)
}

func (m *markers) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sums, key)
}

// Mkdir implements mover.Target. It writes the marker, so that an empty directory
// is one. The root of a bucket needs none, and on a server that takes a marker for
// a file, a directory is what is in it.
func (p *Backend) Mkdir(ctx context.Context, e mover.Entry) error {
	return p.wrap("mkdir", e.Name, p.mkdir(ctx, e))
}

func (p *Backend) mkdir(ctx context.Context, e mover.Entry) error {
	marker, err := p.marker(e.Name)
	if err == nil {
		err = p.takes(marker)
	}
	if err != nil || e.Name == "" || !p.profile.KeepsMarkers {
		return err
	}
	if _, ok := p.markers.has(marker); ok {
		return nil
	}
	e.Kind = mover.Dir
	w := s3api.Put{Key: marker, Metadata: encodeMeta(&e), ContentType: dirType, IfNoneMatch: p.profile.CreatesOnce}
	p.beside(&w, &e)
	if !w.IfNoneMatch {
		if _, err := p.store.Head(ctx, marker, ""); !errors.Is(err, mover.ErrNotExist) {
			return err
		}
	}
	_, err = p.store.Put(ctx, w)
	if w.IfNoneMatch && errors.Is(err, mover.ErrChanged) {
		return nil // it is there
	}
	if err == nil {
		p.markers.set(marker, &w)
	}
	return err
}

// Update implements mover.Target: an object gets other facts by a copy onto itself.
func (p *Backend) Update(ctx context.Context, e mover.Entry) error {
	if e.Kind == mover.Dir {
		return p.wrap("update", e.Name, p.updateDir(ctx, e))
	}
	return p.wrap("update", e.Name, p.update(ctx, e))
}

func (p *Backend) update(ctx context.Context, e mover.Entry) error {
	key, err := p.key(e.Name)
	if err != nil {
		return err
	}
	o, err := p.store.Head(ctx, key, "")
	if err != nil {
		return err
	}
	e.Known &^= mover.FactClass // a rule of the bucket may have changed it, and would again
	w := p.again(&o, key, merged(&o, &e))
	p.beside(&w, &e)
	if differs, err := p.changes(ctx, &o, &w); err != nil || !differs {
		return err
	}
	if err := p.guard(ctx, &o, e.Name, &w); err != nil {
		return err
	}
	got, err := p.copy(ctx, s3api.Source{Bucket: p.bucket, Key: key, IfMatch: o.ETag}, o.Size, w)
	if err == nil {
		err = p.proveLocks(ctx, &o, &w, &got)
	}
	return ours(guarding(&w, err))
}

// ours is an error of an object of the target: that its content is in an archive is then none of the source.
func ours(err error) error {
	if errors.Is(err, mover.ErrReleased) {
		return fmt.Errorf("%w: %v", mover.ErrPermission, err) //nolint:errorlint // it is of one kind
	}
	return err
}

func (p *Backend) updateDir(ctx context.Context, e mover.Entry) error {
	marker, err := p.marker(e.Name)
	if err != nil || marker == "" || !p.profile.KeepsMarkers {
		return err // only a manifest has its facts
	}
	w := s3api.Put{Key: marker, Metadata: encodeMeta(&e), ContentType: dirType}
	p.beside(&w, &e)
	if sum, ok := p.markers.has(marker); ok && sum == sumOf(&w) {
		return nil
	}
	o, err := p.store.Head(ctx, marker, "")
	switch {
	case err == nil && o.Size > 0:
		return nil // another writer's content: only a manifest has the facts of the directory
	case err == nil:
		w = p.again(&o, marker, merged(&o, &e))
		p.beside(&w, &e)
		if differs, err := p.changes(ctx, &o, &w); err != nil || !differs {
			return err
		}
		if err := p.guard(ctx, &o, e.Name, &w); err != nil {
			return err
		}
		if p.tagged(&o) {
			if err := p.retagged(ctx, marker, &w); err != nil {
				return err
			}
		}
	case errors.Is(err, mover.ErrNotExist):
		if _, err := p.statDir(ctx, e.Name); err != nil {
			return err
		}
	default:
		return err
	}
	if _, err = p.store.Put(ctx, w); err == nil {
		p.markers.set(marker, &w)
	}
	return guarding(&w, err)
}

// merged is the metadata of the object with the known facts of e in it. What
// others have put there stays.
func merged(o *s3api.Object, e *mover.Entry) map[string]string {
	m := o.Metadata()
	if e.Known.Has(mover.FactMetadata) { // which e has all of
		maps.DeleteFunc(m, func(name, _ string) bool { return !ownMetadata(name) })
	}
	kept := m[metaMode]
	maps.Copy(m, encodeMeta(e))
	if !e.Known.Has(mover.FactMode) && kept != "" {
		m[metaMode] = kept
	}
	if e.Known.Has(mover.FactMtime) {
		delete(m, metaRclone)
	}
	return m
}

// Remove implements mover.Target. S3 can not set aside: the object is looked at,
// then deleted; with its ETag as condition where the server minds that.
func (p *Backend) Remove(ctx context.Context, e mover.Entry, by mover.WriterID) error {
	if e.Name == "" {
		return p.wrap("remove", "", fmt.Errorf("the root: %w", mover.ErrUsage))
	}
	if e.Kind == mover.Dir {
		return p.wrap("remove", e.Name, p.removeDir(ctx, e.Name, by))
	}
	return p.wrap("remove", e.Name, p.remove(ctx, e))
}

func (p *Backend) remove(ctx context.Context, e mover.Entry) error {
	key, err := p.keyOf(&e)
	if err != nil {
		return err
	}
	o, err := p.store.Head(ctx, key, "")
	if err != nil {
		return err
	}
	if e.ETag != "" && e.ETag != o.ETag || e.Kind == mover.File && e.Size != o.Size {
		return fmt.Errorf("it was version %s of %d bytes, now it is %s of %d: %w", e.ETag, e.Size, o.ETag, o.Size, mover.ErrChanged)
	}
	if err := p.backup(ctx, e.Name, key); err != nil {
		return err
	}
	condition := ""
	if p.profile.MatchesDrop {
		condition = o.ETag
	}
	return p.store.Remove(ctx, key, "", condition)
}

// keyOf is the key of an entry, also of one that no name leads to.
func (p *Backend) keyOf(e *mover.Entry) (string, error) {
	if e.Key == "" {
		return p.key(e.Name)
	}
	if isOwn(e.Key) {
		return "", fmt.Errorf("key %q is ours: %w", e.Key, mover.ErrUsage)
	}
	return p.prefix + e.Key, nil
}

// leftMost is how many keys are looked at of a directory that is to go: its marker, and what earlier runs into it have left.
const leftMost = 16

// removeDir removes the marker of a directory without other entries. A directory without a marker ends with its last entry. What earlier runs into it
// have left (locks, a manifest) goes with it, unless a run is at work there.
func (p *Backend) removeDir(ctx context.Context, name string, by mover.WriterID) error {
	marker, err := p.marker(name)
	if err != nil {
		return err
	}
	found, err := p.firstKeys(ctx, marker, leftMost)
	if err != nil {
		return err
	}
	var left []string
	for _, key := range found {
		rest := strings.TrimPrefix(key, marker)
		switch isLock := strings.HasPrefix(rest, own+"/lock"); {
		case rest == "":
		case rest == own+"/"+manifestName, isLock && p.locksObjects():
			left = append(left, rest)
		default:
			return fmt.Errorf("the directory is not empty: %w", mover.ErrConflict)
		}
	}
	if err := p.removeLeft(ctx, marker, left, by); err != nil || !slices.Contains(found, marker) {
		return err
	}
	p.markers.forget(marker)
	return p.store.Remove(ctx, marker, "", "")
}

// lockLeft takes a lock of the target that is at a prefix.
func (p *Backend) lockLeft(ctx context.Context, prefix, lock string, me *holder) (unlock func() error, err error) {
	if !p.locksObjects() {
		return p.lockFile(prefix, strings.TrimPrefix(lock, own+"/"), me)
	}
	_, unlock, err = p.lockObject(ctx, prefix+lock, me)
	return unlock, err
}

// removeLeft removes what a run has left below a prefix that was its target, while no run works there.
func (p *Backend) removeLeft(ctx context.Context, prefix string, left []string, by mover.WriterID) (err error) {
	locks := []string{own + "/" + lockKey("")}
	manifest := false
	for _, rest := range left {
		switch {
		case rest == own+"/"+manifestName:
			manifest = true
		case !slices.Contains(locks, rest):
			locks = append(locks, rest)
		}
	}
	if len(left) == 0 {
		return nil
	}
	for _, lock := range locks {
		me := newHolder(by)
		unlock, lockErr := p.lockLeft(ctx, prefix, lock, &me)
		if lockErr != nil {
			return lockErr
		}
		defer func() { err = errors.Join(err, unlock()) }()
	}
	if manifest {
		err = p.store.Remove(ctx, prefix+own+"/"+manifestName, "", "")
	}
	return err
}
