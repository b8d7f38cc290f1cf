package replicate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
	"datamove.dev/tiering/checkpoint"
)

// nobodyAsks is a Passed.
func nobodyAsks(*Folder, string, string) {}

// shard is the file of a checkpoint in which rows say what they have.
const shard = "/step_1/__0_0.distcp"

// TestRestoreOver: what has the name of what is restored, and is another save, or is not known to be the same, is kept aside and comes back; where that can not be, it stays, and nothing is restored.
//
//safety:5/jobs a restore onto a newer save of its name, one that is being written, damaged, or has files of others: nothing is lost
func TestRestoreOver(t *testing.T) {
	when := time.Now().Add(-time.Hour)
	cp := func(w *world) { must.Do(w, os.CopyFS(w.at("new"), os.DirFS(w.at("nvme")))) }
	aged := func(w *world) {
		for _, file := range []string{shard, "/step_1/.metadata"} {
			must.Do(w, os.Chtimes(w.at("new"+file), when, when))
		}
	}
	for _, row := range []struct {
		what  string
		there func(w *world)
		aside string // what the shard has that is kept aside; "" is none
		err   error
	}{
		{"nothing", func(*world) {}, "", nil},
		{"a newer save", func(w *world) { w.save("new", "step_1", "newer") }, "newer", nil},
		{"one that is being written", func(w *world) {
			w.save("new", "step_1", "newer")
			must.Do(w, os.Remove(w.at("new/step_1/.metadata")))
		}, "newer", nil},
		{"the same, and a file of others", func(w *world) {
			cp(w)
			aged(w)
			must.Do(w, os.WriteFile(w.at("new/step_1/notes"), nil, 0o644))
		}, "alpha", nil},
		{"the same, as it was saved there", func(w *world) { cp(w); aged(w) }, "", nil},
		{"one that looks the same", func(w *world) {
			cp(w)
			must.Do(w, os.WriteFile(w.at("new"+shard), []byte("ALPHA"), 0o644))
			aged(w)
		}, "ALPHA", nil},
		{"the same, verified", func(w *world) {
			_, err := w.site.Carry(w.Context(), w.folder(w.at("far"), checkpoint.DCP), "step_1", w.folder(w.at("new"), checkpoint.DCP), nil)
			must.Do(w, err)
		}, "", nil},
		{"a link", func(w *world) {
			w.save("else", "step_1", "newer")
			must.Do(w, os.Symlink(w.at("else/step_1"), w.at("new/step_1")))
		}, "newer", nil},
		{"a file", func(w *world) { must.Do(w, os.WriteFile(w.at("new/step_1"), []byte("x"), 0o644)) }, "x", nil},
		{"nothing can be moved aside", func(w *world) {
			w.save("new", "step_1", "newer")
			must.Do(w, os.WriteFile(w.at("new/"+mover.KeptName), nil, 0o644))
		}, "", ErrTaken},
	} {
		t.Run(row.what, func(t *testing.T) {
			w := newWorld(t)
			w.save("nvme", "step_0", "before")
			w.save("nvme", "step_1", "alpha")
			for _, file := range []string{shard, "/step_1/.metadata"} {
				must.Do(t, os.Chtimes(w.at("nvme"+file), when, when))
			}
			far, to := w.folder(w.at("far"), checkpoint.DCP), w.folder(w.at("new"), checkpoint.DCP)
			for _, name := range []string{"step_0", "step_1"} {
				_, err := w.site.Carry(t.Context(), w.folder(w.at("nvme"), checkpoint.DCP), name, far, nil)
				must.Do(t, err)
			}
			row.there(w)
			r, err := w.site.Restore(t.Context(), []*Folder{far}, Want{Verified: true, Name: "step_1"}, to, nobodyAsks)
			if row.err != nil {
				if !errors.Is(err, row.err) || !strings.Contains(err.Error(), "move it away") || has(t, w.at("new"))[shard[1:]] != "newer" {
					t.Errorf("%v; there is %q", err, has(t, w.at("new")))
				}
				return
			}
			must.Do(t, err)
			if got := w.newest(to); got != "step_1" || has(t, w.at("new"))[shard[1:]] != "alpha" {
				t.Errorf("%q is the newest, of %q", got, has(t, w.at("new")))
			}
			w.comesBack(to, r.Aside, row.aside)
		})
	}
}

// comesBack looks at what is kept aside, and brings it back.
func (w *world) comesBack(to *Folder, aside, want string) {
	w.Helper()
	if (aside == "") != (want == "") {
		w.Errorf("%q is kept aside, want %q", aside, want)
	}
	if aside == "" {
		return
	}
	if _, err := to.Unprune(); !errors.Is(err, mover.ErrConflict) {
		w.Errorf("over what was restored: %v", err)
	}
	must.Do(w, os.RemoveAll(w.at("new/step_1")))
	must.Get(to.Unprune())(w)
	text, err := os.ReadFile(w.at("new" + shard))
	if want == "x" {
		text, err = os.ReadFile(w.at("new/step_1"))
	}
	if err != nil || string(text) != want {
		w.Errorf("what is back has %q: %v", text, err)
	}
}

