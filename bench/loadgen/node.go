package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/bufpool"
)

// DirPrefix begins the name of the directory of a run, and its ID ends it.
const DirPrefix = "datamove-bench-"

// Setup is how a node takes part in a run.
type Setup struct {
	ID      string   // of the run: 16 hexadecimal digits
	Targets []string // directories and buckets
	Index   int      // of this node, from 0
	Seed    uint64   // of what is written
}

// Opener opens a target for a run; name is that of the run's directory. It returns the path of a directory that is there, or else the backend below a prefix of that name.
type Opener func(ctx context.Context, target, name string) (path string, place mover.Backend, err error)

// Node takes part in a run.
type Node struct {
	setup  Setup
	stores []store

	// Of the work that is prepared:
	work   Work
	begun  bool // it was done
	cache  string
	ranks  []*rank
	blocks []int64 // of the ranks before one, that can be read
	keeper *keeper
	memory *bufpool.Pool // what ranks move through
}

// Open makes the directory of the run in each target.
func Open(ctx context.Context, s Setup, open Opener) (n *Node, err error) {
	if len(s.ID) != 16 || strings.Trim(s.ID, "0123456789abcdef") != "" {
		return nil, mover.Usagef("the ID of a run is %.40q; want 16 hexadecimal digits", s.ID)
	}
	if len(s.Targets) == 0 || len(s.Targets) > mostTargets {
		return nil, mover.Usagef("%d targets; want 1 to %d", len(s.Targets), mostTargets)
	}
	n = &Node{setup: s, memory: bufpool.New(math.MaxInt64)}
	for _, target := range s.Targets {
		one, err := openStore(ctx, target, DirPrefix+s.ID, open)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", mover.Printable(target), err), n.Clean(context.WithoutCancel(ctx)), n.Close())
		}
		n.stores = append(n.stores, one)
	}
	return n, nil
}

// mostTargets of a run.
const mostTargets = 1024

func openStore(ctx context.Context, target, name string, open Opener) (store, error) {
	path, place, err := open(ctx, target, name)
	if err != nil {
		return nil, err
	}
	if place != nil {
		return &bucket{place, mover.WriterID{Task: strings.TrimPrefix(name, DirPrefix), Epoch: 1}}, nil
	}
	return openDirectory(path, name)
}

// Prepare makes ready for a work: its directories are there, memory is touched.
func (n *Node) Prepare(ctx context.Context, w Work) error {
	if err := w.check(); err != nil {
		return err
	}
	if n.setup.Index >= w.Nodes {
		return mover.Usagef("node %d does not take part in a phase of %d nodes", n.setup.Index, w.Nodes)
	}
	n.work, n.begun = w, false
	var caches []string
	for _, s := range n.stores {
		cache, err := s.Ready(ctx, &w)
		if err != nil {
			return err
		}
		if cache != "" && !slices.Contains(caches, cache) {
			caches = append(caches, cache)
		}
	}
	n.cache = strings.Join(caches, "; ")
	if err := n.room(); err != nil {
		return err
	}
	n.keeper = &keeper{node: n, open: map[[2]int]*kept{}}
	n.blocks = make([]int64, w.all()+1)
	for i := range w.all() {
		n.blocks[i+1] = n.blocks[i] + w.have(i).Blocks
	}
	counters := n.counters()
	for i := range w.Ranks {
		r := &rank{node: n, number: n.setup.Index*w.Ranks + i, latency: newHistogram()}
		if w.Do.moves() {
			var err error
			if r.buffer, err = n.touched(ctx, int(w.Tree.block())); err != nil {
				return err
			}
			r.noise = newNoise(n.setup.Seed, w.Tree.Name)
		}
		for t := range counters {
			r.counters = append(r.counters, &counters[t][i])
		}
		n.ranks = append(n.ranks, r)
	}
	return nil
}

func (n *Node) counters() [][]counter {
	all := make([][]counter, len(n.stores))
	for t := range all {
		all[t] = make([]counter, n.work.Ranks)
	}
	return all
}

// room says whether there is a buffer for each rank. Those of the last work are given back.
func (n *Node) room() error {
	n.rest()
	if !n.work.Do.moves() {
		return nil
	}
	block, ranks := n.work.Tree.block(), n.work.Ranks
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return err
	}
	if have := int64(info.Totalram) * int64(info.Unit); block > have/2/int64(ranks) {
		return mover.Usagef("%d ranks with blocks of %d bytes take more than half of the %d bytes of memory that this node has; want smaller blocks", ranks, block, have)
	}
	return nil
}

