package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/journal"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/test/must"
)

// syncTo runs a sync with Delete between two places.
func syncTo(ctx context.Context, from mover.Source, to mover.Backend, o transfer.Options) (*results, error) {
	res := &results{}
	o.By, o.Observer, o.Plan.Delete = by, res, true
	actions := plan.Diff(from.Walk(ctx, mover.WalkOptions{}), to.Walk(ctx, mover.WalkOptions{}), o.Plan)
	return res, transfer.Run(ctx, from, to, actions, o)
}

// TestLinksOnlyToWhatTheWalkSaw: the first name of a file is replaced by another file
// while it is copied. Linked to the copy of that, the other name would give it the
// times of the old content, and no later run would look again.
//
//safety:4 the first name of a hard link is replaced while it is copied
func TestLinksOnlyToWhatTheWalkSaw(t *testing.T) {
	source, target := mem.NewTree().Files(map[string]string{"a": "old"}).Link("a", "b"), mem.NewTree()
	from := faulty.New(mem.New(source, mem.Options{}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == faulty.Read && c.Name == "a" && c.Nth == 0 {
			source.Put(mover.Entry{Name: "a", Kind: mover.File}, []byte("new"))
		}
		return faulty.None
	}})
	res := must.Get(syncTo(t.Context(), from, mem.New(target, mem.Options{}), transfer.Options{}))(t)
	if failed := res.failed(); len(failed) != 1 || !strings.HasPrefix(failed[0], "b: ") {
		t.Errorf("failed: %q, want b alone", failed)
	}
	if _, err := syncTo(t.Context(), mem.New(source, mem.Options{}), mem.New(target, mem.Options{}), transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	same(t, source, target, mem.Options{})
}

// A leader that could not be copied leaves the content that was there before.
func TestNothingIsLinkedToALeaderThatFailed(t *testing.T) {
	source := mem.NewTree().Files(map[string]string{"a": "new"}).Link("a", "b")
	target := mem.NewTree().Files(map[string]string{"a": "old"})
	from := faulty.New(mem.New(source, mem.Options{}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == faulty.Open && c.Name == "a" {
			return faulty.Denied
		}
		return faulty.None
	}})
	if _, err := syncTo(t.Context(), from, mem.New(target, mem.Options{}), transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	if was, ok := target.Content("b"); ok {
		t.Errorf("b is a link to %q", was)
	}
}

func TestLinkInPlaceOfADirectory(t *testing.T) {
	for leader, link := range map[string]string{"a": "b", "b": "c"} {
		source := mem.NewTree().Files(map[string]string{leader: "content"}).Link(leader, link)
		target := mem.NewTree().Files(map[string]string{"b/x/y": "in the way"})
		res, err := syncTo(t.Context(), mem.New(source, mem.Options{}), mem.New(target, mem.Options{}), transfer.Options{})
		if f := res.failed(); err != nil || f != nil {
			t.Fatal(err, f)
		}
		same(t, source, target, mem.Options{})
	}
}

// A file is compared, and found to differ; its other name is to follow it.
func TestComparedNamesStayLinked(t *testing.T) {
	source := mem.NewTree().Files(map[string]string{"a": "new"}).Link("a", "b")
	target := mem.NewTree().Files(map[string]string{"a": "old"}).Link("a", "b")
	from, to := mem.New(source, mem.Options{}), mem.New(target, mem.Options{})
	res, err := syncTo(t.Context(), from, to, transfer.Options{Plan: plan.Options{CompareBy: plan.ByContent}})
	if f := res.failed(); err != nil || f != nil {
		t.Fatal(err, f)
	}
	same(t, source, target, mem.Options{})
	a, err := to.Stat(t.Context(), "a")
	must.Do(t, err)
	if b, err := to.Stat(t.Context(), "b"); err != nil || a.Ino != b.Ino {
		t.Errorf("a is inode %d, b is %d: %v", a.Ino, b.Ino, err)
	}
}

// A byte flips while the first name is compared, so it gets a new content. The other
// name, found equal, has to become a link to that.
func TestEqualNameFollowsItsLeader(t *testing.T) {
	source := mem.NewTree().Files(map[string]string{"a": "content"}).Link("a", "b")
	target := mem.NewTree().Files(map[string]string{"a": "content"}).Link("a", "b")
	from := faulty.New(mem.New(source, mem.Options{}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == faulty.Read && c.Name == "a" && c.Nth == 0 {
			return faulty.Flipped
		}
		return faulty.None
	}})
	to := mem.New(target, mem.Options{})
	res, err := syncTo(t.Context(), from, to, transfer.Options{Plan: plan.Options{CompareBy: plan.ByContent}})
	if f := res.failed(); err != nil || f != nil {
		t.Fatal(err, f)
	}
	same(t, source, target, mem.Options{})
	a, errA := to.Stat(t.Context(), "a")
	b, errB := to.Stat(t.Context(), "b")
	if err := errors.Join(errA, errB); err != nil || a.Ino != b.Ino {
		t.Errorf("a is inode %d, b is %d: %v", a.Ino, b.Ino, err)
	}
}

