package client

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// now is a record that is written at this moment.
func now(index uint64) lustre.Change {
	c := change(index)
	c.Time = time.Now().UTC()
	return c
}

// keeper is who keeps what changed, and where the reader stands: one transaction.
type keeper struct {
	kept    []uint64
	batches int
	refuse  error // after a batch was kept
}

func (k *keeper) take(_ context.Context, batch []lustre.Change) error {
	if k.refuse != nil {
		return k.refuse
	}
	k.batches++
	for _, c := range batch {
		k.kept = append(k.kept, c.Index)
	}
	return nil
}

func (k *keeper) stands() uint64 {
	if len(k.kept) == 0 {
		return 0
	}
	return k.kept[len(k.kept)-1]
}

// follow runs until everything that is there was handed over and everybody waits.
func follow(t *testing.T, f *Follower, k *keeper, after uint64, d time.Duration) error {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	err := f.Run(ctx, after, k.take)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog()
		l.readers[2] = 0 // another, who reads nothing
		for i := range 10 {
			l.write(now(uint64(i + 1)))
		}
		k := &keeper{}
		var seen []Progress
		f := &Follower{Changes: changesOf(l), Feed: labFeed, Reader: "cl1", BatchRecords: 4, Seen: func(p Progress) { seen = append(seen, p) }}
		if err := follow(t, f, k, 0, 14*time.Second); err != nil || len(k.kept) > 0 {
			t.Fatalf("what may still change was handed over: %v, %v", k.kept, err)
		}
		must.Do(t, follow(t, f, k, 0, 30*time.Second))
		if want := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !reflect.DeepEqual(k.kept, want) || k.batches != 3 || l.readers[1] != 10 {
			t.Errorf("kept %v in %d batches, cleared to %d; want %v in 3", k.kept, k.batches, l.readers[1], want)
		}
		if last := seen[len(seen)-1]; last != (Progress{After: 10, AtEnd: true}) || seen[0].After != 4 || seen[0].AtEnd {
			t.Errorf("progress %+v", seen)
		}
	})
}

// Who keeps the changes fails, or dies: nothing is cleared that was not kept, and it goes
// on from there.
func TestFollowClearsWhatWasKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(span(1, 5)...)
		k := &keeper{refuse: errors.New("disk full")}
		f := &Follower{Changes: changesOf(l), Feed: labFeed, Reader: "cl1", BatchRecords: 2}
		if err := follow(t, f, k, 0, time.Minute); !errors.Is(err, k.refuse) || l.readers[1] != 0 || len(l.log) != 5 {
			t.Fatalf("%v, cleared to %d", err, l.readers[1])
		}
		k.refuse = nil
		if err := follow(t, f, k, k.stands(), time.Minute); err != nil || l.readers[1] != 5 || k.stands() != 5 {
			t.Errorf("%v, kept %v, cleared to %d", err, k.kept, l.readers[1])
		}
		// It was kept, and the clearing did not come through: the next begins behind it.
		l = newFakeLog(span(1, 6)...)
		l.readers[1] = 3
		f.Changes, f.AfterTime = changesOf(l), change(5).Time
		if err := follow(t, f, k, 5, time.Minute); err != nil || !reflect.DeepEqual(k.kept, []uint64{1, 2, 3, 4, 5, 6}) || l.readers[1] != 6 {
			t.Errorf("%v, kept %v, cleared to %d", err, k.kept, l.readers[1])
		}
	})
}

// later are the records of another log, of the same numbers.
func later(first, last uint64) []lustre.Change {
	records := span(first, last)
	for i := range records {
		records[i].Time = records[i].Time.Add(time.Hour)
	}
	return records
}

// A reader from which nothing is heard is deregistered, and what it had not read is gone.
func TestFollowIsHeardWhenIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(span(1, 5)...)
		k := &keeper{}
		f := &Follower{Changes: changesOf(l), Feed: labFeed, Reader: "cl1"}
		if err := follow(t, f, k, 5, 5*time.Minute+time.Second); err != nil || l.heard[1] < 5 || l.heard[1] > 7 {
			t.Errorf("%v, heard %d times in five minutes", err, l.heard[1])
		}
	})
}

