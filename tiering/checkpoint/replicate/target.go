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
	"datamove.dev/tiering/checkpoint"
)

// route is one hop of a watch: its goroutine brings checkpoints to one target.
type route struct {
	*Watch
	index int

	states  map[string]checkpoint.State
	fails   map[string]fail   // by name: copies that have failed, and are tried again
	pointed map[string]string // by tracker: what it says at the target
	led     string            // what a tracker says at the target that was not brought, but made; "" is none
	skipped map[string]string // by name: the save that is not brought, as was told
	expired map[string]ready  // by name: the save that was removed, and when it was current at the target
	judged  int               // the board's news of which retention has been asked; 0 is none
	err     error             // why the target can not be opened; nil is open
	strayed error             // why a tracker was not brought, the last time that was tried

	last   Result // guarded by board.mu: of the last copy
	failed int    // guarded by board.mu: copies
}

// fail is a copy that is tried again.
type fail struct {
	save  string
	err   error
	times int
	at    time.Time
	next  time.Time
	final bool // no try will help
}

// run brings what there is until ctx ends. A target that can not be opened is tried again.
func (r *route) run(ctx context.Context) {
	for wait := waitLeast; ctx.Err() == nil; wait = min(2*wait, waitMost) {
		err := r.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil { // it is another profile
			continue
		}
		r.log().Warn("a target of checkpoints can not be used, will try again", "to", r.To[r.index].String(), "err", err)
		r.err = err
		r.board.giveUp(r.index)
		r.board.stick(r.index, "")
		r.pause(ctx, wait)
	}
}

// pause waits before a target is opened again: not for long in an alarm.
func (r *route) pause(ctx context.Context, wait time.Duration) {
	for until := time.Now().Add(wait); ctx.Err() == nil; {
		hurries, changed := r.board.hurrying()
		if hurries {
			until, changed = time.Now().Add(min(wait, waitLeast)), nil
		}
		left := time.Until(until)
		if left <= 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(left):
			return
		case <-changed:
		}
	}
}

// giveUp says that a watch that ends does not wait for a hop.
func (b *board) giveUp(hop int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[hop] = max(b.done[hop], b.round)
}

// serve opens the places, and brings what there is.
func (r *route) serve(ctx context.Context) error {
	profile, changed := r.board.begin(ctx)
	if profile == "" {
		return nil // it is over
	}
	dir, err := r.Folder(ctx, r.Dir, profile, false)
	if err != nil {
		return err
	}
	defer dir.Close()
	from := []*Folder{dir} // the directory, and the targets above this one
	var to *Folder
	for i := range r.index + 1 {
		f, err := r.Folder(ctx, r.To[i], profile, true)
		if err != nil && i < r.index {
			f = nil // its own hop says so
		} else if err != nil {
			return err
		}
		if f != nil {
			defer f.Close()
		}
		if i == r.index {
			to = f
		} else {
			from = append(from, f)
		}
	}
	r.err = nil
	for ctx.Err() == nil {
		for _, f := range append(from, to) {
			if f != nil {
				if err := f.here(); err != nil {
					return err
				}
			}
		}
		round, all, pointers, now := r.board.read(r.index)
		if now != profile && now != "" {
			return nil // it was guessed wrong before there was anything: begin again
		}
		next, wait := r.step(ctx, from, to, all)
		strayed := r.point(ctx, to, pointers)
		if ctx.Err() == nil {
			r.strayed = strayed
		}
		r.prune(ctx, to)
		if !next {
			if strayed != nil && wait == 0 {
				wait = waitMost
			}
			r.board.finish(r.index, round, wait == 0 || r.Once && r.givenUp())
			select {
			case <-ctx.Done():
			case <-changed:
			case <-r.after(wait):
			}
		}
		changed = r.board.next()
	}
	return ctx.Err()
}

func (r *route) after(wait time.Duration) <-chan time.Time {
	if wait == 0 {
		return nil
	}
	return time.After(wait)
}

// begin waits for the first look.
func (b *board) begin(ctx context.Context) (checkpoint.Profile, <-chan struct{}) {
	for {
		b.mu.Lock()
		p, changed := b.profile, b.changed
		b.mu.Unlock()
		if p != "" {
			return p, changed
		}
		select {
		case <-ctx.Done():
			return "", nil
		case <-changed:
		}
	}
}

func (b *board) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// read is what a hop can bring: what is ready in the directory, and what only targets above it have still.
func (b *board) read(hop int) (round int, all []ready, pointers []Pointer, p checkpoint.Profile) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all = slices.Clone(b.ready)
	for _, above := range b.verified[:hop] {
		for name, r := range above {
			if !slices.ContainsFunc(all, func(x ready) bool { return x.name == name }) {
				all = append(all, r)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y ready) int { return -compareReady(x, y) })
	return b.round, all, slices.Clone(b.pointers), b.profile
}

