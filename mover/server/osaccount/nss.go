package osaccount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"datamove.dev/mover"
)

// user is a line of the passwd database; found is false for one that is not there.
type user struct {
	name     string
	uid, gid uint32
	found    bool
}

// nss asks the name service switch of this node.
type nss struct {
	getent, id string // paths; "" asks the files instead
	files      files
	slots      chan struct{} // one for each tool that may run
}

// tools is how many run at a time: a crowd of callers is no crowd of processes.
const tools = 4

func findTools() nss {
	return nss{
		getent: first("/usr/bin/getent", "/bin/getent", "/run/current-system/sw/bin/getent"),
		id:     first("/usr/bin/id", "/bin/id", "/run/current-system/sw/bin/id"),
		files:  "/etc",
		slots:  make(chan struct{}, tools),
	}
}

// first returns the first path where there is a program. Only root can put one
// there; PATH is not asked.
func first(paths ...string) string {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// enter waits for a turn to ask.
func (n nss) enter(ctx context.Context) (leave func(), err error) {
	select {
	case n.slots <- struct{}{}:
		return func() { <-n.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// user asks for a valid name, or a uid in digits.
func (n nss) user(ctx context.Context, key string) (user, error) {
	if n.getent == "" {
		return n.files.user(key)
	}
	out, err := run(ctx, 4, n.getent, "passwd", "--", key)
	if errors.Is(err, errNoKey) {
		return user{}, nil
	}
	if err != nil {
		return user{}, err
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	fields := strings.Split(string(line), ":")
	if len(fields) < 4 || !valid(fields[0]) {
		return user{}, nil // a name that no request can have is none
	}
	return readUser(fields[0], fields[2], fields[3])
}

func readUser(name, uid, gid string) (user, error) {
	u, uerr := strconv.ParseUint(uid, 10, 32)
	g, gerr := strconv.ParseUint(gid, 10, 32)
	if err := errors.Join(uerr, gerr); err != nil {
		return user{}, fmt.Errorf("account %s: %w: NSS gives no number for its uid or group", mover.Printable(name), mover.ErrTransient)
	}
	return user{name: name, uid: uint32(u), gid: uint32(g), found: true}, nil
}

// groupsOf returns all groups of an account, sorted.
func (n nss) groupsOf(ctx context.Context, name string) ([]uint32, error) {
	words, err := n.groupWords(ctx, name)
	if err != nil {
		return nil, err
	}
	var gids []uint32
	for _, word := range words {
		gid, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("groups of %s: %w: %q is no number", mover.Printable(name), mover.ErrTransient, word)
		}
		gids = append(gids, uint32(gid))
	}
	if len(gids) > maxGroups {
		return nil, fmt.Errorf("groups of %s: %w: %d are more than the kernel takes", mover.Printable(name), mover.ErrUnsupported, len(gids))
	}
	slices.Sort(gids)
	return slices.Compact(gids), nil
}

func (n nss) groupWords(ctx context.Context, name string) ([]string, error) {
	if n.id != "" {
		out, err := run(ctx, 1, n.id, "-G", "--", name)
		return strings.Fields(string(out)), err
	}
	return n.files.groupsOf(name)
}

// groupNames returns the names of those groups that have one.
func (n nss) groupNames(ctx context.Context, gids []uint32) (map[uint32]string, error) {
	if n.getent == "" {
		return n.files.groupNames(gids)
	}
	args := []string{"group", "--"}
	for _, gid := range gids {
		args = append(args, fmt.Sprint(gid))
	}
	out, err := run(ctx, 3, n.getent, args...)
	if err != nil && !errors.Is(err, errNoKey) { // those that have names are there even so
		return nil, err
	}
	found := map[uint32]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(fields) < 3 || !valid(fields[0]) {
			continue
		}
		if gid, err := strconv.ParseUint(fields[2], 10, 32); err == nil && slices.Contains(gids, uint32(gid)) {
			found[uint32(gid)] = fields[0]
		}
	}
	return found, nil
}
