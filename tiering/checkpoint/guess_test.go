package checkpoint

import (
	"context"
	"iter"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestGuess: what each writer leaves is seen to be of its framework, as soon as a save is whole.
func TestGuess(t *testing.T) {
	for _, f := range frameworks {
		dir := t.TempDir()
		for _, o := range f.write(shape{ranks: 2, shards: 1, chunks: 1, saves: 2}).ops {
			really(t, dir, o)
		}
		if p, err := Guess(t.Context(), OnDisk(opened(t, dir), Limits{})); err != nil || p != f.profile {
			t.Errorf("%s: %q, %v", f.name, p, err)
		}
	}
	for _, row := range []struct {
		want  Profile
		lines []string
	}{
		{Mixed, []string{"step_1000/_SUCCESS", "step_2000/model", "best.ckpt", "wandb/run"}},
		{NeMo, []string{"best.ckpt", "last.ckpt", "wandb/run"}},
		{Mixed, []string{"checkpoint-500/trainer_state.json={}", "last.ckpt"}},
		{HF, []string{"checkpoint-500/trainer_state.json={}", "runs/events"}},
		{Mixed, []string{"iter_0000100/common.pt", "checkpoint-500/trainer_state.json={}"}},
	} {
		if p, err := Guess(t.Context(), OnDisk(opened(t, made(t, row.lines...)), Limits{})); err != nil || p != row.want {
			t.Errorf("%q: %q, %v", row.lines, p, err)
		}
	}
	if p, err := Guess(context.Background(), OnDisk(opened(t, t.TempDir()), Limits{})); err != nil || p != Plain {
		t.Errorf("nothing: %q, %v", p, err)
	}
	if p, err := Guess(t.Context(), OnDisk(opened(t, made(t, "a/x", "b")), Limits{})); err != nil || p != Plain {
		t.Errorf("anything: %q, %v", p, err)
	}
}

// TestEach: sets come the newest first, each as a look at all of them sees it, and a folder is read again by each.
func TestEach(t *testing.T) {
	for _, f := range frameworks {
		if f.over && f.name != "dcp" {
			continue
		}
		dir := t.TempDir()
		for _, o := range f.write(shape{ranks: 2, shards: 1, chunks: 1, saves: 3}).ops {
			really(t, dir, o)
		}
		if f.name == "deepspeed" {
			must.Do(t, os.Truncate(dir+"/global_step20/mp_rank_00_model_states.pt", 30))
		}
		folder, v := OnDisk(opened(t, dir), Limits{}), found(t, f.profile, dir)
		for range 2 {
			i := len(v.Sets)
			for got, err := range Each(t.Context(), folder, f.profile) {
				must.Do(t, err)
				if i--; i < 0 || got.Name != v.Sets[i].Name || got.Print != v.Sets[i].Print {
					t.Fatalf("%s: %s", f.name, got.Name)
				}
				if torn := f.name == "deepspeed" && got.Name == "global_step20"; torn == got.Complete {
					t.Errorf("%s: %s: %v %s", f.name, got.Name, got.Complete, got.Why)
				}
			}
			if i != 0 {
				t.Errorf("%s: %d more", f.name, i)
			}
		}
	}
}

// store lists objects with the times of their arrival, as a store does, and says of each one what it keeps of its file.
type store struct {
	mover.Source
	arrived, own map[string]int64 // seconds, of files; without own it is the arrival
	asked        sync.Map         // of names
}

func (s *store) Capabilities() mover.Capabilities { return mover.Capabilities{NeedsManifest: true} }

func (s *store) Walk(_ context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		if o.Dir == "" {
			_ = yield(mover.Entry{Name: "step-1", Kind: mover.Dir}, nil)
			return
		}
		for name, when := range s.arrived {
			if !yield(entryAt(name, when), nil) {
				return
			}
		}
	}
}

func (s *store) Stat(_ context.Context, name string) (mover.Entry, error) {
	when, is := s.own[name]
	if !is {
		when = s.arrived[name]
	}
	s.asked.Store(name, nil)
	return entryAt(name, when), nil
}

func entryAt(name string, seconds int64) mover.Entry {
	return mover.Entry{Name: name, Kind: mover.File, Size: 1, Mtime: mover.TimeOf(time.Unix(seconds, 0))}
}

// TestArrival: a mark that came to a store before its files speaks for them when all of them say that it was written last, and before an export that has
// ended. Of what was written since, shards may be on their way still.
func TestArrival(t *testing.T) {
	first := map[string]int64{"step-1/shard": 160, "step-1/.complete": 100}
	for name, row := range map[string]struct {
		arrived, own map[string]int64
		exported     int64 // 0 is never
		complete     bool
		asked        int
	}{
		"in order":                      {arrived: map[string]int64{"step-1/shard": 100, "step-1/.complete": 101}, exported: 90, complete: true},
		"written before the export":     {arrived: first, own: map[string]int64{"step-1/shard": 10, "step-1/.complete": 11}, exported: 50, complete: true, asked: 2},
		"no export has ended":           {arrived: first, own: map[string]int64{"step-1/shard": 10, "step-1/.complete": 11}},
		"written since":                 {arrived: first, own: map[string]int64{"step-1/shard": 10, "step-1/.complete": 60}, exported: 50, asked: 2},
		"the mark is the older one":     {arrived: first, own: map[string]int64{"step-1/shard": 20, "step-1/.complete": 11}, exported: 50, asked: 2},
		"nothing keeps a time":          {arrived: first, exported: 200, asked: 2},
		"the export began just with it": {arrived: first, own: map[string]int64{"step-1/shard": 10, "step-1/.complete": 49}, exported: 50, asked: 2},
	} {
		s, limits := &store{arrived: row.arrived, own: row.own}, Limits{}
		if row.exported != 0 {
			limits.Exported = time.Unix(row.exported, 0)
		}
		found, is, err := Look(t.Context(), InPlace(t.Context(), s, limits), Plain, "step-1")
		must.Do(t, err)
		asked := 0
		s.asked.Range(func(any, any) bool { asked++; return true })
		if !is || found.Complete != row.complete || asked != row.asked || !row.complete && !strings.HasSuffix(found.Why, rewritten) {
			t.Errorf("%s: %t, %+v; asked of %d", name, is, found.Set, asked)
		}
	}
}
