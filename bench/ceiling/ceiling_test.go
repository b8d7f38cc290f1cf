package ceiling_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"datamove.dev/bench/ceiling"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// quick is enough to see that something is measured at all.
var quick = ceiling.Options{Runs: 3, Time: 50 * time.Millisecond, Size: 32 << 20, Files: 200}

// TestMeasures: each says what it has measured, of how many runs; and nothing is left behind.
func TestMeasures(t *testing.T) {
	o := quick
	o.Dir = t.TempDir()
	var all []ceiling.Ceiling
	one := func(c ceiling.Ceiling, err error) { must.Do(t, err); all = append(all, c) }
	one(ceiling.Memory(t.Context(), o))
	one(ceiling.Hash(t.Context(), o))
	more, err := ceiling.Disk(t.Context(), o)
	must.Do(t, err)
	all = append(all, more...)
	more, err = ceiling.Loopback(t.Context(), o)
	must.Do(t, err)
	all = append(all, more...)
	names := map[string]bool{}
	for _, c := range all {
		names[c.Name] = true
		if c.Runs != 3 || c.How == "" || !(c.Lowest > 0 && c.Lowest <= c.Rate && c.Rate <= c.Most) {
			t.Errorf("%+v", c)
		}
	}
	for _, name := range strings.Fields("memory hash disk.write disk.read meta.create meta.stat meta.rename meta.unlink loopback.send loopback.receive") {
		if !names[name] {
			t.Errorf("%s was not measured", name)
		}
	}
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestEnds: who interrupts a measurement does not wait for it, and finds nothing of it on the disk.
func TestEnds(t *testing.T) {
	o := quick
	o.Dir, o.Time, o.Size, o.Runs = t.TempDir(), time.Hour, 64<<20, 1000
	for name, measure := range map[string]func(context.Context) error{
		"disk":     func(ctx context.Context) error { _, err := ceiling.Disk(ctx, o); return err },
		"loopback": func(ctx context.Context) error { _, err := ceiling.Loopback(ctx, o); return err },
	} {
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := measure(ctx)
		stop()
		if err == nil {
			t.Errorf("%s has ended in no time", name)
		}
	}
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestLinkMistakes: a host that does not answer, and one that is another service, are told.
func TestLinkMistakes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_ = c.Close()
		}
	}()
	if _, err := ceiling.Link(t.Context(), "x", l.Addr().String(), quick); !errors.Is(err, mover.ErrUnreachable) {
		t.Errorf("who closes: %v", err)
	}
	must.Do(t, l.Close())
	if _, err := ceiling.Link(t.Context(), "x", l.Addr().String(), quick); !errors.Is(err, mover.ErrUnreachable) {
		t.Errorf("nobody: %v", err)
	}
	o := quick
	o.Dir, o.Size = t.TempDir(), 1<<20
	if _, err := ceiling.Disk(t.Context(), o); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("a small file: %v", err)
	}
}

// TestBeside: what fio, dd and iperf3 measure is read from what they say, and is of the same thing: neither is ten times the other; and nothing is left behind.
func TestBeside(t *testing.T) {
	o := quick
	o.Dir, o.Workers = t.TempDir(), 4
	pairs, err := ceiling.Beside(t.Context(), o)
	must.Do(t, err)
	seen := map[string]bool{}
	for _, p := range pairs {
		seen[p.Program] = true
		if len(p.Ours) != 3 || len(p.Theirs) != 3 || p.Ratio < 0.1 || p.Ratio > 10 || p.How == "" {
			t.Errorf("%+v", p)
		}
	}
	for _, program := range []string{"fio", "dd", "iperf3"} {
		if _, err := exec.LookPath(program); err == nil != seen[program] {
			t.Errorf("%s: %v, and it was measured: %v", program, err, seen[program])
		}
	}
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
