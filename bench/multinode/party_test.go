package multinode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"go.uber.org/goleak"

	"datamove.dev/bench/loadgen"
	"datamove.dev/bench/result"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func paths(_ context.Context, target, _ string) (string, mover.Backend, error) {
	return target, nil, nil
}

var large = loadgen.Tree{Name: "large", Files: 1, Bytes: 1 << 20, Block: 64 << 10}

// works write, read what another has written, and remove it.
func works() []loadgen.Work {
	w := loadgen.Work{Suite: "large", Unit: result.Bytes, Repeat: 1, Ranks: 2, Tree: large, Cache: loadgen.Drop}
	write, read, unlink := w, w, w
	write.Do, write.Name, write.Durable = loadgen.Write, "write", loadgen.AtEnd
	read.Do, read.Name, read.Verify, read.Shift = loadgen.Read, "verify", true, 2
	unlink.Do, unlink.Name, unlink.Unit, unlink.Last = loadgen.Unlink, "unlink", result.Ops, true
	return []loadgen.Work{write, read, unlink}
}

// band is a run with its nodes, of which each is a goroutine with a connection of its own.
type band struct {
	t      *testing.T
	plan   Plan
	secret Secret
	group  sync.WaitGroup
	ends   []error // of nodes
	said   []string
	mu     sync.Mutex // of said
}

func newBand(t *testing.T, nodes int, works []loadgen.Work, targets ...string) *band {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	b := &band{t: t, secret: NewSecret(), ends: make([]error, nodes)}
	b.plan = Plan{Targets: targets, Works: works, Nodes: nodes, Listen: l, Secret: b.secret, Version: "v1", Wait: 10 * time.Second, Say: func(line string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.said = append(b.said, line)
	}}
	return b
}

// guest is the i-th node.
func (b *band) guest(i int) Guest {
	return Guest{Address: b.plan.Listen.Addr().String(), Secret: b.secret, Name: fmt.Sprintf("n%02d", i), Version: "v1", Open: paths, Wait: 5 * time.Second}
}

func (b *band) join(ctx context.Context, i int, g Guest) {
	b.group.Go(func() { b.ends[i] = Join(ctx, g) })
}

// joinAll has all nodes join, the last one first.
func (b *band) joinAll() {
	for i := len(b.ends) - 1; i >= 0; i-- {
		b.join(b.t.Context(), i, b.guest(i))
	}
}

func (b *band) conduct(ctx context.Context) (*result.Run, error) {
	run, err := Conduct(ctx, b.plan)
	b.group.Wait()
	return run, err
}

// empty says that nothing is left in a directory.
func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind in %s: %v, %v", dir, left, err)
	}
}

// TestRun: alone and with four nodes all phases are done, to all that there is to do, and nothing is left.
func TestRun(t *testing.T) {
	for _, nodes := range []int{0, 1, 4} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			dirs := []string{t.TempDir(), t.TempDir()}
			b := newBand(t, nodes, works(), dirs...)
			b.plan.Open, b.plan.Name = paths, "n00"
			b.joinAll()
			run, err := b.conduct(t.Context())
			must.Do(t, errors.Join(append(b.ends, err)...))
			_ = b.plan.Listen.Close()
			n := int64(max(nodes, 1))
			if len(run.Nodes) != int(n) || run.Nodes[n-1].Name != fmt.Sprintf("n%02d", n-1) || len(run.Phases) != 3 || run.Failed != "" || len(run.Notes) != 0 {
				t.Fatalf("%+v", run)
			}
			for i, want := range []struct{ bytes, ops int64 }{{n * 2 << 20, n * 32}, {n * 2 << 20, n * 32}, {0, n * 2}} {
				p := &run.Phases[i]
				if p.Last.Bytes != want.bytes || p.Last.Ops != want.ops || p.Failed != "" || p.Wrong != 0 || p.NodeCount != int(n) || p.Ranks != int(2*n) || p.Files != 2*n {
					t.Errorf("%+v", p)
				}
				if p.First.Seconds <= 0 || p.First.Seconds > p.Last.Seconds || p.First.Bytes > p.Last.Bytes || p.Skew < 0 || p.Latency.Count != want.ops || p.Latency.P50 <= 0 || p.Latency.P50 > p.Latency.Max {
					t.Errorf("%+v", p)
				}
				if h, err := hdrhistogram.Decode([]byte(p.Latency.HDR)); err != nil || h.TotalCount() != want.ops {
					t.Errorf("%v", err)
				}
				var node, target int64
				for _, s := range p.PerNode {
					node += s.Bytes
				}
				for _, s := range p.PerTarget {
					target += s.Bytes
				}
				if node != want.bytes || target != want.bytes || len(p.PerNode) != int(n) || len(p.PerTarget) != 2 || p.PerTarget[0].Bytes != want.bytes/2 {
					t.Errorf("of nodes %d, of targets %d bytes", node, target)
				}
			}
			if run.Phases[0].Durable == "" || run.Phases[1].Durable != "" || run.Phases[0].Cache == "" {
				t.Errorf("%+v", run.Phases[0])
			}
			for _, dir := range dirs {
				empty(t, dir)
			}
		})
	}
}

