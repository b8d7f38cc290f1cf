package transfer_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/journal"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/test/must"
)

// dying is a target whose process dies at the n-th part.
type dying struct {
	*mem.Backend
	parts *atomic.Int64
	at    int64
}

func (d dying) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	draft, err := d.Backend.Draft(ctx, e, h)
	if err != nil {
		return nil, err
	}
	return dyingDraft{draft, d}, nil
}

type dyingDraft struct {
	mover.Draft
	of dying
}

func (d dyingDraft) Unwrap() any { return d.Draft }

func (d dyingDraft) WritePart(ctx context.Context, p mover.Part, f mover.Feed) (mover.Receipt, error) {
	if d.of.parts.Add(1) == d.of.at {
		d.of.Crash()
		return mover.Receipt{}, mover.ErrUnreachable
	}
	return d.Draft.WritePart(ctx, p, f)
}

func (d dying) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	inner := make([]mover.Draft, len(batch))
	for i := range batch {
		inner[i] = batch[i].(dyingDraft).Draft
	}
	return d.Backend.Publish(ctx, inner)
}

//safety:3 what is read after a kill is at most what was in flight, to the part; also when the store finishes what a dead run had asked for
func TestResumeSendsOnlyWhatIsMissing(t *testing.T) {
	for _, o := range []mem.Options{{}, {ObjectStore: true}} {
		source, target := mem.NewTree(), mem.NewTree()
		source.Files(map[string]string{"dir/large": strings.Repeat("0123456789abcdef", 1<<16)})
		dir := t.TempDir()
		if err := interrupted(t, source, target, o, dir, 7); err == nil {
			t.Fatal("the run survived the death of its process")
		}
		j := must.Get(journal.Open(dir, journal.Options{}))(t)
		var n transfer.Counters
		read := &counting{Backend: mem.New(source, mem.Options{})}
		to := mem.New(target, o)
		ctx := context.Background()
		p := plan.Options{Both: o.ObjectStore}
		actions := plan.Diff(read.Walk(ctx, mover.WalkOptions{}), to.Walk(ctx, mover.WalkOptions{}), p)
		must.Do(t, transfer.Run(ctx, read, to, actions, transfer.Options{By: mover.WriterID{Task: "test", Epoch: 2}, Journal: j, Counters: &n, Plan: p}))
		same(t, source, target, o)
		parts := int64(1<<20) / to.Capabilities().PartBytes
		if got, want := read.bytes.Load(), (parts-6)*to.Capabilities().PartBytes; got > want {
			t.Errorf("%s: the second run read %d bytes; 6 of %d parts were there already", to.Capabilities().System, got, parts)
		}
		for _, r := range j.Left(ctx) {
			t.Errorf("the journal still has %+v", r)
		}
		must.Do(t, j.Close())
	}
}

// interrupted runs until the target's process dies at the given part.
func interrupted(t *testing.T, source, target *mem.Tree, o mem.Options, dir string, at int64) error {
	t.Helper()
	j := must.Get(journal.Open(dir, journal.Options{}))(t)
	defer j.Close()
	ctx := context.Background()
	from, to := mem.New(source, mem.Options{}), dying{mem.New(target, o), new(atomic.Int64), at}
	p := plan.Options{Both: o.ObjectStore}
	actions := plan.Diff(from.Walk(ctx, mover.WalkOptions{}), to.Walk(ctx, mover.WalkOptions{}), p)
	return transfer.Run(ctx, from, to, actions, transfer.Options{By: by, Journal: j, Jobs: 1, Plan: p})
}

// counting counts the bytes that are read from it.
type counting struct {
	*mem.Backend
	bytes atomic.Int64
}

func (c *counting) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	content, err := c.Backend.Open(ctx, e)
	return countingContent{content, c}, err
}

type countingContent struct {
	mover.Content
	of *counting
}

func (c countingContent) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	r, err := c.Content.Range(ctx, off, n)
	return countingReader{r, c.of}, err
}

type countingReader struct {
	io.ReadCloser
	of *counting
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.of.bytes.Add(int64(n))
	return n, err
}

