package mover

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"syscall"
	"time"
)

// The kinds of errors. Decisions are made with errors.Is on these; cmd and api
// translate them in one table each. [Kinds] lists them all.
var (
	ErrNotExist    = fs.ErrNotExist                      // it is not there
	ErrPermission  = fs.ErrPermission                    // we may not
	ErrUsage       = errors.New("invalid request")       // the words are wrong: no try will help
	ErrChanged     = errors.New("changed underneath us") // the entry is not the one that we saw
	ErrHeld        = errors.New("held by another run")   // a lock
	ErrConflict    = errors.New("in conflict")           // two entries that can not both be there
	ErrCorrupt     = errors.New("checksum mismatch")     // bytes are not what they should be
	ErrFull        = errors.New("no room")               // space, inodes, quota
	ErrRefused     = errors.New("refused by a limit")    // --max-delete, budget, empty source
	ErrUnreachable = errors.New("can not be reached")    // the endpoint
	ErrTimeout     = errors.New("timed out")
	ErrTransient   = errors.New("temporary failure") // the same call may succeed later
	ErrReleased    = errors.New("released")          // its content is in an archive only, and has to be recalled first
	ErrUnsupported = errors.ErrUnsupported           // this place can not do or keep that
)

// kinds has every kind and the name by which it travels, the gravest reading first
// where an error is of several: a changed entry that is gone has changed.
var kinds = []struct {
	name string
	err  error
}{
	{"CORRUPT", ErrCorrupt}, {"REFUSED", ErrRefused}, {"FULL", ErrFull}, {"HELD", ErrHeld}, {"CHANGED", ErrChanged},
	{"CONFLICT", ErrConflict}, {"USAGE", ErrUsage}, {"PERMISSION", ErrPermission}, {"NOT_EXIST", ErrNotExist},
	{"TIMEOUT", ErrTimeout}, {"UNREACHABLE", ErrUnreachable}, {"TRANSIENT", ErrTransient}, {"RELEASED", ErrReleased}, {"UNSUPPORTED", ErrUnsupported},
}

// Kinds returns every kind of error, so that a test can walk a table of them.
func Kinds() []error {
	all := make([]error, len(kinds))
	for i := range kinds {
		all[i] = kinds[i].err
	}
	return all
}

// KindName is the name of the kind of err for another process, "OTHER" when it is
// of none, and "" when it is nil.
func KindName(err error) string {
	if err == nil {
		return ""
	}
	for i := range kinds {
		if errors.Is(err, kinds[i].err) {
			return kinds[i].name
		}
	}
	return "OTHER"
}

// KindNamed is the inverse of KindName; nil when there is none of that name.
func KindNamed(name string) error {
	for i := range kinds {
		if kinds[i].name == name {
			return kinds[i].err
		}
	}
	return nil
}

// Errorf is an error of a kind. It prints as the kind, and the text after it.
func Errorf(kind error, format string, args ...any) error {
	return fmt.Errorf("%w: %w", kind, fmt.Errorf(format, args...))
}

// Because is an error of a kind that prints without the name of the kind.
func Because(kind error, format string, args ...any) error {
	return &plainError{fmt.Sprintf(format, args...), kind}
}

// plainError is an error of a kind that prints as its text alone.
type plainError struct {
	text string
	kind error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.kind }

// IgnoreNotExist is err, but for an ErrNotExist: nil.
func IgnoreNotExist(err error) error {
	if errors.Is(err, ErrNotExist) {
		return nil
	}
	return err
}

