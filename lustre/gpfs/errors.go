package gpfs

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// The kinds of errors, beside fs.ErrPermission (401, 403), fs.ErrNotExist (404),
// fs.ErrExist, context.DeadlineExceeded and errors.ErrUnsupported.
var (
	// ErrReply: what was answered can not be understood.
	ErrReply = errors.New("the answer can not be understood")
	// ErrConflict: something else is going on there (409). It is an EBUSY.
	ErrConflict error = &kind{"in conflict with what is there", unix.EBUSY}
	// ErrServer: the GUI failed (5xx).
	ErrServer = errors.New("the server failed")
	// ErrBusy: the GUI or the network refuses work at the moment (429, 503), or can not be
	// reached. It is an EHOSTUNREACH.
	ErrBusy error = &kind{"not at the moment", unix.EHOSTUNREACH}
	// ErrRefused: the request was understood and not done: a job or command that failed, 400.
	ErrRefused = errors.New("refused")
	// ErrJobLost: the end of a job is not known. It may have been done.
	ErrJobLost = errors.New("the end of the job is not known")
	// ErrName: a name that GPFS can not have, or that is not sent to it. It is an fs.ErrInvalid.
	ErrName error = &kind{"not a name that can be used", fs.ErrInvalid}
)

// kind is a kind of error that is also one of the kernel's, for callers that know
// only these.
type kind struct {
	text string
	like error
}

func (k *kind) Error() string        { return k.text }
func (k *kind) Is(target error) bool { return target == k.like }

// Error says what failed, where and why.
type Error struct {
	Op     string // "GET filesystems/fs1/quotas", "mmlsquota"
	Where  string // the GUI's host, or the path of the command
	Status int    // of HTTP, or the exit status; 0 when there is none
	Code   string // of Storage Scale: "EFSSP1102C"; "" when there is none
	Text   string // what the other side said; it is not trusted
	Err    error  // one of the kinds
}

func (e *Error) Error() string {
	text := e.Op + " at " + e.Where + ": " + e.Err.Error()
	if e.Status != 0 {
		text += fmt.Sprintf(" (status %d)", e.Status)
	}
	if e.Text != "" {
		text += fmt.Sprintf(": it says %q", cut(e.Text))
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// maxQuoted is how many bytes of a foreign text an error repeats.
const maxQuoted = 300

func cut(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > maxQuoted {
		return s[:maxQuoted] + "..."
	}
	return s
}

// kindOf translates a status of HTTP.
func kindOf(status int) error {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fs.ErrPermission
	case status == http.StatusNotFound:
		return fs.ErrNotExist
	case status == http.StatusConflict:
		return ErrConflict
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable ||
		status == http.StatusBadGateway || status == http.StatusGatewayTimeout:
		return ErrBusy
	case status >= 500:
		return ErrServer
	default:
		return ErrRefused
	}
}

// Messages have a code in front: EFSS, a letter for the part, four digits, a letter for how
// grave it is.
var messageCode = regexp.MustCompile(`\bEFSS[A-Z][0-9]{4}[A-Z]\b`)

// What some messages mean, by their code or, where they have none, by what they repeat.
var meanings = []struct {
	part string
	kind error
}{
	{"EFSSP1102C", fs.ErrExist}, // a fileset or snapshot
	{"EFSSG0762C", fs.ErrExist}, // a directory
	{"Invalid value in 'fsetName'", fs.ErrNotExist},
	{"Invalid value in 'filesetName'", fs.ErrNotExist},
	{"Invalid value in 'filesystemName'", fs.ErrNotExist},
}

// meaning returns the code in a text of the other side, and the kind that it stands for.
func meaning(text string, otherwise error) (code string, kind error) {
	code = messageCode.FindString(text)
	for _, m := range meanings {
		if strings.Contains(text, m.part) {
			return code, m.kind
		}
	}
	return code, otherwise
}
