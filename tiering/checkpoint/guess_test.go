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
				if torn := got.Name == "global_step20"; torn == got.Complete {
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

func (s *store) Traits() mover.Traits { return mover.Traits{NeedsManifest: true} }

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

// TestArrival: a mark that came to a store before its files is one that was written after them, when they say so: what exports a file system copies in any order.
func TestArrival(t *testing.T) {
	for name, row := range map[string]struct {
		arrived, own map[string]int64
		complete     bool
		asked        int
	}{
		"in order":                 {arrived: map[string]int64{"shard": 100, ".complete": 101}, complete: true},
		"the mark came first":      {arrived: map[string]int64{"shard": 160, ".complete": 100}, own: map[string]int64{"shard": 10, ".complete": 11}, complete: true, asked: 2},
		"and was written first":    {arrived: map[string]int64{"shard": 160, ".complete": 100}, own: map[string]int64{"shard": 20, ".complete": 11}, asked: 2},
		"and nothing keeps a time": {arrived: map[string]int64{"shard": 160, ".complete": 100}, asked: 2},
	} {
		at := func(files map[string]int64) map[string]int64 {
			all := map[string]int64{}
			for file, when := range files {
				all["step-1/"+file] = when
			}
			return all
		}
		s := &store{arrived: at(row.arrived), own: at(row.own)}
		found, is, err := Look(t.Context(), InPlace(t.Context(), s, Limits{}), Plain, "step-1")
		must.Do(t, err)
		asked := 0
		s.asked.Range(func(any, any) bool { asked++; return true })
		if !is || found.Complete != row.complete || asked != row.asked || !row.complete && !strings.HasSuffix(found.Why, rewritten) {
			t.Errorf("%s: %t, %+v; asked of %d", name, is, found.Set, asked)
		}
	}
}
