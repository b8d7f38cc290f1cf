package loadgen

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sort"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"datamove.dev/mover"
)

// rank is one of those that work at the same time.
type rank struct {
	node     *Node
	number   int        // in the run
	counters []*counter // by target
	latency  *hdrhistogram.Histogram
	buffer   []byte // of one block
	noise    *noise

	over    time.Time // zero is never
	yielded time.Time // to the scheduler
	end     time.Duration
	have    Have
	files   int64
	wrong   int64
	first   error // what was wrong first
}

// do does the work of this rank.
func (r *rank) do(ctx context.Context, at time.Time) error {
	w := &r.node.work
	if w.Limit > 0 {
		r.over = at.Add(w.Limit)
	}
	switch w.Do {
	case Mkdir:
		return r.mkdir(ctx)
	case Create:
		return r.names(ctx, w.Tree.full().Files, r.create)
	case Write:
		return r.write(ctx)
	case Read:
		return r.read(ctx)
	case Stat:
		return r.names(ctx, w.have(r.owner()).Files, r.stat)
	case Rename:
		r.have = w.have(r.number)
		return r.names(ctx, r.have.Files, r.rename)
	case List, Find:
		return r.list(ctx)
	case Unlink:
		return r.names(ctx, w.have(r.number).Files, r.unlink)
	}
	return mover.Usagef("there is no deed %.40q", w.Do)
}

// did is how many operations this rank has done.
func (r *rank) did() (ops int64) {
	for _, c := range r.counters {
		ops += c.ops.Load()
	}
	return ops
}

// owner is the rank that made the files to read.
func (r *rank) owner() int {
	w := &r.node.work
	return (r.number + w.Shift) % w.all()
}

// store is that of the files of a rank.
func (n *Node) store(owner int) store { return n.stores[n.target(owner)] }

func (n *Node) target(owner int) int { return owner % len(n.stores) }

// ended says that a rank is to stop, and why: nil when its time is over.
func (r *rank) ended(ctx context.Context) (bool, error) {
	if ctx.Err() != nil {
		return true, context.Cause(ctx)
	}
	return !r.over.IsZero() && time.Now().After(r.over), nil
}

// quantum is how long a rank works before it yields. The scheduler preempts a goroutine that runs for 10 ms, and then polls every 20 microseconds: that was an eighth of
// the processor time of small blocks.
const quantum = 8 * time.Millisecond

// timed does one operation, and counts it.
func (r *rank) timed(owner int, bytes int64, do func() error) error {
	begun := time.Now()
	if begun.Sub(r.yielded) > quantum {
		runtime.Gosched()
		begun = time.Now()
		r.yielded = begun
	}
	if err := do(); err != nil {
		return err
	}
	_ = r.latency.RecordValue(min(int64(time.Since(begun)), int64(time.Hour)))
	c := r.counters[r.node.target(owner)]
	c.ops.Add(1)
	c.bytes.Add(bytes)
	return nil
}

// names does something with one file after the other.
func (r *rank) names(ctx context.Context, count int64, do func(ctx context.Context, file int) error) error {
	for i := range int(count) {
		if over, err := r.ended(ctx); over {
			return err
		}
		if err := do(ctx, i); err != nil {
			return err
		}
		r.files++
	}
	return nil
}

func (r *rank) mkdir(ctx context.Context) error {
	t := &r.node.work.Tree
	s := r.node.store(r.number)
	for i := range t.Dirs {
		if over, err := r.ended(ctx); over {
			return err
		}
		if i == 0 {
			if err := s.Mkdir(ctx, t.rankDir(r.number)); err != nil {
				return err
			}
		}
		if err := r.timed(r.number, 0, func() error { return s.Mkdir(ctx, t.dir(r.number, i)) }); err != nil {
			return err
		}
	}
	return nil
}

func (r *rank) create(ctx context.Context, i int) error {
	t := &r.node.work.Tree
	err := r.timed(r.number, 0, func() error {
		f, err := r.node.store(r.number).Create(ctx, t.file(r.number, i, false), t)
		if err != nil {
			return err
		}
		return f.Close(ctx)
	})
	if err == nil {
		r.have.Files++
	}
	return err
}

func (r *rank) stat(ctx context.Context, i int) error {
	w, owner := &r.node.work, r.owner()
	name := w.Tree.file(owner, i, int64(i) < w.have(owner).Renamed)
	return r.timed(owner, 0, func() error { return r.node.store(owner).Stat(ctx, name, &w.Tree) })
}

