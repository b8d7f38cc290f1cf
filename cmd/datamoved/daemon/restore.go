package daemon

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/mover/coordinator/enroll"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
)

func (a *app) restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a directory of state of a backup",
		Long: `Restore makes in --data what FILE has: a backup of datamoved, or of the ledger alone
(datamove service backup). The service must not run, and there must be no ledger in
the directory: move the old one away first. What is there is there whole, or the
service refuses to start and the restore can be done again.

What happened after the backup is not known any more: tasks that ended meanwhile run
again, which finds what they did. Those that remove are paused, because they would
remove once more what is there now: restore names them, and datamove task resume or
cancel says of each what is meant. Tokens to join with are void, and nodes that were
cut off or forgotten since stay so, as far as --data has its file "forgotten" still;
without it, cut them off again (datamove agent forget --revoke). Other agents go on
with their certificates.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = a.do(a.restore)
	return cmd
}

func (a *app) restore(ctx context.Context, args []string) error {
	conf, err := a.load()
	if err != nil {
		return err
	}
	dir, err := a.dataDir(conf)
	if err != nil {
		return err
	}
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	lock, err := hold(dir)
	if err != nil {
		return err
	}
	defer lock.release()
	if _, err := state.OpenBallast(dir, slog.New(slog.DiscardHandler)); err != nil { // a full disk gets it back before anything is written
		return &mover.Error{Op: "make room in", Location: dir, Err: err}
	}
	if there, err := os.ReadDir(filepath.Join(dir, "ledger")); err == nil && len(there) > 0 && restored(dir) == nil {
		return &advised{&mover.Error{Op: "restore into", Location: dir, Err: fmt.Errorf("%w: there is a ledger", mover.ErrConflict)}, "moving it away first"}
	}
	var after enroll.Restored
	what, err := restoring(dir, func() (what string, err error) {
		if what, err = unpack(dir, bufio.NewReaderSize(f, 1<<20)); err == nil {
			after, err = afterRestore(ctx, dir)
		}
		return what, err
	})
	if err != nil {
		return &mover.Error{Op: "restore", Location: args[0], Err: err}
	}
	_, err = fmt.Fprintf(a.out, "restored %s into %s\n%s", what, mover.Printable(dir), said(after))
	return err
}

func afterRestore(ctx context.Context, dir string) (after enroll.Restored, err error) {
	books, err := openAlone(dir)
	if err != nil {
		return after, err
	}
	after, err = enroll.AfterRestore(ctx, books, dir)
	return after, errors.Join(err, books.Close())
}

// said is what a person has to know and to do.
func said(r enroll.Restored) string {
	var text strings.Builder
	if len(r.Paused) > 0 {
		text.WriteString("paused, because they remove, and may have done so after the backup:\n")
		for _, t := range r.Paused {
			spec := t.GetSpec()
			kind := task.KindWord(spec.GetKind())
			fmt.Fprintf(&text, "  %s  %s %s, of %s\n", t.GetId(), kind, mover.Printable(cmp.Or(spec.GetTarget(), spec.GetSource())), mover.Printable(t.GetOwner().GetName()))
		}
		text.WriteString("  datamove task resume ID does it, datamove task cancel ID does not\n")
	}
	if r.Tokens > 0 {
		fmt.Fprintf(&text, "void: %d tokens to join with; datamove agent token makes new ones\n", r.Tokens)
	}
	if r.Nodes > 0 {
		fmt.Fprintf(&text, "kept out: %d nodes that were cut off or forgotten\n", r.Nodes)
	}
	return text.String()
}

// markName is a file that is there while a restore has not come to its end.
const markName = "restoring"

// restoring marks a directory while a restore is under way.
func restoring(dir string, body func() (string, error)) (string, error) {
	mark := filepath.Join(dir, markName)
	f, err := os.OpenFile(mark, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	if err := errors.Join(f.Close(), atomicfile.SyncDir(dir)); err != nil {
		return "", err
	}
	// With the mark, a ledger is what an earlier restore has left.
	if err := os.RemoveAll(filepath.Join(dir, "ledger")); err != nil {
		return "", err
	}
	what, err := body()
	if err != nil {
		return "", err
	}
	return what, errors.Join(os.Remove(mark), atomicfile.SyncDir(dir))
}

// restored says of a directory in which a restore was interrupted that it is nothing
// to work with.
func restored(dir string) error {
	_, err := os.Stat(filepath.Join(dir, markName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%w: a restore was interrupted, or failed", mover.ErrCorrupt)
	}
	return &mover.Error{Op: "use the directory", Location: dir, Err: err}
}

// magic of a tar file, and where it stands.
const (
	tarMagic = "ustar"
	tarAt    = 257
)

// unpack restores either kind of backup, and says which it was.
func unpack(dir string, r *bufio.Reader) (string, error) {
	head, err := r.Peek(tarAt + len(tarMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if !bytes.HasSuffix(head, []byte(tarMagic)) {
		return "the ledger", state.Restore(filepath.Join(dir, "ledger"), r, nil)
	}
	u := &unpacker{Reader: tar.NewReader(r), dir: dir, sum: sha256.New()}
	return u.all()
}

type unpacker struct {
	*tar.Reader
	dir    string
	sum    hash.Hash
	about  about
	files  int
	proven bool // the sum was right
}

func (u *unpacker) all() (string, error) {
	root, err := os.OpenRoot(u.dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	for {
		h, err := u.Next()
		if errors.Is(err, io.EOF) {
			return "", fmt.Errorf("%w: it ends before the ledger", mover.ErrCorrupt)
		}
		if err != nil {
			return "", fmt.Errorf("%w: %w", mover.ErrCorrupt, err)
		}
		if h.Name == ledgerEntry {
			return u.ledger()
		}
		if err := u.entry(root, h); err != nil {
			return "", err
		}
	}
}

// ledger comes last, when all it names is there.
func (u *unpacker) ledger() (string, error) {
	if !u.proven {
		return "", fmt.Errorf("%w: there is no sum in it", mover.ErrCorrupt)
	}
	if err := state.Restore(filepath.Join(u.dir, "ledger"), u, nil); err != nil {
		return "", err
	}
	return fmt.Sprintf("the state of %s as of %s, %d files beside the ledger", u.about.Node, u.about.Time.Format("2006-01-02 15:04:05 MST"), u.files), nil
}

func (u *unpacker) entry(root *os.Root, h *tar.Header) error {
	if h.Name == sumEntry {
		want, err := io.ReadAll(io.LimitReader(u, sha256.Size+1))
		if err == nil && !bytes.Equal(want, u.sum.Sum(nil)) {
			err = fmt.Errorf("%w: it is not what was written", mover.ErrCorrupt)
		}
		u.proven = err == nil
		return err
	}
	_, _ = io.WriteString(u.sum, h.Name+"\x00") // a hash takes everything
	body := io.TeeReader(u, u.sum)
	switch {
	case h.Name == aboutEntry:
		text, err := io.ReadAll(io.LimitReader(body, maxAbout))
		if err == nil {
			err = json.Unmarshal(text, &u.about)
		}
		if err != nil || u.about.Format != archiveFormat {
			return fmt.Errorf("%w: it is of the format %s, not %s", mover.ErrUnsupported, mover.Printable(u.about.Format), archiveFormat)
		}
		return nil
	case u.about.Format == "" || !restorable(h):
		return fmt.Errorf("%w: %s is nothing that a backup has", mover.ErrCorrupt, mover.Printable(h.Name))
	}
	u.files++
	return put(root, h.Name, body)
}

// put writes a file whole. One that is there with the same name is replaced: a restore
// that was interrupted left it, for where there is a ledger nothing is restored.
func put(root *os.Root, name string, r io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := atomicfile.CreateIn(root, name, atomicfile.Options{Draft: path.Base(name) + ".new"})
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err = io.Copy(f, r); err != nil {
		return err
	}
	return f.Publish()
}
