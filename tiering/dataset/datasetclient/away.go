package datasetclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
)

// Away is a Mover on one host that gives holders what was there before, while the coordinator can not be reached: one version of a dataset, whole, at the place where
// holders of its account had it. A note at the replica keeps it from being removed, and the coordinator hears of the holder when it is back. What was never
// here, or is no one version, is as unreachable as the coordinator.
//
// It remembers both in a file, which outlives its process. A host has one of them.
type Away struct {
	*Mover
	File string
	// Note keeps what is at a place from being removed until a time, where it is whole; the zero time ends that.
	Note func(ctx context.Context, at Staged, until time.Time) error

	noting sync.Mutex // held while a note is made or ended, which may wait for a file system; before mu
	mu     sync.Mutex
	memory *memory // guarded by mu; nil until it was read
}

// memory is the file.
type memory struct {
	Schema string           `json:"schema"`
	Had    map[string]had   `json:"had"`  // by source
	Owed   map[string]owing `json:"owed"` // by holder
}

// had is where a source was, when the coordinator said so last.
type had struct {
	Place Staged    `json:"place"`
	At    time.Time `json:"at"`
}

// owing is a holder that the coordinator does not know of yet.
type owing struct {
	Source Source    `json:"source"`
	Place  Staged    `json:"place"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"` // that of the note
}

const (
	memorySchema = "datamove/held/v1"
	hadMost      = 1000             // sources; the one that was heard of first goes
	tellPause    = 10 * time.Second // between tries to tell of holders
)

// Stage is that of the Mover while that can be reached.
func (a *Away) Stage(ctx context.Context, s Source, holder string) (Staged, error) {
	before, known := a.before(s)
	if !known {
		place, err := a.Mover.Stage(ctx, s, holder)
		switch {
		case err == nil:
			a.heard(ctx, s, holder, place)
		case errors.Is(err, mover.ErrUnreachable):
			err = fmt.Errorf("%w; it comes when the coordinator answers again: %s", err, unknown(s))
		}
		return place, err
	}
	limit, cancel := context.WithTimeout(ctx, 2*a.glance())
	defer cancel()
	place, err := a.Mover.Stage(limit, s, holder)
	var u *Underway
	silent := limit.Err() != nil && ctx.Err() == nil && !errors.As(err, &u)
	switch {
	case err == nil:
		a.heard(ctx, s, holder, place)
		return place, nil
	case !silent && !errors.Is(err, mover.ErrUnreachable):
		return place, err
	}
	if lendErr := a.lease(ctx, s, holder, before); lendErr != nil {
		return Staged{}, fmt.Errorf("%w; it comes when the coordinator answers again: what was here before can not be had without it: %s", err, lendErr.Error())
	}
	before.Away = true
	return before, nil
}

// Drop lets go of what a holder has, also where the coordinator does not know of it.
func (a *Away) Drop(ctx context.Context, holder string) error {
	return errors.Join(a.settle(ctx, holder), a.Mover.Drop(ctx, holder))
}

