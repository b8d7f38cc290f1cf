package replicate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"datamove.dev/mover/location"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	"datamove.dev/tiering/checkpoint"
)

func TestMain(m *testing.M) {
	kill.Main(map[string]func(string) error{"watch": func(where string) error {
		w := &world{site: &Site{Open: openHere, Request: requestIn(where)}, dir: where}
		return w.watch(nil, "nvme", "peer", "pfs").Run(context.Background())
	}})
	os.Exit(m.Run())
}

// watch is a watch that ends when all has left.
func (w *world) watch(tell func(Event), dir string, to ...string) *Watch {
	watch := &Watch{Site: w.site, Dir: location.Location{Scheme: location.POSIX, Path: w.at(dir)}, Settle: 20 * time.Millisecond, Every: 5 * time.Millisecond, Once: true, Tell: tell}
	for _, one := range to {
		watch.To = append(watch.To, location.Location{Scheme: location.POSIX, Path: w.at(one)})
	}
	return watch
}

// until waits for something to come true.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it has not come to that in a minute: %s", what)
		}
	}
}

// reads is what is in a file; "" is none.
func reads(file string) string {
	text, _ := os.ReadFile(file) // it may be none yet
	return string(text)
}

// TestWatch: a job saves, saves over, and removes, while a watch brings it to three places of which one is away. The two others get everything, with the tracker last, and
// retention there is held; the one that comes back gets what is kept.
//
//safety:5/jobs with TestWrittenMeanwhile
func TestWatch(t *testing.T) {
	w := newWorld(t)
	must.Do(t, os.MkdirAll(w.at("nvme"), 0o755))
	must.Do(t, os.WriteFile(w.at("away"), nil, 0o644)) // where a directory should be
	var mu sync.Mutex
	states := map[string][]checkpoint.State{} // by name and target
	watch := w.watch(func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		key := e.Name + " " + filepath.Base(e.To)
		states[key] = append(states[key], e.State)
	}, "nvme", "peer", "away", "pfs")
	watch.Once, watch.Keep, watch.Metrics = false, checkpoint.Keep{Last: 2, Every: 3}, w.at("metrics")
	ctx, stop := context.WithCancel(t.Context())
	var ended error
	var wg sync.WaitGroup
	wg.Go(func() { ended = watch.Run(ctx) })
	there := func(dir, name string) bool {
		_, err := os.Stat(w.at(filepath.Join(dir, name, checkpoint.Committed)))
		return err == nil
	}
	for i := range 7 {
		name := fmt.Sprintf("step_%d", i+1)
		w.save("nvme", name, big("frozen"), fmt.Sprint("moves", i))
		must.Do(t, os.WriteFile(w.at("nvme/latest"), []byte(name), 0o644))
		until(t, name+" has left", func() bool { return there("peer", name) && there("pfs", name) })
		if i == 3 {
			must.Do(t, os.RemoveAll(w.at("nvme/step_1"))) // it makes room
			must.Do(t, os.WriteFile(w.at("nvme/step_4/__1_0.distcp"), []byte("again"), 0o644))
			must.Do(t, os.WriteFile(w.at("nvme/step_4/.metadata"), []byte("of step_4"), 0o644))
			until(t, "step_4 was saved over, and has left", func() bool {
				return reads(w.at("pfs/step_4/__1_0.distcp")) == "again" && reads(w.at("peer/step_4/__1_0.distcp")) == "again"
			})
		}
	}
	for _, dir := range []string{"peer", "pfs"} {
		until(t, "the tracker is there", func() bool { return reads(w.at(dir+"/latest")) == "step_7" })
		until(t, "retention", func() bool { return !there(dir, "step_5") })
		for name, stays := range map[string]bool{"step_1": false, "step_2": false, "step_3": true, "step_6": true, "step_7": true} {
			if there(dir, name) != stays {
				t.Errorf("%s in %s: %v", name, dir, !stays)
			}
		}
		same(t, dir, w.at("nvme/step_7"), w.at(dir+"/step_7"))
	}
	must.Do(t, os.Remove(w.at("away")))
	until(t, "what was away gets the newest", func() bool { return there("away", "step_7") && reads(w.at("away/latest")) == "step_7" })
	if n := len(has(t, w.at("nvme"))); n != 6*3+1 {
		t.Errorf("the job's own directory has %d files", n)
	}
	stop()
	wg.Wait()
	if ended != nil {
		t.Errorf("a watch that is told to end: %v", ended)
	}
	mu.Lock()
	defer mu.Unlock()
	for key, all := range states {
		for i, s := range all[1:] {
			if strings.HasSuffix(key, " pfs") && slices.Index(all, checkpoint.Verified) >= 0 && s == checkpoint.Verified && all[i] != checkpoint.Copied {
				t.Errorf("%s: %v", key, all)
			}
		}
	}
	if got := states["step_5 pfs"]; !slices.Equal(got, []checkpoint.State{checkpoint.Copying, checkpoint.Copied, checkpoint.Verified, checkpoint.Retained, checkpoint.Expired}) {
		t.Errorf("step_5 on its way to pfs: %v", got)
	}
	text := must.Get(os.ReadFile(w.at("metrics")))(t)
	if !strings.Contains(string(text), fmt.Sprintf("datamove_checkpoint_verified_step{dir=%q,to=%q} 7", w.at("nvme"), w.at("pfs"))) {
		t.Errorf("the metrics say\n%s", text)
	}
}

