package replicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
	"datamove.dev/tiering/checkpoint"
)

func (w *world) tier(name string) location.Location {
	must.Do(w, os.MkdirAll(w.at(name), 0o755))
	return location.Location{Scheme: location.POSIX, Path: w.at(name)}
}

func (w *world) in(tier location.Location, name string, makes bool) *Folder {
	w.Helper()
	f, err := w.site.In(w.Context(), tier, name, checkpoint.DCP, makes)
	must.Do(w, err)
	w.Cleanup(func() { _ = f.Close() })
	return f
}

// TestBring: a checkpoint, and then the tracker that names it; one that names another stays away.
//
//safety:5/jobs with TestExpire
func TestBring(t *testing.T) {
	w := newWorld(t)
	nvme, pfs := w.tier("nvme"), w.tier("pfs")
	w.save("nvme/a/run", "step_1", "alpha")
	w.save("nvme/a/run", "step_2", "beta")
	must.Do(t, os.WriteFile(w.at("nvme/a/run/latest"), []byte("step_2"), 0o644))
	from, to := w.in(nvme, "a/run", false), w.in(pfs, "a/run", true)
	for name, tracker := range map[string]string{"step_1": "", "step_2": "step_2"} {
		must.Do(t, os.RemoveAll(w.at("pfs/a/run/latest")))
		if _, err := w.site.Bring(t.Context(), from, Save{name, "another"}, to, nil); !errors.Is(err, mover.ErrChanged) {
			t.Errorf("another save of %s: %v", name, err)
		}
		_, err := w.site.Bring(t.Context(), from, Save{name, saveIn(t, from, name)}, to, nil)
		must.Do(t, err)
		if got, _ := os.ReadFile(w.at("pfs/a/run/latest")); string(got) != tracker {
			t.Errorf("with %s came a tracker of %q", name, got)
		}
	}
	must.Do(t, os.WriteFile(w.at("pfs/a/run/latest"), []byte("step_2"), 0o644))
	same(t, "all of it", w.at("nvme"), w.at("pfs"))
}

// TestLinks: whoever puts a link on the way to a folder of a tier leads nobody who acts for somebody else anywhere.
//
//safety:5/jobs with TestExpire
func TestLinks(t *testing.T) {
	w := newWorld(t)
	tier := w.tier("pfs")
	w.save("secret/run", "step_1", "alpha")
	w.save("pfs/other/run", "step_1", "alpha")
	for link, to := range map[string]string{"pfs/away": w.at("secret"), "pfs/within": "other"} {
		must.Do(t, os.Symlink(to, w.at(link)))
		name := strings.TrimPrefix(link, "pfs/") + "/run"
		if _, err := w.site.In(t.Context(), tier, name, "", false); !errors.Is(err, mover.ErrConflict) {
			t.Errorf("%s is opened: %v", name, err)
		}
		if err := w.site.Expire(t.Context(), tier, name, Expiry{Save: Save{Name: "step_1"}, Keep: "kept"}); !errors.Is(err, mover.ErrConflict) {
			t.Errorf("%s expires: %v", name, err)
		}
	}
	must.Do(t, os.Symlink(w.at("secret"), w.at("pfs/kept")))
	e := Expiry{Save: Save{"step_1", saveIn(t, w.in(tier, "other/run", false), "step_1")}, Keep: "kept"}
	if err := w.site.Expire(t.Context(), tier, "other/run", e); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("it is kept over a link: %v", err)
	}
	if len(has(t, w.at("pfs/other"))) != 2 || len(has(t, w.at("secret"))) != 2 {
		t.Error("something has moved")
	}
}

