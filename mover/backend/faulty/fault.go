// Package faulty puts failures into a place that works.
//
// [New] wraps a place. Each call that reaches it may meet one [Fault]: by the
// [Options.Script], or by chance at the [Options.Rates]. Chance is drawn from the
// seed, the operation, the name and how often that pair was met before, not from
// the order of calls, so that a failure found by many goroutines is found again
// from its seed. What was injected is listed by [Backend.Injected].
//
// After [Killed] every call fails, as it does for a process that is gone; a place
// in memory crashes with it. What a target should make of all this is for retry and
// transfer to say; TestFaults shows that each fault does what its comment says.
//
// More lenient than places it is in that a fault of the target is never Released: what the engine has just written is in no archive,
// and a place says of its own objects that they may not be changed (mover/backend/s3 TestArchiveClass).
package faulty

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"

	"datamove.dev/mover"
)

// Fault is one way to fail.
type Fault uint8

// The faults. None of them does what was asked and says so; Flipped comes close.
const (
	None        Fault = iota
	Transient         // ErrTransient; nothing was done
	Unreachable       // ErrUnreachable; nothing was done
	Denied            // ErrPermission; of a directory in a walk: its contents are unknown
	Full              // ErrFull; nothing was done
	Changed           // ErrChanged; of a Publish: another writer was faster, and nothing was done
	Corrupt           // ErrCorrupt: what arrived is not what was sent, and the store says so; nothing was done
	Lost              // it was done, but the answer is ErrTransient
	Short             // the bytes end half way with ErrTransient
	Flipped           // one byte is another one, and no error is returned
	Torn              // half of the part was written, then ErrTransient
	TimedOut          // ErrTimeout; nothing was done
	Unsupported       // ErrUnsupported: the place can not do that, to this name; nothing was done
	Held              // ErrHeld: another run has the lock; nothing was done
	Released          // ErrReleased: the content is in an archive only
	Stalled           // nothing happens until the context ends
	Killed            // the process ends here, in the middle of a Publish too
	last
)

var faultNames = [last]string{
	"none", "transient", "unreachable", "denied", "full", "changed", "corrupt", "lost", "short", "flipped", "torn", "timed out", "unsupported", "held", "released", "stalled", "killed",
}

func (f Fault) String() string { return faultNames[f] }

// kind is what a fault looks like from outside.
func (f Fault) kind() error {
	switch f {
	case Unreachable:
		return mover.ErrUnreachable
	case Denied:
		return mover.ErrPermission
	case Full:
		return mover.ErrFull
	case Changed:
		return mover.ErrChanged
	case Corrupt:
		return mover.ErrCorrupt
	case TimedOut:
		return mover.ErrTimeout
	case Unsupported:
		return mover.ErrUnsupported
	case Held:
		return mover.ErrHeld
	case Released:
		return mover.ErrReleased
	case Killed:
		return errKilled
	}
	return mover.ErrTransient
}

var errKilled = errors.New("process was killed")

// Op is what is called.
type Op string

// The operations. Read is a Range of a content, and fails while it is read.
const (
	Walk    Op = "walk"  // the beginning
	Entry   Op = "entry" // each entry of a walk that is no directory
	List    Op = "list"  // each directory of a walk
	Stat    Op = "stat"
	Open    Op = "open"
	Read    Op = "read"
	Check   Op = "check"
	Lock    Op = "lock"
	Draft   Op = "draft"
	Adopt   Op = "adopt"
	Drop    Op = "drop"
	Write   Op = "write"
	Clone   Op = "clone"
	Reread  Op = "reread" // what is read then are Reads
	Finish  Op = "finish"
	Publish Op = "publish" // each draft
	Mkdir   Op = "mkdir"
	Update  Op = "update"
	Remove  Op = "remove"
	Sync    Op = "sync"
)

// possible says where each fault can happen; faults that are not here can happen anywhere.
var possible = map[Fault][]Op{
	Denied:  {List, Stat, Open, Read, Check, Lock, Draft, Adopt, Drop, Write, Clone, Reread, Finish, Mkdir, Update, Remove, Publish},
	Full:    {Lock, Draft, Write, Clone, Finish, Publish, Mkdir, Update},
	Changed: {Open, Read, Check, Clone, Publish},
	Corrupt: {Read, Write, Publish},
	Lost:    {Draft, Write, Clone, Finish, Publish, Mkdir, Update, Remove, Drop},
	Short:   {Read},
	Flipped: {Read, Write},
	Torn:    {Write},

	Unsupported: {Draft, Clone, Reread, Mkdir, Update, Publish},
	Held:        {Lock},
	Released:    {Open, Read},
}

