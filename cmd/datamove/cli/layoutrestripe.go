package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"datamove.dev/cmd/datamove/progress"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/engine/rate"
)

// restripe moves the content of a file that is there to another layout, and closes m: a
// file that is open, if only here, is not touched.
func (a *app) restripe(ctx context.Context, m *mounted, w *layoutWords, q *requestWords) error {
	path, to, err := a.restriped(ctx, m, w, q)
	m.Close()
	if err != nil {
		return err
	}
	dir, err := a.striped(ctx, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	restriper, err := dir.restriper(path)
	if err != nil {
		return err
	}
	moved, stop := a.showMoved()
	err = restriper.Restripe(ctx, dir.fd, filepath.Base(path), to, lustre.RestripeOptions{Block: w.block, Progress: moved})
	stop()
	if err != nil {
		return a.notRestriped(path, err)
	}
	return nil
}

// restriped is the name of an open file without symbolic links, and the layout that it is
// to have.
func (a *app) restriped(ctx context.Context, m *mounted, w *layoutWords, q *requestWords) (path string, to lustre.Layout, err error) {
	if w.remove {
		return "", to, mover.Misusef("%s is a file, which is never without a layout: --remove is for directories", mover.Printable(m.path))
	}
	if _, err := m.restriper(m.path); err != nil {
		return "", to, err
	}
	now, err := m.Layout.Layout(ctx, m.fd)
	if err != nil && !errors.Is(err, lustre.ErrInherited) { // of a file that has no objects yet
		return "", to, a.notSet(m.path, err)
	}
	const byMirrors = "lfs mirror extend and lfs mirror split, which add and take away one with a layout"
	if mirrored(&now) {
		err := fmt.Errorf("%s: %w: it has mirrors, which would not be kept", mover.Printable(m.path), mover.ErrConflict)
		return "", to, advise(err, byMirrors)
	}
	if to, err = a.wanted(ctx, m, w, q); err != nil {
		return "", to, err
	}
	if mirrored(&to) {
		return "", to, advise(mover.Misusef("%s: a file that is there is not given mirrors", mover.Printable(m.path)), byMirrors)
	}
	path, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(m.fd))
	return path, to, err
}

// restriper moves the content of a file on its file system.
func (m *mounted) restriper(path string) (lustre.Restriper, error) {
	if r, ok := m.Layout.(lustre.Restriper); ok {
		return r, nil
	}
	err := fmt.Errorf("%s: %w: on this file system (%s) a file keeps the layout that it was made with", mover.Printable(path), mover.ErrConflict, m.Kind)
	if m.Kind == lustre.IsGPFS {
		return nil, advise(err, "mmchattr -P POOL "+shellWord(path)+", which moves it to another pool")
	}
	return nil, advise(err, "a copy into a directory that has the layout, and a rename over the old name")
}

// mirrored reports whether a layout has more than one beginning.
func mirrored(l *lustre.Layout) bool {
	beginnings := 0
	for i := range l.Components {
		if l.Components[i].Start == 0 {
			beginnings++
		}
	}
	return beginnings > 1
}

// notRestriped is why a file is as it was.
func (a *app) notRestriped(path string, err error) error {
	switch {
	case errors.Is(err, lustre.ErrInUse):
		return advise(naming(path, withKind(err, mover.ErrConflict)), "--block, which lets whoever has it open wait until it is done")
	case errors.Is(err, lustre.ErrChanged):
		return naming(path, withKind(err, mover.ErrChanged))
	case errors.Is(err, lustre.ErrReleased):
		return advise(naming(path, err), "lfs hsm_restore "+shellWord(path)+", and this again")
	}
	return a.notSet(path, err)
}

// showMoved shows how much of a file has been moved, until stop is called.
func (a *app) showMoved() (moved func(done, size int64), stop func()) {
	if a.quiet {
		return nil, func() {}
	}
	var bytes, size atomic.Int64
	o := progress.Options{}
	if f, ok := a.terminal(a.err); ok {
		o.Terminal, o.Width = true, columns(f)
	}
	d := progress.Start(a.err, o, func() progress.Sample {
		n := size.Load()
		return progress.Sample{Work: rate.Work{Bytes: bytes.Load(), PlannedFiles: 1, PlannedBytes: n, Complete: n > 0}}
	})
	return func(done, of int64) { size.Store(of); bytes.Store(done) }, d.Stop
}