// TestRestoreOverFile: a checkpoint that is a single file is kept aside with its record.
//
//safety:5/jobs with TestRestoreOver
func TestRestoreOverFile(t *testing.T) {
	w := newWorld(t)
	far, to := w.folder(w.at("far"), checkpoint.NeMo), w.folder(w.at("new"), checkpoint.NeMo)
	for dir, text := range map[string]string{"far": "older", "new": "newer"} {
		must.Do(t, os.WriteFile(w.at(dir+"/a.ckpt"), []byte(text), 0o644))
		_, err := w.site.Commit(t.Context(), map[string]*Folder{"far": far, "new": to}[dir], "a.ckpt", []string{text})
		must.Do(t, err)
	}
	r, err := w.site.Restore(t.Context(), []*Folder{far}, Want{}, to, nobodyAsks)
	must.Do(t, err)
	record := checkpoint.RecordOf("a.ckpt", false)
	if reads(w.at("new/a.ckpt")) != "older" || reads(r.Aside) != "newer" || !strings.Contains(reads(filepath.Join(filepath.Dir(r.Aside), record)), "newer") || !strings.Contains(reads(w.at("new/"+record)), "older") {
		t.Errorf("restored %q, kept aside %q", reads(w.at("new/a.ckpt")), reads(r.Aside))
	}
}

// TestRestoreHere: what is to be restored to the directory that has it is there.
func TestRestoreHere(t *testing.T) {
	w := newWorld(t)
	w.save("nvme", "step_1", "alpha")
	must.Do(t, os.Symlink(w.at("nvme"), w.at("link")))
	r, err := w.site.Restore(t.Context(), []*Folder{w.folder(w.at("nvme"), checkpoint.DCP)}, Want{}, w.folder(w.at("link"), checkpoint.DCP), nobodyAsks)
	if err != nil || !r.Already || r.Aside != "" || reads(w.at("nvme/step_1/"+checkpoint.Committed)) != "" {
		t.Errorf("%+v, %v", r.Result, err)
	}
}

// TestRestoreToStore: in a store nothing can be kept aside.
//
//safety:5/jobs with TestRestoreOver
func TestRestoreToStore(t *testing.T) {
	server := s3test.Start(t, false)
	t.Setenv("AWS_ENDPOINT_URL_S3", server.Endpoint)
	t.Setenv("AWS_ACCESS_KEY_ID", server.Access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.Secret)
	w := newWorld(t)
	w.save("nvme", "step_1", "alpha")
	from, to := []*Folder{w.folder(w.at("nvme"), checkpoint.DCP)}, w.folder("s3://"+server.Bucket+"/run", checkpoint.DCP)
	for _, already := range []bool{false, true} {
		if r, err := w.site.Restore(t.Context(), from, Want{}, to, nobodyAsks); err != nil || r.Already != already {
			t.Errorf("%+v, %v", r.Result, err)
		}
	}
	w.save("nvme", "step_1", "again")
	w.save("nvme", "step_2", "beta")
	must.Do(t, w.site.putText(t.Context(), to.child(shard[1:]), []byte("other")))
	must.Do(t, w.site.putText(t.Context(), to.child("step_2/__0_0.distcp"), []byte("half")))
	for _, name := range []string{"step_1", "step_2"} {
		if _, err := w.site.Restore(t.Context(), from, Want{Name: name}, to, nobodyAsks); !errors.Is(err, ErrTaken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBringOver: a save that is brought to a tier takes the place of an older copy, and keeps aside what is newer, or was not brought there.
//
//safety:5/jobs with TestRestoreOver
func TestBringOver(t *testing.T) {
	w := newWorld(t)
	from, to := w.folder(w.at("nvme"), checkpoint.DCP), w.folder(w.at("new"), checkpoint.DCP)
	now := time.Now()
	for i, row := range []struct {
		text, own, aside string
		ago              time.Duration
	}{
		{"first", "", "", 3 * time.Hour},
		{"second", "", "", 2 * time.Hour},
		{"older", "", "second", 3 * time.Hour},
		{"third", "own", "own", time.Hour},
	} {
		w.save("nvme", "step_1", row.text)
		for _, file := range []string{shard, "/step_1/.metadata"} {
			must.Do(t, os.Chtimes(w.at("nvme"+file), now.Add(-row.ago), now.Add(-row.ago)))
		}
		if row.own != "" {
			must.Do(t, os.RemoveAll(w.at("new/step_1")))
			w.save("new", "step_1", row.own)
		}
		r, err := w.site.Bring(t.Context(), from, Save{"step_1", saveIn(t, from, "step_1")}, to, nil)
		if err != nil || reads(w.at("new"+shard)) != row.text || reads(filepath.Join(r.Aside, "__0_0.distcp")) != row.aside {
			t.Errorf("%d: %q, kept aside %q: %v", i, reads(w.at("new"+shard)), r.Aside, err)
		}
	}
}
