package fshints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/detect"
	"datamove.dev/mover"
)

// Of finds out which file system the open directory dir is on, and returns its
// answers; nil where it has none. dir stays open as long as the answers are used.
func Of(dir int) (mover.FileSystem, error) {
	h, err := detect.At(dir, detect.Options{})
	if err != nil {
		return nil, err
	}
	s := h.System
	if s.Kind == lustre.IsGPFS {
		return nil, h.Close() // it lays files out by its policy, and answers by a program for each file
	}
	held := !overdraws() || s.Quota == nil
	if s.Layout == nil && s.HSM == nil && held {
		return nil, h.Close()
	}
	return &answers{s: s, root: dir, held: held, close: h.Close}, nil
}

// answers is one place's file system.
type answers struct {
	s     *lustre.System
	root  int
	held  bool // the file system sees to quotas
	close func() error

	mu    sync.Mutex
	noted map[string]bool // the kinds of notes; guarded by mu, as is notes
	notes []string
	cluster
	defaults
}

var (
	_ mover.FileSystem = (*answers)(nil)
	_ mover.Warner     = (*answers)(nil)
	_ mover.Restriper  = (*answers)(nil)
	_ mover.Releaser   = (*answers)(nil)
)

// Close lets go of the file system.
func (a *answers) Close() error { return a.close() }

// Notes implements mover.Warner.
func (a *answers) Notes() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.notes...)
}

// note keeps the first text of a kind: what is so of one file is so of many.
func (a *answers) note(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.noted[format] {
		return
	}
	if a.noted == nil {
		a.noted = map[string]bool{}
	}
	a.noted[format] = true
	a.notes = append(a.notes, fmt.Sprintf(format, args...))
}

// Create implements mover.FileSystem.
func (a *answers) Create(dir int, base string, flags int, mode uint32, f mover.NewFile) (int, error) {
	l, ok := a.layoutFor(dir, f)
	if !ok {
		return -1, mover.ErrUnsupported
	}
	fd, err := a.s.Layout.Create(context.Background(), dir, base, flags, mode, l)
	if err == nil || errors.Is(err, unix.EEXIST) {
		return fd, err
	}
	// The usual way has the last word: what is wrong with the directory it will find, too.
	a.note("%s: files have the layout of their directory, and not the one that suits them: %v", a.s.Mount, err)
	return -1, mover.ErrUnsupported
}

// layoutFor decides which layout a new file in dir gets; false is that of the directory.
func (a *answers) layoutFor(dir int, f mover.NewFile) (lustre.Layout, bool) {
	if a.s.Layout == nil {
		return lustre.Layout{}, false
	}
	if f.Layout != nil {
		l, err := a.kept(f.Layout)
		if err != nil {
			a.note("%s: the layout of the source can not be had here: %v", a.s.Mount, err)
		}
		return l, err == nil
	}
	if a.s.Kind != lustre.IsLustre {
		return lustre.Layout{}, false
	}
	c := a.seen()
	if len(c.OSTs) == 0 || f.Size < worthBytes && stripesOf(&c.Default, 1) == 1 || a.ownDefault(dir) {
		return lustre.Layout{}, false
	}
	advice := advise(f.Size, c)
	return advice.Layout, worth(f.Size, &advice.Layout, &c.Default)
}

// kept decodes the layout of a source, which is untrusted input. Only that of a Lustre can be
// validated beforehand: others have other limits, and names of pools of their own.
func (a *answers) kept(text []byte) (l lustre.Layout, err error) {
	if err = json.Unmarshal(text, &l); err == nil && a.s.Kind == lustre.IsLustre {
		err = l.Validate()
	}
	return l, err
}

// worthBytes is the size up to which the first stripe is all that a file needs.
const worthBytes = 64 << 20

// worth says whether an advice is worth another call to the servers: where the file would
// have another number of stripes, where its bytes are.
func worth(size int64, advised *lustre.Layout, usual *lustre.Layout) bool {
	return stripesOf(advised, size) != stripesOf(usual, size)
}

// stripesOf is how many stripes the component at the end of a file has. Where no default
// is known it is one: what Lustre has without any.
func stripesOf(l *lustre.Layout, size int64) int {
	count := 1
	for i := range l.Components {
		c := &l.Components[i]
		if c.Start == 0 || c.Start < size && !c.Flags.Has(lustre.Extension) {
			count = c.StripeCount
		}
	}
	if count == 0 {
		return 1
	}
	return count
}

