package burstbuffer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/slurm/directive"
)

// TestRecords: what a job has asked for is read back as the same, by nobody else, until it is forgotten; a new run begins with nothing
// of the one before.
func TestRecords(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := unserved(t)
		r := w.records()
		r.dir = filepath.Join(r.dir, "deep[1]/er")
		asked, err := directive.Parse(directive.Text{Script: script("stage-in=dataset:near required", "stage-out=scratch:out to=results:%%1 when=success")}, TiersOf(w.Config))
		must.Do(t, err)
		x := Record{Job: 7, UID: 1000, GID: 100, User: "alice", Asked: asked, Began: time.Now().UTC().Round(0)}
		if _, err := r.load(7, fileJob); !errors.Is(err, mover.ErrNotExist) {
			t.Error(err)
		}
		if jobs, err := r.all(fileJob); len(jobs) > 0 || err != nil {
			t.Errorf("%v, %v", jobs, err)
		}
		for range 2 {
			must.Do(t, r.save(x))
			got, err := r.load(7, fileJob)
			x.Version = version
			if !reflect.DeepEqual(got, x) || err != nil {
				t.Errorf("%+v, %v", got, err)
			}
			for _, what := range []string{filePlace, fileReady, fileEnd, fileStaged} {
				if err := r.read(7, what, new(any)); !errors.Is(err, mover.ErrNotExist) {
					t.Errorf("%s of a run before: %v", what, err)
				}
				must.Do(t, r.write(7, what, 1))
			}
		}
		must.Do(t, r.write(8, x.ended(), x))
		must.Do(t, filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
			must.Do(t, err)
			info, err := e.Info()
			if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[e.IsDir()]; err != nil || info.Mode().Perm() != want {
				t.Errorf("%s has the mode %s", path, info.Mode())
			}
			return nil
		}))
		if jobs, err := r.all(fileJob); !slices.Equal(jobs, []file{{7, fileJob}}) || err != nil {
			t.Errorf("%v, %v", jobs, err)
		}
		for range 2 {
			must.Do(t, r.forget(7))
		}
		left, err := os.ReadDir(r.dir)
		if err != nil || len(left) != 1 || left[0].Name() != "8."+x.ended() {
			t.Errorf("%v, %v", left, err)
		}
	})
}

// TestBrokenRecords: what is not what we have written is not believed, and says which file it is.
func TestBrokenRecords(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := unserved(t)
		w.setup(7, "stage-in=dataset:near")
		name := w.path("records/7.job")
		whole := must.Get(os.ReadFile(name))(t)
		with := func(old, new string) []byte {
			if !strings.Contains(string(whole), old) {
				t.Fatalf("%s has no %s", whole, old)
			}
			return []byte(strings.Replace(string(whole), old, new, 1))
		}
		put := func(text []byte) func() error { return func() error { return os.WriteFile(name, text, 0o600) } }
		for _, row := range []struct {
			what string
			make func() error
			kind error
		}{
			{"half of one", put(whole[:len(whole)/2]), mover.ErrCorrupt},
			{"nothing", put(nil), mover.ErrCorrupt},
			{"no record", put([]byte("[]")), mover.ErrCorrupt},
			{"one of another job", put(with(`"job":7`, `"job":8`)), mover.ErrCorrupt},
			{"one of a later version", put(with(`"version":1,"job"`, `"version":2,"job"`)), mover.ErrCorrupt},
			{"one of root", put(with(`"uid":`, `"uid":0,"was":`)), mover.ErrCorrupt},
			{"one that asks for what nobody may", put(with("dataset:near", "scratch:../../near")), mover.ErrCorrupt},
			{"a large one", put([]byte(strings.Repeat(" ", fileMost+1))), mover.ErrCorrupt},
			{"a link", func() error {
				return errors.Join(os.WriteFile(w.path("elsewhere"), whole, 0o600), os.Symlink(w.path("elsewhere"), name))
			}, mover.ErrRefused},
			{"a pipe", func() error { return syscall.Mkfifo(name, 0o600) }, mover.ErrRefused},
			{"a directory", func() error { return os.Mkdir(name, 0o700) }, mover.ErrRefused},
			{"one that others may write to", func() error { return errors.Join(os.WriteFile(name, whole, 0o600), os.Chmod(name, 0o622)) }, mover.ErrRefused},
			{"one of somebody else", func() error { return errors.Join(os.WriteFile(name, whole, 0o600), os.Chown(name, 4242, 4242)) }, mover.ErrRefused},
		} {
			if row.what == "one of somebody else" && os.Geteuid() != 0 {
				continue
			}
			must.Do(t, os.RemoveAll(name))
			must.Do(t, row.make())
			if _, err := w.records().load(7, fileJob); !errors.Is(err, row.kind) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", row.what, err)
			}
			if err := w.In(t.Context(), 7); !errors.Is(err, row.kind) {
				t.Errorf("%s: In: %v", row.what, err)
			}
		}
		must.Do(t, os.RemoveAll(name))
		must.Do(t, put(whole)())
		delete(w.Config.Tiers, "scratch")
		if _, err := w.begin(7); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("a tier that is there no more: %v", err)
		}
	})
}

