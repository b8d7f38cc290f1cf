package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// plain is a directory of a file system that keeps neither hard links nor modes and owners, as vfat does.
type plain struct {
	*posix.Backend
	t *testing.T
}

func (p plain) Capabilities() mover.Capabilities {
	c := p.Backend.Capabilities()
	c.Keeps &^= rights | mover.FactLinks
	return c
}

func (p plain) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	if h.Link != "" {
		p.t.Errorf("%s is to be a hard link", e.Name)
	}
	return p.Backend.Draft(ctx, e, h)
}

// TestPlainTarget: a target that can not hold all that the source has is equal when it has what it can hold. What it can not hold is told by each run, as a
// note, and is no difference; other bytes are one.
func TestPlainTarget(t *testing.T) {
	dir := t.TempDir()
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	must.Do(t, errors.Join(os.Mkdir(source, 0o755), os.WriteFile(filepath.Join(source, "a"), []byte("x"), 0o640), os.Link(filepath.Join(source, "a"), filepath.Join(source, "b")),
		os.Link(filepath.Join(source, "a"), filepath.Join(source, "c"))))
	open := func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
		p, err := posix.Open(l.Path, posix.Options{Create: o.Write})
		if err != nil || l.Path != target {
			return p, err
		}
		return plain{p, t}, nil
	}
	run := func(work Work) (Report, error) {
		r := Request{Work: work, StateDir: filepath.Join(dir, "state")}
		r.Source, r.Target = location.Location{Scheme: location.POSIX, Path: source}, location.Location{Scheme: location.POSIX, Path: target}
		return must.Get(Start(t.Context(), r, open))(t).Wait()
	}
	for _, step := range []struct {
		work  Work
		files int64
	}{{Copy, 3}, {Copy, 0}, {Verify, 0}} {
		r, err := run(step.work)
		if err != nil || r.Files != step.files || r.Updated != 0 || r.Failed != 0 {
			t.Errorf("work %d: %+v, %v", step.work, r, err)
		}
		if !slices.Contains(r.Notes, "hard links that are files of their own in the target: 2") {
			t.Errorf("work %d notes %q", step.work, r.Notes)
		}
		for _, name := range []string{"a", "b", "c"} { // all modes are those of the mount
			must.Do(t, os.Chmod(filepath.Join(target, name), 0o755))
		}
		lost := strings.Contains(strings.Join(r.Notes, "\n"), "files that have lost what the target does not keep (modes, owners, groups): 3")
		if moves := step.files > 0 || step.work == Verify; lost != moves {
			t.Errorf("work %d notes %q", step.work, r.Notes)
		}
	}
	must.Do(t, os.WriteFile(filepath.Join(target, "c"), []byte("y"), 0o755))
	if _, err := run(Verify); !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("with another content: %v", err)
	}
}
