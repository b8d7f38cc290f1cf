package replicadir

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestNote: what is noted is not mutable for a removal, and nothing beside it is by the same call; what is not immutable, or is on its way out, can not
// be noted.
//
//safety:5 a removal of a replica that a pod has, of which the coordinator was not told
func TestNote(t *testing.T) {
	systems(t, func(t *testing.T, root string) {
		s := staged(t, root, 1)
		second, _ := At(root, strings.Replace(where, "/data", "b/data", 1))
		must.Get(second.Make(alice, alice))(t)
		soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
		is := func(what string, got, want error) {
			t.Helper()
			if (want == nil) != (got == nil) || !errors.Is(got, want) {
				t.Errorf("%s: %v, and not %v", what, got, want)
			}
		}
		is("not sealed", s.Note(soon), mover.ErrConflict)
		for _, s := range []Path{s, second} {
			if why, err := s.MakeImmutable(t.Context(), alice); err != nil || why != "" {
				t.Fatalf("%q, %v", why, err)
			}
		}
		is("sealed", s.Note(soon), nil)
		is("again", s.Note(soon), nil)
		for _, at := range []string{where, filepath.Dir(where), filepath.Dir(filepath.Dir(where)), ".datasets", ""} {
			for _, uid := range []uint32{0, alice} {
				is("removed at "+at, errOf(MakeMutable(t.Context(), root, at, uid)), mover.ErrHeld)
			}
			if !s.Immutable() || !second.Immutable() {
				t.Fatalf("removed at %s: it is not sealed any more", at)
			}
		}
		is("what is beside it", second.Note(soon), nil)
		is("let go", second.Note(time.Time{}), nil)
		is("of somebody else", errOf(MakeMutable(t.Context(), root, where, alice+1)), nil)
		is("the other one alone", errOf(MakeMutable(t.Context(), root, strings.Replace(where, "/data", "b/data", 1), 0)), nil)
		is("which goes", second.Note(soon), mover.ErrConflict)
		is("over", s.Note(past), nil)
		is("removed", errOf(MakeMutable(t.Context(), root, where, 0)), nil)
		is("goes", s.Note(soon), mover.ErrConflict)
		must.Get(s.MakeImmutable(t.Context(), alice))(t)
		is("staged again", s.Note(soon), nil)
		is("mended", s.MakeMutable(t.Context()), nil)
		is("while it is mended", errOf(MakeMutable(t.Context(), root, where, 0)), mover.ErrHeld)
		is("let go", s.Note(time.Time{}), nil)
		is("no longer held", errOf(MakeMutable(t.Context(), root, where, 0)), nil)
		gone, _ := At(root, ".datasets/none/"+strings.Repeat("c", 64)+"/data")
		is("not there", gone.Note(soon), mover.ErrNotExist)
		is("not there", errOf(MakeMutable(t.Context(), root, ".datasets/none/"+strings.Repeat("c", 64)+"/data", 0)), nil)
		early, _ := At(root, ".datasets/none/"+strings.Repeat("c", 64))
		is("of an earlier version", early.Note(soon), mover.ErrUnsupported)
	})
}

func errOf(_ bool, err error) error { return err }

// TestNoteUnsealed: where nothing can be immutable, a gate says what was whole, and that is noted; what never was, or is changed or removed since, is not.
//
//safety:5 the same where nothing can be sealed
func TestNoteUnsealed(t *testing.T) {
	systems(t, func(t *testing.T, root string) {
		s, soon := staged(t, root, 1), time.Now().Add(time.Hour)
		is := func(what string, got, want error) {
			t.Helper()
			if (want == nil) != (got == nil) || !errors.Is(got, want) {
				t.Errorf("%s: %v, and not %v", what, got, want)
			}
		}
		seal := func() {
			t.Helper()
			mutably(t, func() {
				if why, err := s.MakeImmutable(t.Context(), alice); err != nil || why == "" {
					t.Errorf("it is sealed: %q, %v", why, err)
				}
			})
		}
		is("never whole", s.Note(soon), mover.ErrConflict)
		seal()
		is("whole", s.Note(soon), nil)
		for _, uid := range []uint32{0, alice} {
			is("removed", errOf(MakeMutable(t.Context(), root, where, uid)), mover.ErrHeld)
		}
		is("let go", s.Note(time.Time{}), nil)
		is("mended", s.MakeMutable(t.Context()), nil)
		is("while it is mended", s.Note(soon), mover.ErrConflict)
		seal()
		is("whole again", s.Note(soon), nil)
		is("let go", s.Note(time.Time{}), nil)
		is("removed", errOf(MakeMutable(t.Context(), root, where, 0)), nil)
		is("goes", s.Note(soon), mover.ErrConflict)
	})
}

// mutably does something in a thread that may make nothing immutable.
func mutably(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and ends with the thread
		header, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
		err := unix.Capget(&header, &data[0])
		data[0].Effective &^= 1 << unix.CAP_LINUX_IMMUTABLE
		if err = errors.Join(err, unix.Capset(&header, &data[0])); err != nil {
			t.Error(err)
			return
		}
		do()
	}()
	<-done
}
