package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/detect"
	"datamove.dev/lustre/gpfs"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
)

// Mounted is an open path, and the file system that it is on.
type Mounted struct {
	*lustre.System
	Path      string
	FD        int // of the path
	Dir       bool
	CloseFunc func() error // lets go of FD
}

// Close lets go of the descriptor.
func (m *Mounted) Close() { _ = m.CloseFunc() } // nothing was written through it

// Mounted opens a path of this machine, by its name or in a tier. Nothing is restored
// from an archive by that. It does not wait for a mount that hangs.
func (a *App) Mounted(ctx context.Context, arg string) (*Mounted, error) {
	m, err := Probe(ctx, ProbeTime, arg, func(context.Context) (*Mounted, error) { return a.openMounted(arg) })
	return m, AdviseSilence(err)
}

func (a *App) openMounted(arg string) (*Mounted, error) {
	path, err := a.pathHere(arg)
	if err != nil {
		return nil, err
	}
	if a.OpenSystem != nil {
		return a.OpenSystem(path)
	}
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	h, err := detect.Open(path, detect.Options{GPFS: scales(conf)})
	if err != nil {
		return nil, WithKernelKind(err)
	}
	return &Mounted{System: h.System, Path: path, FD: h.FD(), Dir: h.IsDir(), CloseFunc: h.Close}, nil
}

// scales says how file systems of Storage Scale are asked.
func scales(conf *config.Config) map[string]gpfs.Options {
	options := map[string]gpfs.Options{}
	for name, c := range conf.GPFS {
		options[name] = gpfs.Options{URL: c.URL, CredentialsFile: c.Credentials, CABundle: c.CA, FileSystem: c.As, CommandsDir: c.Commands}
	}
	return options
}

// Path is the name of a location on this machine. For a relative one the directory is
// looked at that we are in.
func (a *App) Path(ctx context.Context, arg string) (string, error) {
	path, err := Probe(ctx, ProbeTime, arg, func(context.Context) (string, error) { return a.pathHere(arg) })
	return path, AdviseSilence(err)
}

func (a *App) pathHere(arg string) (string, error) {
	l, err := a.Locate(arg)
	if err != nil {
		return "", err
	}
	if !l.IsPath() {
		return "", mover.Misusef("%s is no file or directory: want a path of a file system", mover.Printable(arg))
	}
	return l.Path, nil
}

// WithKernelKind gives errors of the kernel the kind that they have for the mover.
func WithKernelKind(err error) error {
	kind := error(nil)
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		kind = mover.ErrFull
	case errors.Is(err, fs.ErrExist), errors.Is(err, unix.EBUSY):
		kind = mover.ErrConflict
	case errors.Is(err, fs.ErrInvalid): // ours: the kernel says EINVAL
		kind = mover.ErrUsage
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, unix.ETIMEDOUT):
		kind = mover.ErrTimeout
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ESHUTDOWN):
		kind = mover.ErrUnreachable
	}
	if kind == nil || errors.Is(err, kind) {
		return err
	}
	return WithKind(err, kind)
}

// WithKind is an error that has a kind beside its own, and prints without it.
func WithKind(err, kind error) error { return &kinded{err, kind} }

// kinded is an error that has a kind, and prints without it.
type kinded struct{ err, kind error }

func (k *kinded) Error() string { return k.err.Error() }

func (k *kinded) Unwrap() []error { return []error{k.err, k.kind} }

// ProbePaths asks about each path. Those that have no answer do not keep the others from theirs.
func ProbePaths[T any](ctx context.Context, a *App, paths []string, ask func(context.Context, *Mounted) (T, error)) (answers []T, failed error) {
	all, errs := make([]T, len(paths)), make([]error, len(paths))
	InParallel(len(paths), func(i int) { all[i], errs[i] = ProbePath(ctx, a, paths[i], ask) })
	for i, answer := range all {
		if errs[i] == nil {
			answers = append(answers, answer)
		}
	}
	return answers, errors.Join(errs...)
}
