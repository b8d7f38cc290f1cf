package kvstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Open opens or makes the store of o.Dir. The caller holds the Lock of the directory.
func Open(o badger.Options) (db *badger.DB, err error) {
	defer Caught(&err)
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := tidy(o.Dir); err != nil {
		return nil, err
	}
	if db, err = badger.Open(o); err != nil {
		return nil, Damage(err)
	}
	return db, nil
}

// Caught makes an error of a panic, with which Badger meets some kinds of damage; it is deferred.
// What Badger had open then is lost to this process.
func Caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: badger: %v", mover.ErrCorrupt, r)
	}
}

// Damage makes err the kind mover.ErrCorrupt, unless it tells of the machine and not of the store.
func Damage(err error) error {
	ofMachine := []syscall.Errno{syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM}
	if errors.Is(err, mover.ErrFull) || slices.ContainsFunc(ofMachine, func(e syscall.Errno) bool { return is(err, e) }) {
		return err
	}
	return fmt.Errorf("%w: %w", mover.ErrCorrupt, err)
}

// Kind gives err the kind that programs decide by.
func Kind(err error) error {
	if err != nil && !errors.Is(err, mover.ErrFull) && (is(err, syscall.ENOSPC) || is(err, syscall.EDQUOT)) {
		return fmt.Errorf("%w: %w", mover.ErrFull, err)
	}
	return err
}

// is reports whether err is an error of the system. Badger 4.9.6 wraps most errors as text (y.Wrap), so that only
// their words are left.
func is(err error, e syscall.Errno) bool {
	return errors.Is(err, e) || strings.Contains(err.Error(), e.Error())
}

// tidy removes logs of no bytes: a kill left them before anything was in them, and
// Badger takes them for damage.
func tidy(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		st, err := e.Info()
		if err != nil || st.Size() > 0 || ext != ".mem" && ext != ".vlog" {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Logs returns the write-ahead logs of a store, which hold what is not yet in tables, the oldest first.
func Logs(dir string) (paths []string) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".mem") {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// Reserve allocates the blocks of a log that is new, so that a disk or quota that fills up later does not end the process.
// It reports whether the log is there; not every file system can reserve.
func Reserve(log string, bytes int64) bool {
	f, err := os.OpenFile(log, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, bytes)
	return true
}

// Sync puts everything written so far on stable storage. Badger's own Sync leaves
// out the logs of full memtables that are still being written to tables, and the
// directory that names the logs. A log that is gone meanwhile is in a synced table.
func Sync(dir string) error {
	for _, path := range append(Logs(dir), dir) {
		if err := SyncFile(path); err != nil && !errors.Is(err, mover.ErrNotExist) {
			return err
		}
	}
	return nil
}

// SyncFile puts a file or a directory on stable storage.
func SyncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Log gives Badger's log to ours. Most of what it says is for its authors.
func Log(log *slog.Logger) badger.Logger {
	return storeLog{cmp.Or(log, slog.New(slog.DiscardHandler))}
}

type storeLog struct{ log *slog.Logger }

func (s storeLog) say(level slog.Level, format string, args []any) {
	ctx := context.Background() // Badger has none to give
	if s.log.Enabled(ctx, level) {
		s.log.Log(ctx, level, "badger: "+strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

func (s storeLog) Errorf(f string, a ...any)   { s.say(slog.LevelWarn, f, a) }
func (s storeLog) Warningf(f string, a ...any) { s.say(slog.LevelInfo, f, a) }
func (s storeLog) Infof(f string, a ...any)    { s.say(slog.LevelDebug, f, a) }
func (s storeLog) Debugf(string, ...any)       {}
