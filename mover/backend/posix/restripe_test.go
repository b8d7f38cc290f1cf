package posix

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// restriping is a file system that gives files other layouts.
type restriping struct {
	striped
	asked []string
}

func (r *restriping) Restripe(_ context.Context, _ int, base, words string) error {
	r.asked = append(r.asked, base+" "+words)
	return nil
}

func (r *restriping) Release(_ context.Context, fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	r.asked = append(r.asked, "release")
	return nil
}

// TestRestripe: it is the very file that gets another layout, or is released, where a file system can.
func TestRestripe(t *testing.T) {
	r, dir := &restriping{}, t.TempDir()
	p := opened(t, dir, Options{FileSystem: func(int) (mover.FileSystem, error) { return r, nil }})
	at := func(name string) string { return filepath.Join(dir, name) }
	must.Do(t, errors.Join(os.Mkdir(at("d"), 0o755), os.WriteFile(at("d/f"), []byte("x"), 0o600)))
	e := must.Get(p.Stat(t.Context(), "d/f"))(t)
	if err := p.Restripe(t.Context(), e, "count=4"); err != nil || len(r.asked) != 1 || r.asked[0] != "f count=4" {
		t.Errorf("%q, %v", r.asked, err)
	}
	if err := p.Release(t.Context(), e); err != nil || len(r.asked) != 2 || r.asked[1] != "release" {
		t.Errorf("%q, %v", r.asked, err)
	}
	must.Do(t, errors.Join(os.WriteFile(at("d/g"), []byte("x"), 0o600), os.Rename(at("d/g"), at("d/f"))))
	if err := p.Restripe(t.Context(), e, "count=4"); !errors.Is(err, mover.ErrChanged) || len(r.asked) != 2 {
		t.Errorf("another file of that name: %v", err)
	}
	if err := p.Release(t.Context(), e); !errors.Is(err, mover.ErrChanged) || len(r.asked) != 2 {
		t.Errorf("another file of that name: %v", err)
	}
	p = (&striped{}).place(t, Options{})
	if err := p.Restripe(t.Context(), e, "count=4"); !errors.Is(err, mover.ErrUnsupported) {
		t.Errorf("where files keep their layout: %v", err)
	}
	if err := p.Release(t.Context(), e); !errors.Is(err, mover.ErrUnsupported) {
		t.Errorf("where there is no archive: %v", err)
	}
}
