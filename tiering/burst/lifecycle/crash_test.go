package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/aws"
	"datamove.dev/test/seed"
	"datamove.dev/tiering/burst"
	burstaws "datamove.dev/tiering/burst/aws"
	"datamove.dev/tiering/burst/budget"
	"datamove.dev/tiering/burst/pricing"
)

var errDied = errors.New("this process is dead")

// life ends after so many effects: the last of them is done, and nobody hears of it.
type life struct {
	left    int
	effects []string // which they were
}

// did is called after an effect.
func (l *life) did(effect string, err error) error {
	l.effects = append(l.effects, effect)
	if l.left--; l.left <= 0 {
		return errDied
	}
	return err
}

func (l *life) over() bool { return l.left <= 0 }

// mortal is an account that is asked by who dies.
type mortal struct {
	stepping
	life *life
}

func (m mortal) Create(ctx context.Context, w burstaws.Want) (burstaws.FileSystem, error) {
	if m.life.over() {
		return burstaws.FileSystem{}, errDied
	}
	fs, err := m.stepping.Create(ctx, w)
	return fs, m.life.did("create", err)
}

func (m mortal) Delete(ctx context.Context, id, token string) error {
	if m.life.over() {
		return errDied
	}
	return m.life.did("delete", m.stepping.Delete(ctx, id, token))
}

func (m mortal) Associate(ctx context.Context, fs, token, repository string, with map[string]string) (burstaws.Association, error) {
	if m.life.over() {
		return burstaws.Association{}, errDied
	}
	a, err := m.stepping.Associate(ctx, fs, token, repository, with)
	return a, m.life.did("associate", err)
}

func (m mortal) Begin(ctx context.Context, fs, token, kind string, paths []string, report string, with map[string]string) (burstaws.Task, error) {
	if m.life.over() {
		return burstaws.Task{}, errDied
	}
	t, err := m.stepping.Begin(ctx, fs, token, kind, paths, report, with)
	return t, m.life.did("begin", err)
}

func (m mortal) Await(ctx context.Context, look func(context.Context) (bool, error)) error {
	if m.life.over() {
		return errDied
	}
	return m.stepping.Await(ctx, look)
}

// mortalPurse is money that is spent by who dies.
type mortalPurse struct {
	budgetClient
	life *life
}

func (m mortalPurse) Reserve(ctx context.Context, r budget.Request) (budget.Outcome, error) {
	if m.life.over() {
		return budget.Outcome{}, errDied
	}
	out, err := m.budgetClient.Reserve(ctx, r)
	return out, m.life.did("reserve", err)
}

func (m mortalPurse) Charge(ctx context.Context, r budget.Request) (budget.Outcome, error) {
	if m.life.over() {
		return budget.Outcome{}, errDied
	}
	out, err := m.budgetClient.Charge(ctx, r)
	return out, m.life.did("charge", err)
}

func (m mortalPurse) Settle(ctx context.Context, r budget.Request) (budget.Outcome, error) {
	if m.life.over() {
		return budget.Outcome{}, errDied
	}
	out, err := m.budgetClient.Settle(ctx, r)
	return out, m.life.did("settle", err)
}

// mortal is a leg that dies after so many effects.
func (w *world) mortal(effects int) (*Manager, *life) {
	l, end := w.leg(), &life{left: effects}
	l.Cloud, l.Purse = mortal{stepping{l.Cloud.(stepping).Account, w.clock}, end}, mortalPurse{w.ledger, end}
	l.Keep = func(r *burst.Record) error {
		if end.over() {
			return errDied
		}
		return end.did(fmt.Sprint("keep ", r.State), w.keep(r))
	}
	return l, end
}

// TestDies: whoever dies after any effect, whether it is heard of or not, is followed by another one who makes nothing twice, forgets nothing, and pays nothing twice.
// Of the effects of one kind the first is tried, with DATAMOVE_SOAK=1 each, and in short one of four.
//
//safety:aws a process that dies after each kind of effect (with `DATAMOVE_SOAK=1` after each effect in turn), heard of or not: one file system, one association, one reservation, and nothing is left
func TestDies(t *testing.T) {
	store := s3test.Start(t, false)
	var effects []string
	t.Run("lives", func(t *testing.T) {
		var died bool
		if died, effects = wholeLife(t, store, 0); died || len(effects) < 20 {
			t.Errorf("died: %v, after %q", died, effects)
		}
	})
	tried := map[string]bool{}
	for k, effect := range effects {
		if t.Failed() || tried[effect] && !seed.Soak() || testing.Short() && k%4 != 0 {
			continue
		}
		tried[effect] = true
		t.Run(fmt.Sprint(k+1), func(t *testing.T) {
			if died, _ := wholeLife(t, store, k+1); !died {
				t.Errorf("it has no %d effects", k+1)
			}
		})
	}
	t.Logf("%d effects of %d kinds: %q", len(effects), len(tried), slices.Sorted(maps.Keys(tried)))
}

