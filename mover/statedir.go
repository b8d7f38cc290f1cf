package mover

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
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