//safety:4 with TestReadChanges
func TestFollowNoticesGaps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		log    []lustre.Change
		after  uint64
		reader string
		spoil  func(l *fakeLog)
		kept   []uint64
	}{
		"another cleared as the same reader":  {span(1, 9), 3, "cl1", func(l *fakeLog) { _ = l.clear(1, 5) }, nil},
		"all was cleared, and nothing is new": {span(1, 9), 3, "cl1", func(l *fakeLog) { _ = l.clear(1, 0) }, nil},
		"the reader is gone":                  {span(1, 9), 3, "cl1", func(l *fakeLog) { delete(l.readers, 1) }, nil},
		"another one's name":                  {span(1, 9), 3, "cl2", func(*fakeLog) {}, nil},
		"the log was begun anew":              {span(1, 2), 300, "cl1", func(*fakeLog) {}, nil},
		"records are gone in the middle":      {append(span(1, 4), span(7, 9)...), 2, "cl1", func(*fakeLog) {}, []uint64{3, 4}},
		"the log was turned off": {
			[]lustre.Change{change(1), {Index: 2, Type: lustre.ChangeMark, Marker: 0x20000, Time: change(2).Time}, change(3)}, 0, "cl1", func(*fakeLog) {}, []uint64{1, 2},
		},
		"another log, that has caught up":            {later(1, 9), 5, "cl1", func(*fakeLog) {}, nil},
		"another log, that has its place as its end": {later(1, 5), 5, "cl1", func(*fakeLog) {}, nil},
		"it stands before, and the record is gone": {
			append(span(1, 3), span(6, 9)...), 5, "cl1", func(l *fakeLog) { l.readers[1] = 2 }, nil,
		},
	} {
		both(t, func(t *testing.T, version string) {
			l, k := newFakeLog(c.log...), &keeper{}
			l.version = version
			c.spoil(l)
			f := &Follower{Changes: changesOf(l), Feed: labFeed, Reader: c.reader, AfterTime: change(c.after).Time}
			err := follow(t, f, k, c.after, 10*time.Minute)
			if !errors.Is(err, lustre.ErrGap) || !reflect.DeepEqual(k.kept, c.kept) {
				t.Errorf("%s: %v, kept %v; want a gap, and kept %v", name, err, k.kept, c.kept)
			}
			if len(c.kept) > 0 && l.readers[1] != k.stands() {
				t.Errorf("%s: cleared to %d; kept to %d", name, l.readers[1], k.stands())
			}
		})
	}
}

// TestFollowGoesOn: after a restart a reader goes on where it stood, with servers of every version, and keeps its registration.
func TestFollowGoesOn(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "2.15.7", "2.17.54", "2.17.57"} {
		synctest.Test(t, func(t *testing.T) {
			l, k := newFakeLog(span(1, 9)...), &keeper{}
			l.version = version
			f := &Follower{Changes: changesOf(l), Feed: labFeed, Reader: "cl1"}
			if err := follow(t, f, k, 0, time.Minute); err != nil || k.stands() != 9 {
				t.Fatalf("%s: %v, kept %v", version, err, k.kept)
			}
			l.write(span(10, 12)...)
			f.AfterTime = change(9).Time
			if err := follow(t, f, k, 9, time.Minute); err != nil || k.stands() != 12 || l.readers[1] != 12 {
				t.Errorf("%s: %v, kept %v, cleared to %v", version, err, k.kept, l.readers)
			}
			delete(l.readers, 1)
			if err := follow(t, f, k, 12, time.Minute); !errors.Is(err, ErrNoReader) || !errors.Is(err, lustre.ErrGap) {
				t.Errorf("%s: the reader is gone: %v", version, err)
			}
		})
	}
}

// both runs a test with servers that refuse a clearing below one's place in either way.
func both(t *testing.T, test func(t *testing.T, version string)) {
	t.Helper()
	for _, version := range []string{"2.15.7", "2.17.57"} {
		synctest.Test(t, func(t *testing.T) { test(t, version) })
	}
}

// The server's clock is an hour ahead of ours.
func TestFollowAServerFromTheFuture(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ahead := func(index uint64) lustre.Change { c := now(index); c.Time = c.Time.Add(time.Hour); return c }
		l := newFakeLog(ahead(1), ahead(2))
		k := &keeper{}
		f := &Follower{Changes: changesOf(l), Feed: labFeed, Reader: "cl1"}
		if err := follow(t, f, k, 0, 14*time.Second); err != nil || len(k.kept) > 0 {
			t.Errorf("%v, kept %v before they were settled", err, k.kept)
		}
		if err := follow(t, f, k, 0, 30*time.Second); err != nil || k.stands() != 2 {
			t.Errorf("%v, kept %v", err, k.kept)
		}
		f.Settle = -1
		l.write(ahead(3))
		if err := follow(t, f, k, 2, time.Second); err != nil || k.stands() != 3 {
			t.Errorf("with no time to settle: %v, kept %v", err, k.kept)
		}
	})
}

