package transfer_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/journal"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/test/must"
)

// TestFullPublishesWhatIsFinished: a run that ends because its target is full leaves there
// what it had finished, although that waited to be published with more.
//
//safety:3 with test/hostile TestFullTarget
func TestFullPublishesWhatIsFinished(t *testing.T) {
	source := mem.NewTree().Files(map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6"})
	target := mem.NewTree()
	full := faulty.New(mem.New(target, mem.Options{Adjust: func(t *mover.Capabilities) {
		t.CommitBytes, t.CommitEvery, t.BatchFiles = 1<<20, time.Hour, 1
	}}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == faulty.Draft && c.Name == "f" {
			return faulty.Full
		}
		return faulty.None
	}})
	dir := t.TempDir()
	j, err := journal.Open(dir, journal.Options{})
	must.Do(t, err)
	res, err := syncTo(t.Context(), mem.New(source, mem.Options{}), full, transfer.Options{Journal: j, FailFull: true, Jobs: 1})
	if !errors.Is(err, mover.ErrFull) {
		t.Fatalf("the run ended with %v", err)
	}
	var told []string
	for _, r := range res.all {
		if r.Err == nil && r.Op == plan.Create {
			told = append(told, r.Entry.Name)
		}
	}
	slices.Sort(told)
	if want := []string{"a", "b", "c", "d", "e"}; !slices.Equal(told, want) {
		t.Errorf("told are %q, want %q", told, want)
	}
	for _, name := range told {
		if _, ok := target.Content(name); !ok {
			t.Errorf("%s is not there", name)
		}
	}
	if left := target.Drafts(); len(left) > 0 {
		t.Errorf("drafts are left: %q", left)
	}
	must.Do(t, j.Close())
	if j, err = journal.Open(dir, journal.Options{}); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, r := range j.Left(t.Context()) {
		t.Errorf("the journal still has %+v", r)
	}
}