func (r *rank) rename(ctx context.Context, i int) error {
	t := &r.node.work.Tree
	if int64(i) < r.have.Renamed {
		return nil
	}
	err := r.timed(r.number, 0, func() error {
		return r.node.store(r.number).Rename(ctx, t.file(r.number, i, false), t.file(r.number, i, true))
	})
	if err == nil {
		r.have.Renamed++
	}
	return err
}

func (r *rank) unlink(ctx context.Context, i int) error {
	w := &r.node.work
	name := w.Tree.file(r.number, i, int64(i) < w.have(r.number).Renamed)
	return r.timed(r.number, 0, func() error { return r.node.store(r.number).Unlink(ctx, name, &w.Tree) })
}

// list looks into the directories of this rank. One that is everybody's is looked into by the first rank of a target.
func (r *rank) list(ctx context.Context) error {
	w := &r.node.work
	for i := range max(w.Tree.Dirs, 1) {
		if over, err := r.ended(ctx); over || w.Tree.Dirs == 0 && r.number >= len(r.node.stores) {
			return err
		}
		begun := time.Now()
		found, err := r.node.store(r.number).List(ctx, w.Tree.dir(r.number, i), w.Do == Find)
		if err != nil {
			return err
		}
		_ = r.latency.RecordValue(min(int64(time.Since(begun)), int64(time.Hour)))
		r.counters[r.node.target(r.number)].ops.Add(found)
		r.files += found
	}
	return nil
}

func (r *rank) write(ctx context.Context) error {
	t := &r.node.work.Tree
	if t.Shared {
		return r.writeBlocks(ctx, 0)
	}
	return r.names(ctx, int64(t.Files), r.writeFile)
}

// writeFile writes one file. One that is a block is one operation, from its beginning to its end.
func (r *rank) writeFile(ctx context.Context, i int) error {
	t := &r.node.work.Tree
	if !t.whole() {
		return r.writeBlocks(ctx, i)
	}
	r.noise.fill(r.buffer, t.number(r.number, i), 0)
	err := r.timed(r.number, t.Bytes, func() error {
		f, err := r.node.store(r.number).Create(ctx, t.file(r.number, i, false), t)
		if err != nil {
			return err
		}
		return errors.Join(f.WriteAt(ctx, r.buffer, 0), f.Close(ctx))
	})
	if err == nil {
		r.have.Files++
		r.have.Blocks++
	}
	return err
}

func (r *rank) writeBlocks(ctx context.Context, i int) (err error) {
	t, s := &r.node.work.Tree, r.node.store(r.number)
	make := s.Create
	if t.Shared {
		make = r.node.store(0).Share
	}
	f, err := make(ctx, t.file(r.number, i, false), t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(ctx)) }()
	r.have.Files++
	for b := range t.perFile() {
		if over, err := r.ended(ctx); over {
			return err
		}
		off := r.offset(r.number, b)
		block := r.buffer[:min(t.block(), t.Bytes-b*t.block())]
		r.noise.fill(block, t.number(r.number, i), off)
		if err := r.timed(r.number, int64(len(block)), func() error { return f.WriteAt(ctx, block, off) }); err != nil {
			return err
		}
		r.have.Blocks++
	}
	return nil
}

// offset is where a block of a rank is in its file.
func (r *rank) offset(owner int, block int64) int64 {
	w := &r.node.work
	if w.Tree.Shared {
		block = block*int64(w.all()) + int64(owner)
	}
	return block * w.Tree.block()
}

func (r *rank) read(ctx context.Context) error {
	w := &r.node.work
	owner := r.owner()
	count := w.have(owner).Blocks
	switch w.Order {
	case Forward:
		return r.readForward(ctx, owner, count)
	case Shuffled:
		order := newShuffle(count, r.node.setup.Seed+uint64(owner))
		return r.readSome(ctx, 0, 1, count, func(i int64) (int, int64) { return owner, order.at(i) })
	}
	all := r.node.blocks[len(r.node.blocks)-1]
	order := newShuffle(all, r.node.setup.Seed)
	return r.readSome(ctx, int64(r.number), int64(w.all()), all, func(i int64) (int, int64) { return r.node.find(order.at(i)) })
}

// find returns the rank that a block of all belongs to, and its number there.
func (n *Node) find(i int64) (owner int, block int64) {
	owner = sort.Search(len(n.blocks)-1, func(k int) bool { return n.blocks[k+1] > i })
	return owner, i - n.blocks[owner]
}

