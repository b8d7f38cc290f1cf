package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// How much is simulated by a test when nobody says otherwise.
const (
	engineSeeds, engineTime = 2000, 25 * time.Second
	taskSeeds, taskTime     = 300, 15 * time.Second
	shortPart               = 10 // of both, with -short
)

// TestEngine drives plan and transfer, without a journal.
func TestEngine(t *testing.T) {
	eachSeed(t, engineSeeds, engineTime, func(t *testing.T, seed uint64) { newWorld(t, seed).play((*world).runEngine) })
}

// TestTask drives mover/local: locks, strays, the journal, the manifest, the report.
func TestTask(t *testing.T) {
	eachSeed(t, taskSeeds, taskTime, func(t *testing.T, seed uint64) {
		w := newWorld(t, seed)
		w.stateDir = t.TempDir()
		w.play((*world).runTask)
		w.home()
	})
}

// eachSeed simulates one seed after the other: as many as there is time for, all
// that fit before the deadline with DATAMOVE_SEED set but empty, or the one seed that
// it names.
func eachSeed(t *testing.T, seeds uint64, limit time.Duration, do func(*testing.T, uint64)) {
	first := uint64(1)
	end := time.Now().Add(limit)
	switch s, set := os.LookupEnv("DATAMOVE_SEED"); {
	case s != "":
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("DATAMOVE_SEED: %v", err)
		}
		first, seeds, end = n, 1, time.Now().Add(time.Hour)
	case set:
		first, seeds = uint64(time.Now().UnixNano()), 1<<62
		if deadline, ok := t.Deadline(); ok {
			end = time.Now().Add(time.Until(deadline) / 3) // two tests, and room to end
		}
	case testing.Short():
		seeds, end = seeds/shortPart, time.Now().Add(limit/shortPart)
	}
	n := uint64(0)
	for ; n < seeds && (n == 0 || time.Now().Before(end)) && !t.Failed(); n++ {
		one(t, first+n, do)
	}
	t.Logf("%d seeds from %d", n, first)
}

// one simulates one seed in a bubble of its own. A seed that hangs is a failure
// too: nothing in a world takes a day.
func one(t *testing.T, seed uint64, do func(*testing.T, uint64)) {
	synctest.Test(t, func(t *testing.T) {
		watchdog := time.AfterFunc(24*time.Hour, func() { panic(fmt.Sprintf("hung; to repeat: make sim SEED=%d", seed)) })
		defer watchdog.Stop()
		do(t, seed)
		if t.Failed() {
			t.Logf("to repeat: make sim SEED=%d", seed)
		}
	})
}
