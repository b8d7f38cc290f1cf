package budget

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/budget/price"
)

const (
	childDir  = "DATAMOVE_BUDGET_CHILD"
	childName = "DATAMOVE_BUDGET_CHILD_NAME"
	childCap  = "DATAMOVE_BUDGET_CHILD_CAP" // dollars
)

// runChild reserves a dollar after the other, until there is no more, or it is killed. It says each on stdout, after it was told.
func runChild(dir string) {
	limit, err := price.ParseMoney(os.Getenv(childCap))
	f, err1 := Open(dir)
	if err := errors.Join(err, err1); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	l, err := New(context.Background(), f, []Account{{Team: "vision", Cap: limit}}, Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	for n := 0; ; n++ {
		key := fmt.Sprintf("%s-%d", os.Getenv(childName), n)
		_, err := l.Reserve(context.Background(), Request{Team: "vision", Burst: "b", Amount: price.Dollar, Key: key, Why: strings.Repeat("x", 600)})
		if errors.Is(err, mover.ErrRefused) {
			fmt.Println("full")
			return
		}
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(key)
	}
}

// child starts one; what it says is read from the pipe.
func child(t *testing.T, dir, name, limit string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childDir+"="+dir, childName+"="+name, childCap+"="+limit)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewScanner(out)
}

// TestKill kills a process that appends, again and again. All that it was told is there, once, and at most one entry more for each life.
func TestKill(t *testing.T) {
	kills := 20
	if testing.Short() {
		kills = 6
	}
	dir, told := t.TempDir(), 0
	for life := range kills {
		c, out := child(t, dir, fmt.Sprint(life), "1000000")
		for range 1 + rand.IntN(40) {
			if !out.Scan() || strings.HasPrefix(out.Text(), "error") {
				t.Fatalf("%s %v", out.Text(), out.Err())
			}
			told++
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for out.Scan() {
			if strings.HasPrefix(out.Text(), "error") {
				t.Fatal(out.Text())
			}
			told++ // it was told before it was killed
		}
		_ = c.Wait()
		l := ledger(t, dir, Account{Team: "vision", Cap: 1_000_000 * price.Dollar})
		b, err := l.Balance(t.Context(), "vision")
		if there := int(b.Reserved / price.Dollar); err != nil || there < told || there > told+life+1 {
			t.Fatalf("%d of %d that were told are there, %v", there, told, err)
		}
	}
}

// TestRace has two processes reserve what one cap has room for. Together they get it, and no dollar more.
func TestRace(t *testing.T) {
	dir := t.TempDir()
	got := map[string]int{}
	var first, second *bufio.Scanner
	var processes [2]*exec.Cmd
	processes[0], first = child(t, dir, "a", "60")
	processes[1], second = child(t, dir, "b", "60")
	for _, out := range []*bufio.Scanner{first, second} {
		for out.Scan() {
			name, _, _ := strings.Cut(out.Text(), "-")
			got[name]++
		}
	}
	for _, p := range processes {
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
	}
	if got["a"]+got["b"] != 60 || got["full"] != 2 {
		t.Errorf("%v", got)
	}
	b, err := ledger(t, dir, Account{Team: "vision", Cap: 60 * price.Dollar}).Balance(t.Context(), "vision")
	if err != nil || b.Reserved != 60*price.Dollar || b.Free != 0 {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestRaceInside is the same with goroutines, on one ledger and on two.
func TestRaceInside(t *testing.T) {
	dir := t.TempDir()
	a := Account{Team: "vision", Cap: 40 * price.Dollar}
	ledgers := []*Ledger{ledger(t, dir, a), ledger(t, dir, a)}
	won := make(chan int)
	for g := range 6 {
		go func() {
			n := 0
			for i := range 20 {
				_, err := ledgers[g%2].Reserve(t.Context(), Request{Team: "vision", Burst: "b", Amount: price.Dollar, Key: fmt.Sprint(g, "-", i)})
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
	a := Account{Team: "vision", Cap: 1000 * price.Dollar}
	ledgers := []*Ledger{ledger(t, dir, a), ledger(t, dir, a)}
	if _, err := ledgers[0].Reserve(t.Context(), Request{Team: "vision", Burst: "b", Amount: reserved * price.Dollar, Key: "r"}); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error)
	for s := range streams {
		go func() {
			l := ledgers[s%2]
			for part := 0; ; part++ {
				if err := l.Allow(t.Context(), "vision", "b", price.Dollar); err != nil {
					stopped <- err
					return
				}
				if _, err := l.Charge(t.Context(), Request{Team: "vision", Burst: "b", Amount: price.Dollar, Key: fmt.Sprint(s, "-", part)}); err != nil && !errors.Is(err, mover.ErrRefused) {
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
	if err != nil || b.Spent < reserved*price.Dollar || b.Spent >= (reserved+streams)*price.Dollar || b.Reserved != 0 {
		t.Errorf("%+v, %v", b, err)
	}
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// ledger opens one for a test.
func ledger(t *testing.T, dir string, accounts ...Account) *Ledger {
	t.Helper()
	l, err := New(t.Context(), opened(t, dir), accounts, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func opened(t *testing.T, dir string) *File {
	t.Helper()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return f
}
