package state

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

// flush brings records to stable storage. Many that wait share one sync.
type flush struct {
	l     *Ledger
	every time.Duration

	mu      sync.Mutex // guards all below
	ended   sync.Cond  // a sync has ended
	running bool
	synced  uint64   // records up to this one are safe
	note    *os.File // the file "synced"; nil before the first time
	err     error    // a sync has failed: the state of the disk is unknown
}

func newFlush(l *Ledger, every time.Duration) *flush {
	f := &flush{l: l, every: cmp.Or(every, time.Second)}
	f.ended.L = &f.mu
	return f
}

// upTo returns when records up to a sequence are safe.
func (f *flush) upTo(sequence uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.synced < sequence && f.err == nil {
		if f.running {
			f.ended.Wait()
			continue
		}
		f.sync()
	}
	return f.err
}

// all returns when every record that there is now is safe.
func (f *flush) all() error { return f.upTo(f.l.sequence.Load()) }

// sync does one sync for all waiting callers, without mu while it lasts.
func (f *flush) sync() {
	f.running = true
	sequence := f.l.sequence.Load() // of the present store, or of one that has not been replaced yet: a later one is synced when it is put in place
	f.mu.Unlock()
	err := f.l.through.Sync(context.Background()) // what is written must be synced, even if its caller has gone
	f.mu.Lock()
	f.running = false
	if err == nil {
		err = f.remember(sequence)
	}
	if err == nil {
		f.synced = sequence
	} else {
		f.err = fmt.Errorf("a sync failed; end the service and see to its disk: %w", err)
	}
	f.ended.Broadcast()
}

// remember notes what is safe; see readSynced.
func (f *flush) remember(sequence uint64) (err error) {
	if f.note == nil {
		if f.note, err = os.OpenFile(syncedPath(f.l.dir), os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
			return err
		}
	}
	return writeSynced(f.note, sequence)
}

// failed returns why nothing can be written any more.
func (f *flush) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// begin syncs periodically, for changes without a waiting caller, until stop is called.
func (f *flush) begin() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(f.every)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			if err := f.all(); err != nil {
				f.l.log.Error("the ledger takes no more changes", "ledger", f.l.dir, "err", err)
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

func (f *flush) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.note == nil {
		return nil
	}
	return f.note.Close()
}