// TestExpire: a checkpoint goes as one and comes back as it was; it stays when anything is not as it was when that was decided.
//
//safety:5/jobs checkpoints that are saved again, scanned by an agent that just restarted, torn, tagged, named by a tracker or gone between a plan and the deed, or those that stay are; links on the way to a folder, and to where it is kept; names that lead out of it; facts that are older than the event
func TestExpire(t *testing.T) {
	for _, row := range []struct {
		what string
		harm func(w *world)
		want error
	}{
		{"nothing", func(*world) {}, nil},
		{"it was saved again", func(w *world) { w.save("pfs/run", "step_1", "other") }, mover.ErrChanged},
		{"it is gone", func(w *world) { must.Do(w, os.RemoveAll(w.at("pfs/run/step_1"))) }, mover.ErrChanged},
		{"one that stays is gone", func(w *world) { must.Do(w, os.RemoveAll(w.at("pfs/run/step_3"))) }, mover.ErrChanged},
		{"one that stays is torn", func(w *world) { must.Do(w, os.Remove(w.at("pfs/run/step_3/.metadata"))) }, mover.ErrChanged},
		{"one that stays was committed, and is as it was", func(w *world) { w.commit("pfs", "run", "step_2") }, nil},
		{"one that stays was committed, and is damaged", func(w *world) { w.commit("pfs", "run", "step_2"); w.damage("pfs/run", "step_2") }, mover.ErrChanged},
		{"one that stays was saved again", func(w *world) { w.save("pfs/run", "step_2", "other") }, mover.ErrChanged},
		{"a tracker names it", func(w *world) {
			must.Do(w, os.WriteFile(w.at("pfs/run/latest"), []byte("step_1"), 0o644))
			must.Do(w, os.Remove(w.at("pfs/run/last.link")))
			must.Do(w, os.Symlink("step_1", w.at("pfs/run/last.link")))
		}, mover.ErrChanged},
		{"another one has its name", func(w *world) {
			must.Do(w, os.RemoveAll(w.at("pfs/run/step_1")))
			must.Do(w, os.Symlink("step_2", w.at("pfs/run/step_1")))
		}, mover.ErrChanged},
	} {
		t.Run(row.what, func(t *testing.T) {
			w := newWorld(t)
			tier := w.tier("pfs")
			for _, name := range []string{"step_1", "step_2", "step_3"} {
				w.save("pfs/run", name, "alpha", name)
			}
			must.Do(t, os.Symlink("step_3", w.at("pfs/run/last.link")))
			f := w.in(tier, "run", false)
			e := Expiry{Save: Save{"step_1", saveIn(t, f, "step_1")}, Relies: []Save{{"step_3", saveIn(t, f, "step_3")}, {"step_2", saveIn(t, f, "step_2")}}, Keep: mover.KeptName + "/r"}
			before := has(t, w.at("pfs"))
			row.harm(w)
			harmed := has(t, w.at("pfs"))
			if err := w.site.Expire(t.Context(), tier, "run", e); !errors.Is(err, row.want) {
				t.Fatal(err)
			}
			if row.want != nil {
				if len(has(t, w.at("pfs"))) != len(harmed) {
					t.Error("something has gone")
				}
				return
			}
			if _, err := os.Lstat(w.at("pfs/run/step_1")); !errors.Is(err, fs.ErrNotExist) {
				t.Error("it is there still")
			}
			must.Do(t, w.site.Return(t.Context(), tier, "run", e))
			if after := has(t, w.at("pfs/run")); len(after) != len(before) || after["step_1/__0_0.distcp"] != "alpha" {
				t.Errorf("came back: %v", after)
			}
			if err := w.site.Return(t.Context(), tier, "run", e); !errors.Is(err, mover.ErrNotExist) {
				t.Errorf("again: %v", err)
			}
			must.Do(t, w.site.Expire(t.Context(), tier, "run", e))
			w.save("pfs/run", "step_1", "new")
			if err := w.site.Return(t.Context(), tier, "run", e); !errors.Is(err, fs.ErrExist) {
				t.Errorf("over a new one: %v", err)
			}
			if has(t, w.at("pfs/run"))["step_1/__0_0.distcp"] != "new" {
				t.Error("the new one is gone")
			}
		})
	}
}

