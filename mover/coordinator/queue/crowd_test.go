package queue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// each runs a test on every kind of queue.
func each(t *testing.T, o Options, test func(t *testing.T, q Queue)) {
	for kind, open := range makers(t.TempDir()) {
		t.Run(kind, func(t *testing.T) {
			q := open(t, o)
			test(t, q)
			must.Tell(t, q.Close())
		})
	}
}

// Many take from a few flows at once, while more is offered and given back. Everything
// is done, and nobody works on what somebody else has.
func TestCrowd(t *testing.T) {
	const takers, ids = 8, 600
	for kind, open := range makers(t.TempDir()) {
		t.Run(kind, func(t *testing.T) {
			l := newLedger("")
			for _, f := range []string{"a", "b", "c"} {
				l.add(f, numbers(ids/2)...)
			}
			q := open(t, Options{Window: 32, Flows: 3, Refill: l.refill})
			var mu sync.Mutex
			done, held := map[string]int{}, map[string]bool{}
			work := func(n int) error {
				ctx := context.Background()
				for {
					f := string("abc"[n%3])
					n++
					c, ok, err := q.Take(ctx, f)
					if err != nil {
						return err
					}
					if !ok {
						mu.Lock()
						all := len(done) == 3*ids
						mu.Unlock()
						if all {
							return nil
						}
						runtime.Gosched()
						continue
					}
					mu.Lock()
					if held[f+c.ID()] {
						t.Errorf("%s is in two hands", f+c.ID())
					}
					held[f+c.ID()] = true
					mu.Unlock()
					found := n%7 != 0 && l.done(f, c.ID())
					mu.Lock()
					delete(held, f+c.ID())
					if found {
						done[f+c.ID()]++
					}
					mu.Unlock()
					if n%7 == 0 {
						err = c.Back(0)
					} else {
						err = c.Done()
					}
					if err != nil {
						return err
					}
				}
			}
			var all sync.WaitGroup
			for n := range takers {
				all.Go(func() {
					must.Tell(t, work(n))
				})
			}
			for _, id := range numbers(ids)[ids/2:] {
				for _, f := range []string{"a", "b", "c"} {
					l.add(f, id)
					must.Tell(t, q.Offer(t.Context(), f, id))
				}
			}
			all.Wait()
			for id, n := range done {
				if n != 1 {
					t.Errorf("%s was done %d times", id, n)
				}
			}
			must.Tell(t, q.Close())
		})
	}
}

// Close ends what others are doing with the queue, and waits for nobody.
func TestCloseMeanwhile(t *testing.T) {
	for kind, open := range makers(t.TempDir()) {
		t.Run(kind, func(t *testing.T) {
			q := open(t, Options{Refill: source(1 << 30), AckWait: time.Hour})
			begun := make(chan struct{}, 4)
			var all sync.WaitGroup
			for n := range 4 {
				all.Go(func() {
					for first := true; ; first = false {
						c, _, err := q.Take(context.Background(), fmt.Sprint(n%2))
						if first {
							begun <- struct{}{}
						}
						if err == nil {
							err = c.Done()
						}
						if err != nil {
							return
						}
					}
				})
			}
			for range 4 {
				<-begun
			}
			must.Tell(t, q.Close())
			all.Wait()
		})
	}
}

// source is a ledger with any number of ids.
func source(n int) func(context.Context, string, string, int) ([]string, error) {
	return func(_ context.Context, _, after string, most int) (ids []string, err error) {
		first := 0
		if after != "" {
			if _, err := fmt.Sscanf(after, "%d", &first); err != nil {
				return nil, err
			}
			first++
		}
		for i := first; i < min(first+most, n); i++ {
			ids = append(ids, fmt.Sprintf("%07d", i))
		}
		return ids, nil
	}
}

// A million ids wait in the ledger, and a window of them here.
//
//safety:8 with mover/coordinator/state TestMemory
func TestMillion(t *testing.T) {
	const million = 1_000_000
	takes, most := map[string]int{"memory": 100_000, "jetstream": 12_000}, uint64(8<<20)
	switch {
	case seed.Soak():
		takes, most = map[string]int{"memory": 400_000, "jetstream": 50_000}, 32<<20
	case testing.Short():
		takes["jetstream"] = 5000
	}
	for kind, open := range makers(t.TempDir()) {
		t.Run(kind, func(t *testing.T) {
			before := inUse()
			q := open(t, Options{Refill: source(million)})
			b := bench{t, q}
			for n := range takes[kind] {
				b.check(b.take("f", fmt.Sprintf("%07d", n)).Done())
			}
			if n := b.Len("f"); n > 1024 {
				t.Errorf("%d wait", n)
			}
			if after := inUse(); after > before+most {
				t.Errorf("%d MiB more", (after-before)>>20)
			}
			b.check(q.Close())
		})
	}
}

// inUse returns what is in use when nothing is garbage.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Nobody can reach the server, and its directory is nobody else's.
func TestNoListener(t *testing.T) {
	before := listeners(t)
	dir := filepath.Join(t.TempDir(), "queue")
	q, err := NewJetStream(t.Context(), dir, Options{})
	must.Do(t, err)
	b := bench{t, q}
	b.offer("f", "1")
	b.take("f", "1")
	for socket := range listeners(t) {
		if !before[socket] {
			t.Errorf("%s listens", socket)
		}
	}
	st, err := os.Stat(dir)
	b.check(err)
	if st.Mode().Perm() != 0o700 {
		t.Errorf("its directory has mode %v", st.Mode())
	}
	b.check(q.Close())
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}

