package replicadir

import (
	"context"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// MakeMutable lets a replica be changed and removed again. What is not immutable, or not there, is no error.
func (s Path) MakeMutable(ctx context.Context) error {
	_ = s.atAccessDir("unseal", func(gate int) error { return unix.Fsetxattr(gate, goingAttr, []byte("1"), 0) }) // what is staged to it anew mends it, also for holders
	_, err := makeMutableAt(ctx, s.root, s.folders, everybody)
	return err
}

// MakeMutable makes mutable what is on the replica folder of a tier at a path, below it, or around it: of one owner, or of all
// for root. It looks at nothing else, and says whether anything may be mutable now that was not. When one
// of them is noted (Note), none is mutable: mover.ErrHeld.
func MakeMutable(ctx context.Context, root, at string, uid uint32) (unsealed bool, err error) {
	folders := strings.Split(at, "/")
	switch {
	case at == "":
		folders = []string{top}
	case folders[0] != top || !mover.ValidName(at):
		return false, nil
	case len(folders) >= 4 && folders[3] == inside:
		folders = folders[:4]
	case len(folders) > 3: // in one of an earlier version
		folders = folders[:3]
	}
	owner := int64(uid)
	if uid == 0 {
		owner = everybody
	}
	if err := letGo(root, folders, owner); err != nil {
		return false, err
	}
	return makeMutableAt(ctx, root, folders, owner)
}

const everybody = -1 // the owner of any replica

func makeMutableAt(ctx context.Context, root string, folders []string, owner int64) (unsealed bool, err error) {
	fd, err := openBelow(root, folders, openAt)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	dir := os.NewFile(uintptr(fd), folders[len(folders)-1])
	defer dir.Close()
	w := newWalk(ctx)
	if err := w.search(dir, len(folders), owner, &unsealed); err != nil {
		return unsealed, &mover.Error{Op: "unseal", Location: root, Name: strings.Join(folders, "/"), Err: err}
	}
	return unsealed, nil
}

// search unseals replicas: a directory that is immutable, or else those in it, down to where replicas lie.
func (w *walk) search(dir *os.File, depth int, owner int64, unsealed *bool) error {
	sealed, err := isImmutable(int(dir.Fd()))
	switch {
	case err != nil:
		if unable(err) != "" {
			return nil // so nothing is
		}
		return err
	case sealed:
		if owner != everybody && owner != ownerOf(dir) {
			return nil
		}
		*unsealed = true
		return w.makeMutable(dir)
	case depth >= 4:
		return nil
	}
	return w.each(dir, func(fd int, kind os.FileMode, name string) error {
		if !kind.IsDir() {
			return nil
		}
		return w.inner(fd, name, func(dir *os.File) error { return w.search(dir, depth+1, owner, unsealed) })
	})
}

func ownerOf(dir *os.File) int64 {
	var st unix.Stat_t
	if unix.Fstat(int(dir.Fd()), &st) != nil {
		return everybody - 1
	}
	return int64(st.Uid)
}
