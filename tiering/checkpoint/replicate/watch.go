package replicate

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	Settle  time.Duration   // nothing in a checkpoint may change for so long before it leaves; 0 is checkpoint.Quiet, and less is no time
	Keep    checkpoint.Keep // at each target
	Once    bool            // end when all that is there has left
	Every   time.Duration   // between two looks; 0 is Rest
	Tell    func(Event)     // called from several goroutines; nil drops events
	Metrics string          // a file for Prometheus, written again after each look; "" is none

	Alarms    <-chan Alarm // nil is none
	TellAlarm func(Told)   // called from one goroutine; nil drops them

	board  *board
	looked time.Time // when the directory was last looked at
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
	triesIn   = 3 // failures of a checkpoint after which a watch that ends gives up
	waitLeast = time.Second
	waitMost  = time.Minute
)

// Run watches until ctx ends, which is no error, or with Once until nothing is left to do: then the error is of what could not be brought. In an alarm it is
// mover.ErrTimeout that the newest is not at every target when the watch ends.
func (w *Watch) Run(ctx context.Context) error {
	if !w.Dir.IsPath() {
		return fmt.Errorf("%w: a watch looks at a directory of this machine, and %s is none", mover.ErrUsage, w.Dir)
	}
	dir, err := w.Folder(ctx, w.Dir, w.Profile, false)
	if err != nil {
		return err
	}
	looker, states := &Looker{Folder: dir, Settle: w.Settle, Guesses: w.Profile == ""}, map[string]checkpoint.State{}
	defer func() { _ = looker.Close() }()
	w.board = newBoard(len(w.To))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	hops := make([]*route, len(w.To))
	for i := range w.To {
		hops[i] = &route{Watch: w, index: i, states: map[string]checkpoint.State{}, fails: map[string]fail{}, pointed: map[string]string{}, skipped: map[string]string{}, expired: map[string]ready{}}
		wg.Go(func() { hops[i].run(ctx) })
	}
	crisis, last, failed := crisis{}, Look{}, ""
	for {
		began := time.Now()
		seen, err := looker.Look(ctx, began)
		if err == nil {
			w.tells(looker, seen, states)
			last, w.looked, failed = seen, began, ""
			if w.react(&crisis, seen) {
				cancel()
				wg.Wait()
				w.metrics(hops, false)
				return w.standing(Alarm{}, seen).err()
			}
		}
		looker.Hurries = crisis.on()
		w.board.hurry(looker.Hurries, w.Request.Bandwidth > 0)
		if err != nil && ctx.Err() == nil {
			if failed != err.Error() {
				failed = err.Error()
				w.log().Warn("the directory can not be looked at, will try again", "dir", w.Dir.String(), "err", err)
			}
			if w.Once {
				w.metrics(hops, false)
				return err
			}
			looker = w.again(ctx, looker, err)
		}
		if w.Once && seen.Settled && w.board.idle() {
			cancel()
			wg.Wait()
			w.metrics(hops, false)
			return w.failed(hops)
		}
		w.metrics(hops, true)
		rest := w.Every
		if rest == 0 {
			rest = Rest(time.Since(began))
		}
		if w.Once {
			rest = min(rest, max(looker.settle()/4, 10*time.Millisecond))
		}
		w.rest(ctx, &crisis, rest, time.Since(began))
		if ctx.Err() != nil {
			w.metrics(hops, false)
			return w.left(&crisis, last)
		}
		looker.Hurries = crisis.on() // the copies hear of it after this look: of what was seen before, the newest may not be
	}
}

// again looks at the directory that has the name now, when the one that had it was renamed.
func (w *Watch) again(ctx context.Context, l *Looker, why error) *Looker {
	if !errors.Is(why, ErrMoved) {
		return l
	}
	dir, err := w.Folder(ctx, w.Dir, w.Profile, false)
	if err != nil {
		return l // it is told of already
	}
	_ = l.Close()
	return &Looker{Folder: dir, Settle: l.Settle, Guesses: l.Guesses, Hurries: l.Hurries}
}

// rest waits for the time of the next look, or for what asks for one sooner: an alarm, and what happens in one.
func (w *Watch) rest(ctx context.Context, c *crisis, rest, look time.Duration) {
	var changed <-chan struct{}
	if c.on() {
		rest = min(rest, max(time.Second, 2*look))
		changed = w.board.next()
	}
	if due := c.wake(time.Now()); due > 0 {
		rest = min(rest, due)
	}
	select {
	case <-ctx.Done():
	case <-time.After(rest):
	case <-changed:
	case a := <-w.Alarms:
		if now := time.Now(); c.raise(a, now) {
			w.alarmed(Told{Alarm: a, Time: now}, Ahead)
		}
	}
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
		errs = append(errs, h.err, h.strayed)
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

	current int64 // orders them
}

// board is what goroutines of one watch know of each other.
type board struct {
	mu       sync.Mutex // guards all below
	round    int        // of looks with news
	ready    []ready    // the newest first
	pointers []Pointer
	profile  checkpoint.Profile
	verified []map[string]ready // by hop and name
	flights  []*flight          // by hop: what it copies; nil is nothing
	stuck    []string           // by hop: the save that could not be brought there
	hurries  bool               // there is an alarm
	done     []int              // by hop: the round after which it had nothing left to do
	changes  int                // of what is above; from 1
	changed  chan struct{}      // is closed at each of them
}

func newBoard(hops int) *board {
	b := &board{changes: 1, verified: make([]map[string]ready, hops), flights: make([]*flight, hops), stuck: make([]string, hops), done: make([]int, hops), changed: make(chan struct{})}
	for i := range b.verified {
		b.verified[i] = map[string]ready{}
	}
	return b
}

// publish puts up what a look has seen. What is as it was is no news.
func (b *board) publish(p checkpoint.Profile, all []ready, pointers []Pointer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p == b.profile && slices.Equal(all, b.ready) && slices.Equal(pointers, b.pointers) {
		return
	}
	b.round++
	b.profile, b.ready, b.pointers = p, all, pointers
	b.yield()
	b.wake()
}

func (b *board) wake() {
	b.changes++
	close(b.changed)
	b.changed = make(chan struct{})
}

// idle says whether all hops had nothing left to do at the last look.
func (b *board) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !slices.ContainsFunc(b.done, func(round int) bool { return round < b.round })
}

// tells tells of what a look has seen that was not so at the last one, and puts up what may leave.
func (w *Watch) tells(l *Looker, seen Look, states map[string]checkpoint.State) {
	var all []ready
	there := map[string]bool{}
	for _, s := range seen.Seen {
		there[s.Name] = true
		state := s.State
		if state == checkpoint.Complete {
			all = append(all, ready{name: s.Name, save: s.Save, print: s.Print, made: s.Made, step: s.Step, bytes: s.Bytes, tagged: s.Tagged, current: s.Current})
		}
		if states[s.Name] != state {
			states[s.Name] = state
			w.tell(Event{Name: s.Name, State: state, Why: s.Why})
		}
	}
	maps.DeleteFunc(states, func(name string, _ checkpoint.State) bool { return !there[name] })
	w.board.publish(l.Profile, all, seen.Pointers)
}
