package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
)

// Record is what a prolog leaves for the tasks of its job, and for later checks whether the job is there. Every user may read it.
type Record struct {
	Version int       `json:"version"`
	Job     uint32    `json:"job"`
	UID     uint32    `json:"uid"`
	Dir     string    `json:"dir,omitempty"`
	Links   []Link    `json:"links,omitempty"`
	Copies  []string  `json:"copies,omitempty"` // names of what was copied into the directory
	Began   time.Time `json:"began"`
	Renewed time.Time `json:"renewed,omitzero"` // when what it holds was renewed last
	Seen    bool      `json:"seen,omitempty"`   // a step was here that lasts as long as the job
	Ended   bool      `json:"ended,omitempty"`  // its epilog ran, and has left the directory for what is to leave it

	Capacity Capacity `json:"capacity,omitzero"`
}

const (
	recordVersion = 1
	recordMost    = 1 << 20 // bytes
)

func (s *Site) file(j Job) string { return filepath.Join(s.State, j.Dir()+".json") }

// remember writes the record of a job. One of a boot before is not there: the directory is in memory.
func (s *Site) remember(j Job, out Outcome) error {
	return s.write(j, Record{Version: recordVersion, Job: j.ID, UID: j.UID, Dir: out.Dir, Links: out.Links, Copies: out.Copies, Capacity: s.capacityOf(j), Began: time.Now().UTC()})
}

func (s *Site) write(j Job, r Record) error { return s.put(s.file(j), r) }

// put writes a file of the state whole, or not at all.
func (s *Site) put(file string, x any) error {
	text, err := json.Marshal(x)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.State, 0o755); err != nil {
		return err
	}
	return atomicfile.Write(file, text, atomicfile.Options{Mode: 0o644, Unsynced: true, Draft: filepath.Base(file) + ".*"})
}

// recall reads the record of a job; mover.ErrNotExist when there is none.
func (s *Site) recall(j Job) (r Record, err error) {
	info, err := os.Stat(s.file(j))
	if err == nil && info.Size() > recordMost {
		err = fmt.Errorf("%w: %s has %d bytes", mover.ErrCorrupt, s.file(j), info.Size())
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(s.file(j))
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil || r.Version != recordVersion {
		return r, fmt.Errorf("%w: %s is no record of version %d", mover.ErrCorrupt, s.file(j), recordVersion)
	}
	return r, nil
}

// lockPause is between two tries to have a lock.
const lockPause = 20 * time.Millisecond

// lock keeps a job that seems to be over from being ended while it begins again. It waits for half of the patience of a hook at most:
// the prolog goes on without the lock, the others do not.
func (s *Site) lock(ctx context.Context, j Job) (unlock func(), locked bool) {
	none := func() {}
	if err := os.MkdirAll(s.State, 0o755); err != nil {
		return none, false
	}
	f, err := os.OpenFile(filepath.Join(s.State, j.Dir()+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return none, false
	}
	unlock = func() { _ = f.Close() } // which lets go of it
	for give := time.Now().Add(s.waitMost() / 2); unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil; {
		if ctx.Err() != nil || time.Now().After(give) {
			return unlock, false
		}
		time.Sleep(lockPause)
	}
	return unlock, true
}

// Waits says whether a job that has ended has left its directory here, for what is to leave it.
func (s *Site) Waits() bool {
	names, err := filepath.Glob(filepath.Join(s.State, "*.json"))
	return err == nil && slices.ContainsFunc(names, func(name string) bool {
		id, uid, ok := parseDir(strings.TrimSuffix(filepath.Base(name), ".json"))
		r, err := s.recall(Job{ID: id, UID: uid})
		return ok && err == nil && r.Ended
	})
}

// ended notes that the epilog of a job ran.
func (s *Site) ended(j Job) error {
	r, err := s.recall(j)
	if errors.Is(err, mover.ErrNotExist) { // no prolog ran
		r, err = Record{Version: recordVersion, Job: j.ID, UID: j.UID, Began: time.Now().UTC()}, nil
	}
	if err != nil {
		return err
	}
	r.Ended = true
	return s.write(j, r)
}

// forget removes the record of a job.
func (s *Site) forget(j Job) error {
	return errors.Join(ignoreGone(os.Remove(s.file(j))), ignoreGone(os.Remove(s.capacityFile(j))), ignoreGone(os.Remove(filepath.Join(s.State, j.Dir()+".lock"))))
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
