package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
)

// The programs that this test runs of itself, with a directory as the value.
const (
	childWrites = "DATAMOVE_LEDGER_WRITES"
	childLives  = "DATAMOVE_LEDGER_LIVES"
	childOpens  = "DATAMOVE_LEDGER_OPENS"
)

// say prints one line at a time, whoever says it.
var say = func() func(...any) {
	var mu sync.Mutex
	return func(words ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(words...)
	}
}()

// must ends a child that can not do its work.
func must(err error) {
	if err != nil {
		say("error", err)
		os.Exit(1)
	}
}

// runWriter changes a ledger until it is killed, and says what was done when it is.
func runWriter(dir string) {
	l, err := Open(dir, Options{})
	must(err)
	say("term", l.Term())
	ctx := context.Background()
	begin := int(l.Term()) * 1_000_000
	for kind, d := range []Durability{Soon, Durable, Soon} {
		go func() {
			for n := begin + kind; ; n += 3 {
				must(l.Update(ctx, d, func(tx *Tx) error { return five(tx, n) }))
				say([]string{"soon", "durable"}[d], n)
			}
		}()
	}
	for {
		epoch, err := l.Epoch(ctx)
		must(err)
		say("epoch", epoch)
	}
}

// five puts a task with all that can be its own.
func five(tx *Tx, n int) error {
	id := task(n).Id
	return errors.Join(Tasks.Put(tx, task(n)), Keys.Put(tx, &ledgerv1.Key{Caller: "c", Key: strconv.Itoa(n), Task: id}),
		Batches.Put(tx, &ledgerv1.Batch{Task: id, Id: "1"}), Works.Put(tx, &ledgerv1.Work{Task: id, Batch: "1", Work: make([]byte, 2000)}),
		Drafts.Put(tx, &ledgerv1.Draft{Task: id, Name: "big"}))
}

// fiveThere reports whether they are there, and an error if only some are.
func fiveThere(tx *Tx, n int) (bool, error) {
	id := task(n).Id
	_, err1 := Tasks.Get(tx, id)
	_, err2 := Keys.Get(tx, "c", strconv.Itoa(n))
	_, err3 := Batches.Get(tx, id, "1")
	_, err4 := Works.Get(tx, id, "1")
	_, err5 := Drafts.Get(tx, id, "big")
	there := 0
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err == nil {
			there++
		} else if !errors.Is(err, mover.ErrNotExist) {
			return false, err
		}
	}
	if there > 0 && there < 5 {
		return false, fmt.Errorf("task %d: %d of 5 rows", n, there)
	}
	return there == 5, nil
}

// told is what children said. It can be asked while it listens.
type told struct {
	mu            sync.Mutex // guards all below
	terms, epochs []uint64
	soon, durable []int
}

// hear listens until the child is dead.
func (s *told) hear(t testing.TB, out *bufio.Scanner, begun func()) {
	for out.Scan() {
		word, rest, _ := strings.Cut(out.Text(), " ")
		n, err := strconv.ParseUint(rest, 10, 64)
		if err != nil {
			t.Error(out.Text())
		}
		s.take(word, n)
		if word == "term" {
			begun()
		}
	}
}

func (s *told) take(word string, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch word {
	case "term":
		s.terms = append(s.terms, n)
	case "epoch":
		s.epochs = append(s.epochs, n)
	case "soon":
		s.soon = append(s.soon, int(n))
	case "durable":
		s.durable = append(s.durable, int(n))
	}
}

// soFar returns what was said until now.
func (s *told) soFar() *told {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &told{terms: s.terms, epochs: s.epochs, soon: s.soon, durable: s.durable}
}

