package budget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst/pricing"
)

// TestRace has goroutines reserve what one cap has room for, on one ledger and on two. Together they get it, and no dollar more.
//
//safety:aws with TestModel
func TestRace(t *testing.T) {
	log := &memory{}
	a := Account{Team: "vision", Cap: 40 * pricing.Dollar}
	ledgers := []*Ledger{ledger(t, log, a), ledger(t, log, a)}
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
	log := &memory{}
	a := Account{Team: "vision", Cap: 1000 * pricing.Dollar}
	ledgers := []*Ledger{ledger(t, log, a), ledger(t, log, a)}
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
func ledger(t testing.TB, log Log, accounts ...Account) *Ledger {
	t.Helper()
	return must.Get(New(t.Context(), log, accounts, Options{}))(t)
}

// memory is a log that lasts as long as its test.
type memory struct {
	mu      sync.Mutex
	entries []Entry // guarded by mu
}

// Read implements Log.
func (m *memory) Read(_ context.Context, n int64, each func(Entry) error) error {
	m.mu.Lock()
	entries := m.entries[n:]
	m.mu.Unlock()
	for _, e := range entries {
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

// Append implements Log.
func (m *memory) Append(_ context.Context, n int64, e Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n != int64(len(m.entries)) {
		return fmt.Errorf("%w: others have appended", mover.ErrChanged)
	}
	m.entries = append(m.entries, e)
	return nil
}
