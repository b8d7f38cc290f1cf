// Package remedy says what to do about an error. It is pure.
//
// It owns one table: for a kind of error, what was done (an [Operation]), with what (a [Backend]) and why (a cause), a text that stands behind "try:".
// The commands print it; the cause itself is in the error. What only one command can know goes with its own error, as Advice.
// TestRemedies walks every kind through every operation and backend, and keeps the texts in a file for reviews; TestOperations that no word of a backend is missing.
package remedy

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"datamove.dev/mover"
)

// Operation is what was done.
type Operation string

// The operations. "" is any.
const (
	Open   Operation = "open"
	Read   Operation = "read"
	Write  Operation = "write"
	Remove Operation = "remove"
	Lock   Operation = "lock"
)

// Operations are all of them.
var Operations = []Operation{Open, Read, Write, Remove, Lock}

// words has the operation of what an error of a backend says.
var words = map[string]Operation{
	"open": Open, "region of": Open, "ask": Open, "listen to": Open,
	"check": Read, "compare": Read, "list": Read, "look at": Read, "open manifest": Read, "open manifest above": Read, "peek": Read, "read": Read, "recall": Read, "reread": Read,
	"room": Read, "stat": Read, "walk": Read,
	"adopt": Write, "clone": Write, "close": Write, "draft": Write, "drop": Write, "finish": Write, "mkdir": Write, "publish": Write, "put manifest": Write,
	"release": Write, "restore": Write, "restripe": Write, "segment": Write, "sync": Write, "update": Write, "write": Write,
	"remove": Remove, "remove manifest": Remove,
	"lock": Lock, "unlock": Lock,
}

// Backend is what it was done with.
type Backend string

// The backends. "" is any.
const (
	Files   Backend = "files"   // a file system
	S3      Backend = "s3"      // a store
	Service Backend = "service" // datamoved, as its callers see it
	Data    Backend = "data"    // what datamoved keeps for itself
)

// Backends are all of them.
var Backends = []Backend{Files, S3, Service, Data}

// Case is an error that is to be mended. The zero value of a field is any.
type Case struct {
	Kind      error
	Operation Operation
	Backend   Backend
	Cause     string // a code of S3, or the name of an errno
}

// Of is what err says of its case, as an error of that kind: the first one of several.
func Of(err, kind error) Case {
	c := Case{Kind: kind}
	if e := first(err, kind); e != nil {
		c.Operation, c.Backend = words[e.Op], backendOf(e.Location)
		err = e
	}
	var said interface{ Cause() string }
	var number syscall.Errno
	switch {
	case errors.As(err, &said):
		c.Cause = said.Cause()
	case errors.As(err, &number):
		c.Cause = errnos[number]
	}
	return c
}

// errnos are those with a remedy of their own.
var errnos = map[syscall.Errno]string{
	syscall.EROFS: "EROFS", syscall.EFBIG: "EFBIG", syscall.EMFILE: "EMFILE", syscall.ENAMETOOLONG: "ENAMETOOLONG", syscall.EILSEQ: "EILSEQ", syscall.EDQUOT: "EDQUOT", syscall.ENOTDIR: "ENOTDIR",
}

// first is the first error of a place that is of a kind; nil is none.
func first(err, kind error) *mover.Error {
	switch e := err.(type) { //nolint:errorlint // each error of the tree comes here
	case *mover.Error:
		if errors.Is(e, kind) {
			return e
		}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if found := first(one, kind); found != nil {
				return found
			}
		}
		return nil
	}
	if within := errors.Unwrap(err); within != nil {
		return first(within, kind)
	}
	return nil
}

func backendOf(place string) Backend {
	switch {
	case strings.HasPrefix(place, "s3://"):
		return S3
	case strings.HasPrefix(place, "/"):
		return Files
	}
	return ""
}

// For is what to do about an error; "" where its own text is all that there is to say. A row for the cause goes before
// one for the operation, and that before one for the backend.
func For(c Case) string {
	best, weight := "", -1
	for i := range table {
		if w := table[i].weight(c); w > weight {
			best, weight = table[i].try, w
		}
	}
	return best
}

// order has the kinds of errors, the gravest first: of an error of several the first one decides, as for exit codes.
var order = []error{
	context.Canceled, mover.ErrCorrupt, mover.ErrFull, mover.ErrRefused, mover.ErrHeld, mover.ErrChanged, mover.ErrConflict, mover.ErrPermission, mover.ErrUsage,
	context.DeadlineExceeded, mover.ErrTimeout, mover.ErrUnreachable, mover.ErrTransient, mover.ErrNotExist, mover.ErrReleased, mover.ErrUnsupported,
}

// About is what to do about err: what it carries as Advice, or what the table has for its kind.
func About(err error) string {
	var own interface{ Advice() string }
	if errors.As(err, &own) {
		return own.Advice()
	}
	for _, kind := range order {
		if errors.Is(err, kind) {
			return For(Of(err, kind))
		}
	}
	return For(Of(err, nil))
}

// All are the remedies of what people do, as the commands say them; those of datamoved's own data are left out.
func All() (tries []string) {
	for i := range table {
		if table[i].try != "" && table[i].backend != Data {
			tries = append(tries, table[i].try)
		}
	}
	return tries
}

// weight is how well a row fits; -1 is not.
func (r *row) weight(c Case) int {
	switch {
	case r.kind != nil && !errors.Is(c.Kind, r.kind),
		r.cause != "" && r.cause != c.Cause,
		r.backend != "" && r.backend != c.Backend,
		r.operation != "" && r.operation != c.Operation:
		return -1
	}
	w := 0
	for i, given := range []bool{r.backend != "", r.operation != "", r.cause != ""} {
		if given {
			w |= 1 << i
		}
	}
	return w
}
