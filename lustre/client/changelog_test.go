package client

import (
	"context"
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

var labFeed = lustre.Feed{Name: "lab-MDT0000"}

func changesOf(l *fakeLog) *Changes {
	c := ChangesOf("lab")
	c.devices, c.version = l, func(lustre.Feed) string { return l.version }
	return c
}

// indices reads all there is, and closes what it opened.
func indices(t *testing.T, l *fakeLog, c *Changes, after uint64) (got []uint64, err error) {
	t.Helper()
	for r, failed := range c.Read(t.Context(), labFeed, after) {
		if failed != nil {
			err = failed
			continue
		}
		got = append(got, r.Index)
	}
	if l.opened != 0 {
		t.Errorf("%d devices are open", l.opened)
	}
	return got, err
}

//safety:4 a change log with a gap, purged, made anew, out of order: a full scan is asked for, and nothing is passed over
func TestReadChanges(t *testing.T) {
	t.Parallel()
	marked := func(index uint64, marker uint32) lustre.Change {
		return lustre.Change{Index: index, Type: lustre.ChangeMark, Marker: marker, Name: "lab-MDT0000", Time: change(index).Time}
	}
	for _, c := range []struct {
		name  string
		log   []lustre.Change
		after uint64
		want  []uint64
		gap   bool
	}{
		{"from the beginning", span(1, 3), 0, []uint64{1, 2, 3}, false},
		{"from the beginning that is left", span(11, 12), 0, []uint64{11, 12}, false},
		{"from the middle", span(1, 4), 2, []uint64{3, 4}, false},
		{"nothing new", span(1, 4), 4, nil, false},
		{"an empty log", nil, 7, nil, false},
		{"the first are gone", span(11, 12), 9, nil, true},
		{"one in the middle is gone", append(span(1, 2), span(4, 5)...), 1, []uint64{2}, true},
		{"written in another order", []lustre.Change{change(2), change(1), change(5), change(4), change(3)}, 0, []uint64{1, 2, 3, 4, 5}, false},
		{"in another order after a known one", []lustre.Change{change(1), change(4), change(2), change(3)}, 1, []uint64{2, 3, 4}, false},
		{"one that comes twice", []lustre.Change{change(1), change(1), change(2), change(3), change(2)}, 0, []uint64{1, 2, 3}, false},
		{"the log was turned off", []lustre.Change{change(1), marked(2, 0x20001), marked(3, 0x10001), change(4)}, 0, []uint64{1, 2}, true},
		{"read on after it was turned on again", []lustre.Change{marked(2, 0x20001), marked(3, 0x10001), change(4)}, 2, []uint64{3, 4}, false},
		{"the server began anew", []lustre.Change{change(1), marked(2, 0x10001), change(3)}, 0, []uint64{1, 2, 3}, false},
		{"more than is held back", span(1, 3*maxHeld), 0, nil, false},
		{"a hole before more than is held back", append([]lustre.Change{change(1)}, span(3, 3*maxHeld)...), 0, []uint64{1}, true},
	} {
		for _, perRead := range []int{0, 1} {
			l := newFakeLog(c.log...)
			l.perRead = perRead
			got, err := indices(t, l, changesOf(l), c.after)
			if errors.Is(err, lustre.ErrGap) != c.gap || err != nil && !c.gap {
				t.Errorf("%s: %v; want a gap %v", c.name, err, c.gap)
			}
			if len(c.log) > maxHeld && !c.gap {
				if len(got) != len(c.log) {
					t.Errorf("%s: %d of %d", c.name, len(got), len(c.log))
				}
			} else if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: %v; want %v", c.name, got, c.want)
			}
		}
	}
}

// A number that is missing may be on its way: the reading ends before it, and what comes
// after it is held back, until it is there or too much time has gone.
func TestMissingChangeIsWaitedFor(t *testing.T) {
	t.Parallel()
	now := time.Now()
	young := func(index uint64) lustre.Change { c := change(index); c.Time = now; return c }
	l := newFakeLog(young(1), young(3))
	c := changesOf(l)
	c.now = func() time.Time { return now }
	if got, err := indices(t, l, c, 0); !reflect.DeepEqual(got, []uint64{1}) || err != nil {
		t.Fatalf("before the hole: %v, %v; want 1", got, err)
	}
	l.write(young(2))
	if got, err := indices(t, l, c, 1); !reflect.DeepEqual(got, []uint64{2, 3}) || err != nil {
		t.Fatalf("filled: %v, %v; want 2 and 3", got, err)
	}
	l.write(young(5))
	for range 2 {
		if got, err := indices(t, l, c, 3); got != nil || err != nil {
			t.Fatalf("a new hole: %v, %v; want nothing yet", got, err)
		}
	}
	now = now.Add(31 * time.Second)
	if got, err := indices(t, l, c, 3); got != nil || !errors.Is(err, lustre.ErrGap) {
		t.Errorf("after its time: %v, %v; want a gap", got, err)
	}

	// The server's clock is a day ahead: ours decides.
	l = newFakeLog(young(1), func() lustre.Change { c := change(3); c.Time = now.Add(24 * time.Hour); return c }())
	c.devices = l
	if got, err := indices(t, l, c, 1); got != nil || err != nil {
		t.Errorf("from the future: %v, %v; want nothing yet", got, err)
	}
	now = now.Add(31 * time.Second)
	if _, err := indices(t, l, c, 1); !errors.Is(err, lustre.ErrGap) {
		t.Errorf("from the future, after its time: %v; want a gap", err)
	}
}

