package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// registered is a feed with a reader that is registered for it, and belongs to the test:
// everything is cleared for it.
type registered struct {
	lustre.Feed
	reader string
}

// realReaders are those of LUSTRE_READER. Where there are none, one is registered for each
// MDT that is on this machine, and taken back.
func realReaders(t *testing.T, name string) (all []registered) {
	t.Helper()
	for word := range strings.SplitSeq(os.Getenv("LUSTRE_READER"), ",") {
		if feed, reader, ok := strings.Cut(word, ":"); ok {
			all = append(all, registered{lustre.Feed{Name: feed}, reader})
		}
	}
	if len(all) > 0 {
		return all
	}
	feeds := must.Get(ChangesOf(name).Feeds(t.Context()))(t)
	for _, f := range feeds {
		reader, err := lctl("changelog_register", "-n", f.Name)
		if err != nil {
			continue // its server is another machine
		}
		t.Cleanup(func() {
			if said, err := lctl("changelog_deregister", reader, f.Name); err != nil {
				t.Errorf("the reader %s of %s is left behind: %v, %s", reader, f.Name, err, said)
			}
		})
		all = append(all, registered{f, reader})
	}
	if len(all) == 0 {
		t.Skip("elsewhere: make lustre-test: needs a reader of its own: lctl --device FS-MDT0000 changelog_register, and LUSTRE_READER=FS-MDT0000:cl1")
	}
	return all
}

// lctl runs a command of the program of servers for one of their devices.
func lctl(command, argument, device string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	out, err := exec.CommandContext(ctx, "lctl", "--device", device, command, argument).Output()
	return strings.TrimSpace(string(out)), err
}

// dirOn makes a directory on the MDT of a feed, so that what happens in it is told there.
func (s *site) dirOn(f lustre.Feed) string {
	s.t.Helper()
	_, index, ok := parseTarget(f.Name, s.Name)
	if !ok {
		s.t.Fatalf("LUSTRE_READER: %s is no MDT of %s", f.Name, s.Name)
	}
	name := "on-" + f.Name
	must.Do(s.t, s.MakeDir(s.t.Context(), s.dir, name, 0o755, lustre.Striping{Count: 1, FirstMDT: index}))
	return filepath.Join(s.path, name)
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
		// Of a log that was never written it is refused as a place that is not there.
		if err := changes.Clear(ctx, f, "cl999999999", 1); !errors.Is(err, lustre.ErrGap) {
			t.Errorf("%s: a reader that there is not clears: %v; want a gap", f.Name, err)
		}
	}
}

// What is done with a file is told, in its order, by the MDT that has it.
func TestRealChanges(t *testing.T) {
	s := onLustre(t)
	s.needsRoot()
	for _, r := range realReaders(t, s.Name) {
		s.changes(r.Feed, s.dirOn(r.Feed))
	}
}

func (s *site) changes(feed lustre.Feed, dir string) {
	t, ctx, changes := s.t, s.t.Context(), s.Changes()
	t.Helper()
	after, err := changes.Last(ctx, feed)
	must.Do(t, err)
	path, _ := realFile(t, dir, "new", 10)
	fd := realFDToClose(t, path, OpenToAsk)
	id, err := s.FID(ctx, fd)
	must.Do(t, errors.Join(err, unix.Close(fd), os.Rename(path, filepath.Join(dir, "other")), os.Remove(filepath.Join(dir, "other"))))
	kinds := map[lustre.ChangeType]lustre.Change{}
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && kinds[lustre.ChangeUnlink].Index == 0; time.Sleep(200 * time.Millisecond) {
		for r, err := range changes.Read(ctx, feed, after) {
			must.Do(t, err)
			if r.File == id || r.OldFile == id {
				kinds[r.Type] = r
			}
		}
	}
	t.Logf("%s: %+v", feed.Name, kinds)
	created, renamed, removed := kinds[lustre.ChangeCreate], kinds[lustre.ChangeRename], kinds[lustre.ChangeUnlink]
	if created.Name != "new" || created.Known&lustre.KnowsOwner == 0 || time.Since(created.Time).Abs() > time.Hour {
		t.Errorf("created: %+v", created)
	}
	if renamed.Name != "other" || renamed.OldName != "new" || renamed.OldFile != id || renamed.OldParent != renamed.Parent {
		t.Errorf("renamed: %+v", renamed)
	}
	if removed.Name != "other" || removed.File != id {
		t.Errorf("removed: %+v", removed)
	}
	if created.Index >= renamed.Index || renamed.Index >= removed.Index {
		t.Errorf("created as %d, renamed as %d, removed as %d", created.Index, renamed.Index, removed.Index)
	}
}

// A server refuses a place that is not there: it is how a reader knows of what no record
// tells.
func TestRealClear(t *testing.T) {
	s := onLustre(t)
	s.needsRoot()
	r := realReaders(t, s.Name)[0]
	feed, reader := r.Feed, r.reader
	dir := s.dirOn(feed)
	for i := range 5 {
		realFile(t, dir, fmt.Sprint(i), 1)
	}
	changes, ctx := s.Changes(), t.Context()
	last, err := changes.Last(ctx, feed)
	for end := time.Now().Add(time.Minute); err == nil && last < 3 && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		last, err = changes.Last(ctx, feed)
	}
	if err != nil || last < 3 {
		t.Fatalf("five files are told of by %d records of %s, %v", last, feed.Name, err)
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
	s := onLustre(t)
	s.needsRoot()
	feed := realReaders(t, s.Name)[0]
	d := must.Get(linuxDevices{}.open(changePrefix+feed.Name, unix.O_RDONLY))(t)
	defer func() {
		must.Tell(t, d.close())
	}()
	if err := errors.Join(d.seek(10), d.seek(20)); err != nil {
		t.Errorf("forward: %v", err)
	}
	if err := d.seek(5); err == nil {
		t.Error("it went backward")
	}
	buffer := make([]byte, 1<<20)
	for {
		n := must.Get(d.read(t.Context(), buffer))(t)
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
	s := onLustre(t)
	s.needsRoot()
	r := realReaders(t, s.Name)[0]
	feed, reader, dir := r.Feed, r.reader, s.dirOn(r.Feed)
	changes := s.Changes()
	last := must.Get(changes.Last(t.Context(), feed))(t)
	var place lustre.Change
	follow := func(after uint64, at time.Time) error {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		f := &Follower{Changes: changes, Feed: feed, Reader: reader, AfterTime: at, Settle: -1, Pause: 100 * time.Millisecond, Idle: time.Second}
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
	const files = 6 // a directory could be made on another MDT
	for i := range files {
		realFile(t, dir, fmt.Sprint(i), 10)
	}
	must.Do(t, follow(last, time.Time{}))
	if place.Index < last+files {
		t.Fatalf("%d new files are told of up to %d; it was at %d", files, place.Index, last)
	}
	was := place
	if err := follow(was.Index, was.Time); err != nil {
		t.Errorf("back at %d: %v", was.Index, err)
	}
	if err := follow(was.Index-1, was.Time); !errors.Is(err, lustre.ErrGap) {
		t.Errorf("back before what was cleared: %v; want a gap", err)
	}
}