//safety:5 with TestRemovalsCanBeRefused
func TestRefusalLeavesTheRestDone(t *testing.T) {
	source := mem.NewTree().Files(files).Put(mover.Entry{Name: "empty", Kind: mover.Dir, Mode: 0o711, Known: mover.FactMode}, nil)
	target := mem.NewTree().Files(map[string]string{"extra": "stays", "z/was": "a directory where a file comes"})
	refusal := fmt.Errorf("%w: no", mover.ErrRefused)
	res, err := syncTo(t.Context(), mem.New(source, mem.Options{}), mem.New(target, mem.Options{}), transfer.Options{
		Allow: func(int64) error { return refusal },
	})
	if !errors.Is(err, mover.ErrRefused) {
		t.Errorf("Run: %v", err)
	}
	if failed := res.failed(); len(failed) != 1 || !strings.HasPrefix(failed[0], "z: ") {
		t.Errorf("failed: %q, want z alone, whose place was not made", failed)
	}
	place := mem.New(target, mem.Options{})
	if e, err := place.Stat(t.Context(), "empty"); err != nil || e.Mode != 0o711 {
		t.Errorf("the directory has mode %o, %v", e.Mode, err)
	}
	for _, name := range []string{"extra", "z/was"} {
		if _, ok := target.Content(name); !ok {
			t.Errorf("%s was removed", name)
		}
	}
}

// TestStoppedRunLeavesItsDrafts stops a run in the middle of a large file. What was
// open is closed, and the next run goes on with the draft.
//
//safety:3 a stop from outside keeps the parts and lets go of everything open
func TestStoppedRunLeavesItsDrafts(t *testing.T) {
	source, target := mem.NewTree().Files(map[string]string{"large": strings.Repeat("0123456789abcdef", 1<<16)}), mem.NewTree()
	j := must.Get(journal.Open(t.TempDir(), journal.Options{}))(t)
	defer j.Close()
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	from := &opening{Backend: mem.New(source, mem.Options{})}
	to := faulty.New(mem.New(target, mem.Options{}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == faulty.Write && c.Off >= 7*64<<10 {
			stop(stopped)
		}
		return faulty.None
	}})
	if _, err := syncTo(ctx, from, to, transfer.Options{Journal: j, Jobs: 2}); !errors.Is(err, stopped) {
		t.Errorf("Run: %v", err)
	}
	if n := from.open.Load(); n != 0 {
		t.Errorf("%d contents are still open", n)
	}
	if d := target.Drafts(); len(d) != 1 {
		t.Errorf("drafts: %v, want the one to go on with", d)
	}
}

// opening counts what is open.
type opening struct {
	*mem.Backend
	open atomic.Int64
}

func (o *opening) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := o.Backend.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	o.open.Add(1)
	return &openContent{Content: c, of: o}, nil
}

type openContent struct {
	mover.Content
	of     *opening
	closed atomic.Bool
}

func (c *openContent) Close() error {
	if !c.closed.Swap(true) {
		c.of.open.Add(-1)
	}
	return c.Content.Close()
}

// TestWrongReadBackIsRemoved: what is visible and wrong has the right size and time,
// so the next run would keep it.
func TestWrongReadBackIsRemoved(t *testing.T) {
	source, target := mem.NewTree().Files(map[string]string{"a": "right"}), mem.NewTree()
	to := careless{mem.New(target, mem.Options{})}
	res := must.Get(syncTo(t.Context(), mem.New(source, mem.Options{}), to, transfer.Options{Level: mover.Read}))(t)
	if len(res.all) == 0 || len(res.failed()) != 1 {
		t.Errorf("failed: %q", res.failed())
	}
	for _, r := range res.all {
		if r.Err != nil && !errors.Is(r.Err, mover.ErrCorrupt) {
			t.Errorf("%s: %v", r.Entry.Name, r.Err)
		}
	}
	if was, ok := target.Content("a"); ok {
		t.Errorf("%q is visible", was)
	}
}

// careless is a store that writes wrong bytes, and whose drafts can not be read.
type careless struct{ *mem.Backend }

func (c careless) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	d, err := c.Backend.Draft(ctx, e, h)
	if err != nil || e.Kind != mover.File {
		return d, err
	}
	return wrong{d}, nil
}

func (c careless) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	inner := make([]mover.Draft, len(batch))
	for i, d := range batch {
		inner[i] = d
		if w, ok := d.(wrong); ok {
			inner[i] = w.Draft
		}
	}
	return c.Backend.Publish(ctx, inner)
}

type wrong struct{ mover.Draft }

func (w wrong) WritePart(ctx context.Context, p mover.Part, f mover.Feed) (mover.Receipt, error) {
	return w.Draft.WritePart(ctx, p, wrongFeed{f})
}

type wrongFeed struct{ mover.Feed }

func (f wrongFeed) Read(p []byte) (int, error) {
	n, err := f.Feed.Read(p)
	if n > 0 {
		p[0] ^= 1
	}
	return n, err
}
