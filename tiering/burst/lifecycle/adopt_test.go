package lifecycle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/budget"
	"datamove.dev/tiering/burst/pricing"
)

// forgotten is a world in which a burst is up and has exported once, and whose record and accounts are those of another place. It returns what that knew.
func forgotten(t *testing.T, text string) (*world, *burst.Record) {
	t.Helper()
	w := newWorld(t, 10_000*pricing.Dollar)
	w.write("datasets/imagenet/a.tar", 1<<10)
	r, err := w.leg().Up(t.Context(), read(t, text), nil)
	w.must(err)
	if r.FileSystem != nil {
		w.saved(w.aws.FileSystem(r.FileSystem.ID), "step-100")
		w.must(w.leg().SyncBack(t.Context(), w.record("llama-ft")))
	}
	r = w.record("llama-ft")
	w.forget(10_000 * pricing.Dollar)
	return w, r
}

// forget has nothing be known here.
func (w *world) forget(limit pricing.Money) {
	w.records, w.spent.all = nil, nil
	w.account(limit)
}

// TestAdopt: a burst of which only AWS knows is taken over: nothing is made twice, nothing is believed to be home, and it is ended as others are.
//
//safety:aws a burst with a lost record: what AWS has of it is taken over, and not made again; what was saved since comes home before it goes
func TestAdopt(t *testing.T) {
	w, was := forgotten(t, declared)
	w.saved(w.aws.FileSystem(was.FileSystem.ID), "step-200") // after the last export that the other place knew of
	r, err := w.leg().Adopt(t.Context(), read(t, declared), nil, was.ID)
	w.must(err)
	if r.ID != was.ID || r.State != burst.Ready || r.FileSystem.ID != was.FileSystem.ID || r.FileSystem.DNS != was.FileSystem.DNS || r.FileSystem.GiB != was.FileSystem.GiB || r.Reserved <= 0 || r.Trouble != "" {
		t.Errorf("%+v", r)
	}
	if len(r.Paid) != 1 || r.Paid[0].What != was.FileSystem.ID || !r.Paid[0].Until.Equal(was.FileSystem.Since) {
		t.Errorf("it pays for %+v, and the file system is there since %v", r.Paid, was.FileSystem.Since)
	}
	if again, err := w.leg().Adopt(t.Context(), read(t, declared), w.record("llama-ft"), was.ID); err != nil || again.Reserved != r.Reserved || w.spent.count(budget.Reserve) != 1 {
		t.Errorf("again: %v, reserved %d times", err, w.spent.count(budget.Reserve))
	}
	w.refuses(w.leg(), "checkpoints/run7 (it never came home), results (it never came home)")
	w.must(w.leg().SyncBack(t.Context(), w.record("llama-ft")))
	if _, err := os.Stat(filepath.Join(w.dir, "project/runs/run7/step-200/shard-1")); err != nil {
		t.Error(err)
	}
	up, err := w.leg().Up(t.Context(), read(t, declared), w.record("llama-ft"))
	w.must(err)
	if up.State != burst.Ready {
		t.Errorf("it is %s", up.State)
	}
	for operation, want := range map[string]int{"CreateFileSystem": 1, "CreateDataRepositoryAssociation": 1} {
		if n := w.made(operation); n != want {
			t.Errorf("%s made %d", operation, n)
		}
	}
	w.must(w.leg().SyncBack(t.Context(), w.record("llama-ft")))
	w.must(w.leg().Down(t.Context(), w.record("llama-ft"), nil))
	w.nothingLeft()
	if b, err := w.ledger.Balance(t.Context(), "vision"); err != nil || b.Reserved != 0 || b.Spent <= 0 {
		t.Errorf("%+v, %v", b, err)
	}
}

// nothingLeft looks that AWS has nothing of the burst.
func (w *world) nothingLeft() {
	w.t.Helper()
	systems, err := w.leg().Cloud.FileSystems(w.t.Context())
	if err != nil || len(systems) != 0 || len(w.objects("bursts")) != 0 || w.record("llama-ft").State != burst.Gone {
		w.t.Errorf("%v, %v, %q, and it is %s", systems, err, w.objects("bursts"), w.record("llama-ft").State)
	}
}

