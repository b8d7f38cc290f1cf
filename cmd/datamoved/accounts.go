package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	osuser "os/user"
	"strconv"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/account"
)

// accounts are those of this node, also by name alone, as a certificate has them.
type accounts struct{ *account.Directory }

// Named returns the account of a name. Only the uid is asked for here; the directory
// asks the name service itself whether it is true, and for everything else.
func (a accounts) Named(ctx context.Context, name string) (account.Account, error) {
	uid, err := uidNamed(ctx, name)
	if err != nil {
		return account.Account{}, &mover.Error{Op: "find the account", Place: name, Err: err}
	}
	return a.Lookup(ctx, name, uid)
}

const (
	getent      = "/usr/bin/getent"
	noSuchKey   = 2 // getent's exit code
	nssPatience = 5 * time.Second
)

var errNoAccount = fmt.Errorf("%w: it is not on this node", mover.ErrPermission)

// uidNamed asks the name service, because this program has no C library that could
// load its modules.
func uidNamed(ctx context.Context, name string) (uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, nssPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, getent, "passwd", "--", name)
	cmd.Env, cmd.Dir, cmd.WaitDelay = []string{"LC_ALL=C"}, "/", time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == noSuchKey:
		return 0, errNoAccount
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, mover.ErrNotExist):
		return uidInFile(name)
	case err != nil:
		return 0, fmt.Errorf("%w: getent: %w", mover.ErrTransient, err)
	}
	return readUID(string(out))
}

// uidInFile is for a node without getent.
func uidInFile(name string) (uint32, error) {
	u, err := osuser.Lookup(name)
	if err != nil {
		return 0, errNoAccount
	}
	return parseUID(u.Uid)
}

func readUID(line string) (uint32, error) {
	fields := strings.SplitN(line, ":", 4)
	if len(fields) < 4 {
		return 0, errNoAccount
	}
	return parseUID(fields[2])
}

func parseUID(text string) (uint32, error) {
	uid, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, errNoAccount
	}
	return uint32(uid), nil
}
