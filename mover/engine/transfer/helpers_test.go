package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
)

// fate is what happens to a work that was given away.
type fate int

const (
	done    fate = iota // it is done
	nobody              // nobody takes it
	killed              // who has it is killed in the middle, another one takes over
	refused             // who has it has lost it by the time it publishes, another one takes over
	yields              // it stops after the first entry
	silent              // parts: who has them is not heard of again, and goes on writing
	begun               // who has it is killed in the middle, and nobody else is there
	fates               // how many there are
)

// crew does works in other "processes": places of their own on the same trees.
type crew struct {
	t              rapid.TB
	source, target *mem.Tree
	o              mem.Options
	plan           plan.Options
	fate           func(w *transfer.Work) fate
	slots          chan struct{}

	mu    sync.Mutex
	epoch uint64
	given map[fate]int
	first chan struct{} // closed when a work is given away
	late  []func()      // what the silent do when all is over
}

func newCrew(t rapid.TB, source, target *mem.Tree, o mem.Options, p plan.Options, decide func(*transfer.Work) fate) *crew {
	c := &crew{t: t, source: source, target: target, o: o, plan: p, fate: decide, slots: make(chan struct{}, 3), epoch: 100, given: map[fate]int{}, first: make(chan struct{})}
	for range cap(c.slots) {
		c.slots <- struct{}{}
	}
	return c
}