// news counts what has changed here; it is never 0.
func (b *board) news() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes
}

// finish says that a hop has nothing left to do of a round.
func (b *board) finish(hop, round int, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if done {
		b.done[hop] = max(b.done[hop], round)
	}
}

// has notes, or forgets, that a hop has a checkpoint verified.
func (b *board) has(hop int, r ready, has bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if has {
		b.verified[hop][r.name] = r
	} else {
		delete(b.verified[hop], r.name)
	}
	b.wake()
}

// whereVerified says in which hops above one a save is verified, the nearest last.
func (b *board) whereVerified(hop int, r ready) (hops []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range hop {
		if b.verified[i][r.name].save == r.save {
			hops = append(hops, i)
		}
	}
	return hops
}

func (b *board) verifiedAt(hop int) map[string]ready {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.verified[hop])
}

// step brings the newest that is to come and has not. next says that there may be more; wait, when something is tried again.
func (r *route) step(ctx context.Context, from []*Folder, to *Folder, all []ready) (next bool, wait time.Duration) {
	have, now := r.board.verifiedAt(r.index), time.Now()
	for name := range r.fails {
		if !slices.ContainsFunc(all, func(x ready) bool { return x.name == name }) {
			r.supersede(name)
		}
	}
	worth := r.worth(ctx, to, all, have)
	goes, hurries := r.board.first(r.index, slices.Clone(worth))
	if len(goes) < len(worth) {
		wait = waitLeast // the others wait for the newest
	}
	for _, one := range goes {
		if have[one.name].save == one.save {
			continue
		}
		if f, failed := r.fails[one.name]; failed && f.save == one.save {
			if f.final || r.Once && f.times >= triesIn {
				continue
			}
			next := f.next
			if soon := f.at.Add(waitLeast); hurries && soon.Before(next) {
				next = soon
			}
			if left := next.Sub(now); left > 0 {
				if wait == 0 || left < wait {
					wait = left
				}
				continue
			}
		}
		r.bring(ctx, from, to, one)
		return true, 0
	}
	return false, wait
}

// worth leaves out what retention would remove at once, and tells of it. Before something is brought, what the target has counts, too: it may be newer. An alarm does not wait for that: in
// one, nothing is removed.
func (r *route) worth(ctx context.Context, to *Folder, all []ready, have map[string]ready) []ready {
	goes := r.goes(all, Tier{})
	comes := func(x ready) bool { return goes[x.name] == "" && have[x.name].save != x.save }
	if hurries, _ := r.board.hurrying(); r.Keep.Last > 0 && !hurries && slices.ContainsFunc(all, comes) {
		tiers, err := Judge(ctx, []*Folder{to}, r.Keep)
		if err == nil {
			goes = r.goes(all, tiers[0])
		} else if ctx.Err() == nil {
			r.log().Warn("what a target keeps can not be told", "to", to.String(), "err", err)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(x ready) bool {
		why := goes[x.name]
		if why != "" && r.skipped[x.name] != x.save && r.states[x.name] == "" {
			r.skipped[x.name] = x.save
			r.tell(Event{Name: x.name, To: r.To[r.index].String(), State: checkpoint.Complete, Why: "it is not brought, retention would remove it: " + why})
		}
		return why != ""
	})
}

// goes says why retention would remove what is ready, beside what a target has.
func (r *route) goes(all []ready, there Tier) map[string]string {
	goes := map[string]string{}
	for _, v := range r.Keep.Judge(r.beside(all, there), false) {
		if !v.Keep {
			goes[v.Name] = v.Why
		}
	}
	return goes
}

// beside is what a target would have, with all that is ready. What has gone from there is as old as it was there: its times may be kept more coarsely. A name that is there is as new as the
// newer of its saves.
func (r *route) beside(all []ready, there Tier) (held []checkpoint.Held) {
	named := r.board.named()
	for _, one := range all {
		h := checkpoint.Held{Name: one.name, Step: one.step, Saved: one.current, Verified: true, Tagged: one.tagged, Named: slices.Contains(named, one.name)}
		if was, is := r.expired[one.name]; is && was.save == one.save {
			h.Saved = was.current
		}
		held = append(held, h)
	}
	for _, h := range there.held() {
		if i := slices.IndexFunc(all, func(x ready) bool { return x.name == h.Name }); i >= 0 {
			held[i].Saved = max(held[i].Saved, h.Saved)
		} else {
			held = append(held, h)
		}
	}
	return held
}

// bring brings one, from the nearest place above that has it.
func (r *route) bring(ctx context.Context, from []*Folder, to *Folder, one ready) {
	source := from[0]
	for _, i := range r.board.whereVerified(r.index, one) {
		if f := from[i+1]; f != nil {
			source = f
		}
	}
	r.become(one.name, checkpoint.Settling, "", Result{})
	r.become(one.name, checkpoint.Complete, "", Result{})
	flying, hurries, land := r.board.fly(ctx, r.index, one)
	defer land()
	site := *r.Site
	if hurries {
		site.Request.Bandwidth = 0
	}
	result, err := r.carryStill(flying, &site, source, one, to)
	if source != from[0] && err != nil && flying.Err() == nil {
		r.log().Warn("a checkpoint does not come from the nearest place that has it", "name", mover.Printable(one.name), "from", source.String(), "to", to.String(), "err", err)
		result, err = r.carryStill(flying, &site, from[0], one, to)
	}
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && flying.Err() != nil: // it makes room for the newest, and goes on later
		r.become(one.name, checkpoint.Complete, "", Result{})
	case errors.Is(err, ErrSuperseded):
		r.supersede(one.name)
		r.board.drop(one)
	case err != nil:
		r.fail(one, err)
	default:
		delete(r.fails, one.name)
		r.count(func() { r.last = result })
		r.become(one.name, checkpoint.Copied, "", result)
		r.become(one.name, checkpoint.Verified, "", result)
		r.board.has(r.index, one, true)
	}
}

