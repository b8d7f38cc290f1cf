package claim

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func book(t *testing.T, ids Range) Book {
	t.Helper()
	fd := must.Get(unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	t.Cleanup(func() { must.Do(t, unix.Close(fd)) })
	return Book{fd, ids}
}

func (b Book) all(t *testing.T) (all []uint32) {
	t.Helper()
	must.Do(t, b.Each(func(id uint32) error { all = append(all, id); return nil }))
	slices.Sort(all)
	return all
}

const (
	first  = "00000000000000000a"
	second = "00000000000000010b"
	third  = "00000000000000020c"
)

// TestTake: an ID is of one owner, which finds it again, until it is given back; when all are given, there is none.
func TestTake(t *testing.T) {
	b := book(t, Range{First: 1000, Last: 1001})
	a := must.Get(b.Take(first, nil))(t)
	again := must.Get(b.Take(first, nil))(t)
	other := must.Get(b.Take(second, nil))(t)
	if a != again || a == other {
		t.Errorf("%d, %d, %d", a, again, other)
	}
	if _, err := b.Take(third, nil); !errors.Is(err, mover.ErrFull) {
		t.Errorf("all are given: %v", err)
	}
	must.Do(t, b.GiveBack(third, &lustre.Project{ID: a})) // it is not its own
	must.Do(t, b.GiveBack(third, nil))
	if got := b.all(t); !slices.Equal(got, []uint32{1000, 1001}) {
		t.Errorf("%v", got)
	}
	must.Do(t, b.GiveBack(first, &lustre.Project{ID: a}))
	must.Do(t, b.GiveBack(second, nil))
	if got := b.all(t); len(got) > 0 {
		t.Errorf("%v", got)
	}
	for _, ids := range []Range{{}, {First: 9, Last: 8}, {First: 1, Last: 1<<32 - 1}} {
		if _, err := (Book{b.Dir, ids}).Take(first, nil); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%v: %v", ids, err)
		}
	}
	for _, mark := range []string{"", "00", "no hexadecimal digits"} {
		if _, err := b.Take(mark, nil); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%q: %v", mark, err)
		}
	}
}

// TestBooks: an ID in use outside of the book is left out, and asked for once; a claim of before is not asked for again.
func TestBooks(t *testing.T) {
	b := book(t, Range{First: 1000, Last: 1003})
	asked := 0
	fresh := func(id uint32) (bool, error) { asked++; return id == 1002, nil }
	for range 2 {
		if id, err := b.Take(first, fresh); id != 1002 || err != nil {
			t.Errorf("%d, %v", id, err)
		}
	}
	if got := b.all(t); !slices.Equal(got, []uint32{1002}) {
		t.Errorf("%v", got)
	}
	asked = 0
	if _, err := b.Take(second, fresh); !errors.Is(err, mover.ErrFull) || asked != 3 {
		t.Errorf("%v after %d questions", err, asked)
	}
	broken := errors.New("broken")
	if _, err := b.Take(second, func(uint32) (bool, error) { return false, broken }); !errors.Is(err, broken) || len(b.all(t)) != 1 {
		t.Errorf("%v, %v", err, b.all(t))
	}
}