// TestDamaged: the newest two are damaged on both targets, as long and as old as before. Retention reads what it relies on when that was verified long ago: the older ones, which are
// whole, stay, and the damaged ones count no more. What was verified a moment ago is not read.
//
//safety:5/jobs the newest copies are damaged everywhere, with their sizes and times: retention reads what it relies on, and older ones that are whole stay
func TestDamaged(t *testing.T) {
	w := newWorld(t)
	nvme := w.folder(w.at("nvme"), checkpoint.DCP)
	var folders []*Folder
	names := []string{"step_1", "step_2", "step_3", "step_4", "step_5"}
	for _, name := range names {
		w.save("nvme", name, "alpha", name)
	}
	for _, dir := range []string{"pfs", "far"} {
		f := w.folder(w.at(dir), checkpoint.DCP)
		for _, name := range names {
			_, err := w.site.Carry(t.Context(), nvme, name, f, nil)
			must.Do(t, err)
		}
		for _, name := range names[3:] {
			w.damage(dir, name)
		}
		folders = append(folders, f)
	}
	said := func() (all string) {
		tiers, err := Judge(t.Context(), folders, checkpoint.Keep{Last: 2})
		must.Do(t, err)
		must.Do(t, w.site.Assure(t.Context(), tiers, checkpoint.Keep{Last: 2}))
		for _, tier := range tiers {
			for _, v := range tier.Verdicts {
				if !v.Keep {
					all += " " + v.Name
				}
			}
		}
		return all
	}
	if got := said(); got != " step_3 step_2 step_1 step_3 step_2 step_1" {
		t.Errorf("verified a moment ago, and%s go", got)
	}
	for _, f := range folders {
		for _, name := range names {
			w.aged(f, name)
		}
	}
	tier, relied := w.tier("pfs"), Save{"step_5", saveIn(t, folders[0], "step_5")}
	e := Expiry{Save: Save{"step_1", saveIn(t, folders[0], "step_1")}, Relies: []Save{relied}, Keep: mover.KeptName + "/r"}
	if err := w.site.Expire(t.Context(), tier, "", e); !errors.Is(err, mover.ErrChanged) || !strings.Contains(err.Error(), "step_5 does not count: __0_0.distcp has other bytes") {
		t.Errorf("a policy relies on a damaged one: %v", err)
	}
	for range 2 {
		if got := said(); got != " step_1 step_1" {
			t.Errorf("verified long ago, and%s go", got)
		}
	}
	for _, f := range folders {
		if got := w.newest(f); got != "step_3" {
			t.Errorf("%s: %q is the newest", f, got)
		}
		found, _, err := checkpoint.Look(t.Context(), f, checkpoint.DCP, "step_2")
		if err != nil || !found.Commit.ReadWithin(time.Hour, time.Now()) {
			t.Errorf("%s: nothing says that it was read: %+v, %v", f, found.Commit, err)
		}
	}
}