// drop takes what is gone from what is ready, until the next look.
func (b *board) drop(one ready) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = slices.DeleteFunc(b.ready, func(x ready) bool { return x.name == one.name && x.print == one.print })
}

// carryStill carries what looks as it did when it had settled.
func (r *route) carryStill(ctx context.Context, site *Site, from *Folder, one ready, to *Folder) (Result, error) {
	found, err := from.look(ctx, one.name)
	if err != nil {
		return Result{}, err
	}
	if SaveOf(found) != one.save {
		return Result{}, &mover.Error{Op: "copy", Location: from.String(), Name: one.name, Err: fmt.Errorf("%w: it was written again", mover.ErrChanged)}
	}
	if !found.Complete {
		return Result{}, incomplete(from, found)
	}
	return site.carry(ctx, from, found, to, func(s checkpoint.State) { r.become(one.name, s, "", Result{}) })
}

// fail notes that a copy is to be tried again, or not.
func (r *route) fail(one ready, err error) {
	f := r.fails[one.name]
	if f.save != one.save {
		f = fail{save: one.save}
	}
	r.count(func() { r.failed++ })
	f.err, f.times, f.final = err, f.times+1, errors.Is(err, mover.ErrConflict) || errors.Is(err, mover.ErrUsage)
	f.at = time.Now()
	f.next = f.at.Add(min(waitMost, waitLeast<<min(f.times-1, 10)))
	if errors.Is(err, mover.ErrChanged) { // the next look says what it is now
		f.next = time.Now()
		r.board.drop(one)
	}
	r.fails[one.name] = f
	r.board.stick(r.index, one.save)
	r.become(one.name, checkpoint.Seen, err.Error(), Result{})
}

// count changes what the metrics are of.
func (r *route) count(change func()) {
	r.board.mu.Lock()
	defer r.board.mu.Unlock()
	change()
}

func (r *route) supersede(name string) {
	delete(r.fails, name)
	r.become(name, checkpoint.Superseded, "", Result{})
}

// givenUp says whether all that failed is not tried again.
func (r *route) givenUp() bool {
	for _, f := range r.fails {
		if !f.final && f.times < triesIn {
			return false
		}
	}
	return true
}

// become tells of a new state that can follow the one before.
func (r *route) become(name string, s checkpoint.State, why string, result Result) {
	before := r.states[name]
	if before == s || !before.May(s) {
		return
	}
	r.states[name] = s
	if s == checkpoint.Settling || s == checkpoint.Complete { // the directory's own news
		return
	}
	r.tell(Event{Name: name, To: r.To[r.index].String(), State: s, Why: why, Result: result})
}

// point brings trackers of checkpoints that are verified here. Its error is of those that could not be brought.
func (r *route) point(ctx context.Context, to *Folder, pointers []Pointer) error {
	var errs []error
	have := r.board.verifiedAt(r.index)
	for _, p := range pointers {
		if _, verified := have[p.Names]; !verified || r.pointed[p.Name] == p.Text {
			continue
		}
		if err := r.Site.point(ctx, to, p); err != nil {
			if ctx.Err() == nil {
				r.log().Warn("a tracker can not be brought, will try again", "name", mover.Printable(p.Name), "to", to.String(), "err", err)
			}
			errs = append(errs, fmt.Errorf("bring the tracker %s to %s: %w", mover.Printable(p.Name), to, err))
			continue
		}
		r.pointed[p.Name], r.judged = p.Text, 0
	}
	if err := r.lead(ctx, to, have); err != nil {
		if ctx.Err() == nil {
			r.log().Warn("a tracker can not be made, will try again", "to", to.String(), "err", err)
		}
		errs = append(errs, fmt.Errorf("make a tracker at %s: %w", to, err))
	}
	return errors.Join(errs...)
}

