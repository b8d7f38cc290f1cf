package budget

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst/pricing"
)

// reserve reserves a dollar after the other, until there is no more, or it is killed. It says each after it was told. Its argument is the name of its reservations, the cap in dollars, and
// the directory.
func reserve(argument string) error {
	words := strings.SplitN(argument, ":", 3)
	limit, err := pricing.ParseMoney(words[1])
	f, err1 := Open(words[2])
	if err := errors.Join(err, err1); err != nil {
		return err
	}
	l, err := New(context.Background(), f, []Account{{Team: "vision", Cap: limit}}, Options{})
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		key := fmt.Sprintf("%s-%d", words[0], n)
		_, err := l.Reserve(context.Background(), Request{Team: "vision", Burst: "b", Amount: pricing.Dollar, Key: key, Why: strings.Repeat("x", 600)})
		if errors.Is(err, mover.ErrRefused) {
			kill.Say("full")
			return nil
		}
		if err != nil {
			return err
		}
		kill.Say(key)
	}
}

// TestKill kills a process that appends, again and again. All that it was told is there, once, and at most one entry more for each life.
//
//safety:aws with TestModel
func TestKill(t *testing.T) {
	random := kill.Random(t)
	dir, told := t.TempDir(), 0
	for life := range kill.Times(3, 40) {
		kill.AtLine(t, "reserve", fmt.Sprintf("%d:1000000:%s", life, dir), "", 1+random.IntN(40), func(string) { told++ })
		reserved(t, dir, told, told+life+1)
	}
}

// reserved looks how many dollars are.
func reserved(t testing.TB, dir string, least, most int) {
	t.Helper()
	b, err := ledger(t, dir, Account{Team: "vision", Cap: 1_000_000 * pricing.Dollar}).Balance(t.Context(), "vision")
	if there := int(b.Reserved / pricing.Dollar); err != nil || there < least || there > most {
		t.Fatalf("%d of %d that were told are there, %v", there, least, err)
	}
}

// TestKillInside kills it at each call, and in the middle of each write. What it was told is there, and the next one goes on.
func TestKillInside(t *testing.T) {
	const dollars = 6
	dir := filepath.Join(t.TempDir(), "ledger")
	must.Do(t, os.Mkdir(dir, 0o700))
	kill.Prefixes(t, "reserve", fmt.Sprintf("a:%d:%s", dollars, dir), dir, func(t testing.TB, left string, said []string) {
		told := min(len(said), dollars) // "full" is the last line
		reserved(t, left, told, told+1)
		l := ledger(t, left, Account{Team: "vision", Cap: 1_000_000 * pricing.Dollar})
		_, err := l.Reserve(t.Context(), Request{Team: "vision", Burst: "b", Amount: pricing.Dollar, Key: "next"})
		must.Do(t, err)
		reserved(t, left, told+1, told+2)
	})
}

// TestRace has two processes reserve what one cap has room for. Together they get it, and no dollar more.
//
//safety:aws with TestModel
func TestRace(t *testing.T) {
	dir := t.TempDir()
	got := map[string]int{}
	processes := []*kill.Child{kill.Start(t, "reserve", "a:60:"+dir), kill.Start(t, "reserve", "b:60:"+dir)}
	for _, p := range processes {
		for line, err := p.Line(); err == nil; line, err = p.Line() {
			name, _, _ := strings.Cut(line, "-")
			got[name]++
		}
	}
	for _, p := range processes {
		must.Do(t, p.Wait())
	}
	if got["a"]+got["b"] != 60 || got["full"] != 2 {
		t.Errorf("%v", got)
	}
	b, err := ledger(t, dir, Account{Team: "vision", Cap: 60 * pricing.Dollar}).Balance(t.Context(), "vision")
	if err != nil || b.Reserved != 60*pricing.Dollar || b.Free != 0 {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestRaceInside is the same with goroutines, on one ledger and on two.
func TestRaceInside(t *testing.T) {
	dir := t.TempDir()
	a := Account{Team: "vision", Cap: 40 * pricing.Dollar}
	ledgers := []*Ledger{ledger(t, dir, a), ledger(t, dir, a)}
	won := make(chan int)
	for g := range 6 {
		go func() {
			n := 0
			for i := range 20 {
				_, err := ledgers[g%2].Reserve(t.Context(), Request{Team: "vision", Burst: "b", Amount: pricing.Dollar, Key: fmt.Sprint(g, "-", i)})
				if err == nil {
					n++
				} else if !errors.Is(err, mover.ErrRefused) {
					t.Error(err)
				}
			}
			won <- n
		}()
	}
	sum := 0
	for range 6 {
		sum += <-won
	}
	if sum != 40 {
		t.Errorf("%d reservations of a dollar fit in 40", sum)
	}
}

// TestStreamsStop has streams send parts of a dollar, each asked for before and charged afterwards. When the reservation is used up each has sent a part too many at most.
func TestStreamsStop(t *testing.T) {
	const streams, reserved = 8, 30
	dir := t.TempDir()
	a := Account{Team: "vision", Cap: 1000 * pricing.Dollar}
	ledgers := []*Ledger{ledger(t, dir, a), ledger(t, dir, a)}
	if _, err := ledgers[0].Reserve(t.Context(), Request{Team: "vision", Burst: "b", Amount: reserved * pricing.Dollar, Key: "r"}); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error)
	for s := range streams {
		go func() {
			l := ledgers[s%2]
			for part := 0; ; part++ {
				if err := l.Allow(t.Context(), "vision", "b", pricing.Dollar); err != nil {
					stopped <- err
					return
				}
				if _, err := l.Charge(t.Context(), Request{Team: "vision", Burst: "b", Amount: pricing.Dollar, Key: fmt.Sprint(s, "-", part)}); err != nil && !errors.Is(err, mover.ErrRefused) {
					stopped <- err
					return
				}
			}
		}()
	}
	for range streams {
		if err := <-stopped; !errors.Is(err, mover.ErrRefused) {
			t.Error(err)
		}
	}
	b, err := ledgers[1].Balance(t.Context(), "vision")
	if err != nil || b.Spent < reserved*pricing.Dollar || b.Spent >= (reserved+streams)*pricing.Dollar || b.Reserved != 0 {
		t.Errorf("%+v, %v", b, err)
	}
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// ledger opens one for a test.
func ledger(t testing.TB, dir string, accounts ...Account) *Ledger {
	t.Helper()
	l := must.Get(New(t.Context(), opened(t, dir), accounts, Options{}))(t)
	return l
}

func opened(t testing.TB, dir string) *File {
	t.Helper()
	f := must.Get(Open(dir))(t)
	t.Cleanup(func() {
		if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return f
}