// TestOnce: a watch that ends says what it could not bring, and has brought all else.
func TestOnce(t *testing.T) {
	w := newWorld(t)
	w.save("nvme", "step_1", "alpha")
	w.save("nvme", "step_2", "beta")
	must.Do(t, os.Remove(w.at("nvme/step_2/.metadata")))
	must.Do(t, os.WriteFile(w.at("away"), nil, 0o644))
	if err := w.watch(nil, "nvme", "away", "pfs").Run(t.Context()); err == nil || !strings.Contains(err.Error(), "away") {
		t.Errorf("a target that can not be opened: %v", err)
	}
	same(t, "the other", w.at("nvme/step_1"), w.at("pfs/step_1"))
	if _, err := os.Stat(w.at("pfs/step_2")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is not complete: %v", err)
	}
}

// TestOnceTracker: a watch that ends says of a tracker that it could not be brought, and is no success.
func TestOnceTracker(t *testing.T) {
	w := newWorld(t)
	w.save("nvme", "step_1", "alpha")
	must.Do(t, os.WriteFile(w.at("nvme/latest"), []byte("step_1"), 0o644))
	must.Do(t, os.MkdirAll(w.at("pfs/latest/in the way"), 0o755))
	if err := w.watch(nil, "nvme", "pfs").Run(t.Context()); err == nil || !strings.Contains(err.Error(), "tracker latest") {
		t.Errorf("a tracker that can not be brought: %v", err)
	}
	same(t, "the checkpoint", w.at("nvme/step_1"), w.at("pfs/step_1"))
}