// TestFewer: a phase of fewer nodes is done by the first of them.
func TestFewer(t *testing.T) {
	all := works()
	for i := range all {
		all[i].Nodes = 2
	}
	b := newBand(t, 3, all, t.TempDir())
	b.joinAll()
	run := must.Get(b.conduct(t.Context()))(t)
	for _, p := range run.Phases {
		if p.NodeCount != 2 || len(p.PerNode) != 2 || p.PerNode[1].Name != "n01" {
			t.Errorf("%+v", p)
		}
	}
}

// TestKeep: what is to be kept is there afterwards, of the last time that it was made.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	all := works()[:2]
	all[1].Last = true
	b := newBand(t, 0, append(all, all...), dir)
	_ = b.plan.Listen.Close()
	b.plan.Open, b.plan.Keep = paths, true
	_, err := b.conduct(t.Context())
	must.Do(t, err)
	if found, err := filepath.Glob(filepath.Join(dir, "datamove-bench-*", "large", "*")); err != nil || len(found) != 2 {
		t.Errorf("%v, %v", found, err)
	}
}

// endless writes until it is stopped.
func endless() []loadgen.Work {
	w := works()[:1]
	w[0].Tree = loadgen.Tree{Name: "endless", Files: 1, Bytes: 1 << 40, Block: 4096}
	w[0].Cache = loadgen.Keep
	return w
}