// TestPublishedAfterDeath: a process dies while the store puts its parts together.
// The next run finds no draft, waits for the object, and sends nothing again.
//
//safety:3 with TestResumeSendsOnlyWhatIsMissing
func TestPublishedAfterDeath(t *testing.T) {
	ctx, object := t.Context(), mem.Options{ObjectStore: true}
	content := strings.Repeat("0123456789abcdef", 1<<16)
	source, target := mem.NewTree().Files(map[string]string{"large": content}), mem.NewTree()
	dir := t.TempDir()
	j, err := journal.Open(dir, journal.Options{})
	must.Do(t, err)
	dies := faulty.New(mem.New(target, object), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == faulty.Publish && c.Name == "large" {
			return faulty.Unreachable
		}
		return faulty.None
	}})
	o := transfer.Options{Journal: j, Plan: plan.Options{Both: true}}
	if _, err := syncTo(ctx, mem.New(source, mem.Options{}), dies, o); err == nil {
		t.Fatal("the object was published")
	}
	must.Do(t, j.Close())
	if j, err = journal.Open(dir, journal.Options{}); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	o.Journal = j
	for _, token := range target.Drafts() {
		must.Do(t, mem.New(target, object).Drop(ctx, token))
	}
	looks := 0
	slow := faulty.New(mem.New(target, object), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == faulty.Stat && c.Name == "large" {
			if looks++; looks == 2 {
				target.Put(mover.Entry{Name: "large", Kind: mover.File}, []byte(content))
			}
		}
		return faulty.None
	}})
	read := &counting{Backend: mem.New(source, mem.Options{})}
	res, err := syncTo(ctx, read, slow, o)
	if f := res.failed(); err != nil || f != nil {
		t.Fatal(err, f)
	}
	if n := read.bytes.Load(); n != 0 || looks < 2 {
		t.Errorf("%d bytes were read again, and the object was looked for %d times", n, looks)
	}
	for _, r := range res.all {
		if r.Entry.Name == "large" && (r.Op != plan.Create || r.Level != mover.Server) {
			t.Errorf("reported as %v at level %v", r.Op, r.Level)
		}
	}
	for _, r := range j.Left(ctx) {
		if r.Name != "large" || r.Token == "" { // which is dropped once more when the task ends
			t.Errorf("the journal still has %+v", r)
		}
	}
}

// losing is a target whose writes may fail unseen.
type losing struct{ *mem.Backend }

func (l losing) Capabilities() mover.Capabilities {
	t := l.Backend.Capabilities()
	t.LateErrors = true
	return t
}

// TestLostPartsAreSentAgain: where errors come late, a part that no sync has confirmed is
// read before it counts.
//
//safety:3 parts that a server lost silently after a kill -9 or a full target: what no sync has confirmed is read before it counts
func TestLostPartsAreSentAgain(t *testing.T) {
	source, target := mem.NewTree(), mem.NewTree()
	source.Files(map[string]string{"dir/large": strings.Repeat("0123456789abcdef", 1<<16)})
	dir := t.TempDir()
	if err := interrupted(t, source, target, mem.Options{}, dir, 7); err == nil {
		t.Fatal("the run survived the death of its process")
	}
	j := must.Get(journal.Open(dir, journal.Options{}))(t)
	defer j.Close()
	ctx := t.Context()
	to := mem.New(target, mem.Options{})
	for _, rec := range j.Left(ctx) {
		if len(rec.Unsure) != 6 {
			t.Errorf("of 6 parts, %d are not confirmed", len(rec.Unsure))
		}
		d := must.Get(to.Adopt(ctx, rec.Token))(t)
		lost := rec.Receipts[2].Part // as a server does that had no room for it
		if _, err := d.WritePart(ctx, lost, backendtest.NewFeed(make([]byte, lost.Length))); err != nil {
			t.Fatal(err)
		}
		must.Do(t, d.Suspend())
	}
	read := &counting{Backend: mem.New(source, mem.Options{})}
	actions := plan.Diff(read.Walk(ctx, mover.WalkOptions{}), to.Walk(ctx, mover.WalkOptions{}), plan.Options{})
	must.Do(t, transfer.Run(ctx, read, losing{to}, actions, transfer.Options{By: mover.WriterID{Task: "test", Epoch: 2}, Journal: j}))
	same(t, source, target, mem.Options{})
	part := to.Capabilities().PartBytes
	if got, want := read.bytes.Load(), 1<<20-5*part; got != want {
		t.Errorf("the second run read %d bytes instead of %d: 5 parts were there, and one was lost", got, want)
	}
}
