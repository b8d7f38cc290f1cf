package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"datamove.dev/mover"
)

// Record is what a prolog leaves for the tasks of its job, and for who looks later whether the job is there. Everybody may read it.
type Record struct {
	Version int       `json:"version"`
	Job     uint32    `json:"job"`
	UID     uint32    `json:"uid"`
	Dir     string    `json:"dir,omitempty"`
	Links   []Link    `json:"links,omitempty"`
	Began   time.Time `json:"began"`
	Seen    bool      `json:"seen,omitempty"` // a step was here that lasts as long as the job
}

const (
	recordVersion = 1
	recordMost    = 1 << 20 // bytes
)

func (s *Site) file(j Job) string { return filepath.Join(s.State, j.Dir()+".json") }

// remember writes the record of a job. One of a boot before is not there: the directory is in memory.
func (s *Site) remember(j Job, out Outcome) error {
	return s.write(j, Record{Version: recordVersion, Job: j.ID, UID: j.UID, Dir: out.Dir, Links: out.Links, Began: time.Now().UTC()})
}

func (s *Site) write(j Job, r Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.State, 0o755); err != nil {
		return err
	}
	temporary := fmt.Sprintf("%s.%d", s.file(j), os.Getpid())
	err = os.WriteFile(temporary, text, 0o644)
	if err == nil {
		err = os.Rename(temporary, s.file(j))
	}
	if err != nil {
		return errors.Join(err, ignoreGone(os.Remove(temporary)))
	}
	return nil
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

// forget removes the record of a job.
func (s *Site) forget(j Job) error { return ignoreGone(os.Remove(s.file(j))) }

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
