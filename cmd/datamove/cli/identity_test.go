package cli

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"
	"testing/fstest"

	"datamove.dev/mover"
	"datamove.dev/mover/remedy"
	"datamove.dev/test/must"
)

// TestAdviceForTheWay says what to do about a service that can not be called. Root is
// never denied a socket, so the errors are made here.
func TestAdviceForTheWay(t *testing.T) {
	a := App{Env: func(key string) string { return map[string]string{"DATAMOVE_IDENTITY": "/id.pem"}[key] }}
	for _, row := range []struct {
		kind    error
		address string
		want    string
	}{
		{mover.ErrPermission, "unix:///s", "as a member of the group that may use the socket"},
		{mover.ErrPermission, "tcp://h:1", "a new certificate (datamove service identity, by the operator of the service) in /id.pem"},
		{mover.ErrUnreachable, "unix:///s", "the usual"},
		{mover.ErrUsage, "x", "--service unix:///run/datamove/datamoved.sock"},
	} {
		err := a.adviseDial(&mover.Error{Op: "reach", Location: row.address, Err: row.kind}, row.address, "the usual")
		if got := remedy.About(err); got != row.want || ExitCode(err) != ExitCode(row.kind) {
			t.Errorf("%v at %s: %q", row.kind, row.address, got)
		}
	}
}

// TestOwnKey: a private key is its reader's alone, or comes from root.
func TestOwnKey(t *testing.T) {
	for _, row := range []struct {
		mode          fs.FileMode
		owner, reader int
		try           string
	}{
		{0o600, 1001, 1001, ""}, {0o400, 1001, 1001, ""}, {0o640, 1001, 1001, "chmod 600 k"}, {0o604, 1001, 1001, "chmod 600 k"}, {0o620, 1001, 1001, "chmod 600 k"},
		{0o440, 0, 1001, ""}, {0o444, 0, 1001, "chmod 600 k"}, // by the group of a pod
		{0o440, 1002, 1001, "a file of your own"}, {0o600, 1002, 0, ""},
	} {
		info := must.Get(fstest.MapFS{"k": {Mode: row.mode, Sys: &syscall.Stat_t{Uid: uint32(row.owner)}}}.Stat("k"))(t)
		err, try := ownKey(info, row.reader), ""
		var open *openToOthers
		if errors.As(err, &open) {
			try = open.mend("k")
		}
		if try != row.try || (err != nil) != errors.Is(err, mover.ErrPermission) {
			t.Errorf("%04o of %d, read by %d: %v, try %q", row.mode, row.owner, row.reader, err, try)
		}
	}
}