// listeners returns the sockets of this process that wait for connections.
func listeners(t *testing.T) map[string]bool {
	t.Helper()
	own := map[string]bool{}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			if inode, ok := strings.CutPrefix(to, "socket:["); ok {
				own[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	const listen, waits = "0A", "00010000" // TCP states, and the flag of a unix socket
	found := map[string]bool{}
	for _, table := range []struct {
		name, is     string
		state, inode int
	}{
		{"tcp", listen, 3, 9}, {"tcp6", listen, 3, 9}, {"unix", waits, 3, 6}, {"udp", "07", 3, 9}, {"udp6", "07", 3, 9},
	} {
		text, err := os.ReadFile("/proc/self/net/" + table.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must.Do(t, err)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > table.inode && f[table.state] == table.is && own[f[table.inode]] {
				found[table.name+" "+f[table.inode]] = true
			}
		}
	}
	return found
}

// A full disk below the directory does not matter to what is in memory.
func TestFullDisk(t *testing.T) {
	disk := rig.Tmpfs(t, "size=1m")
	l := newLedger("f", numbers(300)...)
	q := must.Get(NewJetStream(t.Context(), filepath.Join(disk, "queue"), Options{Window: 64, Refill: l.refill}))(t)
	if err := os.WriteFile(filepath.Join(disk, "other"), make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	b := bench{t, q}
	for n, id := range numbers(300) {
		c := b.take("f", id)
		l.done("f", id)
		b.check(c.Done())
		if n%100 == 0 {
			l.add("g", id)
			b.take("g", id)
			l.done("g", id)
			b.check(b.Drop("g"))
		}
	}
	b.check(q.Close())
}

// An id that the server has and never answers for is an error after a while, and keeps nothing waiting for ever.
func TestNoAnswer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	n, err := startNATS(dir, Options{}.defaults())
	must.Do(t, err)
	defer func() { must.Tell(t, n.close()) }()
	n.answer = time.Millisecond
	must.Do(t, n.begin(t.Context()))
	l := must.Get(n.lane(t.Context()))(t)
	must.Do(t, n.js.DeleteStream(t.Context(), streamName))
	deaf := must.Get(n.conn.SubscribeSync(subject + "*"))(t)
	if _, err := l.push(t.Context(), []string{"1"}); err == nil {
		t.Error("it was taken by nothing")
	}
	if got := must.Get(deaf.NextMsgWithContext(t.Context()))(t); string(got.Data) != "1" {
		t.Errorf("%q was sent", got.Data)
	}
}

// A Take that was given up costs nobody the id for longer than a claim lasts.
func TestGivenUp(t *testing.T) {
	each(t, Options{AckWait: 50 * time.Millisecond, Refill: source(3)}, func(t *testing.T, q Queue) {
		b := bench{t, q}
		b.check(b.take("f", "0000000").Back(time.Hour))
		for n := range 20 {
			ctx, stop := context.WithCancel(t.Context())
			go stop()
			if _, ok, err := q.Take(ctx, "f"); ok == (err != nil) && n == 0 {
				t.Errorf("Take = %v, %v", ok, err)
			}
		}
		seen := map[string]bool{}
		for len(seen) < 2 { // the others come again when nobody has said anything
			if c, ok, err := q.Take(t.Context(), "f"); err != nil {
				t.Fatal(err)
			} else if ok {
				seen[c.ID()] = true
			}
		}
	})
}

// What the server says is in our log, and nothing of it is news to an operator.
func TestLog(t *testing.T) {
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelInfo}))
	q := must.Get(NewJetStream(t.Context(), filepath.Join(t.TempDir(), "queue"), Options{Logger: log}))(t)
	b := bench{t, q}
	b.offer("f", "1")
	b.check(b.take("f", "1").Done())
	b.check(b.Drop("f"))
	b.check(q.Close())
	if said.Len() > 0 {
		t.Errorf("%s", said.String())
	}
	if _, err := NewJetStream(t.Context(), "/proc/none", Options{}); err == nil || errors.Is(err, mover.ErrUsage) {
		t.Errorf("in a directory that can not be: %v", err)
	}
}

func benchmark(b *testing.B, do func(b *testing.B, q Queue)) {
	for kind, open := range makers(b.TempDir()) {
		b.Run(kind, func(b *testing.B) {
			q := open(b, Options{Refill: source(1 << 30)})
			b.ResetTimer()
			do(b, q)
			must.Tell(b, q.Close())
		})
	}
}

func BenchmarkTakeDone(b *testing.B) {
	benchmark(b, func(b *testing.B, q Queue) {
		for b.Loop() {
			c, _, err := q.Take(b.Context(), "f")
			must.Do(b, err)
			must.Do(b, c.Done())
		}
	})
}

// One turn is a queue that is begun and ended.
func BenchmarkStart(b *testing.B) {
	for kind, open := range makers(b.TempDir()) {
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				must.Do(b, open(b, Options{}).Close())
			}
		})
	}
}

// The server has a bound of its own, and says so in our words.
func TestRoom(t *testing.T) {
	q, err := NewJetStream(t.Context(), filepath.Join(t.TempDir(), "queue"), Options{Flows: 1, Window: 1 << 15})
	must.Do(t, err)
	b := bench{t, q}
	err = nil
	n := 0
	for ; err == nil && n < 1<<15; n++ {
		err = q.Offer(t.Context(), "f", fmt.Sprintf("%0*d", nameBytes, n))
	}
	if !errors.Is(err, mover.ErrFull) {
		t.Errorf("the %d. id of %d bytes: %v", n, nameBytes, err)
	}
	c := b.take("f", fmt.Sprintf("%0*d", nameBytes, 0))
	b.check(c.Done())
	b.check(q.Close())
}