// TestAdoptsWhatIsLeft: of a burst without a file system, or whose file system is gone, the bucket is taken over.
//
//safety:aws with TestAdopt
func TestAdoptsWhatIsLeft(t *testing.T) {
	t.Run("a bucket alone", func(t *testing.T) {
		w, was := forgotten(t, bucketOnly)
		r, err := w.leg().Adopt(t.Context(), read(t, bucketOnly), nil, was.ID)
		w.must(err)
		if r.State != burst.Ready || r.FileSystem != nil {
			t.Errorf("%+v", r)
		}
		w.must(w.leg().Down(t.Context(), w.record("llama-ft"), []burst.Path{"results", "checkpoints/run7"}))
		w.nothingLeft()
	})
	t.Run("its file system is gone", func(t *testing.T) {
		w, was := forgotten(t, declared)
		w.must(w.leg().Cloud.Delete(t.Context(), was.FileSystem.ID, "gone"))
		w.must(w.leg().Cloud.Await(t.Context(), func(ctx context.Context) (bool, error) {
			_, err := w.leg().Cloud.FileSystem(ctx, was.FileSystem.ID)
			return errors.Is(err, mover.ErrNotExist), nil
		}))
		r, err := w.leg().Adopt(t.Context(), read(t, declared), nil, was.ID)
		w.must(err)
		if r.State != burst.Declared || r.FileSystem != nil {
			t.Errorf("%+v", r)
		}
		if err := w.leg().Down(t.Context(), w.record("llama-ft"), nil); !errors.Is(err, mover.ErrConflict) || !strings.Contains(err.Error(), "results (it never came home)") {
			t.Errorf("%v", err)
		}
		w.must(w.leg().SyncBack(t.Context(), w.record("llama-ft")))
		w.must(w.leg().Down(t.Context(), w.record("llama-ft"), nil))
		w.nothingLeft()
	})
	t.Run("there is no money", func(t *testing.T) {
		w, was := forgotten(t, declared)
		w.forget(pricing.Cent)
		if _, err := w.leg().Adopt(t.Context(), read(t, declared), nil, was.ID); !errors.Is(err, mover.ErrRefused) {
			t.Errorf("%v", err)
		}
		if r := w.record("llama-ft"); r.State.Ended() || r.FileSystem.ID != was.FileSystem.ID || r.Trouble == "" {
			t.Errorf("%+v", r)
		}
		w.account(10_000 * pricing.Dollar)
		r, err := w.leg().Adopt(t.Context(), read(t, declared), w.record("llama-ft"), was.ID)
		w.must(err)
		if r.State != burst.Ready || r.Reserved == 0 || r.Trouble != "" {
			t.Errorf("%+v", r)
		}
	})
}

// TestAdoptsNothingElse: what AWS has of others, or not at all, is not taken over.
//
//safety:aws with TestAdopt
func TestAdoptsNothingElse(t *testing.T) {
	w, was := forgotten(t, declared)
	open := burst.Begin(read(t, declared), "anna", burst.Admitted{}, w.clock.Now())
	for _, row := range []struct {
		what, text, id string
		there          *burst.Record
		kind           error
		says           string
	}{
		{"an ID that nothing has", strings.Replace(declared, "tier: cloud", "tier: cloud\n    prefix: elsewhere", 1), "00000000000000ff", nil, mover.ErrNotExist, "no file system in us-east-1 has the tag datamove.dev/burst=00000000000000ff"},
		{"the prefix of another burst", declared, "00000000000000ff", nil, mover.ErrConflict, "cloud:bursts/llama-ft/ is the prefix of burst " + was.ID},
		{"the file system of another name", strings.Replace(declared, "name: llama-ft", "name: other", 1), was.ID, nil, mover.ErrConflict, "is of burst llama-ft of team vision, by its tags"},
		{"the file system of another team", strings.Replace(declared, "team: vision", "team: speech", 1), was.ID, nil, mover.ErrConflict, "is of burst llama-ft of team vision, by its tags"},
		{"a declaration without one", bucketOnly, was.ID, nil, mover.ErrConflict, "its declaration has none"},
		{"one that is here", declared, was.ID, open, mover.ErrConflict, "datamove burst down llama-ft ends that first"},
	} {
		t.Run(row.what, func(t *testing.T) {
			_, err := w.leg().Adopt(t.Context(), read(t, row.text), row.there, row.id)
			if !errors.Is(err, row.kind) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v", err)
			}
			if len(w.records) > 0 || w.spent.count(budget.Reserve) > 0 {
				t.Error("it has a record, or money")
			}
		})
	}
}