// hasBegun waits until the first node has written something.
func hasBegun(t *testing.T, dir string) {
	for {
		if found, err := filepath.Glob(filepath.Join(dir, "*", "*", "*f0*")); err != nil || len(found) > 0 {
			return
		}
		select {
		case <-t.Context().Done():
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// TestLost: when a node dies in a phase the run ends, says which, and the others leave nothing behind.
func TestLost(t *testing.T) {
	shared, own := t.TempDir(), t.TempDir()
	b := newBand(t, 3, endless(), shared)
	for i := range 2 {
		b.join(t.Context(), i, b.guest(i))
	}
	died, die := context.WithCancel(t.Context())
	g := b.guest(2)
	g.Open = func(context.Context, string, string) (string, mover.Backend, error) { return own, nil, nil }
	b.join(died, 2, g)
	go func() { hasBegun(t, shared); die() }()
	run, err := b.conduct(t.Context())
	if !errors.Is(err, mover.ErrUnreachable) || !strings.Contains(err.Error(), "node n02 is lost") || !strings.Contains(run.Failed, "n02") {
		t.Errorf("%v", err)
	}
	if len(run.Phases) != 1 || run.Phases[0].Failed == "" || len(run.Notes) != 1 || !strings.Contains(run.Notes[0], "n02: lost") {
		t.Errorf("%+v", run)
	}
	if b.ends[0] != nil || b.ends[1] != nil || b.ends[2] == nil {
		t.Errorf("%v", b.ends)
	}
	empty(t, shared)
}

// TestInterrupted: who is interrupted has all nodes stop, and nothing is left.
func TestInterrupted(t *testing.T) {
	shared := t.TempDir()
	b := newBand(t, 2, endless(), shared)
	b.joinAll()
	ctx, stop := context.WithCancelCause(t.Context())
	go func() { hasBegun(t, shared); stop(errors.New("interrupted")) }()
	run, err := b.conduct(ctx)
	if err == nil || !strings.Contains(err.Error(), "interrupted") || len(run.Phases) != 1 || run.Phases[0].Last.Ops == 0 {
		t.Errorf("%v, %+v", err, run.Phases)
	}
	must.Do(t, errors.Join(b.ends...))
	empty(t, shared)
}

// TestConductorLost: a node whose conductor is gone stops, and removes what it made.
func TestConductorLost(t *testing.T) {
	dir := t.TempDir()
	b := newBand(t, 1, nil, dir)
	b.joinAll()
	conn, err := b.plan.Listen.Accept()
	must.Do(t, errors.Join(err, b.plan.Listen.Close()))
	config, err := b.secret.tls()
	must.Do(t, err)
	w := newWire(tls.Server(conn, config))
	m, err := w.receive()
	must.Do(t, err)
	if m.Hello == nil || m.Hello.Node.Name != "n00" {
		t.Errorf("%+v", m)
	}
	work := endless()[0]
	work.Nodes = 1
	for _, m := range []*message{{Say: sayPrepare, Work: &work}, {Say: sayOpen, Setup: &loadgen.Setup{ID: "0123456789abcdef", Targets: []string{dir}}}, {Say: sayPrepare, Work: &work}} {
		must.Do(t, w.send(m))
		if a, err := w.receive(); err != nil || (a.Failed != "") != (m.Setup == nil && b.said == nil) {
			t.Errorf("%s: %+v, %v", m.Say, a, err)
		}
		b.said = append(b.said, string(m.Say))
	}
	must.Do(t, w.send(&message{Say: sayBegin}))
	hasBegun(t, dir)
	must.Do(t, conn.Close())
	b.group.Wait()
	if !errors.Is(b.ends[0], mover.ErrUnreachable) || !strings.Contains(b.ends[0].Error(), "the leader at") {
		t.Error(b.ends[0])
	}
	empty(t, dir)
}

// TestFails: a node that can not take part ends the run, of its kind, and what it was is said.
func TestFails(t *testing.T) {
	b := newBand(t, 2, works(), t.TempDir())
	b.join(t.Context(), 0, b.guest(0))
	g := b.guest(1)
	g.Open = func(context.Context, string, string) (string, mover.Backend, error) {
		return "", nil, fmt.Errorf("%w: it is read-only", mover.ErrPermission)
	}
	b.join(t.Context(), 1, g)
	run, err := b.conduct(t.Context())
	if !errors.Is(err, mover.ErrPermission) || !strings.Contains(err.Error(), "node n01") || !strings.Contains(err.Error(), "read-only") || len(run.Phases) != 0 {
		t.Errorf("%v", err)
	}
	empty(t, b.plan.Targets[0])
}

// TestMissing: who does not come is told of, with those who did.
func TestMissing(t *testing.T) {
	b := newBand(t, 3, works(), t.TempDir())
	b.plan.Wait = 200 * time.Millisecond
	b.join(t.Context(), 0, b.guest(0))
	b.join(t.Context(), 1, b.guest(1))
	_, err := b.conduct(t.Context())
	if !errors.Is(err, mover.ErrUnreachable) || !strings.Contains(err.Error(), "2 of 3 nodes have joined (n00, n01)") {
		t.Error(err)
	}
	g := b.guest(0)
	g.Wait = 10 * time.Millisecond
	if err := Join(t.Context(), g); !errors.Is(err, mover.ErrUnreachable) || !strings.Contains(err.Error(), "no leader answers at") {
		t.Error(err)
	}
}

// TestStranger: who does not know the secret is not let in, on either side, and does not hold up those who do; nor does another version take part.
func TestStranger(t *testing.T) {
	b := newBand(t, 1, works(), t.TempDir())
	address := b.plan.Listen.Addr().String()
	b.group.Go(func() {
		g := b.guest(0)
		g.Secret, g.Wait = NewSecret(), time.Second
		if err := Join(t.Context(), g); !errors.Is(err, mover.ErrPermission) {
			t.Errorf("a stranger: %v", err)
		}
		c := must.Get(net.Dial("tcp", address))(t)
		_, _ = c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		must.Do(t, c.Close())
		b.ends[0] = Join(t.Context(), b.guest(0))
	})
	run, err := b.conduct(t.Context())
	must.Do(t, errors.Join(err, b.ends[0]))
	if len(run.Nodes) != 1 || !strings.Contains(strings.Join(b.said, "\n"), "not let in") {
		t.Errorf("%q", b.said)
	}

	b = newBand(t, 1, works(), t.TempDir())
	g := b.guest(0)
	g.Version = "v2"
	b.join(t.Context(), 0, g)
	if _, err := b.conduct(t.Context()); !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), `version "v2"`) {
		t.Error(err)
	}
	if _, err := ReadSecret([]byte("short\n")); !errors.Is(err, mover.ErrUsage) {
		t.Error(err)
	}
	if s, err := ReadSecret([]byte("0123456789abcdef\n")); err != nil || len(s) != 16 || fmt.Sprint(s) != "[secret]" {
		t.Error(s, err)
	}
}

// TestClocks: nodes whose time of day is minutes off begin together all the same, and it is told.
func TestClocks(t *testing.T) {
	b := newBand(t, 2, works(), t.TempDir())
	b.join(t.Context(), 0, b.guest(0))
	g := b.guest(1)
	g.now = func() time.Time { return time.Now().Add(-7 * time.Minute) }
	b.join(t.Context(), 1, g)
	run := must.Get(b.conduct(t.Context()))(t)
	if len(run.Notes) != 1 || !strings.Contains(run.Notes[0], "n01 is -7m0") || run.Nodes[1].ClockAhead > -419 || run.Nodes[1].ClockAhead < -421 || run.Nodes[0].ClockError <= 0 {
		t.Errorf("%q, %+v", run.Notes, run.Nodes)
	}
	for _, p := range run.Phases {
		if p.Skew > 5 {
			t.Errorf("%s began %g s apart", p.Name, p.Skew)
		}
	}
}

// TestWrong: data that is not what was written is told of, and what else there is to measure is measured.
func TestWrong(t *testing.T) {
	dir := t.TempDir()
	all := works()
	b := newBand(t, 0, all, dir)
	_ = b.plan.Listen.Close()
	b.plan.Open = paths
	b.plan.Say = func(line string) {
		if !strings.Contains(line, "write") {
			return
		}
		found, err := filepath.Glob(filepath.Join(dir, "*", "large", "r000001-f00000000"))
		if err != nil || len(found) != 1 {
			t.Errorf("%v, %v", found, err)
			return
		}
		f, err := os.OpenFile(found[0], os.O_WRONLY, 0)
		must.Do(t, err)
		_, err = f.WriteAt([]byte("something else"), 100_000)
		must.Do(t, errors.Join(err, f.Close()))
	}
	run, err := b.conduct(t.Context())
	if !errors.Is(err, mover.ErrCorrupt) || len(run.Phases) != 3 || run.Phases[1].Wrong != 1 || !strings.Contains(run.Phases[1].Failed, "r000001-f00000000") || run.Phases[2].Failed != "" {
		t.Errorf("%v\n%+v", err, run.Phases)
	}
	empty(t, dir)
}

// TestUntil: how far all were is between two looks.
func TestUntil(t *testing.T) {
	series := []int64{100, 200, 50}
	for at, want := range map[time.Duration]int64{0: 0, time.Second: 100, 1500 * time.Millisecond: 200, 2250 * time.Millisecond: 325, 2500 * time.Millisecond: 350, time.Hour: 350} {
		if got := until(series, time.Second, 2500*time.Millisecond, at); got != want {
			t.Errorf("until %s: %d, want %d", at, got, want)
		}
	}
	if got := until([]int64{80}, time.Second, 8*time.Millisecond, 4*time.Millisecond); got != 40 {
		t.Errorf("in the middle of what took 8 ms: %d of 80", got)
	}
}