// compare opens the ledger and looks for what was said; what was Soon only after a kill.
func (s *told) compare(t testing.TB, dir string, killed bool) {
	t.Helper()
	l := opened(t, dir, Options{})
	defer closed(t, l)
	for _, term := range s.terms {
		if l.Term() <= term {
			t.Errorf("term %d after %d", l.Term(), term)
		}
	}
	epoch, err := l.Epoch(t.Context())
	check(t, err)
	for _, e := range s.epochs {
		if epoch <= e {
			t.Errorf("epoch %d after %d", epoch, e)
		}
	}
	want := s.durable
	if killed {
		want = append(want[:len(want):len(want)], s.soon...)
	}
	view(t, l, func(tx *Tx) error {
		for _, n := range want {
			if there, err := fiveThere(tx, n); !there || err != nil {
				t.Errorf("task %d is lost: %v", n, err)
			}
		}
		for m, err := range Tasks.All(tx, Range{}) {
			check(t, err)
			n, _ := strconv.Atoi(strings.TrimPrefix(m.GetId(), "01HZX"))
			if _, err := fiveThere(tx, n); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	sameIndexes(t, l)
}

// sameIndexes compares the indexes with the rows.
func sameIndexes(t testing.TB, l *Ledger) {
	t.Helper()
	want := map[string]string{}
	got := map[string]string{}
	for k, v := range dump(t, l) {
		if k[0] == keyIndex {
			got[k] = v
			continue
		}
		for _, table := range tables {
			if key, ok := strings.CutPrefix(k, string(table.row(nil))); ok {
				entries, err := table.entries([]byte(key), []byte(v))
				check(t, err)
				for _, e := range entries {
					want[string(e)] = ""
				}
			}
		}
	}
	sameDump(t, want, got)
}

// start runs this test as a child.
func start(t testing.TB, what, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), what+"="+dir, "GORACE=atexit_sleep_ms=0")
	pipe, err := child.StdoutPipe()
	check(t, err)
	check(t, child.Start())
	return child, bufio.NewScanner(pipe)
}

// TestKill kills a process at random instants. All that it said is there, changes
// are there whole or not at all, and no term or epoch comes again.
func TestKill(t *testing.T) {
	kills := 25
	if testing.Short() {
		kills = 6
	}
	dir, s := t.TempDir(), &told{}
	for range kills {
		child, out := start(t, childWrites, dir)
		s.hear(t, out, func() {
			go func() {
				<-time.After(rand.N(200 * time.Millisecond)) // the random instant is what is tested
				_ = child.Process.Kill()
			}()
		})
		_ = child.Wait() // always "killed"
		s.compare(t, dir, true)
		if t.Failed() {
			return
		}
	}
	if len(s.durable) < kills || len(s.soon) < kills {
		t.Errorf("only %d and %d changes in %d lives: the kills came too early to tell", len(s.durable), len(s.soon), kills)
	}
}

// runLives opens and closes a ledger again and again.
func runLives(dir string) {
	say("begun")
	for {
		l, err := Open(dir, Options{})
		must(err)
		must(l.Update(context.Background(), Soon, func(tx *Tx) error { return five(tx, int(l.Term())) }))
		must(l.Close())
	}
}

// TestKillOpening kills a process while it makes, opens and closes a ledger, and
// while it restores one. That is no damage.
func TestKillOpening(t *testing.T) {
	kills := 60
	if testing.Short() {
		kills = 15
	}
	dir := t.TempDir()
	for range kills {
		if rand.N(4) == 0 {
			check(t, os.RemoveAll(dir)) // so that making one is among what is killed
		}
		child, out := start(t, childLives, dir)
		out.Scan()
		<-time.After(rand.N(40 * time.Millisecond)) // the random instant is what is tested
		check(t, child.Process.Kill())
		for out.Scan() {
			t.Fatal(out.Text())
		}
		_ = child.Wait() // always "killed"
		l := opened(t, dir, Options{})
		view(t, l, func(tx *Tx) error {
			for m, err := range Tasks.All(tx, Range{}) {
				check(t, err)
				n, _ := strconv.Atoi(strings.TrimPrefix(m.GetId(), "01HZX"))
				if there, err := fiveThere(tx, n); !there || err != nil {
					t.Errorf("task %d: %v", n, err)
				}
			}
			return nil
		})
		closed(t, l)
	}
}

// TestKilledBeforeReady: a process that was killed when its new ledger had its first
// record, and before the ledger was said to be ready, leaves nothing that the next one
// takes for a loss.
func TestKilledBeforeReady(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, Options{})
	check(t, l.Sync())
	closed(t, l)
	id, err := readIdentity(dir)
	check(t, err)
	id.State = stateNew
	check(t, id.write(dir))
	l = opened(t, dir, Options{})
	if l.Sequence() != 1 || l.Term() != 1 {
		t.Errorf("it goes on with record %d and term %d of what was never there", l.Sequence(), l.Term())
	}
	closed(t, l)
}