// Happens reports whether f can happen to op.
func (f Fault) Happens(op Op) bool {
	ops, some := possible[f]
	return f != None && (!some || slices.Contains(ops, op))
}

// Call is one call that may meet a fault.
type Call struct {
	Op   Op
	Name string
	Off  int64 // of Read and Write
	Nth  int   // how often this Op, Name and Off came before
}

// Injected is a fault that happened.
type Injected struct {
	Call
	Fault Fault
}

func (i Injected) String() string {
	return fmt.Sprintf("%v at %s %s +%d (%d before)", i.Fault, i.Op, mover.Printable(i.Name), i.Off, i.Nth)
}

// Options says what goes wrong. The zero value lets everything pass.
type Options struct {
	Seed   uint64
	Rates  map[Fault]float64 // the chance of each fault at each call where it can happen
	Streak int               // chance hits one Op, Name and Off at most so often in a row; 0 is no limit
	// Script is asked before chance; None leaves the call to chance. Nil is no
	// script. It is called from many goroutines.
	Script func(Call) Fault
}

// Backend is a place that fails now and then.
type Backend struct {
	inner mover.Backend
	o     Options

	mu       sync.Mutex // guards all below
	met      map[Call]met
	injected []Injected
	killed   bool
}

// met is what is known of a call with Nth 0.
type met struct{ calls, streak int }

// New wraps p.
func New(p mover.Backend, o Options) *Backend {
	return &Backend{inner: p, o: o, met: map[Call]met{}}
}

// Injected returns what went wrong so far, sorted by operation and name so that
// two runs can be compared.
func (p *Backend) Injected() []Injected {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Clone(p.injected)
	slices.SortFunc(all, func(a, b Injected) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Off, b.Off), cmp.Compare(a.Nth, b.Nth))
	})
	return all
}

// Kill makes every later call fail.
func (p *Backend) Kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	if c, ok := mover.As[interface{ Crash() }](p.inner); ok {
		c.Crash()
	}
}

// Unwrap returns the place that works.
func (p *Backend) Unwrap() any { return p.inner }

// draw decides what happens to a call.
func (p *Backend) draw(op Op, name string, off int64) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return Killed
	}
	call := Call{Op: op, Name: name, Off: off}
	m := p.met[call]
	f := p.decide(Call{op, name, off, m.calls}, m.streak)
	m.calls++
	m.streak++
	if f == None {
		m.streak = 0
	} else {
		p.injected = append(p.injected, Injected{Call{op, name, off, m.calls - 1}, f})
	}
	p.met[call] = m
	return f
}

func (p *Backend) decide(c Call, streak int) Fault {
	if p.o.Script != nil {
		if f := p.o.Script(c); f.Happens(c.Op) {
			return f
		}
	}
	if p.o.Streak > 0 && streak >= p.o.Streak {
		return None
	}
	x := dice(p.o.Seed, c).Float64()
	for f := Transient; f < last; f++ {
		if !f.Happens(c.Op) {
			continue
		}
		if x -= p.o.Rates[f]; x < 0 {
			return f
		}
	}
	return None
}

// dice gives the chances of one call, whatever happens around it.
func dice(seed uint64, c Call) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%d\x00%d", c.Op, c.Name, c.Off, c.Nth)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// fails is the error of a fault, after what the fault does beside it.
func (p *Backend) fails(ctx context.Context, f Fault, op Op, name string) error {
	if f == Stalled {
		<-ctx.Done()
		return p.err(op, name, context.Cause(ctx))
	}
	if f == Killed {
		p.Kill()
	}
	return p.err(op, name, fmt.Errorf("injected %v fault: %w", f, f.kind()))
}

func (p *Backend) err(op Op, name string, err error) error {
	return &mover.Error{Op: string(op), Location: p.inner.String(), Name: name, Err: err}
}

// around does a call that returns only an error.
func (p *Backend) around(ctx context.Context, op Op, name string, off int64, do func() error) error {
	f := p.draw(op, name, off)
	if f == Lost {
		if err := do(); err != nil {
			return err
		}
	}
	if f != None {
		return p.fails(ctx, f, op, name)
	}
	return do()
}
