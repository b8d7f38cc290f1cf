package replicate

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
	"datamove.dev/tiering/checkpoint"
)

// world is a site whose places are real: directories, and a server of S3.
type world struct {
	testing.TB
	site *Site
	dir  string
	old  bool // what is saved looks as if it had been an hour ago
}

func newWorld(t testing.TB) *world {
	dir := t.TempDir()
	return &world{TB: t, site: &Site{Open: openHere, Request: requestIn(dir), Trust: Trust}, dir: dir}
}

var openHere = backend.Resolver{}.Open

func requestIn(dir string) engine.Request {
	return engine.Request{StateDir: filepath.Join(dir, "state")}
}

func (w *world) at(name string) string { return filepath.Join(w.dir, name) }

func (w *world) folder(where string, p checkpoint.Profile) *Folder {
	w.Helper()
	l, err := location.Parse(where)
	must.Do(w, err)
	f, err := w.site.Folder(w.Context(), l, p, true)
	must.Do(w, err)
	w.Cleanup(func() { _ = f.Close() })
	return f
}

// save makes a checkpoint of PyTorch: shards with a text each, and .metadata.
func (w *world) save(dir, name string, shards ...string) {
	w.Helper()
	at := filepath.Join(w.at(dir), name)
	must.Do(w, os.MkdirAll(at, 0o755))
	for i, text := range shards {
		must.Do(w, os.WriteFile(filepath.Join(at, fmt.Sprintf("__%d_0.distcp", i)), []byte(text), 0o644))
	}
	must.Do(w, os.WriteFile(filepath.Join(at, ".metadata"), []byte("of "+name), 0o644))
	if w.old {
		when := time.Now().Add(-time.Hour)
		must.Do(w, filepath.WalkDir(at, func(p string, d fs.DirEntry, err error) error {
			return errors.Join(err, os.Chtimes(p, when, when))
		}))
	}
}

// has is what a directory has, by name.
func has(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must.Do(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, readErr := os.ReadFile(p)
			name, _ := filepath.Rel(dir, p)
			if err = readErr; filepath.Base(p) != checkpoint.Committed && !strings.HasPrefix(d.Name(), mover.TempPrefix) {
				all[name] = string(text)
			}
		}
		return err
	}))
	return all
}

func same(t testing.TB, what, a, b string) {
	t.Helper()
	if x, y := has(t, a), has(t, b); !maps.Equal(x, y) {
		t.Errorf("%s: %s has %q\n%s has %q", what, a, slices.Sorted(maps.Keys(x)), b, slices.Sorted(maps.Keys(y)))
	}
}

// newest is the newest checkpoint that is verified somewhere; "" is none.
func (w *world) newest(f *Folder) string {
	w.Helper()
	for c := range Candidates(w.Context(), []*Folder{f}, Want{Verified: true}, func(*Folder, string, string) {}) {
		return c.Name
	}
	return ""
}

// big is more than linkLeast.
func big(what string) string { return strings.Repeat(what, linkLeast/len(what)+1) }

// TestCarry: from a disk to a disk, on to another, to a store and back: whole, verified, and once.
func TestCarry(t *testing.T) {
	server := s3test.Start(t, false)
	t.Setenv("AWS_ENDPOINT_URL_S3", server.Endpoint)
	t.Setenv("AWS_ACCESS_KEY_ID", server.Access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.Secret)
	w := newWorld(t)
	w.old = true // a store says of an object when it came, and not when it was written
	w.save("nvme", "step_10", "alpha", "beta")
	places := []string{w.at("nvme"), w.at("peer"), w.at("pfs"), "s3://" + server.Bucket + "/run", w.at("back")}
	for i := range places[1:] {
		from, to := w.folder(places[i], checkpoint.DCP), w.folder(places[i+1], checkpoint.DCP)
		r, err := w.site.Carry(t.Context(), from, "step_10", to, nil)
		must.Do(t, err)
		if r.Already || r.Level < mover.Server || r.Sent == 0 {
			t.Errorf("to %s: %+v", to, r)
		}
		if r, err = w.site.Carry(t.Context(), from, "step_10", to, nil); err != nil || !r.Already {
			t.Errorf("to %s again: %+v, %v", to, r, err)
		}
		if got := w.newest(to); got != "step_10" {
			t.Errorf("%s: %q is the newest", to, got)
		}
	}
	same(t, "the way round", w.at("nvme"), w.at("back"))
}

