package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/mover/backend/retry"
)

// notes says which keys are being written: one small file for each, with the key as its
// content. They outlive the process, so that the next one can look there for what is half
// written, instead of listing everything.
type notes struct{ dir string }

const (
	noteSuffix = ".writing"
	maxKey     = 4096 // bytes
)

func (n *notes) begin(key string) (note string, err error) {
	sum := sha256.Sum256([]byte(key))
	note = filepath.Join(n.dir, hex.EncodeToString(sum[:16])+noteSuffix)
	return note, atomicfile.Write(note, []byte(key), atomicfile.Options{Unsynced: true}) // a sync for each object costs more than an upload that a power cut leaves
}

// end forgets a key, unless a draft of it may be left: where the place did not answer, it
// could not be asked to drop it. It returns why the writing failed.
func (n *notes) end(ctx context.Context, note string, why error) error {
	if why != nil && (ctx.Err() != nil || retry.Passing(why)) {
		return why
	}
	return errors.Join(why, os.Remove(note))
}

// keys returns the keys that were being written, by their notes.
func (n *notes) keys() (map[string]string, error) {
	files, err := os.ReadDir(n.dir)
	if err != nil {
		return nil, err
	}
	keys := map[string]string{}
	for _, f := range files {
		note := filepath.Join(n.dir, f.Name())
		if !strings.HasSuffix(note, noteSuffix) || !f.Type().IsRegular() {
			continue
		}
		key, err := os.ReadFile(note)
		if err != nil {
			return nil, err
		}
		keys[note] = string(key)
	}
	return keys, nil
}

// sweep drops what an earlier process had left half written.
func (v *Archive) sweep(ctx context.Context) error {
	keys, err := v.notes.keys()
	if err != nil {
		return err
	}
	before := time.Now()
	for note, key := range keys {
		if key != "" && len(key) <= maxKey && mover.ValidName(key) { // else it was not written to its end, and nothing begun
			if err := v.drop(ctx, key, before); err != nil {
				return err
			}
		}
		if err := os.Remove(note); err != nil {
			return err
		}
	}
	return nil
}

// drop drops the drafts of a key that were begun by us before a time: in a directory by
// the owner in their names, in a store by the key.
func (v *Archive) drop(ctx context.Context, key string, before time.Time) error {
	var mu sync.Mutex
	var left []mover.Token
	dir, _ := mover.Parent(key)
	stray := func(s mover.Stray) {
		mu.Lock()
		defer mu.Unlock()
		ours := s.Owner.Task == v.o.By.Task && s.Owner.Epoch < v.o.By.Epoch
		if ours || s.Owner == (mover.WriterID{}) && s.Name == key && s.Since.Before(before) {
			left = append(left, s.Token)
		}
	}
	all := func(string, mover.Kind) bool { return true }
	for _, err := range v.place.Walk(ctx, mover.WalkOptions{Dir: dir, Skip: all, Stray: stray}) {
		if err != nil && !errors.Is(err, mover.ErrNotExist) {
			return err
		}
	}
	for _, token := range left {
		if err := v.place.Drop(ctx, token); err != nil {
			return err
		}
		v.o.Logger.InfoContext(ctx, "dropped what an earlier process had begun to archive", "key", key)
	}
	return nil
}

// made remembers directories that are there.
type made struct {
	mu    sync.Mutex
	names map[string]bool // guarded by mu; at most madeMost
}

const madeMost = 1 << 14

func (m *made) has(dir string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.names[dir]
}

func (m *made) add(dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names == nil || len(m.names) >= madeMost {
		m.names = map[string]bool{}
	}
	m.names[dir] = true
}

func (m *made) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names = nil
}

// makeDirs makes the directories around a key, with mode 0700, on stable storage. A
// store has none.
func (v *Archive) makeDirs(ctx context.Context, key string) error {
	dir, _ := mover.Parent(key)
	if v.place.Capabilities().NeedsManifest || dir == "" || v.dirs.has(dir) {
		return nil
	}
	for i := range len(dir) + 1 {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		e := mover.Entry{Name: dir[:i], Kind: mover.Dir, Known: mover.FactMode, Mode: 0o700}
		if err := v.place.Mkdir(ctx, e); err != nil {
			return err
		}
	}
	if err := v.place.Sync(ctx); err != nil {
		return err
	}
	v.dirs.add(dir)
	return nil
}
