package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
)

var callerDeeds = []deed{{"crowd", 6}}

// callers use the same things at once. What they asked for and what they were told has to be linearizable: as if each call had been done at one moment
// between its beginning and its end, in one order for all.
type callers struct {
	*running
	plain

	mu       sync.Mutex
	ticks    atomic.Int64          // order the beginnings and ends of calls
	history  []porcupine.Operation // guarded by mu, as all below
	keys     []string              // of submissions
	ids      []string              // of tasks that callers have heard of
	leases   map[string]string     // ids by their holders
	unpinned map[string]bool       // locations that are unpinned, or are about to be: a call without a key may come twice
}

// call is what is asked for, of an object.
type call struct {
	object string // its kind, and its name
	verb   string
}

// What a call is told, where that is not the id or the state of a task.
const (
	lost    = "lost" // it may have been done, or may be done later
	refused = "refused"
	is      = "is"
	isNot   = "is not"
)

// crowd has some callers, each with some calls, at once.
func (r *callers) do(s step) {
	dice := rand.New(rand.NewPCG(uint64(s.a)<<20|uint64(s.b)<<10|uint64(s.c), r.w.seed))
	var all sync.WaitGroup
	for range 2 + s.a%3 {
		mine := rand.New(rand.NewPCG(dice.Uint64(), 1))
		all.Go(func() {
			for range 1 + mine.IntN(3) {
				time.Sleep(time.Duration(mine.IntN(3)) * time.Millisecond)
				r.one(mine)
			}
		})
	}
	all.Wait()
}

// one makes a call.
func (r *callers) one(dice *rand.Rand) {
	what := []func(*rand.Rand){r.submit, r.submit, r.cancel, r.look, r.look, r.lease, r.dropLease, r.readLeases, r.pin, r.pin, r.unpin, r.readPins}
	what[dice.IntN(len(what))](dice)
}

// record makes a call and notes it. told says what an answer without an error tells.
func (r *callers) record(object, verb string, do func(context.Context) (told string, err error)) (told string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	begun := r.ticks.Add(1)
	told, err := do(ctx)
	ended := r.ticks.Add(1)
	switch {
	case unknown(err):
		told, ended = lost, math.MaxInt64
	case err != nil:
		r.kind(verb+" "+object, err)
		told = refused
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{Input: call{object, verb}, Call: begun, Output: told, Return: ended})
	return told
}

func (r *callers) submit(dice *rand.Rand) {
	r.mu.Lock()
	key := fmt.Sprint("of-callers-", len(r.keys))
	if len(r.keys) > 0 && dice.IntN(2) == 0 {
		key = r.keys[dice.IntN(len(r.keys))]
	} else {
		r.keys = append(r.keys, key)
	}
	n := slices.Index(r.keys, key)
	r.mu.Unlock()
	req := &pb.SubmitTaskRequest{IdempotencyKey: key, Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: fmt.Sprint("shared:src", n%sources), Target: fmt.Sprint("archive:of-callers", n)}}
	id := r.record("key "+key, "submit", func(ctx context.Context) (string, error) {
		t, err := r.caller.Submit(ctx, req)
		return t.GetId(), err
	})
	if id != lost && id != refused {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !slices.Contains(r.ids, id) {
			r.ids = append(r.ids, id)
		}
	}
}

// aTask is one of which a caller has heard; "" is none.
func (r *callers) aTask(dice *rand.Rand) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ids) == 0 {
		return ""
	}
	return r.ids[dice.IntN(len(r.ids))]
}

func (r *callers) cancel(dice *rand.Rand) {
	if id := r.aTask(dice); id != "" {
		r.record("task "+id, "cancel", func(ctx context.Context) (string, error) {
			t, err := r.caller.CancelTask(ctx, &pb.CancelTaskRequest{Id: id})
			return stateOf(t), err
		})
	}
}