// Nobody is registered, so nothing is recorded: that is not waited for.
func TestFollowAnEmptyLog(t *testing.T) {
	t.Parallel()
	young := change(1)
	young.Time = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		counted, stands uint64
		reader          string
		noReader, gap   bool
		log             []lustre.Change
		version         string // "" is 2.17.0
	}{
		"its first record is too young":    {0, 0, "cl1", false, false, []lustre.Change{young}, ""},
		"a reader, and all was cleared":    {9, 9, "cl1", false, false, nil, ""},
		"no reader":                        {9, 9, "cl2", true, true, nil, ""},
		"a log that has just been made":    {0, 0, "cl1", false, false, nil, ""},
		"its first record comes just then": {1, 0, "cl1", false, true, nil, ""},
		"the question would lose it":       {9, 9, "cl1", false, false, nil, "2.17.54"},
		"the answer hides it":              {9, 9, "cl1", false, false, nil, "2.17.57"},
		"no reader, and it is not told":    {9, 9, "cl2", false, false, nil, "2.17.57"},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newFakeLog(c.log...)
			l.counted, l.readers[1], l.version = max(l.counted, c.counted), c.stands, cmp.Or(c.version, l.version)
			f := &Follower{Changes: changesOf(l), Feed: labFeed, Reader: c.reader, Settle: time.Hour}
			err := follow(t, f, &keeper{}, 0, 5*time.Minute)
			if len(c.log) != len(l.log) {
				t.Errorf("%s: %d records of %d are left", name, len(l.log), len(c.log))
			}
			if errors.Is(err, ErrNoReader) != c.noReader || errors.Is(err, lustre.ErrGap) != c.gap {
				t.Errorf("%s: %v; want no reader %v, a gap %v", name, err, c.noReader, c.gap)
			}
			if _, registered := l.readers[1]; !registered {
				t.Errorf("%s: the reader was lost", name)
			}
		})
	}
}

// TestVersionOfMDT: what a server makes of a clearing is told by its own version, which its client was told; the client may be another one.
func TestVersionOfMDT(t *testing.T) {
	const state = "import:\n    name: lab-MDT0000-mdc-ffff888122441800\n    connect_data:\n       flags: 0xa0425af2e3440478\n       instance: 3\n       target_version: 2.17.57.0\n       max_brw_size: 1048576\n"
	client := &fstest.MapFile{Data: []byte("2.15.7\n")}
	for name, row := range map[string]struct {
		files fstest.MapFS
		want  string
		makes LowClear
	}{
		"a server that is younger than its client": {fstest.MapFS{"sys/fs/lustre/version": client, "proc/fs/lustre/mdc/lab-MDT0000-mdc-ffff888122441800/import": {Data: []byte(state)}}, "2.17.57.0", LowClearHides},
		"in debugfs":      {fstest.MapFS{"sys/fs/lustre/version": client, "sys/kernel/debug/lustre/mdc/lab-MDT0000-mdc-ffff888122441800/import": {Data: []byte(state)}}, "2.17.57.0", LowClearHides},
		"another MDT":     {fstest.MapFS{"sys/fs/lustre/version": client, "proc/fs/lustre/mdc/lab-MDT0001-mdc-ffff888122441800/import": {Data: []byte(state)}}, "2.15.7", LowClearTells},
		"not connected":   {fstest.MapFS{"sys/fs/lustre/version": client, "proc/fs/lustre/mdc/lab-MDT0000-mdc-ffff888122441800/import": {Data: []byte("import:\n")}}, "2.15.7", LowClearTells},
		"nothing is told": {fstest.MapFS{}, "", LowClearHides},
		"one that loses":  {fstest.MapFS{"sys/fs/lustre/version": {Data: []byte("2.17.51_12_gabcdef\n")}}, "2.17.51_12_gabcdef", LowClearLoses},
		"the next":        {fstest.MapFS{"sys/fs/lustre/version": {Data: []byte("2.18.0\n")}}, "2.18.0", LowClearHides},
	} {
		got := versionOf(row.files, labFeed)
		c := &Changes{version: func(lustre.Feed) string { return got }}
		if makes := c.LowClear(labFeed); got != row.want || makes != row.makes {
			t.Errorf("%s: %q makes %d of it; want %q, %d", name, got, makes, row.want, row.makes)
		}
	}
}