// TestAgain: a name that is saved again is exchanged on a disk, whole for whole; in a store it stays what it was.
//
//safety:5/jobs with TestRestore
func TestAgain(t *testing.T) {
	server := s3test.Start(t, false)
	t.Setenv("AWS_ENDPOINT_URL_S3", server.Endpoint)
	t.Setenv("AWS_ACCESS_KEY_ID", server.Access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.Secret)
	w := newWorld(t)
	from, disk, store := w.folder(w.at("nvme"), checkpoint.DCP), w.folder(w.at("pfs"), checkpoint.DCP), w.folder("s3://"+server.Bucket+"/run", checkpoint.DCP)
	w.save("nvme", "last", "one", "two", "three")
	for _, to := range []*Folder{disk, store} {
		_, err := w.site.Carry(t.Context(), from, "last", to, nil)
		must.Do(t, err)
	}
	must.Do(t, os.RemoveAll(w.at("nvme/last")))
	w.save("nvme", "last", "four", "five")
	r, err := w.site.Carry(t.Context(), from, "last", disk, nil)
	must.Do(t, err)
	if r.Already {
		t.Error("another save was taken for the same")
	}
	same(t, "exchanged", w.at("nvme"), w.at("pfs"))
	if _, err := w.site.Carry(t.Context(), from, "last", store, nil); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("in the store: %v", err)
	}
	_, err = w.site.Carry(t.Context(), store, "last", w.folder(w.at("back"), checkpoint.DCP), nil)
	must.Do(t, err)
	if got := has(t, w.at("back/last")); got["__2_0.distcp"] != "three" {
		t.Errorf("the store has %q", got)
	}
}

// TestComesAgain: a run that was rolled back saves a step again that a store has of what was left behind: that goes, where two newer ones are verified there, and else it stays.
func TestComesAgain(t *testing.T) {
	server := s3test.Start(t, false)
	t.Setenv("AWS_ENDPOINT_URL_S3", server.Endpoint)
	t.Setenv("AWS_ACCESS_KEY_ID", server.Access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.Secret)
	w := newWorld(t)
	from, store := w.folder(w.at("nvme"), checkpoint.DCP), w.folder("s3://"+server.Bucket+"/run", checkpoint.DCP)
	began, saves := time.Now().Add(-time.Hour), 0
	bring := func(name, text string) error {
		must.Do(t, os.RemoveAll(w.at("nvme/"+name)))
		w.save("nvme", name, text)
		saves++
		for _, file := range []string{"__0_0.distcp", ".metadata"} {
			when := began.Add(time.Duration(saves) * time.Minute)
			must.Do(t, os.Chtimes(w.at("nvme/"+name+"/"+file), when, when))
		}
		_, err := w.site.Carry(t.Context(), from, name, store, nil)
		return err
	}
	for _, name := range []string{"step_4000", "step_5000", "step_3900"} {
		must.Do(t, bring(name, "first"))
	}
	if err := bring("step_5000", "again"); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("one of the newest two is exchanged: %v", err)
	}
	// Of the newest two, for which it would go, one is damaged.
	w.aged(store, "step_3900")
	must.Do(t, w.site.putText(t.Context(), store.child("step_3900/__0_0.distcp"), []byte("other")))
	if err := bring("step_4000", "again"); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("one of the newest two that are whole is exchanged: %v", err)
	}
	must.Do(t, bring("step_5100", "first"))
	must.Do(t, bring("step_4000", "again"))
	_, err := w.site.Carry(t.Context(), store, "step_4000", w.folder(w.at("back"), checkpoint.DCP), nil)
	if got := has(t, w.at("back/step_4000"))["__0_0.distcp"]; err != nil || got != "again" || w.newest(store) != "step_4000" {
		t.Errorf("the store has %q, and its newest is %s: %v", got, w.newest(store), err)
	}
}

