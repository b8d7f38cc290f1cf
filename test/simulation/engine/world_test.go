package engine

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/plan"
)

// world is all that a seed stands for.
type world struct {
	t    testing.TB
	seed uint64
	rng  *rand.Rand // for one goroutine: between the runs

	source, target               *mem.Tree
	sourceOptions, targetOptions mem.Options
	kinds                        map[string]mover.Kind // of the source
	links                        map[string][]string   // names of one content in the source
	seen                         versions

	delete, failFull bool
	compareBy        plan.CompareBy
	level            mover.Level
	jobs             int

	mutations sync.Mutex // changes of the source, one at a time
	changed   atomic.Bool

	orphaned map[string]bool // see orphans
	manifest atomic.Pointer[[]byte]
	stateDir string
	back     *mem.Tree // what comes back from a bucket
}

func newWorld(t testing.TB, seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{t: t, seed: seed, rng: rng, orphaned: map[string]bool{}}
	w.delete = rng.IntN(2) == 0
	if rng.IntN(4) == 0 {
		w.compareBy = plan.ByContent
	}
	w.failFull = rng.IntN(2) == 0
	if rng.IntN(4) == 0 {
		w.level = mover.Read
	}
	w.jobs = rng.IntN(6) // 0 climbs
	w.sourceOptions = mem.Options{ObjectStore: rng.IntN(4) == 0, Address: "mem:source", Adjust: w.traits()}
	w.targetOptions = mem.Options{ObjectStore: rng.IntN(4) == 0, Reflinks: rng.IntN(6) == 0, Address: "mem:target", Adjust: w.traits()}
	if grain := []time.Duration{0, 0, time.Second, 2 * time.Second, 100}[rng.IntN(5)]; grain > 0 && !w.targetOptions.ObjectStore {
		inner := w.targetOptions.Adjust
		w.targetOptions.Adjust = func(t *mover.Capabilities) { inner(t); t.Times.Grain = grain }
	}
	w.trees()
	return w
}

// traits draws places with small parts and batches, so that small trees have many.
func (w *world) traits() func(*mover.Capabilities) {
	pick := func(of ...int64) int64 { return of[w.rng.IntN(len(of))] }
	small, files, batch, part := pick(0, 1000, 5000), int(pick(1, 2, 5, 64)), pick(1, 3000, 50_000), pick(500, 1000, 4000)
	dirs, commits, parallel := w.rng.IntN(2) == 0, w.rng.IntN(3) == 0, int(pick(1, 2, 5))
	return func(t *mover.Capabilities) {
		t.SmallBytes, t.BatchFiles, t.BatchBytes = small, files, batch
		t.PartBytes, t.PartMin = part, min(part, t.PartMin, 100)
		t.DirDrafts = t.DirDrafts && dirs
		t.Parallel, t.MaxParallel = parallel, 3*parallel
		if commits {
			t.CommitBytes, t.CommitEvery = 10_000, 5*time.Second
		}
	}
}

// trees grows both sides; parts of the target are what an earlier copy made.
func (w *world) trees() {
	sizes := []int{0, 1, 999, 1000, 1001, 4096, 20_000}
	source, target := newGrower(w.rng, &w.seen), newGrower(w.rng, &w.seen)
	source.make("kept", mover.Dir, 0) // an empty source is taken for one that is not mounted
	source.grow(40, sizes, nil)
	avoid := source.kinds
	if w.delete {
		avoid = nil
	}
	target.grow(25, sizes, avoid)
	w.source, w.target, w.kinds, w.links = source.tree, target.tree, source.kinds, source.links
	if w.rng.IntN(3) == 0 {
		w.source.Sparse("sparse", 30_000, map[int64]string{7000: source.content(700)})
		w.kinds["sparse"] = mover.File
		w.record("sparse")
	}
}

// record notes what a name of the source holds now.
func (w *world) record(names ...string) {
	for _, name := range names {
		if content, ok := w.source.Content(name); ok {
			w.seen.add(name, content)
		}
	}
}

// inSource says what the source has by a name now.
func (w *world) inSource(name string) (mover.Kind, bool) {
	w.mutations.Lock()
	defer w.mutations.Unlock()
	k, ok := w.kinds[name]
	return k, ok
}

// weather is what goes wrong in one run.
type weather struct {
	source, target faulty.Options
	mutates        float64       // the chance of a change at each look at a file of the source
	stopAt         int64         // the call of the target at which a person stops the run; 0 is never
	patience       time.Duration // after which a person does
}

// storm draws the weather of a run.
func (w *world) storm(run uint64) weather {
	chance := func(most float64) float64 { return most * w.rng.Float64() * float64(w.rng.IntN(2)) }
	calm := map[faulty.Fault]float64{
		faulty.Transient: chance(0.2), faulty.Unreachable: chance(0.02), faulty.Denied: chance(0.03),
		faulty.Lost: chance(0.1), faulty.Short: chance(0.1), faulty.Torn: chance(0.1), faulty.Corrupt: chance(0.03), faulty.Changed: chance(0.03),
		faulty.TimedOut: chance(0.1), faulty.Released: chance(0.03),
	}
	source, target := cloned(calm), cloned(calm)
	target[faulty.Full] = chance(0.05)
	target[faulty.Unsupported] = chance(0.03)
	target[faulty.Held] = chance(0.03)
	target[faulty.Killed] = chance(0.02)
	if w.sourceOptions.ObjectStore { // a checksum tells
		source[faulty.Flipped] = chance(0.05)
	}
	if w.targetOptions.ObjectStore || w.level == mover.Read {
		target[faulty.Flipped] = chance(0.05)
	}
	x := weather{mutates: chance(0.05), patience: time.Hour}
	if w.rng.IntN(4) == 0 {
		x.stopAt = 1 + w.rng.Int64N(150)
	}
	if w.rng.IntN(8) == 0 {
		source[faulty.Stalled], target[faulty.Stalled] = 0.01, 0.01
	}
	x.source = faulty.Options{Seed: w.seed ^ run<<32, Rates: source, Streak: 3}
	x.target = faulty.Options{Seed: w.seed ^ run<<32 ^ 1<<63, Rates: target, Streak: 3}
	return x
}

func cloned(m map[faulty.Fault]float64) map[faulty.Fault]float64 {
	c := make(map[faulty.Fault]float64, len(m)+4)
	for f, rate := range m {
		c[f] = rate
	}
	return c
}

// mutate changes a file of the source as another program would, and remembers
// every content beforehand.
func (w *world) mutate(name string, rng *rand.Rand) {
	w.mutations.Lock()
	defer w.mutations.Unlock()
	content, ok := w.source.Content(name)
	if !ok {
		return
	}
	w.changed.Store(true)
	names := append(slices.Clone(w.links[name]), name)
	fresh := (&grower{rng: rng}).content(max(1, len(content)))
	expect := func(content string) {
		for _, n := range names {
			w.seen.add(n, content)
		}
	}
	switch rng.IntN(5) {
	case 0:
		expect(fresh)
		w.source.Overwrite(name, 0, fresh)
	case 1:
		expect(content + "grown")
		w.source.Overwrite(name, int64(len(content)), "grown")
	case 2:
		expect(content[:len(content)/2])
		w.source.Truncate(name, int64(len(content)/2))
	case 3:
		expect(fresh)
		w.source.Put(mover.Entry{Name: name, Kind: mover.File}, []byte(fresh))
	case 4:
		w.source.Delete(name)
		delete(w.kinds, name)
	}
}
