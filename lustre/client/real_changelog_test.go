package client

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// realFeed is one feed with a reader that is registered for it, and for nothing else:
// LUSTRE_READER=lab-MDT0000:cl1. Everything is cleared for it.
func realFeed(t *testing.T) (lustre.Feed, string) {
	t.Helper()
	feed, reader, ok := strings.Cut(os.Getenv("LUSTRE_READER"), ":")
	if !ok {
		t.Skip("elsewhere: make lustre-test: needs a reader of its own: lctl --device FS-MDT0000 changelog_register, and LUSTRE_READER=FS-MDT0000:cl1")
	}
	return lustre.Feed{Name: feed}, reader
}

func TestRealFeeds(t *testing.T) {
	c, _ := realLustre(t)
	changes, ctx := c.Changes(), t.Context()
	feeds, err := changes.Feeds(ctx)
	if err != nil || len(feeds) == 0 {
		t.Fatalf("%v, %v", feeds, err)
	}
	if os.Geteuid() != 0 {
		if _, err := changes.Last(ctx, feeds[0]); !errors.Is(err, os.ErrPermission) {
			t.Errorf("a user reads: %v", err)
		}
		return
	}
	for _, f := range feeds {
		if _, err := changes.Last(ctx, f); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		if err := changes.Clear(ctx, f, "cl999999999", 1); !errors.Is(err, lustre.ErrGap) {
			t.Errorf("%s: a reader that there is not clears: %v; want a gap", f.Name, err)
		}
	}
}

// What is done with a file is told, in its order, by the MDT that has it.
func TestRealChanges(t *testing.T) {
	c, dir := realLustre(t)
	needsRoot(t)
	realFeed(t) // without a reader nothing is recorded
	changes, ctx := c.Changes(), t.Context()
	feeds, err := changes.Feeds(ctx)
	if err != nil {
		t.Fatal(err)
	}
	after := map[string]uint64{}
	for _, f := range feeds {
		if after[f.Name], err = changes.Last(ctx, f); err != nil {
			t.Fatal(err)
		}
	}
	path, _ := realFile(t, dir, "new", 10)
	id, err := c.FID(ctx, realFD(t, path, OpenToAsk))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(path, filepath.Join(dir, "other")), os.Remove(filepath.Join(dir, "other"))); err != nil {
		t.Fatal(err)
	}
	var seen []lustre.Change
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && (len(seen) == 0 || seen[len(seen)-1].Type != lustre.ChangeUnlink); time.Sleep(200 * time.Millisecond) {
		seen = nil
		for _, f := range feeds {
			for r, err := range changes.Read(ctx, f, after[f.Name]) {
				if err != nil {
					t.Fatal(err)
				}
				if r.File == id || r.OldFile == id {
					seen = append(seen, r)
				}
			}
		}
	}
	kinds := map[lustre.ChangeType]lustre.Change{}
	for _, r := range seen {
		kinds[r.Type] = r
	}
	t.Logf("%+v", seen)
	if r := kinds[lustre.ChangeCreate]; r.Name != "new" || r.Known&lustre.KnowsOwner == 0 || time.Since(r.Time).Abs() > time.Hour {
		t.Errorf("created: %+v", r)
	}
	if r := kinds[lustre.ChangeRename]; r.Name != "other" || r.OldName != "new" || r.OldFile != id || r.OldParent != r.Parent {
		t.Errorf("renamed: %+v", r)
	}
	if r := kinds[lustre.ChangeUnlink]; r.Name != "other" || r.File != id {
		t.Errorf("removed: %+v", r)
	}
}

// A server refuses a place that is not there: it is how a reader knows of what no record
// tells.
func TestRealClear(t *testing.T) {
	c, _ := realLustre(t)
	needsRoot(t)
	feed, reader := realFeed(t)
	changes, ctx := c.Changes(), t.Context()
	last, err := changes.Last(ctx, feed)
	if err != nil || last < 3 {
		t.Skipf("needs a few records in %s: %d, %v", feed.Name, last, err)
	}
	for _, step := range []struct {
		name string
		upTo uint64
		gap  bool
	}{
		{"most", last - 1, false}, {"the same again", last - 1, false}, {"less", last - 2, true}, {"what there never was", last + 1<<40, true}, {"nothing", 0, false},
	} {
		if err := changes.Clear(ctx, feed, reader, step.upTo); errors.Is(err, lustre.ErrGap) != step.gap || err != nil && !step.gap {
			t.Errorf("clear %s (%d of %d): %v; want a gap %v", step.name, step.upTo, last, err, step.gap)
		}
	}
	if still, err := changes.Last(ctx, feed); err != nil || still < last {
		t.Errorf("the last record is %d, %v; it was %d, and 0 must not clear all", still, err, last)
	}
}

// The device's own ways, on which reading relies: it does not go backward, and it comes to
// its end once.
func TestRealDevice(t *testing.T) {
	onLustre(t)
	needsRoot(t)
	feed, _ := realFeed(t)
	d, err := linuxDevices{}.open(changePrefix+feed.Name, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := errors.Join(d.seek(10), d.seek(20)); err != nil {
		t.Errorf("forward: %v", err)
	}
	if err := d.seek(5); err == nil {
		t.Error("it went backward")
	}
	buffer := make([]byte, 1<<20)
	for {
		n, err := d.read(t.Context(), buffer)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if n, err := d.read(t.Context(), buffer); n != 0 || err != nil {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

// A reader comes back to its place, and to no other.
func TestRealFollow(t *testing.T) {
	c, dir := realLustre(t)
	needsRoot(t)
	feed, reader := realFeed(t)
	changes := c.Changes()
	last, err := changes.Last(t.Context(), feed)
	if err != nil {
		t.Fatal(err)
	}
	var place lustre.Change
	follow := func(after uint64, at time.Time) error {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		f := &Follower{Changes: changes, Feed: feed, Reader: reader, AfterTime: at, Settle: -1, Pause: 100 * time.Millisecond}
		err := f.Run(ctx, after, func(_ context.Context, batch []lustre.Change) error {
			for _, r := range batch {
				if place.Index != 0 && r.Index != place.Index+1 {
					t.Errorf("%d follows %d", r.Index, place.Index)
				}
				place = r
			}
			return nil
		})
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		realFile(t, filepath.Join(dir, name), "file", 10)
	}
	if err := follow(last, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if place.Index == 0 {
		t.Skipf("needs a change in %s: the directory of this test is on another MDT", feed.Name)
	}
	was := place
	if err := follow(was.Index, was.Time); err != nil {
		t.Errorf("back at %d: %v", was.Index, err)
	}
	if err := follow(was.Index-1, was.Time); !errors.Is(err, lustre.ErrGap) {
		t.Errorf("back before what was cleared: %v; want a gap", err)
	}
}
