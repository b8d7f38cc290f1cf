package hop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/checkpoint"
)

// Watch brings the checkpoints of a run away while it writes them. Site, Dir and To have to be given.
type Watch struct {
	*Site
	Dir     location.Location
	Profile checkpoint.Profile // "" is found out
	To      []location.Location
	Settle  time.Duration   // nothing in a checkpoint may change for so long before it leaves; 0 is checkpoint.Quiet
	Keep    checkpoint.Keep // at each target
	Once    bool            // end when all that is there has left
	Every   time.Duration   // between two looks; 0 is a second, or a hundred times what a look takes
	Tell    func(Event)     // called from several goroutines; nil is nobody
	Metrics string          // a file for Prometheus, written again after each look; "" is none

	board *board
}

// Event is a checkpoint that has come to another state on its way to one target.
type Event struct {
	Time  time.Time
	Name  string
	To    string // "" is in the directory itself
	State checkpoint.State
	Why   string
	Result
}

const (
	lookLeast = time.Second
	lookMost  = time.Minute
	lookShare = 100 // a look takes this part of the time between two
	triesIn   = 3   // failures of a checkpoint after which a watch that ends gives up
	waitLeast = time.Second
	waitMost  = time.Minute
)

// Run watches until ctx ends, which is no error, or with Once until nothing is left to do: then the error is of what could not be brought.
func (w *Watch) Run(ctx context.Context) error {
	if w.Dir.Scheme != location.POSIX {
		return fmt.Errorf("%w: a watch looks at a directory of this machine, and %s is none", mover.ErrUsage, w.Dir)
	}
	dir, err := w.Folder(ctx, w.Dir, w.Profile, false)
	if err != nil {
		return err
	}
	defer dir.Close()
	guessed := w.Profile == ""
	w.board = newBoard(len(w.To))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	hops := make([]*route, len(w.To))
	for i := range w.To {
		hops[i] = &route{Watch: w, index: i, states: map[string]checkpoint.State{}, fails: map[string]fail{}, pointed: map[string]string{}}
		wg.Go(func() { hops[i].run(ctx) })
	}
	looker := &looker{Watch: w, dir: dir, guesses: guessed, states: map[string]checkpoint.State{}}
	for {
		began := time.Now()
		settled, err := looker.look(ctx, began)
		if err != nil && ctx.Err() == nil {
			w.log().Warn("the directory can not be looked at, will try again", "dir", w.Dir.String(), "err", err)
			if w.Once {
				w.metrics(hops, false)
				return err
			}
		}
		if w.Once && settled && w.board.idle() {
			cancel()
			wg.Wait()
			w.metrics(hops, false)
			return w.failed(hops)
		}
		w.metrics(hops, true)
		rest := w.Every
		if rest == 0 {
			rest = max(lookLeast, min(lookMost, lookShare*time.Since(began)))
		}
		if w.Once {
			rest = min(rest, max(w.settle()/4, 10*time.Millisecond))
		}
		select {
		case <-ctx.Done():
			w.metrics(hops, false)
			return nil
		case <-time.After(rest):
		}
	}
}

func (w *Watch) settle() time.Duration {
	if w.Settle == 0 {
		return checkpoint.Quiet
	}
	return w.Settle
}

func (w *Watch) tell(e Event) {
	if e.Time = time.Now(); w.Tell != nil {
		w.Tell(e)
	}
}

// failed is what a watch that ends could not bring.
func (w *Watch) failed(hops []*route) error {
	var errs []error
	for _, h := range hops {
		for _, f := range h.fails {
			errs = append(errs, f.err)
		}
		if h.err != nil {
			errs = append(errs, h.err)
		}
	}
	return errors.Join(errs...)
}

// ready is a checkpoint that may leave.
type ready struct {
	name   string
	save   string
	print  checkpoint.Print
	made   int64
	step   int64
	bytes  int64
	tagged bool
}

// pointer is a tracker, as it was read.
type pointer struct {
	name, names, text string
	link              bool
}

// board is what goroutines of one watch know of each other.
type board struct {
	mu       sync.Mutex // guards all below
	round    int        // of looks with news
	ready    []ready    // the newest first
	pointers []pointer
	profile  checkpoint.Profile
	verified []map[string]ready // by hop and name
	done     []int              // by hop: the round after which it had nothing left to do
	changed  chan struct{}      // is closed when something above has changed
}