// lead makes a tracker that names the newest which is verified here, where a framework finds none without one, and none was brought or is there: what the directory's names may not be complete.
func (r *route) lead(ctx context.Context, to *Folder, have map[string]ready) error {
	if len(have) == 0 {
		return nil
	}
	newest := slices.MaxFunc(slices.Collect(maps.Values(have)), compareReady)
	tracker, text := checkpoint.TrackerFor(to.Profile, newest.name)
	if tracker == "" || r.pointed[tracker] != r.led || r.led == text {
		return nil
	}
	if r.led == "" {
		if _, err := to.Peek(tracker, 0, make([]byte, 1)); !errors.Is(err, mover.ErrNotExist) {
			return nil // a link or a directory has its name
		}
	}
	if err := r.Site.point(ctx, to, Pointer{Name: tracker, Text: text, Written: newest.current}); err != nil {
		return err
	}
	r.pointed[tracker], r.led, r.judged = text, text, 0
	return nil
}

// prune removes what retention does not keep at this target, once something was brought there, and again when there is news: of what is here, of what the other targets have, or
// of what trackers name.
func (r *route) prune(ctx context.Context, to *Folder) {
	news := r.board.news()
	if hurries, _ := r.board.hurrying(); hurries {
		return
	}
	if r.Keep.Last <= 0 || r.judged == news || len(r.board.verifiedAt(r.index)) == 0 {
		return
	}
	r.judged = news
	tiers, err := Judge(ctx, []*Folder{to}, r.Keep)
	if err != nil {
		r.log().Warn("what a target keeps can not be told", "to", to.String(), "err", err)
		return
	}
	t := tiers[0]
	if err := r.assure(ctx, &t); err != nil {
		if ctx.Err() == nil {
			r.log().Warn("what a target keeps can not be read again, and nothing is removed", "to", to.String(), "err", err)
		}
		return
	}
	named := map[string]bool{}
	for _, p := range r.board.named() {
		named[p] = true
	}
	for _, v := range t.Verdicts {
		if v.Keep || named[v.Name] {
			if v.Keep && r.Keep.Last > 0 {
				r.become(v.Name, checkpoint.Retained, v.Why, Result{})
			}
			continue
		}
		if err := r.Remove(ctx, t, v.Name); err != nil {
			r.log().Warn("a checkpoint can not be removed", "name", mover.Printable(v.Name), "from", to.String(), "err", err)
			continue
		}
		r.expired[v.Name] = ready{name: v.Name, save: t.saves[v.Name], current: v.Saved}
		r.board.has(r.index, ready{name: v.Name}, false)
		r.become(v.Name, checkpoint.Expired, v.Why, Result{})
	}
}

// assure has retention rely on nothing that is damaged, unless an alarm begins: what is is brought again.
func (r *route) assure(ctx context.Context, t *Tier) error {
	ctx, cancel := context.WithCancel(ctx)
	var calm sync.WaitGroup
	defer calm.Wait()
	defer cancel()
	calm.Go(func() {
		for hurries, changed := r.board.hurrying(); !hurries; hurries, changed = r.board.hurrying() {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
		cancel()
	})
	for {
		if len(r.To) > 1 { // the other targets are other goroutines' to read, and have said what they have
			t.Verdicts = r.Keep.Judge(r.seconded(*t), true)
		} else {
			t.Verdicts = r.Keep.Judge(t.held(), false)
		}
		names, err := r.damaged(ctx, *t, r.Keep)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			r.board.has(r.index, ready{name: name}, false)
			r.states[name] = ""
		}
	}
}

// named are the checkpoints that trackers name: a framework would look for them.
func (b *board) named() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pointers {
		names = append(names, p.Names)
	}
	return names
}

// seconded says of what is here whether another target has it, too.
func (r *route) seconded(t Tier) []checkpoint.Held {
	var held []checkpoint.Held
	for _, v := range t.Verdicts {
		h := v.Held
		for i := range r.To {
			if i != r.index && r.board.verifiedAt(i)[h.Name].save == t.saves[h.Name] {
				h.Second = true
			}
		}
		held = append(held, h)
	}
	return held
}

func compareReady(a, b ready) int {
	return checkpoint.Held{Name: a.name, Step: a.step, Saved: a.current}.Compare(checkpoint.Held{Name: b.name, Step: b.step, Saved: b.current})
}
