package checkpoint

import (
	"context"
	"os"
	"testing"
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
			must(t, os.Truncate(dir+"/global_step20/mp_rank_00_model_states.pt", 30))
		}
		folder, v := OnDisk(opened(t, dir), Limits{}), found(t, f.profile, dir)
		for range 2 {
			i := len(v.Sets)
			for got, err := range Each(t.Context(), folder, f.profile) {
				must(t, err)
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
