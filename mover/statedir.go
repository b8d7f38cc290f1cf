package mover

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// HomeDir is $HOME, and where that says nothing, as for services and cron, the home of this process's user in /etc/passwd.
func HomeDir(getenv func(string) string) (string, error) {
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return home, nil
	}
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return "", fmt.Errorf("%w: there is no home directory: HOME is not set, and uid %d has none in /etc/passwd", ErrUsage, os.Geteuid())
	}
	return u.HomeDir, nil
}

// StateDir is where the XDG base directory specification puts what a user's commands have to remember. It is never in a directory that others
// may write to: they could lead it elsewhere.
func StateDir(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "datamove"), nil
	}
	home, err := HomeDir(getenv)
	if err != nil {
		return "", fmt.Errorf("%w; set XDG_STATE_HOME", err)
	}
	return filepath.Join(home, ".local", "state", "datamove"), nil
}

// StateDirError is why commands can not remember anything.
type StateDirError struct {
	Dir string
	Err error
}

func (e *StateDirError) Error() string {
	return fmt.Sprintf("make %s, where commands remember what they have done: %v", Printable(e.Dir), e.Err)
}

func (e *StateDirError) Unwrap() error { return e.Err }

// Is says that HOME or XDG_STATE_HOME is wrong, where no right is missing: that a folder is not there is not what was asked for.
func (e *StateDirError) Is(kind error) bool {
	return kind == ErrUsage && !errors.Is(e.Err, ErrPermission)
}

// Advice is the way out.
func (e *StateDirError) Advice() string {
	return "set XDG_STATE_HOME to a folder on a local disk that you may write to"
}

// MakeStateDir makes a folder below that of StateDir, which other users can not read. Its error is a *StateDirError.
func MakeStateDir(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = syscall.Access(dir, 0o3) // W_OK and X_OK of access(2)
	}
	var path *os.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &path):
		err = path.Err // of some folder on the way
	}
	return &StateDirError{dir, err}
}
