package posix_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/must"
)

// What was removed into the directory of a run comes back as it was, unless something has its name by now; and nobody else's directory is used for it.
//
//safety:5 what policies take away without a copy is kept aside and comes back, never over anything; the directory for it is made by another account, or is a link
func TestKept(t *testing.T) {
	root := t.TempDir()
	file := func(name, content string) {
		t.Helper()
		name = filepath.Join(root, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o640)))
	}
	must := func(err error) {
		t.Helper()
		must.Do(t, err)
	}
	for _, name := range []string{"a/b/one", "a/b/two", "three"} {
		file(name, name)
	}
	kept := filepath.Join(root, mover.KeptName, "run1")
	p, err := posix.Open(root, posix.Options{Backup: kept})
	must(err)
	defer p.Close()
	ctx := t.Context()
	for _, name := range []string{"a/b/one", "a/b/two", "three"} {
		e, err := p.Stat(ctx, name)
		must(err)
		must(p.Remove(ctx, e, mover.WriterID{Task: "x"}))
	}
	for e, err := range p.Walk(ctx, mover.WalkOptions{}) {
		must(err)
		if e.Kind != mover.Dir {
			t.Errorf("%s is there still", e.Name)
		}
	}
	if st, err := os.Stat(filepath.Join(root, mover.KeptName)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st, err)
	}
	must(os.RemoveAll(filepath.Join(root, "a")))
	must(p.Close())
	p, err = posix.Open(root, posix.Options{Backup: kept}) // without handles of what is gone
	must(err)
	file("three", "another one")
	must(p.Restore(ctx, "a/b/one"))
	if got, err := os.ReadFile(filepath.Join(root, "a/b/one")); err != nil || string(got) != "a/b/one" {
		t.Errorf("%q, %v", got, err)
	}
	if err := p.Restore(ctx, "a/b/one"); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("a second time: %v", err)
	}
	if err := p.Restore(ctx, "three"); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("over another one: %v", err)
	}
	if got, _ := os.ReadFile(filepath.Join(root, "three")); string(got) != "another one" {
		t.Errorf("it was replaced by %q", got)
	}
	for _, name := range []string{"never/was", "../out", "a/../b", ""} {
		if err := p.Restore(ctx, name); err == nil {
			t.Errorf("%q was restored", name)
		}
	}

	for what, make := range map[string]func(at string) error{
		"a link":         func(at string) error { return os.Symlink(t.TempDir(), at) },
		"open to others": func(at string) error { return errors.Join(os.Mkdir(at, 0o755), os.Chmod(at, 0o755)) },
		"no directory":   func(at string) error { return os.WriteFile(at, nil, 0o600) },
		"somebody else's": func(at string) error {
			if os.Geteuid() != 0 {
				return os.WriteFile(at, nil, 0o600)
			}
			return errors.Join(os.Mkdir(at, 0o700), os.Chown(at, 1234, 1234))
		},
	} {
		root := t.TempDir()
		must(make(filepath.Join(root, mover.KeptName)))
		p, err := posix.Open(root, posix.Options{Backup: filepath.Join(root, mover.KeptName, "run1")})
		if err == nil {
			t.Errorf("%s is used", what)
			_ = p.Close()
		}
	}
}