// Another takes records away while we read.
func TestClearedWhileRead(t *testing.T) {
	t.Parallel()
	l := newFakeLog(span(1, 6)...)
	c := changesOf(l)
	for r, err := range c.Read(t.Context(), labFeed, 0) {
		must.Do(t, err)
		if r.Index == 2 {
			break
		}
	}
	must.Do(t, l.clear(1, 4))
	if got, err := indices(t, l, c, 2); got != nil || !errors.Is(err, lustre.ErrGap) {
		t.Errorf("after 2, when all to 4 is gone: %v, %v; want a gap", got, err)
	}
}

func TestClear(t *testing.T) {
	t.Parallel()
	l := newFakeLog(span(1, 9)...)
	l.readers[2] = 0
	c, ctx := changesOf(l), t.Context()
	for _, step := range []struct {
		name   string
		reader string
		upTo   uint64
		gap    bool
		stands uint64
	}{
		{"nothing, which would be all", "cl1", 0, false, 0},
		{"some", "cl1", 5, false, 5},
		{"again, to be heard", "cl1", 5, false, 5},
		{"with the name it was given", "cl1-backup", 6, false, 6},
		{"what somebody has cleared further", "cl1", 4, true, 6},
		{"what there never was: the log was begun anew", "cl1", 10, true, 6},
		{"a reader that is gone", "cl7", 7, true, 6},
	} {
		err := c.Clear(ctx, labFeed, step.reader, step.upTo)
		if errors.Is(err, lustre.ErrGap) != step.gap || err != nil && !step.gap {
			t.Errorf("%s: %v; want a gap %v", step.name, err, step.gap)
		}
		if l.readers[1] != step.stands {
			t.Errorf("%s: cl1 stands at %d; want %d", step.name, l.readers[1], step.stands)
		}
	}
	if len(l.log) != 9 {
		t.Errorf("%d records are left; cl2 has read none of 9", len(l.log))
	}
	for _, reader := range []string{"", "cl", "1", "cl1:0", "cl1 ", "cl1-a b", "cl1-" + strings.Repeat("x", 33)} {
		if err := c.Clear(ctx, labFeed, reader, 7); err == nil || errors.Is(err, lustre.ErrGap) || l.heard[1] != 3 {
			t.Errorf("reader %q: %v; want it refused", reader, err)
		}
	}
}

func TestFeeds(t *testing.T) {
	t.Parallel()
	l := newFakeLog()
	c, ctx := changesOf(l), t.Context()
	if feeds, err := c.Feeds(ctx); err != nil || !reflect.DeepEqual(feeds, []lustre.Feed{{Name: "lab-MDT0000"}, {Name: "lab-MDT0001"}}) {
		t.Errorf("%v, %v", feeds, err)
	}
	for _, name := range []string{"", "other-MDT0000", "lab-MDT0000/../../etc/passwd", "../lab-MDT0000", "lab-MDT00000", "lab-MDT0000\n"} {
		for _, err := range c.Read(ctx, lustre.Feed{Name: name}, 0) {
			if err == nil || !strings.Contains(err.Error(), "no feed") {
				t.Errorf("%q: %v; want it refused", name, err)
			}
		}
	}
	c.name = "nowhere"
	if feeds, err := c.Feeds(ctx); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("of a file system without devices: %v, %v", feeds, err)
	}
	c.name, l.denied = "lab", unix.EACCES
	for _, err := range c.Read(ctx, labFeed, 0) {
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "only root") {
			t.Errorf("as a user: %v", err)
		}
	}
	if err := c.Clear(ctx, labFeed, "cl1", 1); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("clear as a user: %v", err)
	}
}

func TestLastChange(t *testing.T) {
	t.Parallel()
	l := newFakeLog(change(4), change(9), change(7))
	if last, err := changesOf(l).Last(t.Context(), labFeed); last != 9 || err != nil {
		t.Errorf("%d, %v; want 9", last, err)
	}
	if last, err := changesOf(newFakeLog()).Last(t.Context(), labFeed); last != 0 || err != nil {
		t.Errorf("of an empty log: %d, %v", last, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := changesOf(l).Last(ctx, labFeed); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// Who has enough is left alone, whatever comes afterwards.
func TestReadingIsLeft(t *testing.T) {
	t.Parallel()
	l := newFakeLog(span(1, 3)...)
	l.onClose = unix.EIO
	for r, err := range changesOf(l).Read(t.Context(), labFeed, 1) {
		if r.Index != 2 || err != nil {
			t.Errorf("%d, %v", r.Index, err)
		}
		break
	}
	if got, err := indices(t, l, changesOf(l), 1); !reflect.DeepEqual(got, []uint64{2, 3}) || !errors.Is(err, unix.EIO) {
		t.Errorf("%v, %v; want the error of closing, too", got, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	l.perRead, l.onRead = 1, stop // in the first read; the second notices
	var last error
	for _, last = range changesOf(l).Read(ctx, labFeed, 1) {
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("stopped: %v", last)
	}
}