// TestVouched: checkpoints that were copied by others, file by file, are read when they have come. The newest two are damaged before retention ever looks: the older ones, which are whole, stay. One of
// which a record says that it was checked, and not what it had in it, as older versions wrote it, goes in its turn, and nothing goes for it.
//
//safety:5/jobs with TestDamaged
func TestVouched(t *testing.T) {
	w := newWorld(t)
	f := w.folder(w.at("pfs"), checkpoint.DCP)
	come := func(n int) {
		t.Helper()
		w.save("pfs", fmt.Sprint("step_", n), "alpha", fmt.Sprint(n))
		must.Do(t, w.site.Vouch(t.Context(), f, fmt.Sprint("step_", n), mover.Server))
	}
	goes := func() (names []string) {
		t.Helper()
		tiers := must.Get(Judge(t.Context(), []*Folder{f}, checkpoint.Keep{Last: 2}))(t)
		must.Do(t, w.site.Assure(t.Context(), tiers, checkpoint.Keep{Last: 2}))
		for _, v := range tiers[0].Verdicts {
			if !v.Keep {
				names = append(names, v.Name)
			}
		}
		return names
	}
	for n := range 5 {
		come(n)
	}
	for _, n := range []string{"step_3", "step_4"} {
		w.damage("pfs", n)
		w.aged(f, n)
	}
	if got := goes(); !slices.Equal(got, []string{"step_0"}) {
		t.Errorf("%q go", got)
	}
	w.forgets(f, "step_2")
	e := Expiry{Save: Save{"step_0", saveIn(t, f, "step_0")}, Relies: []Save{{"step_2", saveIn(t, f, "step_2")}}, Keep: mover.KeptName + "/r"}
	if err := w.site.Expire(t.Context(), w.tier("pfs"), "", e); !errors.Is(err, mover.ErrChanged) || !strings.Contains(err.Error(), "step_2 does not count: what it had in it when it came is not known") {
		t.Errorf("a policy relies on what was not read when it came: %v", err)
	}
	for _, v := range must.Get(Judge(t.Context(), []*Folder{f}, checkpoint.Keep{Last: 2}))(t)[0].Verdicts {
		if !v.Keep || v.Name == "step_2" && !v.Unread {
			t.Errorf("before anything is read again: %+v", v)
		}
	}
	if got := goes(); len(got) > 0 {
		t.Errorf("for one that was not read %q go", got)
	}
	come(5)
	come(6)
	if got := goes(); !slices.Equal(got, []string{"step_2", "step_1", "step_0"}) {
		t.Errorf("two were read, and %q go", got)
	}
	// A copy of what is there, and of which nothing is known, is made anew.
	w.save("nvme", "step_7", "alpha", "7")
	nvme := w.folder(w.at("nvme"), checkpoint.DCP)
	for _, row := range []struct{ forgets, already bool }{{false, false}, {false, true}, {true, false}, {false, true}} {
		if row.forgets {
			w.forgets(f, "step_7")
		}
		r, err := w.site.Carry(t.Context(), nvme, "step_7", f, nil)
		if err != nil || r.Already != row.already {
			t.Errorf("%+v: %+v, %v", row, r, err)
		}
	}
}

// TestReadsEachTime: where nothing is trusted, what was damaged a moment after it had come does not count.
func TestReadsEachTime(t *testing.T) {
	w := newWorld(t)
	w.site.Trust = 0
	nvme, f := w.folder(w.at("nvme"), checkpoint.DCP), w.folder(w.at("pfs"), checkpoint.DCP)
	for n := range 4 {
		w.save("nvme", fmt.Sprint("step_", n), "alpha", fmt.Sprint(n))
		_, err := w.site.Carry(t.Context(), nvme, fmt.Sprint("step_", n), f, nil)
		must.Do(t, err)
	}
	w.damage("pfs", "step_2")
	w.damage("pfs", "step_3")
	tiers := must.Get(Judge(t.Context(), []*Folder{f}, checkpoint.Keep{Last: 2}))(t)
	must.Do(t, w.site.Assure(t.Context(), tiers, checkpoint.Keep{Last: 2}))
	for _, v := range tiers[0].Verdicts {
		if !v.Keep {
			t.Errorf("%s goes", v.Name)
		}
	}
}