func (r *callers) look(dice *rand.Rand) {
	if id := r.aTask(dice); id != "" {
		r.record("task "+id, "read", func(ctx context.Context) (string, error) {
			t, err := r.caller.GetTask(ctx, &pb.GetTaskRequest{Id: id})
			return stateOf(t), err
		})
	}
}

const open = "open"

// stateOf is how a task has ended, or that it has not.
func stateOf(t *pb.Task) string {
	if task.Ended(t.GetState()) {
		return t.GetState().String()
	}
	return open
}

func (r *callers) lease(dice *rand.Rand) {
	r.mu.Lock()
	holder := fmt.Sprint("job:of-callers-", len(r.leases))
	r.leases[holder] = ""
	r.mu.Unlock()
	req := &pb.AcquireLeaseRequest{Dataset: fmt.Sprint("ds", dice.IntN(sources)), Tier: "scratch", Node: nodeName(dice.IntN(r.w.agents)), Holder: holder, Ttl: durationpb.New(100 * time.Hour), IdempotencyKey: holder}
	r.record("lease "+holder, "acquire", func(ctx context.Context) (string, error) {
		l, err := api.Once(ctx, r.caller, r.caller.AcquireLease, req)
		if err == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.leases[holder] = l.GetId()
		}
		return is, err
	})
}

func (r *callers) dropLease(dice *rand.Rand) {
	r.mu.Lock()
	var holders []string
	for holder, id := range r.leases {
		if id != "" {
			holders = append(holders, holder)
		}
	}
	slices.Sort(holders)
	r.mu.Unlock()
	if len(holders) == 0 {
		return
	}
	holder := holders[dice.IntN(len(holders))]
	r.mu.Lock()
	id := r.leases[holder]
	r.mu.Unlock()
	r.record("lease "+holder, "drop", func(ctx context.Context) (string, error) {
		_, err := r.caller.DropLease(ctx, &pb.DropLeaseRequest{Id: id})
		if errors.Is(err, mover.ErrNotExist) {
			err = nil // of one that is dropped
		}
		return isNot, err
	})
}

// readLeases notes which leases of callers there are.
func (r *callers) readLeases(*rand.Rand) {
	r.mu.Lock()
	var objects []string
	for holder := range r.leases {
		objects = append(objects, "lease "+holder)
	}
	r.mu.Unlock()
	r.readAll(objects, func(ctx context.Context, found map[string]bool) error {
		for l, err := range r.caller.Leases(ctx, &pb.ListLeasesRequest{}) {
			if err != nil {
				return err
			}
			found["lease "+l.GetHolder()] = true
		}
		return nil
	})
}