// OfFullDisk is err, as an ErrFull where it is of a disk without room or a quota that is reached.
func OfFullDisk(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// Usagef is an ErrUsage.
func Usagef(format string, args ...any) error { return Errorf(ErrUsage, format, args...) }

// Misusef is a mistake of the command line. It is an ErrUsage, and prints without the name of that kind, which says
// nothing to the person at the terminal.
func Misusef(format string, args ...any) error { return Misuse(fmt.Errorf(format, args...)) }

// Misuse marks err as a mistake of the command line. It prints the same.
func Misuse(err error) error { return &marked{err, ErrUsage} }

// ErrUnlike is a mark, and no kind: an error that has it, beside its kind, says that a
// source is not what it has to be. The way to the target and the target did nothing wrong.
var ErrUnlike = errors.New("the source is not what it has to be")

// Unlike marks err with ErrUnlike. It prints the same and is of the same kind.
func Unlike(err error) error { return &marked{err, ErrUnlike} }

// ErrQuota is a mark, too: the limit that refused is that of an account, which may hold more when it has let go of something.
var ErrQuota = errors.New("the quota of an account is reached")

// OverQuota marks err with ErrQuota. It prints the same and is of the same kind.
func OverQuota(err error) error { return &marked{err, ErrQuota} }

// ErrUnconfirmed is a mark, too: what could not be published for certain can be seen, and
// may not be on stable storage. Another sync may go well without it, so
// only what is published anew counts.
var ErrUnconfirmed = errors.New("it can be seen, and may not be on stable storage")

// Unconfirmed marks err with ErrUnconfirmed. It prints the same and is of the same kind.
func Unconfirmed(err error) error { return &marked{err, ErrUnconfirmed} }

// ErrLasting is a mark of an error that no wait ends, although others of its kind pass: a certificate of another host, a file system that is not
// mounted. Nothing tries again after it.
var ErrLasting = errors.New("it does not pass by itself")

// Lasting marks err with ErrLasting. It prints the same and is of the same kind.
func Lasting(err error) error { return &marked{err, ErrLasting} }

// ErrNamesake is a mark of a conflict: the target has an entry with another spelling of the name. To its file system
// the two names are one. When that entry is removed the name is free.
var ErrNamesake = errors.New("another spelling of the name is there")

// Namesake is a conflict with an entry of another name, which has the mark ErrNamesake.
func Namesake(other string) error {
	return MarkNamesake(fmt.Errorf("%w: the target has %s, and to its file system both names are one; rename or remove one of the two", ErrConflict, Printable(other)))
}

// MarkNamesake marks err with ErrNamesake. It prints the same and is of the same kind.
func MarkNamesake(err error) error { return &marked{err, ErrNamesake} }

// ErrNoSuchName is a mark of an ErrUnsupported: no entry of the target can have the name, which is too long for it, or has bytes that it does not
// take. So the target has nothing by that name.
var ErrNoSuchName = errors.New("no entry here can have the name")

// NoSuchName marks err with ErrNoSuchName. It prints the same and is of the same kind.
func NoSuchName(err error) error { return &marked{err, ErrNoSuchName} }

type marked struct {
	error
	mark error
}

func (m *marked) Is(target error) bool { return target == m.mark }
func (m *marked) Unwrap() error        { return m.error }

// HeldError is an ErrHeld that names the holder.
type HeldError struct {
	By   WriterID // zero when it is not known
	Text string   // for people
}

func (h *HeldError) Error() string { return ErrHeld.Error() + ": " + h.Text }

// Unwrap makes it an ErrHeld.
func (h *HeldError) Unwrap() error { return ErrHeld }

// Error says what failed, where, and why.
type Error struct {
	Op       string        // "open", "publish"
	Location string        // as the backend prints itself
	Name     string        // of the entry; "" is the root
	Err      error         // wraps one of the kinds where there is one
	After    time.Duration // of ErrTransient: not before this time, where the backend said so
}

// Error prints odd names quoted, so that a hostile one can not forge a line.
func (e *Error) Error() string {
	where := e.Location
	if e.Name != "" {
		where = Join(e.Location, e.Name)
		if e.Location != "" && e.Location[len(e.Location)-1] == '/' {
			where = e.Location + e.Name
		}
	}
	return fmt.Sprintf("%s %s: %v", e.Op, Printable(where), e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Printable returns s as it is when a terminal shows it as one plain word or
// path, and quoted as a Go string otherwise.
func Printable(s string) string {
	if q := strconv.Quote(s); q[1:len(q)-1] != s {
		return q
	}
	return s
}