// TestCatchUp: where there is much to bring, the tracker follows as soon as what it names is there, and then retention holds for what it named before.
func TestCatchUp(t *testing.T) {
	w := newWorld(t)
	save := func(names ...string) {
		for _, name := range names {
			w.save("nvme", name, "shard of "+name)
			must.Do(t, os.WriteFile(w.at("nvme/latest"), []byte(name), 0o644))
		}
	}
	bring := func(tell func(Event)) {
		watch := w.watch(tell, "nvme", "pfs")
		watch.Keep = checkpoint.Keep{Last: 2}
		must.Do(t, watch.Run(t.Context()))
	}
	save("step_1", "step_2")
	bring(nil)
	must.Do(t, os.RemoveAll(w.at("nvme/step_1")))
	must.Do(t, os.RemoveAll(w.at("nvme/step_2")))
	save("step_3", "step_4", "step_5")
	bring(func(e Event) {
		if named := reads(w.at("pfs/latest")); e.Name == "step_4" && e.State == checkpoint.Copying && named != "step_5" {
			t.Errorf("while step_4 is copied, the tracker names %q", named)
		}
	})
	for name, stays := range map[string]bool{"step_1": false, "step_2": false, "step_3": false, "step_4": true, "step_5": true} {
		if _, err := os.Stat(w.at("pfs/" + name)); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRolledBack: a run that was begun again at an earlier step goes on. What it saves is the newest, although its steps are not the latest: it is brought, stays, and comes
// back; what it has left behind is not brought any more, which is told, and goes as what is old.
//
//safety:5/jobs a run that is rolled back: the one that goes on is the newest everywhere, and the one that was given up is
func TestRolledBack(t *testing.T) {
	w := newWorld(t)
	began, saves := time.Now().Add(-time.Hour), 0
	save := func(names ...string) {
		for _, name := range names {
			w.save("nvme", name, "shard of "+name)
			saves++
			when := began.Add(time.Duration(saves) * time.Minute)
			for _, file := range []string{"__0_0.distcp", ".metadata"} {
				must.Do(t, os.Chtimes(w.at("nvme/"+name+"/"+file), when, when))
			}
			must.Do(t, os.WriteFile(w.at("nvme/latest"), []byte(name), 0o644))
			must.Do(t, os.Chtimes(w.at("nvme/latest"), when, when))
		}
	}
	bring := func(to string, keep checkpoint.Keep) (told []string) {
		var mu sync.Mutex
		watch := w.watch(func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(e.Why, "not brought") {
				told = append(told, e.Name)
			}
		}, "nvme", to)
		watch.Keep = keep
		must.Do(t, watch.Run(t.Context()))
		slices.Sort(told)
		return told
	}
	there := func(dir string) string {
		names := must.Get(filepath.Glob(w.at(dir + "/step_*")))(t)
		for i, name := range names {
			names[i] = filepath.Base(name)
		}
		return strings.Join(append(names, reads(w.at(dir+"/latest"))), " ")
	}
	save("step_3000", "step_4000", "step_4500", "step_5000")
	bring("pfs", checkpoint.Keep{Last: 3})
	save("step_3500", "step_3600")
	told := bring("pfs", checkpoint.Keep{Last: 3})
	if got := there("pfs"); got != "step_3000 step_3500 step_3600 step_3600" || !slices.Equal(told, []string{"step_4000", "step_4500", "step_5000"}) {
		t.Errorf("the watch has brought %q, and told of %q", got, told)
	}
	if told := bring("new", checkpoint.Keep{Last: 2}); there("new") != "step_3500 step_3600 step_3600" || len(told) != 4 {
		t.Errorf("a new target has %q; told of %q", there("new"), told)
	}
	bring("all", checkpoint.Keep{})
	pfs := w.folder(w.at("all"), checkpoint.DCP)
	r, err := w.site.Restore(t.Context(), []*Folder{pfs}, Want{}, w.folder(w.at("back"), checkpoint.DCP), func(*Folder, string, string) {})
	if err != nil || r.Name != "step_3600" || !slices.Equal(r.Beyond, []string{"step_5000", "step_4500", "step_4000"}) {
		t.Errorf("restored %s, beside %q: %v", r.Name, r.Beyond, err)
	}
	tiers := must.Get(Judge(t.Context(), []*Folder{pfs}, checkpoint.Keep{Last: 2}))(t)
	for i, want := range []string{"step_3600", "step_3500", "step_5000"} {
		if v := tiers[0].Verdicts[i]; v.Name != want || v.Keep != (i < 2) {
			t.Errorf("retention: %+v, want %s", v, want)
		}
	}
	// The one that was given up is in a nearer folder, too, and alone there.
	near := w.folder(w.at("near"), checkpoint.DCP)
	_, err = w.site.Carry(t.Context(), pfs, "step_5000", near, nil)
	must.Do(t, err)
	r, err = w.site.Restore(t.Context(), []*Folder{near, pfs}, Want{}, w.folder(w.at("again"), checkpoint.DCP), func(*Folder, string, string) {})
	if err != nil || r.Name != "step_3600" {
		t.Errorf("restored %s from two folders: %v", r.Name, err)
	}
	// What a tracker names stays, however old it is by then: who resumes without us begins there.
	must.Do(t, os.WriteFile(w.at("all/latest"), []byte("step_5000"), 0o644))
	must.Do(t, os.Chtimes(w.at("all/latest"), began, began))
	tiers = must.Get(Judge(t.Context(), []*Folder{pfs}, checkpoint.Keep{Last: 2}))(t)
	if v := tiers[0].Verdicts[2]; v.Name != "step_5000" || !v.Keep {
		t.Errorf("retention: %+v", v)
	}
}

// TestSettle: what has not changed from one look to the next is complete where it has no time to settle, and else when that is over.
func TestSettle(t *testing.T) {
	w := newWorld(t)
	w.save("nvme", "step_1", "alpha")
	first := time.Now()
	for _, row := range []struct {
		settle, after time.Duration
		want          checkpoint.State
	}{
		{-1, 0, checkpoint.Settling}, {-1, 1, checkpoint.Complete},
		{0, checkpoint.Quiet - 1, checkpoint.Settling}, {0, checkpoint.Quiet, checkpoint.Complete},
		{time.Second, time.Second - 1, checkpoint.Settling}, {time.Second, time.Second, checkpoint.Complete},
	} {
		l := Looker{Folder: w.folder(w.at("nvme"), checkpoint.DCP), Settle: row.settle}
		must.Get(l.Look(t.Context(), first))(t)
		seen := must.Get(l.Look(t.Context(), first.Add(row.after)))(t)
		if got := seen.Seen[0].State; got != row.want {
			t.Errorf("settles for %v, after %v: %s, want %s", row.settle, row.after, got, row.want)
		}
	}
}

// TestTrackerRollsBack: a tracker that is written to name an older checkpoint says that the run was rolled back to it: what was saved after that goes at the target, and is brought to no other,
// also when the run has saved since, and what the run goes on from stays.
//
//safety:5/jobs with TestRolledBack
func TestTrackerRollsBack(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	save := func(name string, ago time.Duration) {
		file := w.at("nvme/" + name + "/mp_rank_00_model_states.pt")
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Do(t, os.WriteFile(file, []byte(name), 0o644))
		must.Do(t, os.Chtimes(file, now.Add(-ago), now.Add(-ago)))
	}
	names := func(name string, ago time.Duration) {
		must.Do(t, os.WriteFile(w.at("nvme/latest"), []byte(name), 0o644))
		must.Do(t, os.Chtimes(w.at("nvme/latest"), now.Add(-ago), now.Add(-ago)))
	}
	bring := func(to string, last int) {
		watch := w.watch(nil, "nvme", to)
		watch.Profile, watch.Keep.Last = checkpoint.DeepSpeed, last
		must.Do(t, watch.Run(t.Context()))
	}
	is := func(dir, want string) {
		t.Helper()
		var all []string
		for _, at := range must.Get(filepath.Glob(w.at(dir + "/global_step*")))(t) {
			all = append(all, filepath.Base(at))
		}
		if got := strings.Join(append(all, reads(w.at(dir+"/latest"))), " "); got != want {
			t.Errorf("%s has %s, want %s", dir, got, want)
		}
	}
	save("global_step10", 40*time.Minute)
	save("global_step20", 30*time.Minute)
	save("global_step30", 20*time.Minute)
	names("global_step30", 20*time.Minute)
	bring("pfs", 0)
	names("global_step20", 10*time.Minute)
	bring("pfs", 2)
	is("pfs", "global_step10 global_step20 global_step20")
	bring("new", 2)
	is("new", "global_step10 global_step20 global_step20")
	save("global_step25", 5*time.Minute)
	names("global_step25", 5*time.Minute)
	bring("all", 0)
	for _, dir := range []string{"pfs", "new", "all"} {
		bring(dir, 2)
		is(dir, "global_step20 global_step25 global_step25")
	}
}

// TestNewerAtTarget: a target has newer saves than the directory, where a newest one was removed, or saved again after a rollback. What retention would remove there is not brought, which is told once,
// and the watch ends.
func TestNewerAtTarget(t *testing.T) {
	began := time.Now().Add(-time.Hour)
	for _, row := range []struct {
		what    string
		first   []string // what is brought first, a minute apart
		removed []string // then, from the directory, or at the target where "pfs/" says so
		again   []string // saved then
		want    string   // at the target, and what is told of, in the end
	}{
		{"the newest is gone", []string{"step_100", "step_200", "step_300"}, []string{"step_300"}, nil, "step_200 step_300; expired step_100; not brought step_100"},
		{"the newest is gone, the oldest was never there", []string{"step_100", "step_200", "step_300"}, []string{"step_300", "pfs/step_100"}, nil, "step_200 step_300; not brought step_100"},
		{"one is saved again", []string{"step_100", "step_200", "step_300"}, []string{"step_300", "pfs/step_100"}, []string{"step_200"}, "step_100 step_200; expired step_300"},
		{"the run is begun again", []string{"step_100", "step_200", "step_300", "step_400"}, []string{"step_300", "step_400", "pfs/step_100", "pfs/step_200"}, []string{"step_50"}, "step_400 step_50; expired step_300; not brought step_100; not brought step_200"},
	} {
		w, saves := newWorld(t), 0
		save := func(names []string) {
			for _, name := range names {
				w.save("nvme", name, fmt.Sprint("shard of ", name, saves))
				saves++
				when := began.Add(time.Duration(saves) * time.Minute)
				for _, file := range []string{"__0_0.distcp", ".metadata"} {
					must.Do(t, os.Chtimes(w.at("nvme/"+name+"/"+file), when, when))
				}
			}
		}
		save(row.first)
		must.Do(t, w.watch(nil, "nvme", "pfs").Run(t.Context()))
		for _, name := range row.removed {
			if !strings.Contains(name, "/") {
				name = "nvme/" + name
			}
			must.Do(t, os.RemoveAll(w.at(name)))
		}
		save(row.again)
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		var told []string
		watch := w.watch(func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case e.State == checkpoint.Expired:
				told = append(told, "expired "+e.Name)
			case strings.Contains(e.Why, "not brought"):
				told = append(told, "not brought "+e.Name)
			}
			if len(told) > 9 { // it would do so for ever
				stop()
			}
		}, "nvme", "pfs")
		watch.Keep = checkpoint.Keep{Last: 2}
		must.Do(t, watch.Run(ctx))
		stop()
		slices.Sort(told)
		names := must.Get(filepath.Glob(w.at("pfs/*")))(t)
		for i, name := range names {
			names[i] = filepath.Base(name)
		}
		if got := strings.Join(append([]string{strings.Join(names, " ")}, told...), "; "); got != row.want {
			t.Errorf("%s: %s, want %s", row.what, got, row.want)
		}
	}
}