// Restripe implements mover.Restriper.
func (a *answers) Restripe(ctx context.Context, dir int, base, words string) error {
	r, ok := a.s.Layout.(lustre.Restriper)
	if !ok {
		return fmt.Errorf("%w: on this file system (%s) a file keeps the layout that it was made with", mover.ErrUnsupported, a.s.Kind)
	}
	to, advised, err := lustre.ParseWanted(words)
	if err != nil {
		return fmt.Errorf("%w: layout: %w", mover.ErrUsage, err)
	}
	if advised {
		var st unix.Stat_t
		if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		to = advise(st.Size, a.seen()).Layout
	}
	err = r.Restripe(ctx, dir, base, to, lustre.RestripeOptions{})
	switch {
	case errors.Is(err, lustre.ErrInUse), errors.Is(err, lustre.ErrChanged):
		return fmt.Errorf("%w: %w", mover.ErrChanged, err)
	case errors.Is(err, lustre.ErrNotApplied), errors.Is(err, lustre.ErrEncrypted), errors.Is(err, lustre.ErrReleased):
		return fmt.Errorf("%w: %w", mover.ErrUnsupported, err)
	}
	return err
}

// Multiple implements mover.FileSystem.
func (a *answers) Multiple(fd int, size int64) int64 {
	l, err := a.layout(fd)
	if err != nil {
		return 0
	}
	width := l.Width(max(size-1, 0))
	return part(size, lustre.PartBytes(size, width), width)
}

// manyParts is how many parts a file should have, so that all workers of a node have some.
const manyParts = 8

// part is the largest multiple of a width, up to what is advised, of which a file of that
// size has many. The larger a part, the longer a client keeps the extent locks that it was
// given, before another one wants the bytes behind.
func part(size, advised, width int64) int64 {
	if width <= 0 {
		return 0
	}
	n := advised / width
	for n > 1 && size/(n*width) < manyParts {
		n /= 2
	}
	return max(n, 1) * width
}

// Layout implements mover.FileSystem.
func (a *answers) Layout(fd int) ([]byte, int64, error) {
	l, err := a.layout(fd)
	if err != nil {
		return nil, 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, 0, err
	}
	wanted := l.Wanted()
	text, err := json.Marshal(wanted)
	return text, l.Width(max(st.Size-1, 0)), err
}

func (a *answers) layout(fd int) (lustre.Layout, error) {
	if a.s.Layout == nil {
		return lustre.Layout{}, mover.ErrUnsupported
	}
	l, err := a.s.Layout.Layout(context.Background(), fd)
	if errors.Is(err, lustre.ErrInherited) || err == nil && len(l.Components) == 0 {
		return l, mover.ErrUnsupported
	}
	return l, err
}

// Away implements mover.FileSystem. The layout says it, and that is at the client since
// the file was opened; the state of HSM would be a call to a server for each file.
func (a *answers) Away(fd int) (bool, error) {
	if a.s.HSM == nil {
		return false, nil
	}
	l, err := a.layout(fd)
	return l.Released(), err
}

// Release implements mover.Releaser. The MDT looks once more whether the copy is that of this content.
func (a *answers) Release(ctx context.Context, fd int) error {
	if a.s.HSM == nil {
		return mover.ErrUnsupported
	}
	state, err := a.s.HSM.State(ctx, fd)
	switch has := state.Archived; {
	case err != nil:
		return err
	case has.Has(lustre.ReleasedState):
		return nil
	case !has.Has(lustre.WholeCopy), has.Has(lustre.Dirty), has.Has(lustre.Lost):
		return fmt.Errorf("%w: its content is not in the archive, or not as it is here", mover.ErrConflict)
	case has.Has(lustre.NoRelease):
		return fmt.Errorf("%w: it is marked as not to be released", mover.ErrConflict)
	}
	id, err := a.s.HSM.ID(ctx, fd)
	if err != nil {
		return err
	}
	return a.s.HSM.Request(ctx, a.root, lustre.Release, 0, []lustre.FID{id})
}

// Recall implements mover.FileSystem.
func (a *answers) Recall(ctx context.Context, fds []int) error {
	if a.s.HSM == nil {
		return mover.ErrUnsupported
	}
	ids := make([]lustre.FID, len(fds))
	for i, fd := range fds {
		var err error
		if ids[i], err = a.s.HSM.ID(ctx, fd); err != nil {
			return err
		}
	}
	return a.s.HSM.Request(ctx, a.root, lustre.Restore, 0, ids)
}
