package layout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/progress"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/engine/rate"
)

// restripe moves the content of a file that is there to another layout, and closes m: a
// file that is open, if only here, is not touched.
func restripe(ctx context.Context, a *cli.App, m *cli.Mounted, w *layoutWords, q *requestWords) error {
	path, to, err := restriped(ctx, a, m, w, q)
	m.Close()
	if err != nil {
		return err
	}
	dir, err := striped(ctx, a, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	restriper, err := restriper(dir, path)
	if err != nil {
		return err
	}
	moved, stop := showMoved(a)
	err = restriper.Restripe(ctx, dir.FD, filepath.Base(path), to, lustre.RestripeOptions{Block: w.block, Progress: moved})
	stop()
	if err != nil {
		return notRestriped(a, path, err)
	}
	return nil
}

// restriped is the name of an open file without symbolic links, and the layout that it is
// to have.
func restriped(ctx context.Context, a *cli.App, m *cli.Mounted, w *layoutWords, q *requestWords) (path string, to lustre.Layout, err error) {
	if w.remove {
		return "", to, mover.Misusef("%s is a file, which is never without a layout: --remove is for directories", mover.Printable(m.Path))
	}
	if _, err := restriper(m, m.Path); err != nil {
		return "", to, err
	}
	now, err := m.Layout.Layout(ctx, m.FD)
	if err != nil && !errors.Is(err, lustre.ErrInherited) { // of a file that has no objects yet
		return "", to, notSet(a, m.Path, err)
	}
	const byMirrors = "lfs mirror extend and lfs mirror split, which add and take away one with a layout"
	if mirrored(&now) {
		err := fmt.Errorf("%s: %w: it has mirrors, which would not be kept", mover.Printable(m.Path), mover.ErrConflict)
		return "", to, cli.Advise(err, byMirrors)
	}
	if to, err = wanted(ctx, a, m, w, q); err != nil {
		return "", to, err
	}
	if mirrored(&to) {
		return "", to, cli.Advise(mover.Misusef("%s: a file that is there is not given mirrors", mover.Printable(m.Path)), byMirrors)
	}
	path, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(m.FD))
	return path, to, err
}

// restriper moves the content of a file on its file system.
func restriper(m *cli.Mounted, path string) (lustre.Restriper, error) {
	if r, ok := m.Layout.(lustre.Restriper); ok {
		return r, nil
	}
	err := fmt.Errorf("%s: %w: on this file system (%s) a file keeps the layout that it was made with", mover.Printable(path), mover.ErrConflict, m.Kind)
	if m.Kind == lustre.IsGPFS {
		return nil, cli.Advise(err, "mmchattr -P POOL "+cli.ShellWord(path)+", which moves it to another pool")
	}
	return nil, cli.Advise(err, "a copy into a directory that has the layout, and a rename over the old name")
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
func notRestriped(a *cli.App, path string, err error) error {
	switch {
	case errors.Is(err, lustre.ErrInUse):
		return cli.Advise(naming(path, cli.WithKind(err, mover.ErrConflict)), "--block, with which opens wait until it is done")
	case errors.Is(err, lustre.ErrChanged):
		return naming(path, cli.WithKind(err, mover.ErrChanged))
	case errors.Is(err, lustre.ErrReleased):
		return cli.Advise(naming(path, err), "lfs hsm_restore "+cli.ShellWord(path)+", and this again")
	}
	return notSet(a, path, err)
}

// showMoved shows how much of a file has been moved, until stop is called.
func showMoved(a *cli.App) (moved func(done, size int64), stop func()) {
	if a.Quiet {
		return nil, func() {}
	}
	var bytes, size atomic.Int64
	o := progress.Options{}
	if f, ok := a.Terminal(a.Err); ok {
		o.Terminal, o.Width = true, cli.TerminalWidth(f)
	}
	d := progress.Start(a.Err, o, func() progress.Sample {
		n := size.Load()
		return progress.Sample{Work: rate.Work{Bytes: bytes.Load(), PlannedFiles: 1, PlannedBytes: n, Complete: n > 0}}
	})
	return func(done, of int64) { size.Store(of); bytes.Store(done) }, d.Stop
}
