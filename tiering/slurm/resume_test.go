package slurm

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// TestResume: a task hears which checkpoint it can go on from: the newest that is complete where all nodes see those that have left.
func TestResume(t *testing.T) {
	s, _, j := site(t)
	s.Patience = time.Hour // nothing here hangs
	saved := t.TempDir()
	for _, name := range []string{"step_9/.metadata", "step_10/.metadata", "step_11/__0_0.distcp"} {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(saved, name)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(saved, name), []byte("x"), 0o644))
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, unix.Mkfifo(pipe, 0o600))
	environ := []string{
		"DATAMOVE_CHECKPOINT=/nvme/ckpt", "DATAMOVE_CHECKPOINT_CKPT=/nvme/ckpt", "DATAMOVE_SAVED_CKPT=" + saved, "DATAMOVE_PROFILE_CKPT=dcp",
		"DATAMOVE_CHECKPOINT_EMA=/nvme/ema", "DATAMOVE_SAVED_EMA=" + t.TempDir(), "DATAMOVE_PROFILE_EMA=hf",
		"DATAMOVE_SAVED_GONE=/nowhere", "DATAMOVE_PROFILE_GONE=dcp", "DATAMOVE_SAVED_ODD=relative", "DATAMOVE_PROFILE_ODD=dcp",
		"DATAMOVE_SAVED_STRANGE=" + saved, "DATAMOVE_PROFILE_STRANGE=pickle", "DATAMOVE_SAVED_a b=" + saved, "DATAMOVE_SAVED_PIPE=" + pipe, "DATAMOVE_PROFILE_PIPE=dcp",
	}
	newest := filepath.Join(saved, "step_10")
	want := []string{"export DATAMOVE_RESUME_CKPT=" + newest, "unset DATAMOVE_RESUME_EMA", "unset DATAMOVE_RESUME_GONE", "unset DATAMOVE_RESUME_ODD", "unset DATAMOVE_RESUME_PIPE", "unset DATAMOVE_RESUME_STRANGE", "export DATAMOVE_RESUME=" + newest}
	if got := s.Tasks(j, environ); !slices.Equal(got[len(got)-min(len(got), len(want)):], want) {
		t.Errorf("%q", got)
	}
	if got := s.Tasks(j, nil); slices.Contains(got, "unset DATAMOVE_RESUME") {
		t.Errorf("a job without checkpoints: %q", got)
	}
}

// TestPresent: a job's directory is there, and is opened over no link.
func TestPresent(t *testing.T) {
	s, _, j := site(t)
	if all, err := s.Present(nil, time.Now()); err != nil || len(all) > 0 {
		t.Errorf("before any job: %v, %v", all, err)
	}
	out := must.Get(s.Prolog(t.Context(), j))(t)
	must.Do(t, os.Mkdir(filepath.Join(out.Dir, "ckpt"), 0o755))
	must.Do(t, os.Symlink("/etc", filepath.Join(out.Dir, "link")))
	for name, opens := range map[string]bool{"ckpt": true, "": true, "link": false, "../..": false, "none": false} {
		f, err := s.Open(j, name)
		if (err == nil) != opens {
			t.Errorf("%q: %v", name, err)
		}
		if err == nil {
			must.Do(t, f.Close())
		}
	}
	for _, row := range []struct {
		what  string
		live  map[uint32]bool
		after time.Duration
		over  bool
	}{
		{"it runs", map[uint32]bool{j.ID: true}, time.Hour, false},
		{"between two steps", nil, time.Minute, false},
	} {
		all, err := s.Present(row.live, time.Now().Add(row.after))
		if err != nil || len(all) != 1 || all[0].ID != j.ID || all[0].Over != row.over {
			t.Errorf("%s: %v, %v", row.what, all, err)
		}
	}
	must.Do(t, s.ended(j))
	if all, err := s.Present(nil, time.Now()); err != nil || len(all) != 1 || !all[0].Over {
		t.Errorf("it has ended: %v, %v", all, err)
	}
}