func (c *crew) Wanted(ctx context.Context) (others int, err error) {
	select {
	case <-c.slots:
		return cap(c.slots), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (c *crew) Give(ctx context.Context, w *transfer.Work) (*transfer.Reply, error) {
	text, err := w.Encode()
	if err != nil {
		return nil, err
	}
	if w.Parts != nil {
		for n, i := range w.Parts.Index {
			if i != w.Parts.Index[0]+n {
				c.t.Errorf("parts of %s are no run: %v", w.Parts.Entry.Name, w.Parts.Index)
			}
		}
	}
	f := c.fate(w)
	if f != nobody { // who is not there wants nothing
		defer func() { c.slots <- struct{}{} }()
	}
	c.mu.Lock()
	if len(c.given) == 0 {
		close(c.first)
	}
	c.given[f]++
	c.mu.Unlock()
	switch {
	case f == nobody:
		return nil, transfer.ErrNobody
	case f == silent && w.Parts != nil:
		return nil, c.silence(ctx, text)
	case f == killed || f == refused || f == begun:
		over := c.failing(ctx, text, f)
		if w.Parts != nil {
			return nil, transfer.ErrNobody
		}
		if f == begun {
			return nil, &transfer.Begun{Over: []uint64{over}}
		}
		w.Again, w.Over = true, []uint64{over}
		if text, err = w.Encode(); err != nil {
			return nil, err
		}
	}
	yield := make(chan struct{})
	if f == yields {
		close(yield)
	}
	reply, err := c.do(ctx, text, c.next(), func(context.Context) error { return nil }, yield, mem.New(c.target, c.o))
	if err != nil {
		return nil, err
	}
	back, err := reply.Encode()
	if err != nil {
		return nil, err
	}
	return transfer.DecodeReply(back)
}

// turn lets the lead begin with batches when the crew has one.
func (c *crew) turn(ctx context.Context, a transfer.SlotRequest) (transfer.Slot, error) {
	if a.Ops > 1 {
		select {
		case <-c.first:
		case <-ctx.Done():
		}
	}
	return transfer.Slot{Done: func(int64) {}}, nil
}

func (c *crew) next() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	return c.epoch
}

// do is the other process.
func (c *crew) do(ctx context.Context, text []byte, epoch uint64, mine func(context.Context) error, yield chan struct{}, to *mem.Backend) (*transfer.Reply, error) {
	w, err := transfer.DecodeWork(text)
	if err != nil {
		return nil, err
	}
	from := mem.New(c.source, mem.Options{})
	defer from.Close()
	defer to.Close()
	return transfer.NewHelper(from, to, transfer.Options{Plan: c.plan}).Do(ctx, epoch, mine, yield, w)
}

// failing tries a work and does not end well. It returns its epoch.
func (c *crew) failing(ctx context.Context, text []byte, f fate) uint64 {
	epoch, to := c.next(), mem.New(c.target, c.o)
	asked := 0
	_, err := c.do(ctx, text, epoch, func(context.Context) error {
		if asked++; f == killed || f == begun {
			to.Crash() // its drafts stay behind
			return nil
		}
		return mover.ErrHeld
	}, nil, to)
	if err == nil && asked > 0 && f == refused {
		c.t.Error("a hand that has lost its work says that it is done")
	}
	return epoch
}

// silence begins parts, and writes other bytes to the draft when all is over.
func (c *crew) silence(ctx context.Context, text []byte) error {
	w, err := transfer.DecodeWork(text)
	if err != nil {
		return err
	}
	to := mem.New(c.target, c.o)
	d, err := to.Adopt(ctx, w.Parts.Token)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = append(c.late, func() {
		p := mover.Part{Index: w.Parts.Index[0], Off: int64(w.Parts.Index[0]) * w.Parts.PartBytes}
		p.Length = min(w.Parts.PartBytes, w.Parts.Entry.Size-p.Off)
		_, _ = d.WritePart(context.Background(), p, &garbage{left: p.Length})
		_ = to.Close()
	})
	return transfer.ErrSilent
}

// garbage is a feed of bytes that nobody wants.
type garbage struct{ left int64 }

func (g *garbage) Read(p []byte) (int, error) {
	n := min(int64(len(p)), g.left)
	copy(p, bytes.Repeat([]byte{0xEE}, int(n)))
	if g.left -= n; g.left == 0 {
		return int(n), io.EOF
	}
	return int(n), nil
}
func (*garbage) Hole() int64   { return 0 }
func (*garbage) Sum() uint64   { return 0 }
func (*garbage) Rewind() error { return nil }

// runWith is run with a crew.
func runWith(t rapid.TB, source, target *mem.Tree, o mem.Options, f func(*transfer.Work) fate, adjust ...func(*crew, *transfer.Options)) (*crew, *results) {
	t.Helper()
	p := plan.Options{Both: o.ObjectStore}
	c := newCrew(t, source, target, o, p, f)
	res := run(t, source, target, o, p, func(o *transfer.Options) {
		o.Helpers, o.Jobs = c, 1
		for _, a := range adjust {
			a(c, o)
		}
	})
	c.mu.Lock()
	late := c.late
	c.mu.Unlock()
	for _, write := range late {
		write()
	}
	return c, res
}

func manyFiles(n int) map[string]string {
	many := maps.Clone(files)
	for i := range n {
		many[fmt.Sprintf("many/%d/f%d", i%7, i)] = strings.Repeat(fmt.Sprint(i), i%90)
	}
	for i := range 4 {
		many[fmt.Sprintf("big%d", i)] = strings.Repeat(fmt.Sprint(i), 300_000+i)
	}
	return many
}

func TestCrew(t *testing.T) {
	for name, f := range map[string]fate{"done": done, "nobody": nobody, "killed": killed, "refused": refused, "yields": yields, "silent": silent, "begun": begun} {
		for _, o := range []mem.Options{{}, {ObjectStore: true}} {
			if f == silent && o.ObjectStore {
				continue // a store that tells parts by ETag; this one does not
			}
			t.Run(fmt.Sprintf("%s %v", name, o.ObjectStore), func(t *testing.T) {
				source, target := mem.NewTree().Files(manyFiles(3000)), mem.NewTree()
				source.Link("a", "b/hard")
				c, res := runWith(t, source, target, o, func(*transfer.Work) fate { return f },
					func(c *crew, opts *transfer.Options) {
						if !o.ObjectStore { // whose batches are so large that there may be but one
							opts.AcquireSlot = c.turn
						}
					})
				if failed := res.failed(); failed != nil {
					t.Fatal(failed)
				}
				same(t, source, target, o)
				if c.given[f] == 0 && !o.ObjectStore {
					t.Error("nothing was given away: this shows nothing")
				}
				told := map[string]int{}
				for _, r := range res.all {
					told[r.Entry.Name]++
				}
				for name, n := range told {
					if n != 1 {
						t.Errorf("%q was told %d times", name, n)
					}
				}
			})
		}
	}
}

// TestCrewMakesEqual is the promise: whatever becomes of those who help, the target
// becomes the source, and nothing is left behind.
//
//safety:1 helpers of a run that are killed, refused, asked to stop, or silent while they go on writing
func TestCrewMakesEqual(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		n := rapid.IntRange(1, 2500).Draw(rt, "files")
		source, target := mem.NewTree().Files(manyFiles(n)), mem.NewTree()
		if rapid.Bool().Draw(rt, "some there") {
			for i := range n / 2 {
				target.Files(map[string]string{fmt.Sprintf("many/%d/f%d", i%7, i): "no file is so long."})
			}
		}
		var mu sync.Mutex
		dice := rand.New(rand.NewPCG(seed, 1))
		_, res := runWith(rt, source, target, mem.Options{}, func(*transfer.Work) fate {
			mu.Lock()
			defer mu.Unlock()
			return fate(dice.IntN(int(fates)))
		})
		if failed := res.failed(); failed != nil {
			rt.Fatal(failed)
		}
		same(rt, source, target, mem.Options{})
	})
}

func TestHostileWork(t *testing.T) {
	file := mover.Entry{Name: "f", Kind: mover.File, Size: 10}
	for name, w := range map[string]transfer.Work{
		"a name that leads out":    {Steps: []transfer.Step{{Action: plan.Action{Op: plan.Create, Source: mover.Entry{Name: "../x", Kind: mover.File}}}}},
		"a link that leads out":    {Steps: []transfer.Step{{Action: plan.Action{Op: plan.Link, Source: file, Link: "/etc/passwd"}}}},
		"a part that is not there": {Parts: &transfer.Parts{Source: file, Entry: file, PartBytes: 5, Index: []int{2}}},
		"a part before the first":  {Parts: &transfer.Parts{Source: file, Entry: file, PartBytes: 5, Index: []int{-1}}},
		"parts of no bytes":        {Parts: &transfer.Parts{Source: file, Entry: file, Index: []int{0}}},
		"a file of less than none": {Parts: &transfer.Parts{Source: file, Entry: mover.Entry{Name: "f", Size: -1}, PartBytes: 5}},
	} {
		text := must.Get(w.Encode())(t)
		if _, err := transfer.DecodeWork(text); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := transfer.DecodeWork([]byte("gibberish")); err == nil {
		t.Error("gibberish: accepted")
	}
}
