package osaccount

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"datamove.dev/mover"
)

// files is a directory with passwd and group. A node without the tools reads them, and an agent in a container,
// which has the directory of its node. They are opened anew each time, because a tool that changes them replaces
// the files.
type files string

// user finds a valid name, or a uid in digits.
func (f files) user(key string) (found user, err error) {
	uid, notDigits := strconv.ParseUint(key, 10, 32)
	broken := f.lines("passwd", func(fields []string) (more bool) {
		if len(fields) < 4 || !valid(fields[0]) {
			return true
		}
		if n, wrong := strconv.ParseUint(fields[2], 10, 32); notDigits != nil && fields[0] != key || notDigits == nil && (wrong != nil || n != uid) {
			return true
		}
		found, err = readUser(fields[0], fields[2], fields[3])
		return false
	})
	return found, errors.Join(broken, err)
}

// groupsOf returns the groups of an account: that of passwd, and those that name it.
func (f files) groupsOf(name string) (gids []string, err error) {
	u, err := f.user(name)
	if err == nil && !u.found {
		err = fmt.Errorf("groups of %s: %w: it has just gone", mover.Printable(name), mover.ErrTransient)
	}
	if err != nil {
		return nil, err
	}
	gids = []string{fmt.Sprint(u.gid)}
	err = f.lines("group", func(fields []string) bool {
		if len(fields) > 3 && valid(fields[0]) && slices.Contains(strings.Split(fields[3], ","), name) {
			gids = append(gids, fields[2])
		}
		return true
	})
	return gids, err
}

// groupNames returns the names of those groups that have one.
func (f files) groupNames(gids []uint32) (map[uint32]string, error) {
	found := map[uint32]string{}
	err := f.lines("group", func(fields []string) bool {
		if len(fields) < 3 || !valid(fields[0]) {
			return true
		}
		gid, wrong := strconv.ParseUint(fields[2], 10, 32)
		if wrong == nil && slices.Contains(gids, uint32(gid)) && found[uint32(gid)] == "" {
			found[uint32(gid)] = fields[0]
		}
		return true
	})
	return found, err
}

// lines calls each with the fields of each line, as long as it wants more. A file that is not there has none.
func (f files) lines(base string, each func(fields []string) (more bool)) error {
	file, err := os.Open(filepath.Join(string(f), base))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", mover.ErrTransient, err)
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	s.Buffer(nil, maxAnswer)
	for s.Scan() {
		if !each(strings.Split(s.Text(), ":")) {
			return nil
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", file.Name(), mover.ErrTransient, err)
	}
	return nil
}
