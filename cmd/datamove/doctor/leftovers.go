package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// lockName is the lock that a run holds on a folder (package posix).
const lockName = ".datamove-lock"

// The bounds of looking for leftovers: names of one folder that are looked at, and
// the age from which no process has a temporary name any more.
const (
	maxLeftovers = 100_000
	leftAfter    = 24 * time.Hour
)

// leftovers looks for what interrupted runs left in the folder itself.
func leftovers(dir string) []Finding {
	var found []Finding
	if n := oldDrafts(dir); n > 0 {
		found = append(found, warn(dir, "leftovers", units.Plural(n, "unfinished file", "unfinished files")+" of runs that were interrupted over a day ago",
			"run the same copy or sync again: it goes on with them or removes them; or remove "+filepath.Join(dir, mover.TempPrefix+"*")))
	}
	switch held, err := lockHeld(filepath.Join(dir, lockName)); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		found = append(found, warn(dir, "lock", why(err), "make "+lockName+" readable for the account that runs datamove"))
	case held:
		found = append(found, pass(dir, "lock", "a run is working here"))
	default:
		found = append(found, warn(dir, "lock", "the lock of a killed run is left; no process holds it", "run the same command again, which takes it over and removes it"))
	}
	return found
}

// oldDrafts counts temporary names without a write for a day.
func oldDrafts(dir string) (n int64) {
	f, err := os.Open(dir)
	if err != nil {
		return 0
	}
	defer f.Close()
	for seen := 0; seen < maxLeftovers; {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			if _, _, temp := mover.ParseTempName(e.Name()); !temp {
				continue
			}
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > leftAfter {
				n++
			}
		}
		seen += len(entries)
		if err == io.EOF || err != nil || len(entries) == 0 {
			break
		}
	}
	return n
}

// lockHeld asks whether anyone holds the OFD lock on a file.
func lockHeld(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		return false, fmt.Errorf("ask for its holder: %w", err)
	}
	return lock.Type != unix.F_UNLCK, nil
}