// readForward reads files as they were written.
func (r *rank) readForward(ctx context.Context, owner int, count int64) error {
	t := &r.node.work.Tree
	for at := int64(0); at < count; at += t.perFile() {
		if over, err := r.ended(ctx); over {
			return err
		}
		if err := r.readFile(ctx, owner, int(at/t.perFile()), min(t.perFile(), count-at)); err != nil {
			return err
		}
		r.files++
	}
	return nil
}

func (r *rank) readFile(ctx context.Context, owner, i int, blocks int64) (err error) {
	t, s := &r.node.work.Tree, r.node.store(owner)
	if t.Shared {
		s = r.node.store(0)
	}
	if t.whole() {
		err := r.timed(owner, t.Bytes, func() error {
			f, err := s.Open(ctx, r.name(owner, i), t)
			if err != nil {
				return err
			}
			return errors.Join(f.ReadAt(ctx, r.buffer, 0), f.Close(ctx))
		})
		r.compare(r.buffer, owner, i, 0, err)
		return err
	}
	f, err := s.Open(ctx, r.name(owner, i), t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(ctx)) }()
	for b := range blocks {
		if over, err := r.ended(ctx); over {
			return err
		}
		if err := r.readBlock(ctx, f, owner, i, b); err != nil {
			return err
		}
	}
	return nil
}

// name is that of a file that is read.
func (r *rank) name(owner, i int) string {
	w := &r.node.work
	return w.Tree.file(owner, i, int64(i) < w.have(owner).Renamed)
}

func (r *rank) readBlock(ctx context.Context, f file, owner, i int, b int64) error {
	t := &r.node.work.Tree
	off := r.offset(owner, b)
	block := r.buffer[:min(t.block(), t.Bytes-b*t.block())]
	err := r.timed(owner, int64(len(block)), func() error { return f.ReadAt(ctx, block, off) })
	r.compare(block, owner, i, off, err)
	return err
}

// compare looks at what was read.
func (r *rank) compare(block []byte, owner, i int, off int64, read error) {
	n := r.node
	if read != nil || !n.work.Verify || r.noise.is(block, n.work.Tree.number(owner, i), off) {
		return
	}
	if r.wrong++; r.first == nil {
		r.first = fmt.Errorf("%w: %s, %d bytes at %d are not what was written", mover.ErrCorrupt, r.name(owner, i), len(block), off)
	}
}

// readSome reads blocks by chance: of count the one at first, and each one step further.
func (r *rank) readSome(ctx context.Context, first, step, count int64, at func(int64) (owner int, block int64)) error {
	t := &r.node.work.Tree
	ctx = mover.Ranged(ctx)
	for i := first; i < count; i += step {
		if over, err := r.ended(ctx); over {
			return err
		}
		owner, block := at(i)
		number, within := int(block/t.perFile()), block%t.perFile()
		if t.Shared {
			number, within = 0, block
		}
		f, done, err := r.node.keeper.get(ctx, owner, number)
		if err != nil {
			return err
		}
		err = errors.Join(r.readBlock(ctx, f, owner, number, within), done(ctx))
		if err != nil {
			return err
		}
	}
	return nil
}

// keeper has files open that are read by chance, for all ranks of a node.
type keeper struct {
	node *Node
	mu   sync.Mutex
	open map[[2]int]*kept // under mu: by rank and number
}

// kept is a file that is open, or that could not be opened.
type kept struct {
	once sync.Once
	file file
	err  error
}

// mostOpen is how many files stay open. Of more, each is opened when it is read.
const mostOpen = 4096

// get has a file open. Done ends its use.
func (k *keeper) get(ctx context.Context, owner, i int) (f file, done func(context.Context) error, err error) {
	t := &k.node.work.Tree
	key := [2]int{owner, i}
	if t.Shared {
		key = [2]int{}
	}
	opens := func() (file, error) { return k.node.store(key[0]).Open(ctx, k.node.ranks[0].name(key[0], i), t) }
	k.mu.Lock()
	one := k.open[key]
	if one == nil && len(k.open) < mostOpen {
		one = &kept{}
		k.open[key] = one
	}
	k.mu.Unlock()
	if one == nil {
		f, err := opens()
		if err != nil {
			return nil, nil, err
		}
		return f, f.Close, nil
	}
	one.once.Do(func() { one.file, one.err = opens() })
	return one.file, func(context.Context) error { return nil }, one.err
}

// close closes all.
func (k *keeper) close(ctx context.Context) error {
	var errs []error
	for _, one := range k.open {
		if one.file != nil {
			errs = append(errs, one.file.Close(ctx))
		}
	}
	return errors.Join(errs...)
}