// TestAdded: what is written into a checkpoint after its save comes after it, to a store, too, and the copy that was there stays what it was.
func TestAdded(t *testing.T) {
	server := s3test.Start(t, false)
	t.Setenv("AWS_ENDPOINT_URL_S3", server.Endpoint)
	t.Setenv("AWS_ACCESS_KEY_ID", server.Access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.Secret)
	w := newWorld(t)
	w.old = true
	w.save("nvme", "step_1", "alpha", "beta")
	from := w.folder(w.at("nvme"), checkpoint.DCP)
	for _, where := range []string{w.at("pfs"), "s3://" + server.Bucket + "/run"} {
		to := w.folder(where, checkpoint.DCP)
		must.Do(t, os.RemoveAll(w.at("nvme/step_1/eval.json")))
		_, err := w.site.Carry(t.Context(), from, "step_1", to, nil)
		must.Do(t, err)
		must.Do(t, os.WriteFile(w.at("nvme/step_1/eval.json"), []byte("{}"), 0o644))
		r, err := w.site.Carry(t.Context(), from, "step_1", to, nil)
		if err != nil || r.Already || w.newest(to) != "step_1" {
			t.Errorf("%s: %+v, %v; %q is the newest", where, r, err, w.newest(to))
		}
		back := w.at("back" + filepath.Base(where))
		_, err = w.site.Carry(t.Context(), to, "step_1", w.folder(back, checkpoint.DCP), nil)
		must.Do(t, err)
		same(t, "what came back", w.at("nvme"), back)
	}
}

// TestIdentical: a shard that is the same as that of the checkpoint before is not sent, and one that is as long and differs in a byte is.
//
//safety:5/jobs with TestRestore
func TestIdentical(t *testing.T) {
	server := s3test.Start(t, false)
	t.Setenv("AWS_ENDPOINT_URL_S3", server.Endpoint)
	t.Setenv("AWS_ACCESS_KEY_ID", server.Access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.Secret)
	for what, where := range map[string]string{"disk": "", "store": "s3://" + server.Bucket + "/run"} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			if where == "" {
				where = w.at("pfs")
			}
			from, to := w.folder(w.at("nvme"), checkpoint.DCP), w.folder(where, checkpoint.DCP)
			w.save("nvme", "step_1", big("frozen"), big("moves1"), "small")
			_, err := w.site.Carry(t.Context(), from, "step_1", to, nil)
			must.Do(t, err)
			w.save("nvme", "step_2", big("frozen"), big("moves2"), "small")
			r, err := w.site.Carry(t.Context(), from, "step_2", to, nil)
			must.Do(t, err)
			if n := int64(len(big("frozen"))); r.Linked != n || r.Sent >= 2*n {
				t.Errorf("%+v", r)
			}
			must.Do(t, w.site.Remove(t.Context(), Tier{Folder: to, saves: map[string]string{"step_1": saveIn(t, to, "step_1")}}, "step_1"))
			if got := w.newest(to); got != "step_2" {
				t.Errorf("%q is the newest", got)
			}
			_, err = w.site.Carry(t.Context(), to, "step_2", w.folder(w.at("back"), checkpoint.DCP), nil)
			must.Do(t, err)
			same(t, "the one that is left", w.at("nvme/step_2"), w.at("back/step_2"))
		})
	}
}

func saveIn(t testing.TB, f *Folder, name string) string {
	t.Helper()
	found, is, err := checkpoint.Look(t.Context(), f, f.Profile, name)
	if err != nil || !is {
		t.Fatalf("%s: %v, %v", name, is, err)
	}
	return SaveOf(found)
}

// TestBuiltBefore: what an earlier try has left looks as it should, and is not what the record of the source says: it is read, and
// is no copy. The next try brings all of it.
func TestBuiltBefore(t *testing.T) {
	w := newWorld(t)
	from, to := w.folder(w.at("nvme"), checkpoint.DCP), w.folder(w.at("pfs"), checkpoint.DCP)
	w.save("nvme", "step_1", "alpha", "beta")
	_, err := w.site.Commit(t.Context(), from, "step_1", nil)
	must.Do(t, err)
	source, left := w.at("nvme/step_1/__0_0.distcp"), w.at("pfs/step_1"+building+"/__0_0.distcp")
	st, err := os.Stat(source)
	must.Do(t, err)
	must.Do(t, os.MkdirAll(filepath.Dir(left), 0o755))
	must.Do(t, os.WriteFile(left, []byte("ALPHA"), 0o644))
	must.Do(t, os.Chtimes(left, st.ModTime(), st.ModTime()))
	if _, err := w.site.Carry(t.Context(), from, "step_1", to, nil); !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	if all := has(t, w.at("pfs")); len(all) > 0 {
		t.Errorf("there is %q", all)
	}
	_, err = w.site.Carry(t.Context(), from, "step_1", to, nil)
	must.Do(t, err)
	same(t, "the next try", w.at("nvme/step_1"), w.at("pfs/step_1"))
}

