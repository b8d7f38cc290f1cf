package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/checkpoint/replicate"
)

// Link is how bytes get there. Open has to be given.
type Link struct {
	Open    engine.Opener
	Request engine.Request // what copies have in common: Jobs, Bandwidth, Memory, StateDir, Observer
	Log     *slog.Logger   // nil means no log
}

// Moved is what a way has moved, or found to be there.
type Moved struct {
	Files, Bytes int64 // that are there now
	Sent         int64 // bytes that were moved for it
	Took         time.Duration
	Left         []string // names that are no checkpoints, because they are not complete, and did not come
}

// Measure counts what is at from, and how much of it is at to already. Where to can not be looked at, nothing is taken to be there.
func (w *Link) Measure(ctx context.Context, from, to location.Location) (m burst.Measured, err error) {
	r := w.Request
	r.Work, r.Source, r.Target = engine.Copy, from, to
	for a, err := range engine.Plan(ctx, r, w.Open) {
		if err != nil {
			return w.alone(ctx, from, err)
		}
		if a.Source.Kind != mover.File {
			continue
		}
		m.Files, m.Bytes = m.Files+1, m.Bytes+a.Source.Size
		if a.Op == plan.Keep || a.Op == plan.Update {
			m.There, m.Kept = m.There+a.Source.Size, m.Kept+1
		}
	}
	return m, nil
}

// alone counts what is at from, after what went wrong with both.
func (w *Link) alone(ctx context.Context, from location.Location, was error) (m burst.Measured, err error) {
	if ctx.Err() != nil {
		return m, was
	}
	total, err := engine.Usage(ctx, from, w.Open)
	if err != nil {
		return m, errors.Join(was, err)
	}
	return burst.Measured{Files: total.Files, Bytes: total.Bytes}, nil
}

// Send copies what is at from, so that a store has verified all of it when it is there.
func (w *Link) Send(ctx context.Context, from, to location.Location, toll CostGate) (Moved, error) {
	m, err := w.copy(ctx, from, to, mover.Unchecked, toll)
	if err != nil {
		return m, err
	}
	err = w.total(ctx, to, &m)
	return m, err
}

// total counts all that is at a location, and not only what has come there now.
func (w *Link) total(ctx context.Context, l location.Location, m *Moved) error {
	total, err := engine.Usage(ctx, l, w.Open)
	m.Files, m.Bytes = total.Files, total.Bytes
	return err
}

// copy copies a tree, at least at a level.
func (w *Link) copy(ctx context.Context, from, to location.Location, level mover.Level, toll CostGate) (m Moved, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := w.Request
	r.Work, r.Source, r.Target, r.Verify, r.Logger = engine.Copy, from, to, level, w.Log
	task, err := engine.Start(ctx, r, at(w.Open, &gate{toll, stop}))
	if err != nil {
		return m, err
	}
	report, err := task.Wait()
	m = Moved{Files: report.Files + report.Kept, Bytes: report.Bytes, Sent: report.Bytes, Took: report.Elapsed}
	if err == nil && report.Failed > 0 {
		err = fmt.Errorf("%d of %s could not be moved: %w", report.Failed, from, report.Failures[0].Err)
	}
	if err != nil {
		return m, caused(ctx, err)
	}
	return m, nil
}

// Home brings a directory home, each byte of it read again there, and looks that all of it is there.
func (w *Link) Home(ctx context.Context, from, to location.Location, toll CostGate) (Moved, error) {
	m, err := w.copy(ctx, from, to, mover.Read, toll)
	if err != nil {
		return m, err
	}
	if err := w.total(ctx, from, &m); err != nil {
		return m, err
	}
	return m, engine.VerifySurvivingCopy(ctx, from, to, w.Request, w.Open)
}

// Checkpoints brings home each checkpoint of a directory that is complete, the newest first, verified by reading, and the trackers that name them. What else is in the directory is named: those
// that are not complete, or changed while they came, and what is no checkpoint. One that is damaged does not hold the rest, and is the error.
// exported is when an export to from began that has ended (checkpoint.Limits); zero is none.
func (w *Link) Checkpoints(ctx context.Context, from, to location.Location, profile checkpoint.Profile, exported time.Time, toll CostGate) (m Moved, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	begun := time.Now()
	site := replicate.Site{Open: at(w.Open, &gate{toll, stop}), Request: w.Request, Log: w.Log, Exported: exported}
	source, err := site.Folder(ctx, from, profile, false)
	site.Exported = time.Time{} // of the target
	if errors.Is(err, mover.ErrNotExist) {
		return m, w.around(ctx, from, err) // nothing was saved yet
	}
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := site.Folder(ctx, to, source.Profile, true)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	b := bringing{Site: &site, source: source, target: target, moved: &m, sets: map[string]bool{}}
	if err := b.all(ctx); err != nil {
		return m, caused(ctx, err)
	}
	m.Took = time.Since(begun)
	return m, context.Cause(ctx)
}

// around is nil where what is not there would be in a directory that is: else a bucket that is gone, or a wrong one, would be taken for one in which nothing was saved.
func (w *Link) around(ctx context.Context, l location.Location, was error) error {
	dir, _, ok := l.Parent()
	if !ok {
		return was
	}
	p, err := w.Open(ctx, dir, engine.OpenOptions{StateDir: w.Request.StateDir, Logger: w.Log})
	if err != nil {
		return err
	}
	return p.Close()
}

