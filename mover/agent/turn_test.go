package agent

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurn: one at a time has it, also while its holder waits in virtual time, which a wait for it does not stop.
func TestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l turn
		var all sync.WaitGroup
		begun, held := time.Now(), 0
		for range 5 {
			all.Go(func() {
				l.Lock()
				defer l.Unlock()
				if held++; held != 1 {
					t.Errorf("%d have it", held)
				}
				time.Sleep(time.Second)
				held--
			})
		}
		all.Wait()
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