// TestExpiredStays: what has gone from a target is judged by the time that it had there, which may be kept more coarsely: it does not come back and go for ever.
func TestExpiredStays(t *testing.T) {
	one := func(name string, step, current int64) ready {
		return ready{name: name, save: name, step: step, current: current}
	}
	all := []ready{one("step_3", 3, 39), one("step_1", 1, 25), one("step_2", 2, 24)}
	for _, row := range []struct {
		expired map[string]ready
		want    string
	}{
		{nil, "step_2"},
		{map[string]ready{"step_1": {save: "step_1", current: 20}}, "step_1"},
		{map[string]ready{"step_1": {save: "another", current: 20}}, "step_2"},
	} {
		r := &route{Watch: &Watch{Keep: checkpoint.Keep{Last: 2}, board: newBoard(1)}, expired: row.expired}
		if goes := r.goes(all, Tier{}); len(goes) != 1 || goes[row.want] == "" {
			t.Errorf("%+v: %v goes, want %s", row.expired, goes, row.want)
		}
	}
}

// TestTrackerOfIncomplete: the tracker of a run names a save that is not complete. That at the target names the newest that is there, unless there is one; it is brought when what it names is.
func TestTrackerOfIncomplete(t *testing.T) {
	for _, row := range []struct {
		what, tracker, file string
		sets, texts         [3]string
	}{
		{"Megatron", "latest_checkpointed_iteration.txt", "mp_rank_00/model_optim_rng.pt", [3]string{"iter_0000100", "iter_0000200", "iter_0000300"}, [3]string{"100", "200", "300\n"}},
		{"DeepSpeed", "latest", "mp_rank_00_model_states.pt", [3]string{"global_step100", "global_step200", "global_step300"}, [3]string{"global_step100", "global_step200", "global_step300"}},
	} {
		w := newWorld(t)
		write := func(name, text string) {
			must.Do(t, os.MkdirAll(filepath.Dir(w.at(name)), 0o755))
			must.Do(t, os.WriteFile(w.at(name), []byte(text), 0o644))
		}
		for i, text := range []string{"weights", "weights", ""} {
			write(filepath.Join("nvme", row.sets[i], row.file), text)
		}
		write("nvme/"+row.tracker, row.texts[2])
		write("older/"+row.tracker, row.texts[0])
		must.Do(t, os.MkdirAll(w.at("odd/"+row.tracker), 0o755))
		for to, want := range map[string]string{"pfs": row.texts[1], "older": row.texts[0], "odd": ""} {
			must.Do(t, w.watch(nil, "nvme", to).Run(t.Context()))
			if got := reads(w.at(to + "/" + row.tracker)); got != want {
				t.Errorf("%s: the tracker in %s says %q, want %q", row.what, to, got, want)
			}
		}
		write(filepath.Join("nvme", row.sets[2], row.file), "weights")
		write("nvme/"+row.tracker, row.texts[2])
		must.Do(t, w.watch(nil, "nvme", "pfs").Run(t.Context()))
		if got := reads(w.at("pfs/" + row.tracker)); got != row.texts[2] {
			t.Errorf("%s: the tracker says %q when what it names is there", row.what, got)
		}
	}
}