// TestHalfTeardown: one that is killed between two of its steps, and comes again, has the same outcome; so it has when the job is set up anew instead.
//
//safety:5/jobs with TestKilled
func TestHalfTeardown(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		kinds := []string{fileJob, filePlace, fileReady, fileEnd, fileStaged}
		for _, hurry := range []bool{false, true} {
			w := unserved(t) // its mover is away: all that it does is in the records
			for i := range 2*len(kinds) + 3 {
				killed, anew := (i+1)/2, i > 0 && i%2 == 0 // after as many steps
				w.setup(7, leaves)
				w.nodes(7, "n1")
				must.Do(t, w.Before(t.Context(), 7))
				must.Do(t, w.Ended(7, End{Status: 0}))
				x, err := w.Controller.Run(7)
				must.Do(t, err)
				x.Hurry = hurry
				steps := []func() error{func() error { return w.records().write(7, x.ended(), x) }}
				for _, what := range kinds {
					steps = append(steps, func() error { return w.records().drop(7, what) })
				}
				for _, step := range steps[:killed] {
					must.Do(t, step())
				}
				if anew {
					w.setup(7, leaves)
				} else {
					must.Do(t, w.Teardown(t.Context(), 7, hurry))
				}
				got, err := w.records().load(7, x.ended())
				if err != nil || got.Hurry != hurry {
					t.Errorf("after %d steps: %+v, %v", killed, got, err)
				}
				if now, err := w.Controller.Run(7); anew != (err == nil) || anew && now.RunID() == x.RunID() {
					t.Errorf("after %d steps: %+v, %v", killed, now, err)
				}
				must.Do(t, w.records().drop(7, x.ended()))
				must.Do(t, w.records().forget(7))
			}
		}
	})
}

// TestTidy: what was left by somebody who was killed goes when nobody can be at work on it.
func TestTidy(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := unserved(t)
		w.setup(7, "stage-in=dataset:near")
		w.nodes(7, "n1")
		stray := []string{".new-1", "8.place", "8.ready", "8.end", "8.staged"}
		others := []string{"8.ended-1", "8", "README", "x.new-1"}
		for _, name := range append(stray, others...) {
			w.write("records/"+name, "{")
		}
		names := func() (all []string) {
			entries := must.Get(os.ReadDir(w.Records))(t)
			for _, e := range entries {
				all = append(all, e.Name())
			}
			return all
		}
		before := names()
		must.Do(t, w.records().tidy(time.Now()))
		if !slices.Equal(names(), before) {
			t.Errorf("of %q there are %q", before, names())
		}
		must.Do(t, w.records().tidy(time.Now().Add(2*time.Hour)))
		want := slices.DeleteFunc(before, func(name string) bool { return slices.Contains(stray, name) })
		if !slices.Equal(names(), want) {
			t.Errorf("there are %q, want %q", names(), want)
		}
	})
}

// TestSetup: a job of root, or one that asks for what it may not, has no record; nor have hooks anything to say of a job that asks for nothing.
func TestSetup(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := unserved(t)
		own := w.job(7)
		own.UID = 0
		if err := w.Setup(own, directive.Text{Script: script("stage-in=dataset:near")}); !errors.Is(err, mover.ErrRefused) {
			t.Error(err)
		}
		if err := w.Setup(w.job(7), directive.Text{Script: script("stage-on=dataset:near")}); !errors.Is(err, mover.ErrUsage) {
			t.Error(err)
		}
		must.Do(t, w.Nodes(7, Place{Nodes: []string{"n1"}}))
		must.Do(t, w.Ended(7, End{Status: 0}))
		if left, err := os.ReadDir(w.Records); len(left) > 0 {
			t.Errorf("%v, %v", left, err)
		}
		w.setup(7, "stage-out=scratch:out to=results:50%") // as Slurm leaves 50%%
		x := must.Get(w.records().load(7, fileJob))(t)
		if got := x.Asked.Requests[0].To[0].String(); got != "results:50%%" {
			t.Errorf("%s", got)
		}
	})
}

//safety:6 with TestDeeds
func FuzzRecord(f *testing.F) {
	w := &Controller{}
	x := Record{Version: version, Job: 7, UID: 1000, User: "alice", Began: time.Unix(1, 0).UTC()}
	text, err := json.Marshal(x)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version":1,"job":7,"uid":1,"asked":{"version":1,"requests":[{"verb":"stage-in","from":"dataset:x","to":["scratch:x"]}]}}`))
	w.Records = f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		must.Do(t, os.WriteFile(w.records().file(7, fileJob), text, 0o600))
		x, err := w.records().load(7, fileJob)
		if err != nil {
			return
		}
		if x.UID == 0 || x.Job != 7 {
			t.Errorf("%q is read as %+v", text, x)
		}
		must.Do(t, w.records().write(7, fileJob, x))
		if again, err := w.records().load(7, fileJob); err != nil || !again.Began.Equal(x.Began) || !reflect.DeepEqual(again.Asked, x.Asked) {
			t.Errorf("%+v is read back as %+v, %v", x, again, err)
		}
	})
}