// TestReadsStorage: what retention relies on is read from storage, and not from the memory of this machine, which has what was copied a moment ago.
func TestReadsStorage(t *testing.T) {
	w := newWorld(t)
	w.dir, w.site.Trust = loopfs.Mount(t, loopfs.Spec{Type: "ext4", Bytes: 64 << 20}), 0
	nvme, f := w.folder(w.at("nvme"), checkpoint.DCP), w.folder(w.at("pfs"), checkpoint.DCP)
	for n := range 3 {
		w.save("nvme", fmt.Sprint("step_", n), big(fmt.Sprint("alpha", n)))
		_, err := w.site.Carry(t.Context(), nvme, fmt.Sprint("step_", n), f, nil)
		must.Do(t, err)
	}
	shards := []string{w.at("pfs/step_1/__0_0.distcp"), w.at("pfs/step_2/__0_0.distcp")}
	read := func() (size int64) {
		for _, shard := range shards {
			size += int64(len(must.Get(os.ReadFile(shard))(t)))
		}
		return size
	}
	must.Do(t, uncache(f.root, "step_1/__0_0.distcp"))
	must.Do(t, uncache(f.root, "step_2/__0_0.distcp"))
	size := read()
	before := fetched(t)
	tiers := must.Get(Judge(t.Context(), []*Folder{f}, checkpoint.Keep{Last: 2}))(t)
	must.Do(t, w.site.Assure(t.Context(), tiers, checkpoint.Keep{Last: 2}))
	if got := fetched(t) - before; got < size {
		t.Errorf("%d of %d bytes were read from storage", got, size)
	}
}