// TestWrittenMeanwhile: what changes, or goes, while it is copied, is not there afterwards, and what was there before is still.
//
//safety:5/jobs checkpoints that are saved over, removed or mixed up while they are copied; a target that is away; a watch that is killed at any instant: what has its name at a target is whole
func TestWrittenMeanwhile(t *testing.T) {
	for _, row := range []struct {
		what string
		do   func(w *world)
		want error
	}{
		{"rewritten in place", func(w *world) {
			must.Do(w, os.WriteFile(w.at("nvme/step_2/__1_0.distcp"), []byte("other"), 0o644))
		}, mover.ErrChanged},
		{"another file", func(w *world) {
			must.Do(w, os.WriteFile(w.at("nvme/step_2/__9_0.distcp"), []byte("other"), 0o644))
		}, mover.ErrChanged},
		{"one shard is of the step before", func(w *world) {
			must.Do(w, os.Rename(w.at("nvme/step_1/__0_0.distcp"), w.at("nvme/step_2/__0_0.distcp")))
		}, mover.ErrChanged},
		{"removed", func(w *world) { must.Do(w, os.RemoveAll(w.at("nvme/step_2"))) }, ErrSuperseded},
		{"half removed", func(w *world) { must.Do(w, os.Remove(w.at("nvme/step_2/__0_0.distcp"))) }, mover.ErrChanged},
	} {
		t.Run(row.what, func(t *testing.T) {
			w := newWorld(t)
			from, to := w.folder(w.at("nvme"), checkpoint.DCP), w.folder(w.at("pfs"), checkpoint.DCP)
			w.save("nvme", "step_1", "alpha", "beta_")
			_, err := w.site.Carry(t.Context(), from, "step_1", to, nil)
			must.Do(t, err)
			w.save("nvme", "step_2", "gamma", "delta")
			_, err = w.site.Carry(t.Context(), from, "step_2", to, func(s checkpoint.State) {
				if s == checkpoint.Copying {
					row.do(w)
				}
			})
			if !errors.Is(err, row.want) {
				t.Errorf("%v", err)
			}
			if got := w.newest(to); got != "step_1" {
				t.Errorf("%q is the newest", got)
			}
			if _, err := os.Stat(w.at("pfs/step_2")); err == nil {
				t.Error("it is at the target")
			}
		})
	}
}

// TestRestore: the newest comes from the nearest that has it; what is damaged there is taken from the next, and then the one before.
//
//safety:5/jobs copies that are damaged, with size and time as before; other saves of one name; files that share their bytes, of which one checkpoint goes
func TestRestore(t *testing.T) {
	w := newWorld(t)
	nvme := w.folder(w.at("nvme"), checkpoint.DCP)
	w.save("nvme", "step_1", "alpha", "beta")
	w.save("nvme", "step_2", "gamma", "delta")
	near, far := w.folder(w.at("near"), checkpoint.DCP), w.folder(w.at("far"), checkpoint.DCP)
	for _, to := range []*Folder{near, far} {
		for _, name := range []string{"step_1", "step_2"} {
			_, err := w.site.Carry(t.Context(), nvme, name, to, nil)
			must.Do(t, err)
		}
	}
	corrupt := func(dir string) { // as long, and at the same time
		at := w.at(dir + "/step_2/__0_0.distcp")
		info := must.Get(os.Stat(at))(t)
		must.Do(t, os.WriteFile(at, []byte("GAMMA"), 0o644))
		must.Do(t, os.Chtimes(at, info.ModTime(), info.ModTime()))
	}
	for i, row := range []struct {
		what string
		do   func()
		want string // name, and where it is from
		why  int    // that were passed over
	}{
		{"the nearest", func() {}, "step_2 near", 0},
		{"the next", func() { corrupt("near") }, "step_2 far", 1},
		{"the one before", func() { corrupt("far") }, "step_1 near", 2},
		{"torn", func() { must.Do(t, os.Remove(w.at("near/step_1/__0_0.distcp"))) }, "step_1 far", 3},
	} {
		row.do()
		var why []string
		to := w.folder(w.at(fmt.Sprint("new", i)), checkpoint.DCP)
		r, err := w.site.Restore(t.Context(), []*Folder{near, far}, Want{}, to, func(f *Folder, name, text string) { why = append(why, name+": "+text) })
		must.Do(t, err)
		if got := r.Name + " " + filepath.Base(r.Folder.String()); got != row.want || len(why) != row.why {
			t.Errorf("%s: %s, %q", row.what, got, why)
		}
		same(t, row.what, filepath.Join(w.at("nvme"), r.Name), filepath.Join(w.at(fmt.Sprint("new", i)), r.Name))
	}
	_, err := w.site.Restore(t.Context(), []*Folder{near, far}, Want{Step: 7}, w.folder(w.at("none"), checkpoint.DCP), func(*Folder, string, string) {})
	if !errors.Is(err, mover.ErrNotExist) || !strings.Contains(err.Error(), "step 7") {
		t.Errorf("%v", err)
	}
}