// Keep is that of the Mover, and tells the coordinator of holders as soon as it is back.
func (a *Away) Keep(ctx context.Context, prefix string, alive func(holder string) bool, told func(error)) {
	var kept sync.WaitGroup
	defer kept.Wait()
	kept.Go(func() { a.Mover.Keep(ctx, prefix, alive, told) })
	for {
		if err := a.tell(ctx, prefix, alive); err != nil && ctx.Err() == nil {
			told(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(tellPause):
		}
	}
}

// tell has the coordinator hear of holders that are alive, and lets go of the others.
func (a *Away) tell(ctx context.Context, prefix string, alive func(string) bool) error {
	owed, err := a.owed()
	errs := []error{err}
	for holder, o := range owed {
		switch {
		case !strings.HasPrefix(holder, prefix):
		case !alive(holder) && time.Since(o.Since) > a.grace():
			errs = append(errs, a.settle(ctx, holder))
		default:
			errs = append(errs, a.tellOf(ctx, holder, o))
		}
	}
	return errors.Join(errs...)
}

func (a *Away) tellOf(ctx context.Context, holder string, o owing) error {
	limit, cancel := context.WithTimeout(ctx, a.glance())
	defer cancel()
	_, err := a.Ask(limit, o.Source, holder)
	if err == nil {
		return a.settle(ctx, holder)
	}
	if time.Until(o.Until) < a.ttl()/2 {
		err = errors.Join(err, a.lease(ctx, o.Source, holder, o.Place))
	}
	return fmt.Errorf("%s has %s, and the coordinator could not be told: %w", mover.Printable(holder), mover.Printable(o.Source.Location), err)
}

// lease gives a holder what is at a place, and remembers that.
func (a *Away) lease(ctx context.Context, s Source, holder string, at Staged) error {
	a.noting.Lock()
	defer a.noting.Unlock()
	o := owing{Source: s, Place: at, Since: time.Now(), Until: time.Now().Add(a.ttl())}
	if err := a.Note(ctx, at, o.Until); err != nil {
		return err
	}
	return a.change(func(m *memory) {
		if was, again := m.Owed[holder]; again {
			o.Since = was.Since
		}
		m.Owed[holder] = o
	})
}

// settle forgets that the coordinator does not know of a holder. The note goes with the last one at its place.
func (a *Away) settle(ctx context.Context, holder string) error {
	owed, err := a.owed()
	if _, its := owed[holder]; err != nil || !its {
		return err
	}
	a.noting.Lock()
	defer a.noting.Unlock()
	owed, err = a.owed()
	o, its := owed[holder]
	if err != nil || !its { // of two that settle, one came first
		return err
	}
	last := true
	for other, its := range owed {
		last = last && (other == holder || its.Place != o.Place)
	}
	if last {
		if err := a.Note(ctx, o.Place, time.Time{}); err != nil && !errors.Is(err, mover.ErrNotExist) {
			return err
		}
	}
	return a.change(func(m *memory) { delete(m.Owed, holder) })
}

// change changes the file.
func (a *Away) change(to func(*memory)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := a.read()
	if err != nil {
		return err
	}
	to(m)
	return a.write(m)
}

// heard remembers where a source is, and that the coordinator knows of a holder. What can not be written on a full disk, or be let go, is tried again by Keep,
// and the holder has what it has.
func (a *Away) heard(ctx context.Context, s Source, holder string, place Staged) {
	if !pinned(s) {
		return
	}
	_ = a.remember(s, place)
	_ = a.settle(ctx, holder)
}

func (a *Away) remember(s Source, place Staged) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := a.read()
	if err != nil || m.Had[key(s)].Place == place {
		return err
	}
	m.Had[key(s)] = had{place, time.Now()}
	if len(m.Had) > hadMost {
		delete(m.Had, slices.MinFunc(slices.Collect(maps.Keys(m.Had)), func(x, y string) int { return m.Had[x].At.Compare(m.Had[y].At) }))
	}
	return a.write(m)
}

// before is where a source was. What is no one version may be another one by now.
func (a *Away) before(s Source) (Staged, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := a.read()
	h, known := m.Had[key(s)]
	return h.Place, err == nil && known && pinned(s)
}

// pinned reports whether a source is one version of a dataset.
func pinned(s Source) bool {
	return strings.HasPrefix(s.Location, "dataset:") && strings.Contains(s.Location, "@")
}

// unknown says why a source is not known to be on its host, as before has it.
func unknown(s Source) string {
	switch {
	case pinned(s):
		return "this node has not had it before"
	case strings.HasPrefix(s.Location, "dataset:"):
		return "which version is the newest only the coordinator knows; dataset:NAME@DIGEST, and a claim, which has one version, can do without"
	}
	return "what is at a location now only the coordinator finds out; a dataset of one version can do without"
}

func key(s Source) string { return s.Tier + " " + s.Location }

// owed are the holders that the coordinator does not know of.
func (a *Away) owed() (map[string]owing, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := a.read()
	return maps.Clone(m.Owed), err
}

// read is called with the lock.
func (a *Away) read() (*memory, error) {
	if a.memory != nil {
		return a.memory, nil
	}
	m := &memory{}
	text, err := os.ReadFile(a.File)
	if err == nil {
		err = json.Unmarshal(text, m)
	}
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return &memory{}, fmt.Errorf("%w: read %s: %w; remove it when no pod has a dataset", mover.ErrUnsupported, a.File, err)
	case err == nil && m.Schema != memorySchema:
		return &memory{}, fmt.Errorf("%w: read %s: it is of schema %s, which this version does not know", mover.ErrUnsupported, a.File, mover.Printable(m.Schema))
	case m.Had == nil:
		m.Had = map[string]had{}
	}
	if m.Owed == nil {
		m.Owed = map[string]owing{}
	}
	m.Schema = memorySchema
	a.memory = m
	return m, nil
}

// write is called with the lock. What could not be written is read again.
func (a *Away) write(m *memory) (err error) {
	defer func() {
		if err != nil {
			a.memory = nil
			err = &mover.Error{Op: "write", Location: a.File, Err: err}
		}
	}()
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(a.File, append(text, '\n'), atomicfile.Options{Draft: "." + filepath.Base(a.File) + ".*"})
}