// wholeLife is a whole burst of a team of its own, of which the first process dies after k effects, or never; it says whether it did, and after which.
func wholeLife(t *testing.T, store *s3test.Server, k int) (died bool, effects []string) {
	w := worldIn(t, store, fmt.Sprintf("team-%d", k), 10_000*pricing.Dollar)
	died, effects = w.life(cmp.Or(k, 1<<30))
	balance, err := w.ledger.Balance(t.Context(), "vision")
	w.must(err)
	if n := w.spent.count(budget.Reserve); n != 1 {
		t.Errorf("money was reserved %d times", n)
	}
	if balance.Reserved != 0 || balance.Spent <= 0 {
		t.Errorf("%+v", balance)
	}
	for _, operation := range []string{"CreateFileSystem", "CreateDataRepositoryAssociation"} {
		if made := w.made(operation); made != 1 {
			t.Errorf("%s made %d", operation, made)
		}
	}
	systems, err := w.leg().Cloud.FileSystems(t.Context())
	if err != nil || len(systems) != 0 {
		t.Errorf("there are %v, %v", systems, err)
	}
	for _, name := range []string{"runs/run7/step-100/shard-1", "results/log.txt"} {
		if _, err := os.Stat(filepath.Join(w.dir, "project", name)); err != nil {
			t.Error(err)
		}
	}
	return died, effects
}

// made counts what was made by calls of an operation: those with one token make one thing.
func (w *world) made(operation string) int {
	tokens := map[string]bool{}
	for _, call := range w.aws.Log() {
		if call.Operation == operation && call.Code == "" {
			tokens[call.Token] = true
		}
	}
	return len(tokens)
}

// life is a whole burst, of which the first process dies after k effects; it says whether it did, and the effects.
func (w *world) life(k int) (died bool, effects []string) {
	w.t.Helper()
	w.write("datasets/imagenet/a.tar", 100<<10)
	b := read(w.t, declared)
	l, end := w.mortal(k)
	step := func(do func(l *Manager, r *burst.Record) error) {
		w.t.Helper()
		again := func() *burst.Record {
			all := w.kept()
			if len(all) == 0 {
				return nil
			}
			return all[len(all)-1]
		}
		err := do(l, again())
		if end.over() {
			died, l = true, w.leg()
			end.left = 1 << 30
			err = do(l, again())
		}
		w.must(err)
	}
	step(func(l *Manager, r *burst.Record) error { _, err := l.Up(w.t.Context(), b, r); return err })
	w.saved(w.aws.FileSystem(w.record("llama-ft").FileSystem.ID), "step-100")
	step(func(l *Manager, r *burst.Record) error { return l.SyncBack(w.t.Context(), r) })
	step(func(l *Manager, r *burst.Record) error { return l.Down(w.t.Context(), r, nil) })
	if r := w.record("llama-ft"); r.State != burst.Gone {
		w.t.Errorf("it is %s", r.State)
	}
	return died, end.effects
}

// TestLostAnswers: every answer is lost again and again, and all is made once.
//
//safety:aws every answer to what makes something is lost, as often as one process asks
func TestLostAnswers(t *testing.T) {
	w := newWorld(t, 10_000*pricing.Dollar)
	w.write("datasets/imagenet/a.tar", 100<<10)
	b := read(t, declared)
	for _, operation := range []string{"CreateFileSystem", "CreateDataRepositoryAssociation", "CreateDataRepositoryTask"} {
		w.aws.Order(operation, 8, aws.AnswerLost) // as often as one process tries
	}
	var r *burst.Record
	var err error
	for range 4 {
		if r, err = w.leg().Up(t.Context(), b, r); err == nil {
			break
		}
		r = w.record("llama-ft") // another process, with what was kept
	}
	w.must(err)
	if got := len(w.record("llama-ft").Works); got != 1 {
		t.Errorf("%d tasks", got)
	}
	systems, err := w.leg().Cloud.FileSystems(t.Context())
	w.must(err)
	if len(systems) != 1 || systems[0].ID != r.FileSystem.ID {
		t.Errorf("there are %v", systems)
	}
	tasks, err := w.leg().Cloud.Tasks(t.Context(), r.FileSystem.ID)
	w.must(err)
	links, err := w.leg().Cloud.Associations(t.Context(), r.FileSystem.ID)
	w.must(err)
	if len(tasks) != 1 || len(links) != 1 {
		t.Errorf("%d tasks, %d associations", len(tasks), len(links))
	}
}