// TestCommit: what is committed is complete, and what somebody writes meanwhile, or has written since, is not.
func TestCommit(t *testing.T) {
	w := newWorld(t)
	must.Do(t, os.MkdirAll(w.at("run/a/deep"), 0o755))
	must.Do(t, os.WriteFile(w.at("run/a/deep/x"), []byte("x"), 0o644))
	f := w.folder(w.at("run"), checkpoint.Plain)
	c, err := w.site.Commit(t.Context(), f, "a", []string{"best"})
	must.Do(t, err)
	if len(c.Files) != 1 || !c.Files[0].HasCRC || c.Files[0].Name != "deep/x" {
		t.Errorf("%+v", c)
	}
	found, err := f.look(t.Context(), "a")
	if err != nil || !found.Complete || !slices.Equal(found.Commit.Tags, []string{"best"}) {
		t.Errorf("%+v, %v", found.Set, err)
	}
	if got := w.newest(f); got != "" {
		t.Errorf("%q is no copy that was checked", got)
	}
	to := w.folder(w.at("pfs"), checkpoint.Plain)
	_, err = w.site.Carry(t.Context(), f, "a", to, nil)
	must.Do(t, err)
	if got := w.newest(to); got != "a" {
		t.Errorf("the copy is %q", got)
	}
	c, err = w.site.Commit(t.Context(), to, "a", []string{"paper"})
	if err != nil || !c.Verified() || !slices.Equal(c.Tags, []string{"best", "paper"}) {
		t.Errorf("tags of a copy: %+v, %v", c, err)
	}
	must.Do(t, os.WriteFile(w.at("run/a/deep/x"), []byte("yy"), 0o644))
	if _, err = w.site.Carry(t.Context(), f, "a", to, nil); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("what was written since: %v", err)
	}
	if _, err := w.site.Commit(t.Context(), f, "none", nil); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}

// BenchmarkDecision: of a thousand checkpoints in each of three places, of which the newer half is torn, which one is restored, and from where.
func BenchmarkDecision(b *testing.B) {
	w := newWorld(b)
	var folders []*Folder
	for _, dir := range []string{"a", "b", "c"} {
		for i := range 1000 {
			at := w.at(fmt.Sprintf("%s/step_%d", dir, i+1))
			must.Do(b, os.MkdirAll(at, 0o755))
			for r := range 8 {
				must.Do(b, os.WriteFile(filepath.Join(at, fmt.Sprintf("__%d_0.distcp", r)), []byte("x"), 0o644))
			}
			if i < 500 {
				must.Do(b, os.WriteFile(filepath.Join(at, ".metadata"), []byte("x"), 0o644))
			}
		}
		folders = append(folders, w.folder(w.at(dir), checkpoint.DCP))
	}
	for b.Loop() {
		passed := 0
		for c := range Candidates(b.Context(), folders, Want{}, func(*Folder, string, string) { passed++ }) {
			if c.Name != "step_500" || passed != 1500 {
				b.Fatalf("%s, %d passed over", c.Name, passed)
			}
			break
		}
	}
}