// bringing brings the checkpoints of a directory.
type bringing struct {
	*replicate.Site
	source, target *replicate.Folder
	moved          *Moved
	sets           map[string]bool // that were seen
	view           checkpoint.View
}

// all brings all of them.
func (b *bringing) all(ctx context.Context) error {
	var damaged []error
	for found, err := range checkpoint.Each(ctx, b.source, b.source.Profile) {
		if err != nil {
			return errors.Join(append(damaged, err)...)
		}
		b.sets[found.Name], b.view = true, found.View
		switch err := b.one(ctx, found); {
		case ctx.Err() != nil || err != nil && !errors.Is(err, mover.ErrCorrupt):
			return errors.Join(append(damaged, err)...)
		case err != nil:
			damaged = append(damaged, err)
		}
	}
	return errors.Join(append(damaged, b.rest(ctx))...)
}

// one brings one of them, or says why not.
func (b *bringing) one(ctx context.Context, found checkpoint.Found) error {
	m := b.moved
	if !found.Complete {
		m.Left = append(m.Left, burst.Left(found.Name, mover.Printable(found.Why)))
		return nil
	}
	r, err := b.Bring(ctx, b.source, replicate.Save{Name: found.Name, Save: replicate.SaveOf(found)}, b.target, nil)
	m.Sent += r.Sent
	switch {
	case ctx.Err() != nil || errors.Is(err, mover.ErrCorrupt):
		return err
	case errors.Is(err, mover.ErrChanged), errors.Is(err, mover.ErrConflict), errors.Is(err, mover.ErrNotExist):
		m.Left = append(m.Left, burst.Left(found.Name, err.Error()))
		return nil
	case err != nil:
		return err
	}
	m.Files, m.Bytes = m.Files+found.Files, m.Bytes+found.Bytes
	return nil
}

// rest names what is in the directory and no checkpoint of its profile.
func (b *bringing) rest(ctx context.Context) error {
	if len(b.sets) == 0 {
		top, err := b.source.Top(ctx)
		if errors.Is(err, mover.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		b.view = checkpoint.Find(b.source.Profile, top)
	}
	for _, name := range b.view.Rest {
		if set, is := strings.CutSuffix(name, "."+checkpoint.Committed); !b.sets[name] && (!is || !b.sets[set]) { // a record is beside its file
			b.moved.Left = append(b.moved.Left, burst.Left(name, fmt.Sprintf("it is no checkpoint of the profile %s", b.source.Profile)))
		}
	}
	return nil
}

// caused is why ctx ended, if it did, and not what came of that.
func caused(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// Empty says whether nothing is below a prefix.
func (w *Link) Empty(ctx context.Context, at location.Location) (empty bool, err error) {
	for _, err := range engine.List(ctx, at, false, w.Open) {
		if errors.Is(err, mover.ErrNotExist) {
			return true, nil
		}
		return false, err
	}
	return true, nil
}

// Folder makes a directory in a store, so that it is there before anything is in it.
func (w *Link) Folder(ctx context.Context, at location.Location) (err error) {
	dir, name, ok := at.Parent()
	if !ok {
		return fmt.Errorf("%w: %s is no directory below another one", mover.ErrUsage, at)
	}
	p, err := w.Open(ctx, dir, engine.OpenOptions{Write: true, StateDir: w.Request.StateDir, Logger: w.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	e := mover.Entry{Name: name, Kind: mover.Dir, Mode: 0o755, UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Known: mover.FactMode | mover.FactOwner | mover.FactGroup}
	if err := p.Mkdir(ctx, e); err != nil {
		return err
	}
	return p.Update(ctx, e)
}

// Write makes a small object, whole.
func (w *Link) Write(ctx context.Context, l location.Location, text []byte) error {
	if err := os.MkdirAll(cmp.Or(w.Request.StateDir, os.TempDir()), 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(w.Request.StateDir, "datamove-") // a process that acts for an account may write there
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, l.Base())
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	_, err = w.copy(ctx, location.OfPath(file), l, mover.Unchecked, func(context.Context, int64, int64) error { return nil })
	return err
}

// Remove removes all that is below a prefix.
func (w *Link) Remove(ctx context.Context, l location.Location) error {
	_, err := engine.RemoveAll(ctx, l, w.Request, w.Open)
	return err
}

// Text reads a small object, such as the report of a task.
func (w *Link) Text(ctx context.Context, l location.Location, most int64) (text []byte, err error) {
	dir, name, ok := l.Parent()
	if !ok {
		return nil, fmt.Errorf("%w: %s is no object", mover.ErrUsage, l)
	}
	p, err := w.Open(ctx, dir, engine.OpenOptions{StateDir: w.Request.StateDir, Logger: w.Log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	e, err := p.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if e.Kind != mover.File {
		return nil, fmt.Errorf("%w: %s is no file", mover.ErrConflict, l)
	}
	if e.Size > most {
		return nil, fmt.Errorf("%w: %s has %d bytes, and at most %d are read", mover.ErrRefused, l, e.Size, most)
	}
	c, err := p.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	body, err := c.Range(ctx, 0, e.Size)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if text, err = io.ReadAll(io.LimitReader(body, e.Size+1)); err != nil {
		return nil, err
	}
	if int64(len(text)) != e.Size {
		return nil, fmt.Errorf("%w: %s has not %d bytes any more", mover.ErrChanged, l, e.Size)
	}
	return text, c.Check(ctx)
}