// fetched is how many bytes this process has had read from storage.
func fetched(t *testing.T) (n int64) {
	t.Helper()
	_, after, _ := strings.Cut(string(must.Get(os.ReadFile("/proc/self/io"))(t)), "\nread_bytes: ")
	if _, err := fmt.Sscan(after, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// forgets has a record say no more what a checkpoint had in it when it came.
func (w *world) forgets(f *Folder, name string) {
	w.Helper()
	found, _, err := checkpoint.Look(w.Context(), f, f.Profile, name)
	must.Do(w, err)
	c := *found.Commit
	for i := range c.Files {
		c.Files[i].HasCRC = false
	}
	must.Do(w, w.site.record(w.Context(), f, checkpoint.RecordOf(name, found.Dir), must.Get(c.Encode())(w)))
}

func (w *world) commit(tier, folder, name string) {
	w.Helper()
	_, err := w.site.Commit(w.Context(), w.in(w.tier(tier), folder, false), name, nil)
	must.Do(w, err)
}

// damage changes a shard, with its size and time.
func (w *world) damage(dir, name string) {
	w.Helper()
	at := w.at(dir + "/" + name + "/__0_0.distcp")
	info := must.Get(os.Stat(at))(w)
	must.Do(w, os.WriteFile(at, []byte(strings.Repeat("A", int(info.Size()))), 0o644))
	must.Do(w, os.Chtimes(at, info.ModTime(), info.ModTime()))
}

// aged has a record say that its checkpoint came long ago.
func (w *world) aged(f *Folder, name string) {
	w.Helper()
	found, _, err := checkpoint.Look(w.Context(), f, f.Profile, name)
	must.Do(w, err)
	c := *found.Commit
	c.Created, c.Checked = c.Created.Add(-2*Trust), time.Time{}
	text, err := c.Encode()
	must.Do(w, err)
	must.Do(w, w.site.record(w.Context(), f, checkpoint.RecordOf(name, found.Dir), text))
}

// TestUnprune: what a prune has moved aside comes back, the last one first, also of two in one second and of one that an older version has moved, unless
// something has its name by now; and it is gone when its time is over.
func TestUnprune(t *testing.T) {
	w := newWorld(t)
	f, now := w.folder(w.at("pfs"), checkpoint.DCP), time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for i, name := range []string{"step_0", "step_1", "step_2"} {
		w.save("pfs", name, "alpha", name)
		tier := Tier{Folder: f, saves: map[string]string{name: saveIn(t, f, name)}}
		w.save("pfs", name, "beta")
		if err := w.site.Aside(t.Context(), tier, name, now); !errors.Is(err, mover.ErrChanged) {
			t.Errorf("%s, saved again: %v", name, err)
		}
		tier.saves[name] = saveIn(t, f, name)
		must.Do(t, w.site.Aside(t.Context(), tier, name, now.Add(time.Duration(i))))
	}
	must.Do(t, os.Rename(w.at("pfs/"+mover.KeptName+"/prune-20260102T030405.000000006Z"), w.at("pfs/"+mover.KeptName+"/prune-20260102T030405Z")))
	if top, err := f.Top(t.Context()); err != nil || len(top.Entries) > 0 {
		t.Errorf("there is %v still, %v", top.Entries, err)
	}
	for _, want := range []string{"step_2", "step_1", "step_0"} {
		if names, err := f.Unprune(); err != nil || !slices.Equal(names, []string{want}) || has(t, w.at("pfs"))[want+"/__0_0.distcp"] != "beta" {
			t.Errorf("back came %q, want %s: %v", names, want, err)
		}
	}
	must.Do(t, w.site.Aside(t.Context(), Tier{Folder: f, saves: map[string]string{"step_1": saveIn(t, f, "step_1")}}, "step_1", now))
	w.save("pfs", "step_1", "gamma")
	if names, err := f.Unprune(); !errors.Is(err, fs.ErrExist) || len(names) > 0 || has(t, w.at("pfs"))["step_1/__0_0.distcp"] != "gamma" {
		t.Errorf("over what has its name: %q, %v", names, err)
	}
	must.Do(t, f.EndQuarantine(now.Add(-time.Minute)))
	if all, err := f.prunes(); err != nil || len(all) != 1 {
		t.Errorf("before its time is over: %q, %v", all, err)
	}
	must.Do(t, f.EndQuarantine(now.Add(time.Minute)))
	if all, err := f.prunes(); err != nil || len(all) != 0 {
		t.Errorf("its time is over: %q, %v", all, err)
	}
}

// removing has one object go at a time, and tells of each.
type removing struct {
	mover.Backend
	one   *sync.Mutex
	after func()
}

func (r removing) Unwrap() any { return r.Backend }

func (r removing) Remove(ctx context.Context, e mover.Entry, o mover.WriterID) error {
	r.one.Lock()
	defer r.one.Unlock()
	err := r.Backend.Remove(ctx, e, o)
	r.after()
	return err
}

// TestRemoveFromStore: a store removes one object after the other, and between no two of them is what is left a checkpoint.
//
//safety:5/jobs a look after each object that a store removes of a checkpoint: it is none from the first one on
func TestRemoveFromStore(t *testing.T) {
	server := s3test.Start(t, false)
	t.Setenv("AWS_ENDPOINT_URL_S3", server.Endpoint)
	t.Setenv("AWS_ACCESS_KEY_ID", server.Access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.Secret)
	w := newWorld(t)
	must.Do(t, os.MkdirAll(w.at("nvme/checkpoint-1"), 0o755))
	files := []string{"config.json", "merges.txt", "tokenizer.json", "trainer_state.json", "vocab.json"}
	for _, name := range files {
		at := w.at("nvme/checkpoint-1/" + name)
		must.Do(t, os.WriteFile(at, []byte("{}"), 0o644))
		must.Do(t, os.Chtimes(at, time.Now(), time.Now().Add(-time.Hour)))
	}
	weights := w.at("nvme/checkpoint-1/model.safetensors")
	must.Do(t, os.WriteFile(weights, []byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"), 0o644))
	must.Do(t, os.Chtimes(weights, time.Now(), time.Now().Add(-time.Hour)))
	from, to := w.folder(w.at("nvme"), checkpoint.HF), w.folder("s3://"+server.Bucket+"/run", checkpoint.HF)
	_, err := w.site.Carry(t.Context(), from, "checkpoint-1", to, nil)
	must.Do(t, err)
	var one sync.Mutex
	looks, torsos := 0, []string{}
	left := func() {
		looks++
		found, is, err := checkpoint.Look(t.Context(), to, checkpoint.HF, "checkpoint-1")
		must.Do(t, err)
		if is && found.Complete && found.Files < int64(len(files)) {
			torsos = append(torsos, fmt.Sprint(checkpoint.CommitOf(found.Tree, "checkpoint-1").Files))
		}
	}
	w.site.Open = func(ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
		p, err := openHere(ctx, l, o)
		return removing{p, &one, left}, err
	}
	must.Do(t, w.site.Remove(t.Context(), Tier{Folder: to, saves: map[string]string{"checkpoint-1": saveIn(t, to, "checkpoint-1")}}, "checkpoint-1"))
	if looks <= len(files) || len(torsos) > 0 {
		t.Errorf("after %d removals it looked complete with these alone: %q", looks, torsos)
	}
	if _, is, err := checkpoint.Look(t.Context(), to, checkpoint.HF, "checkpoint-1"); is || err != nil {
		t.Errorf("it is there still: %v", err)
	}
}

// TestExpireWorld: whatever happens to a folder between the decision and the deed, a checkpoint goes only if two others that were relied on are there, whole and the same saves, and none goes
// that is another save than the one that was meant, or that a tracker names.
//
//safety:5/jobs with TestExpire
func TestExpireWorld(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 60
	}
	gone, elsewhere := 0, t.TempDir()
	first := seed.Of(t)
	for nth := range uint64(rounds) {
		random := rand.New(rand.NewPCG(first+nth, 0))
		w := &world{TB: t, site: &Site{Open: openHere, Request: requestIn(t.TempDir())}, dir: t.TempDir()}
		tier := w.tier("pfs")
		n := 3 + random.IntN(4)
		for i := range n {
			w.save("pfs/run", fmt.Sprintf("step_%d", i), "alpha", fmt.Sprint("of ", i))
		}
		f, err := w.site.In(t.Context(), tier, "run", checkpoint.DCP, false)
		must.Do(t, err)
		saves := map[string]string{}
		for i := range n {
			name := fmt.Sprintf("step_%d", i)
			saves[name] = saveIn(t, f, name)
		}
		meant := fmt.Sprintf("step_%d", random.IntN(n-2))
		e := Expiry{Save: Save{meant, saves[meant]}, Keep: mover.KeptName + "/r"}
		for _, i := range []int{n - 1, n - 2} {
			name := fmt.Sprintf("step_%d", i)
			e.Relies = append(e.Relies, Save{name, saves[name]})
		}
		for range random.IntN(4) {
			name := fmt.Sprintf("step_%d", random.IntN(n))
			at := w.at("pfs/run/" + name)
			switch random.IntN(7) {
			case 0:
				must.Do(t, os.RemoveAll(at))
			case 1:
				must.Do(t, os.RemoveAll(at+"/.metadata"))
			case 2:
				w.save("pfs/run", name, "another")
			case 3:
				must.Do(t, os.RemoveAll(w.at("pfs/run/last")))
				must.Do(t, os.Symlink(name, w.at("pfs/run/last")))
			case 4:
				must.Do(t, os.RemoveAll(at))
				must.Do(t, os.Symlink(elsewhere, at))
			case 5:
				must.Do(t, os.RemoveAll(at+"/__1_0.distcp"))
			}
		}
		is := func(s Save) bool {
			found, there, err := checkpoint.Look(t.Context(), f, checkpoint.DCP, s.Name)
			return err == nil && there && found.Complete && SaveOf(found) == s.Save
		}
		named, _ := os.Readlink(w.at("pfs/run/last"))
		may := is(e.Save) && is(e.Relies[0]) && is(e.Relies[1]) && named != meant
		err = w.site.Expire(t.Context(), tier, "run", e)
		if (err == nil) != may || err != nil && !errors.Is(err, mover.ErrChanged) {
			t.Fatalf("case %d: it may go: %v; %v", nth, may, err)
		}
		if err == nil {
			gone++
			must.Do(t, w.site.Return(t.Context(), tier, "run", e))
			if !is(e.Save) {
				t.Fatalf("case %d: it came back as another one", nth)
			}
		}
		must.Do(t, f.Close())
	}
	if gone < rounds/20 || gone > rounds-rounds/20 {
		t.Errorf("%d of %d went: it shows nothing", gone, rounds)
	}
}