// TestSingleFile: a checkpoint that is one file has its record beside it, last, wherever it goes: one that was saved again, or damaged, is not what the record says.
//
//safety:5/jobs with TestRestore
func TestSingleFile(t *testing.T) {
	server := s3test.Start(t, false)
	t.Setenv("AWS_ENDPOINT_URL_S3", server.Endpoint)
	t.Setenv("AWS_ACCESS_KEY_ID", server.Access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.Secret)
	w := newWorld(t)
	const name = "model--step=100.nemo"
	save := func(dir, text string, ago time.Duration) {
		must.Do(t, os.MkdirAll(w.at(dir), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(w.at(dir), name), []byte(text), 0o644))
		must.Do(t, os.Chtimes(filepath.Join(w.at(dir), name), time.Now(), time.Now().Add(-ago)))
	}
	save("nvme", whole("one"), 2*time.Hour)
	places := []string{w.at("nvme"), w.at("pfs"), "s3://" + server.Bucket + "/run", w.at("back")}
	for i := range places[1:] {
		from, to := w.folder(places[i], checkpoint.NeMo), w.folder(places[i+1], checkpoint.NeMo)
		r, err := w.site.Carry(t.Context(), from, name, to, nil)
		must.Do(t, err)
		if r.Already || r.Level < mover.Server {
			t.Errorf("to %s: %+v", to, r)
		}
		if r, err = w.site.Carry(t.Context(), from, name, to, nil); err != nil || !r.Already {
			t.Errorf("to %s again: %+v, %v", to, r, err)
		}
		if got := w.newest(to); got != name {
			t.Errorf("%s: %q is the newest", to, got)
		}
	}
	if got := has(t, w.at("back"))[name]; got != whole("one") {
		t.Errorf("back came %q", got)
	}

	nvme, pfs := w.folder(w.at("nvme"), checkpoint.NeMo), w.folder(w.at("pfs"), checkpoint.NeMo)
	save("nvme", whole("two"), time.Hour)
	_, err := w.site.Carry(t.Context(), nvme, name, pfs, nil)
	must.Do(t, err)
	if has(t, w.at("pfs"))[name] != whole("two") || w.newest(pfs) != name {
		t.Error("what was saved again did not come")
	}
	save("pfs", whole("other"), time.Minute)
	if got := w.newest(pfs); got != "" {
		t.Errorf("what is not what the record says is verified: %q", got)
	}
	at := filepath.Join(w.at("back"), name) // damaged, with its size and time
	info, err := os.Stat(at)
	must.Do(t, err)
	must.Do(t, os.WriteFile(at, []byte(whole("0ne")), 0o644))
	must.Do(t, os.Chtimes(at, info.ModTime(), info.ModTime()))
	if _, err := w.site.Carry(t.Context(), w.folder(w.at("back"), checkpoint.NeMo), name, w.folder(w.at("away"), checkpoint.NeMo), nil); !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("what is damaged goes on: %v", err)
	}
	if left := has(t, w.at("away")); len(left) != 0 {
		t.Errorf("it has left %v", left)
	}
	_, err = w.site.Commit(t.Context(), nvme, name, []string{"best"})
	must.Do(t, err)
	if found, is, err := checkpoint.Look(t.Context(), nvme, checkpoint.NeMo, name); err != nil || !is || !found.Complete || found.Commit == nil || !slices.Equal(found.Commit.Tags, []string{"best"}) {
		t.Errorf("committed: %+v, %v", found.Set, err)
	}
	tier, e := w.tier("nvme"), Expiry{Save: Save{name, saveIn(t, nvme, name)}, Keep: mover.KeptName + "/r"}
	must.Do(t, w.site.Expire(t.Context(), tier, "", e))
	if top, err := nvme.Top(t.Context()); err != nil || len(top.Entries) > 0 {
		t.Errorf("expired, and %v is there still, %v", top.Entries, err)
	}
	must.Do(t, w.site.Return(t.Context(), tier, "", e))
	if found, is, err := checkpoint.Look(t.Context(), nvme, checkpoint.NeMo, name); err != nil || !is || found.Commit == nil {
		t.Errorf("came back: %+v, %v", found.Set, err)
	}
	for _, where := range []string{w.at("back"), places[2]} {
		f := w.folder(where, checkpoint.NeMo)
		must.Do(t, w.site.Remove(t.Context(), Tier{Folder: f, saves: map[string]string{name: saveIn(t, f, name)}}, name))
		if top, err := f.Top(t.Context()); err != nil || len(top.Entries) > 0 {
			t.Errorf("%s has %v still, %v", where, top.Entries, err)
		}
	}
}

// whole is what a NeMo file has to look like: a tar archive with an end.
func whole(text string) string {
	var b strings.Builder
	out := tar.NewWriter(&b)
	_ = out.WriteHeader(&tar.Header{Name: "model_weights.ckpt", Size: int64(len(text)), Mode: 0o644})
	_, _ = out.Write([]byte(text))
	_ = out.Close()
	return b.String()
}