// readAll notes of some objects whether they are in a list. What is read of each is a call of its own.
func (r *callers) readAll(objects []string, list func(context.Context, map[string]bool) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	found, begun := map[string]bool{}, r.ticks.Add(1)
	err := list(ctx, found)
	ended := r.ticks.Add(1)
	if err != nil {
		if !unknown(err) {
			r.kind("list", err)
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range objects {
		told := isNot
		if found[o] {
			told = is
		}
		r.history = append(r.history, porcupine.Operation{Input: call{o, "read"}, Call: begun, Output: told, Return: ended})
	}
}

// pins are of every version of a source, on one of these tiers: those on the scratch are of another domain.
var pinTiers = []string{"shared", "archive"}

func pinOf(dataset, tier string) string { return "pin " + dataset + " " + tier }

func (r *callers) pin(dice *rand.Rand) {
	dataset, tier := fmt.Sprint("ds", dice.IntN(sources)), pinTiers[dice.IntN(len(pinTiers))]
	r.mu.Lock()
	over := r.unpinned[pinOf(dataset, tier)]
	r.n++
	req := &pb.PinRequest{Source: "dataset:" + dataset, Tier: tier, Until: timestamppb.New(time.Now().Add(200 * time.Hour)), IdempotencyKey: fmt.Sprint("pin-", r.n)}
	r.mu.Unlock()
	if over {
		return
	}
	r.record(pinOf(dataset, tier), "acquire", func(ctx context.Context) (string, error) {
		_, err := r.caller.Pin(ctx, req)
		return is, err
	})
}

func (r *callers) unpin(dice *rand.Rand) {
	dataset, tier := fmt.Sprint("ds", dice.IntN(sources)), pinTiers[dice.IntN(len(pinTiers))]
	r.mu.Lock()
	r.unpinned[pinOf(dataset, tier)] = true
	r.mu.Unlock()
	r.record(pinOf(dataset, tier), "drop", func(ctx context.Context) (string, error) {
		_, err := r.caller.Unpin(ctx, &pb.UnpinRequest{Source: "dataset:" + dataset, Tier: tier})
		if errors.Is(err, mover.ErrNotExist) {
			err = nil // of none
		}
		return isNot, err
	})
}

// readPins notes which pins there are.
func (r *callers) readPins(dice *rand.Rand) {
	dataset := fmt.Sprint("ds", dice.IntN(sources))
	r.readAll([]string{pinOf(dataset, pinTiers[0]), pinOf(dataset, pinTiers[1])}, func(ctx context.Context, found map[string]bool) error {
		for p, err := range r.caller.Pins(ctx, &pb.ListPinsRequest{Dataset: dataset}) {
			if errors.Is(err, mover.ErrNotExist) {
				return nil // of no such dataset
			}
			if err != nil {
				return err
			}
			if p.GetDigest() == "" {
				found[pinOf(dataset, p.GetTier())] = true
			}
		}
		return nil
	})
}

func (r *callers) end(map[string]*pb.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	byObject := map[string][]porcupine.Operation{}
	for _, o := range r.history {
		name := o.Input.(call).object
		byObject[name] = append(byObject[name], o)
	}
	for name, history := range byObject {
		if !porcupine.CheckOperations(model.ToModel(), history) {
			r.t.Errorf("what callers were told of %s has no order:\n%s", name, tell(history))
		}
	}
}

func tell(history []porcupine.Operation) string {
	var b strings.Builder
	for _, o := range history {
		fmt.Fprintf(&b, "%d to %d: %s: %s\n", o.Call, o.Return, o.Input.(call).verb, o.Output)
	}
	return b.String()
}

// model is one object. Its state is what a call may be told of it; "" is that it never was.
var model = porcupine.NondeterministicModel{
	Init: func() []any { return []any{""} },
	Step: func(state, input, output any) []any {
		was, told, c := state.(string), output.(string), input.(call)
		switch kind, _, _ := strings.Cut(c.object, " "); kind {
		case "key":
			return submitted(was, told)
		case "task":
			return steered(was, c.verb, told)
		}
		return held(was, c.verb, told)
	},
}

// unsaid is the task of a key whose caller was not told it.
const unsaid = "some task"

func submitted(was, told string) []any {
	switch {
	case told == refused:
		return []any{was}
	case told == lost && was == "":
		return []any{"", unsaid}
	case told == lost || was == told:
		return []any{was}
	case was == "" || was == unsaid:
		return []any{told}
	}
	return nil
}

// steered is a task, which may end by itself at any time.
func steered(was, verb, told string) []any {
	cancelled := task.Cancelled.String()
	switch {
	case told == refused || told == lost && verb == "read":
		return []any{was}
	case told == lost && was == "":
		return []any{"", cancelled}
	case told == lost || was == told:
		return []any{was}
	case told == open && was == "":
		return []any{""}
	case was == "":
		return []any{told}
	}
	return nil
}

// held is a lease or a pin.
func held(was, verb, told string) []any {
	switch {
	case verb == "read" && (told == was || told == isNot && was == "" || told == lost), told == refused:
		return []any{was}
	case verb == "read":
		return nil
	case told == lost && verb == "acquire":
		return []any{was, is}
	case told == lost:
		return []any{was, isNot}
	}
	return []any{told}
}