// TestRenamed: a directory that is renamed while it is watched is not watched under its new name: that is told, and what gets its name is watched.
func TestRenamed(t *testing.T) {
	w := newWorld(t)
	var log logged
	w.site.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.save("nvme", "step_1", "alpha")
	watch := w.watch(nil, "nvme", "pfs")
	watch.Once = false
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = watch.Run(ctx) })
	defer wg.Wait()
	defer stop()
	until(t, "step_1 has left", func() bool { return reads(w.at("pfs/step_1/"+checkpoint.Committed)) != "" })
	must.Do(t, os.Rename(w.at("nvme"), w.at("old")))
	w.save("old", "step_2", "beta")
	until(t, "it is told", func() bool { return strings.Contains(log.text(), "it was renamed or removed") })
	w.save("nvme", "step_3", "gamma")
	until(t, "step_3 has left", func() bool { return reads(w.at("pfs/step_3/"+checkpoint.Committed)) != "" })
	if _, err := os.Stat(w.at("pfs/step_2")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was saved under the other name has left: %v", err)
	}
}

// logged is a log that several write.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestKilled: a watch is killed again and again, while a job saves. What is at a target under its name is whole at each of them; and in the end all is there.
//
//safety:5/jobs with TestWrittenMeanwhile
func TestKilled(t *testing.T) {
	random := kill.Random(t)
	w := newWorld(t)
	whole := func() {
		for _, dir := range []string{"peer", "pfs"} {
			names := must.Get(filepath.Glob(w.at(dir + "/step_*")))(t)
			for _, at := range names {
				if strings.Contains(filepath.Base(at), ".incomplete-") {
					continue
				}
				same(t, "after a kill", w.at("nvme/"+filepath.Base(at)), at)
			}
		}
	}
	save := func(i int) {
		w.save("nvme", fmt.Sprintf("step_%d", i), big("frozen"), big(fmt.Sprint("moves", i)), fmt.Sprint("small", i))
	}
	save(0)
	calls, kills := kill.Calls(t, "watch", w.dir), 0
	for i := range kill.Times(4, 60) {
		if i%2 == 0 {
			save(i + 1)
		}
		if _, killed := kill.AtCall(t, "watch", w.dir, 1+random.IntN(calls)); killed {
			kills++
		}
		whole()
	}
	if kills == 0 {
		t.Error("each came to its end before it was killed")
	}
	if out, err := kill.Command("watch", w.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	whole()
	for _, dir := range []string{"peer", "pfs"} {
		same(t, "in the end", w.at("nvme"), w.at(dir))
	}
}

// TestRest: who looks takes a hundredth of the time, or, where a look is long, a tenth.
func TestRest(t *testing.T) {
	for look, want := range map[time.Duration]time.Duration{
		0: time.Second, 5 * time.Millisecond: time.Second, 100 * time.Millisecond: 10 * time.Second, 2 * time.Second: time.Minute, 6 * time.Second: time.Minute, time.Minute: 10 * time.Minute,
	} {
		if got := Rest(look); got != want {
			t.Errorf("after %v: %v, want %v", look, got, want)
		}
	}
}