func newBoard(hops int) *board {
	b := &board{verified: make([]map[string]ready, hops), done: make([]int, hops), changed: make(chan struct{})}
	for i := range b.verified {
		b.verified[i] = map[string]ready{}
	}
	return b
}

// publish puts up what a look has seen. What is as it was is no news.
func (b *board) publish(p checkpoint.Profile, all []ready, pointers []pointer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p == b.profile && slices.Equal(all, b.ready) && slices.Equal(pointers, b.pointers) {
		return
	}
	b.round++
	b.profile, b.ready, b.pointers = p, all, pointers
	b.wake()
}

func (b *board) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// idle says whether all hops had nothing left to do at the last look.
func (b *board) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !slices.ContainsFunc(b.done, func(round int) bool { return round < b.round })
}

// looker looks at the directory.
type looker struct {
	*Watch
	dir     *Folder
	guesses bool
	sights  checkpoint.Sights
	states  map[string]checkpoint.State
	torn    map[string]torn
}

// torn is what a look into the files of a checkpoint has found.
type torn struct {
	print checkpoint.Print
	why   string
}

// look looks once. settled says that nothing is on its way to be complete, as far as can be seen.
func (l *looker) look(ctx context.Context, now time.Time) (settled bool, err error) {
	if l.guesses { // the first checkpoint may not have been there
		if l.dir.Profile, err = checkpoint.Guess(ctx, l.dir); err != nil {
			return false, err
		}
	}
	prints, seen, known, settled := map[string]checkpoint.Print{}, []seenSet{}, map[string]torn{}, true
	var view checkpoint.View
	var texts checkpoint.Tree
	for found, err := range checkpoint.Glance(ctx, l.dir, l.dir.Profile) {
		if err != nil {
			return false, err
		}
		prints[found.Name], view, texts = found.Print, found.View, found.Tree
		s := seenSet{ready: ready{name: found.Name, print: found.Print, step: found.Step, bytes: found.Bytes}, complete: found.Complete && checkpoint.Speakable(found.Name), why: found.Why}
		if s.complete {
			s.save, s.made, s.tagged = SaveOf(found), found.Made(), found.Commit != nil && len(found.Commit.Tags) > 0
			if s.torn = l.torn[found.Name]; s.torn.print != found.Print && l.sights.Same(found.Name, found.Print) {
				s.torn = torn{found.Print, checkpoint.Torn(found.Tree, found.Set, l.dir.Peek)}
			}
			known[found.Name] = s.torn
		}
		seen = append(seen, s)
	}
	l.torn = known
	l.sights.Look(now, prints)
	var all []ready
	for _, s := range seen {
		still := l.sights.Still(s.name, now, l.settle())
		state, why := checkpoint.Complete, ""
		switch {
		case !s.complete:
			state, why = checkpoint.Seen, s.why
		case !still || s.torn.print != s.print:
			state = checkpoint.Settling
		case s.torn.why != "":
			state, why = checkpoint.Seen, s.torn.why
		default:
			all = append(all, s.ready)
		}
		settled = settled && (still && state != checkpoint.Settling)
		l.become(s.name, state, why)
	}
	for name := range l.states {
		if _, there := prints[name]; !there {
			delete(l.states, name)
		}
	}
	l.board.publish(l.dir.Profile, all, pointersOf(view, texts))
	return settled, nil
}

// seenSet is a set of one look.
type seenSet struct {
	ready
	complete bool
	why      string
	torn     torn
}

// become tells of a new state.
func (l *looker) become(name string, s checkpoint.State, why string) {
	if l.states[name] != s {
		l.states[name] = s
		l.tell(Event{Name: name, State: s, Why: why})
	}
}

// pointersOf are the trackers of a look, with what stood in them.
func pointersOf(v checkpoint.View, t checkpoint.Tree) (all []pointer) {
	for _, p := range v.Trackers {
		text, has := t.Texts[p.Name]
		if !has || p.Names == "" || !checkpoint.Speakable(p.Name) {
			continue
		}
		all = append(all, pointer{name: p.Name, names: p.Names, text: text, link: t.IsLink(p.Name)})
	}
	return all
}
