package engine

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/test/seed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// How many seeds a test simulates.
const (
	engineSeeds = 400
	taskSeeds   = 60
	shortPart   = 10 // -short divides both by it
	soakTimes   = 25 // DATAMOVE_SOAK=1 multiplies both by it: five minutes of CPU time
)

// TestEngine drives plan and transfer, without a journal.
//
//safety:1 after every publish, update, mkdir and removal each visible file must have a content that its name had in the source at some time; faults tear writes, lose answers, flip bytes, kill between two drafts of one publish
//safety:2 bytes flip on the way from sources with a checksum, and on the way to targets that compare or are read back
//safety:4 directories are denied, files overwritten, grown, cut, replaced, deleted while they are read, hard links among them; what the source has is never removed
//safety:5 every removal that reaches the target is judged: asked for, not in the source, nothing failed before
//safety:8 the files in hand never exceed what queue, workers and batch may hold; goroutines that outlive a run fail it
//safety:9 a run without a failure is compared with its source; each action has exactly one result, and counters and report agree with them
func TestEngine(t *testing.T) {
	t.Parallel()
	eachSeed(t, engineSeeds, func(t *testing.T, seed uint64) { newWorld(t, seed).play((*world).runEngine) })
}

// TestTask drives mover/engine: locks, strays, the journal, the manifest, the report.
//
//safety:3 after stops, deaths and lost answers the last run ends clean, with no draft and no lock
//safety:5 with TestEngine
//safety:9 with TestEngine
func TestTask(t *testing.T) {
	t.Parallel()
	eachSeed(t, taskSeeds, func(t *testing.T, seed uint64) {
		w := newWorld(t, seed)
		w.stateDir = t.TempDir()
		w.play((*world).runTask)
		w.home()
	})
}

// eachSeed simulates one seed after the other, or the one seed that DATAMOVE_SEED names: with DATAMOVE_SOAK=1 that
// is the first of many. No clock decides how many.
func eachSeed(t *testing.T, seeds uint64, do func(*testing.T, uint64)) {
	first := seed.Number()
	switch {
	case seed.Soak():
		seeds *= soakTimes
	case os.Getenv(seed.Variable) != "":
		seeds = 1
	case testing.Short():
		seeds /= shortPart
	}
	n := uint64(0)
	for ; n < seeds && !t.Failed(); n++ {
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