// rest ends the work of all ranks.
func (n *Node) rest() {
	for _, r := range n.ranks {
		if r.buffer != nil {
			n.memory.Put(r.buffer)
		}
	}
	n.ranks = nil
	n.memory.Trim()
}

// touched is memory that O_DIRECT takes, with all its pages present.
func (n *Node) touched(ctx context.Context, size int) ([]byte, error) {
	b, err := n.memory.Get(ctx, size)
	for i := 0; i < len(b); i += bufpool.Align {
		b[i] = 1
	}
	return b, err
}

// newHistogram is one of nanoseconds from 100 ns to an hour, with an error of a hundredth.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(100, int64(time.Hour), 2)
}

// mostProcessors is for how many ranks there is a processor of the scheduler.
const mostProcessors = 1024

// Begin does the work that is prepared, from an instant on. What fails is in the result.
func (n *Node) Begin(ctx context.Context, at time.Time) (out Result) {
	if len(n.ranks) == 0 || n.begun {
		out.fails(mover.Usagef("nothing is prepared"))
		return out
	}
	n.begun = true
	// Each rank has one of the scheduler's processors: a rank that returns from a system call then finds its own, and wakes no other thread. With as many as the host has, small blocks were read at 0.75 of the
	// rate, for 1.4 times the processor time. With some to spare, each yield wakes a thread for an idle one: 1.1 times.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(runtime.NumCPU(), min(len(n.ranks), mostProcessors))))
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	before := used()
	start, done := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	for _, r := range n.ranks {
		group.Go(func() {
			<-start
			if err := r.do(ctx, at); err != nil {
				fail(err)
			}
			r.end = time.Since(at)
		})
	}
	s := newSampler(n.ranks)
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(at)):
	}
	out.Begun, out.Cache = time.Since(at), n.cache
	close(start)
	watched := make(chan struct{})
	go func() { s.watch(at, done); close(watched) }()
	group.Wait()
	close(done)
	<-watched
	err := cmp.Or(context.Cause(ctx), n.keeper.close(ctx))
	if n.work.Durable == AtEnd && err == nil {
		err = n.sync(ctx)
	}
	out.End, out.Every, out.Targets = time.Since(at), s.every, s.series
	out.CPU, out.PeakBytes = used()-before, peak()
	n.sum(&out, err)
	return out
}

// sum has in a result what ranks have done.
func (n *Node) sum(out *Result, err error) {
	all := newHistogram()
	out.Files = int64(len(n.keeper.open))
	for _, r := range n.ranks {
		if r.did() == 0 {
			r.end = 0
		}
		out.Ends, out.Have = append(out.Ends, r.end), append(out.Have, r.have)
		out.Files += r.files
		out.Wrong += r.wrong
		all.Merge(r.latency)
		err = cmp.Or(err, r.first)
	}
	text, encoded := all.EncodeV2()
	out.Histogram = string(text)
	out.fails(cmp.Or(err, encoded))
}

func (n *Node) sync(ctx context.Context) error {
	for _, s := range n.stores {
		if err := s.Sync(ctx); err != nil {
			return err
		}
	}
	return nil
}

// used is the processor time of this process.
func used() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak is what this process had in memory at most; see proc(5), VmHWM.
func peak() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// Forget removes a tree, as far as targets of this node have it.
func (n *Node) Forget(ctx context.Context, tree string) error {
	if !plain.MatchString(tree) {
		return mover.Usagef("the tree is called %.60q", tree)
	}
	var errs []error
	for _, s := range n.stores {
		errs = append(errs, s.Remove(ctx, tree))
	}
	return errors.Join(errs...)
}

// Done is how far the ranks are, while they work.
func (n *Node) Done() (bytes, ops int64) {
	for _, r := range n.ranks {
		for _, c := range r.counters {
			bytes, ops = bytes+c.bytes.Load(), ops+c.ops.Load()
		}
	}
	return bytes, ops
}

// Clean removes all that the run has made in the targets of this node.
func (n *Node) Clean(ctx context.Context) error {
	var errs []error
	for _, s := range n.stores {
		errs = append(errs, s.Clean(ctx))
	}
	return errors.Join(errs...)
}

// Close ends the part of this node.
func (n *Node) Close() error {
	n.rest()
	var errs []error
	for _, s := range n.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
