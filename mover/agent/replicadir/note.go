package replicadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// What is said at a gate, which only root may write to.
const (
	notedAttr = "user.datamove.noted" // until when a holder on this host has the replica, of which the service does not know yet
	goingAttr = "user.datamove.going" // what is behind it changes, or goes
	wholeAttr = "user.datamove.whole" // what is behind it was whole, and can not be immutable
)

// Note keeps a replica from being removed until a time, for a holder of which the service can not be told now. The replica has to be immutable, or its gate to say that it was whole where nothing
// can be immutable, and not on its way out, else the error is of kind [mover.ErrConflict]; where that can not be known it is [mover.ErrUnsupported]. The zero time takes the note away.
//
// A note is written before what is going is looked for, and a removal says that it goes before it looks for a note: of two that meet, at least one gives way.
func (s Path) Note(until time.Time) error {
	return s.atAccessDir("note", func(gate int) error {
		if until.IsZero() {
			return unsaid(unix.Fremovexattr(gate, notedAttr))
		}
		before := noted(gate)
		if err := unix.Fsetxattr(gate, notedAttr, []byte(until.UTC().Format(time.RFC3339)), 0); err != nil {
			return fmt.Errorf("%w: its gate takes no attribute: %w", mover.ErrUnsupported, err)
		}
		if going := says(gate, goingAttr) != ""; time.Now().Before(before) || !going && (s.Immutable() || says(gate, wholeAttr) != "") {
			return nil
		}
		return errors.Join(fmt.Errorf("%w: it is not known to be whole, or is being removed", mover.ErrConflict), unsaid(unix.Fremovexattr(gate, notedAttr)))
	})
}

// goes says that what is in a spot changes or goes. What is noted does not: mover.ErrHeld. undo takes the word back.
func (s Path) goes() (undo func(), err error) {
	undo = func() {}
	err = s.atAccessDir("unseal", func(gate int) error {
		was := says(gate, goingAttr)
		if unix.Fsetxattr(gate, goingAttr, []byte("1"), 0) != nil {
			return nil // so nothing is noted
		}
		if was == "" {
			undo = func() { s.stays() }
		}
		until := noted(gate)
		if time.Now().Before(until) {
			return fmt.Errorf("%w: a pod of this host has it, of which the coordinator was not told yet; that is tried until %s", mover.ErrHeld, until.Format(time.RFC3339))
		}
		return nil
	})
	if errors.Is(err, mover.ErrUnsupported) || errors.Is(err, unix.ENOENT) {
		err = nil // nothing can be noted there
	}
	if err != nil {
		undo()
	}
	return undo, err
}

// stays takes back that what is in a spot changes or goes.
func (s Path) stays() {
	_ = s.atAccessDir("seal", func(gate int) error { return unsaid(unix.Fremovexattr(gate, goingAttr)) })
}

// whole says of what can not be immutable that all of it is there. Where its gate takes no attribute it is not said.
func (s Path) whole() {
	_ = s.atAccessDir("seal", func(gate int) error {
		return errors.Join(unsaid(unix.Fremovexattr(gate, goingAttr)), unix.Fsetxattr(gate, wholeAttr, []byte("1"), 0))
	})
}

// atAccessDir does something at a gate that is root's.
func (s Path) atAccessDir(op string, do func(gate int) error) error {
	fail := func(err error) error { return &mover.Error{Op: op, Location: s.String(), Err: err} }
	if !s.gated() {
		return fail(fmt.Errorf("%w: it has no gate", mover.ErrUnsupported))
	}
	gate, err := s.open(len(s.folders) - 1)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = unix.Close(gate) }()
	defer hold(gate)()
	var st unix.Stat_t
	if err := unix.Fstat(gate, &st); err != nil {
		return fail(err)
	}
	if st.Uid != 0 {
		return fail(fmt.Errorf("%w: its gate is not root's", mover.ErrUnsupported))
	}
	if err := do(gate); err != nil {
		return fail(err)
	}
	return nil
}

// noted is until when a gate says that what is behind it is held.
func noted(gate int) time.Time {
	until, err := time.Parse(time.RFC3339, says(gate, notedAttr))
	if err != nil {
		return time.Time{}
	}
	return until
}

// says is an attribute of a gate; "" is none.
func says(gate int, name string) string {
	b := make([]byte, 64)
	n, err := unix.Fgetxattr(gate, name, b)
	if err != nil {
		return ""
	}
	return string(b[:n])
}

// unsaid has nothing to say of an attribute that is not there, or can not be.
func unsaid(err error) error {
	if err == unix.ENODATA {
		return nil
	}
	return notThere(err)
}

// letGo says of the replicas of an owner at a path, and below it, that they go. When one of them is noted, none does.
func letGo(root string, folders []string, owner int64) error {
	spots, err := gatesAt(root, folders)
	if err != nil {
		return err
	}
	var undo []func()
	for _, s := range spots {
		if owner != everybody && !s.of(owner) {
			continue
		}
		back, err := s.goes()
		if err != nil {
			for _, back := range undo {
				back()
			}
			return err
		}
		undo = append(undo, back)
	}
	return nil
}

// of reports whether its replica is of an owner.
func (s Path) of(owner int64) bool {
	fd, err := s.replica()
	if err != nil {
		return false
	}
	dir := os.NewFile(uintptr(fd), s.String())
	defer dir.Close()
	return ownerOf(dir) == owner
}

// gatesAt are the spots with gates at a path of a replica folder, and below it.
func gatesAt(root string, folders []string) (spots []Path, err error) {
	if len(folders) >= 3 {
		if s, ok := At(root, strings.Join(append(folders[:3:3], inside), "/")); ok {
			spots = append(spots, s)
		}
		return spots, nil
	}
	fd, err := openBelow(root, folders, openAt)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), folders[len(folders)-1])
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(someNames)
		if errors.Is(err, io.EOF) {
			return spots, nil
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			below, err := gatesAt(root, append(folders[:len(folders):len(folders)], e.Name()))
			if err != nil {
				return nil, err
			}
			spots = append(spots, below...)
		}
	}
}
