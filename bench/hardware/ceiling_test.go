package hardware_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/bench/hardware"
	"datamove.dev/mover"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// quick is enough to see that something is measured at all.
var quick = hardware.Options{Runs: 3, Time: 10 * time.Millisecond, Size: 32 << 20, Files: 200}

// TestMeasures: each says what it has measured, of how many runs; and nothing is left behind.
func TestMeasures(t *testing.T) {
	o := quick
	o.Dir, o.Size = t.TempDir(), 8<<20
	var all []hardware.Ceiling
	one := func(c hardware.Ceiling, err error) { must.Do(t, err); all = append(all, c) }
	one(hardware.Memory(t.Context(), o))
	one(hardware.Hash(t.Context(), o))
	more := must.Get(hardware.Disk(t.Context(), o))(t)
	all = append(all, more...)
	more = must.Get(hardware.Loopback(t.Context(), o))(t)
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
	empty(t, o.Dir)
}

// TestEnds: who interrupts a measurement does not wait for it, and finds nothing of it on the disk.
func TestEnds(t *testing.T) {
	o := quick
	o.Dir, o.Time, o.Size, o.Runs = t.TempDir(), time.Hour, 64<<20, 1000
	for name, measure := range map[string]func(context.Context) error{
		"disk":     func(ctx context.Context) error { _, err := hardware.Disk(ctx, o); return err },
		"loopback": func(ctx context.Context) error { _, err := hardware.Loopback(ctx, o); return err },
	} {
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := measure(ctx)
		stop()
		if err == nil {
			t.Errorf("%s has ended in no time", name)
		}
	}
	empty(t, o.Dir)
}

// TestLinkMistakes: a host that does not answer, and one that is another service, are told.
func TestLinkMistakes(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_ = c.Close()
		}
	}()
	if _, err := hardware.Link(t.Context(), "x", l.Addr().String(), quick); !errors.Is(err, mover.ErrUnreachable) {
		t.Errorf("who closes: %v", err)
	}
	must.Do(t, l.Close())
	if _, err := hardware.Link(t.Context(), "x", l.Addr().String(), quick); !errors.Is(err, mover.ErrUnreachable) {
		t.Errorf("nobody: %v", err)
	}
	o := quick
	o.Dir, o.Size = t.TempDir(), 1<<20
	if _, err := hardware.Disk(t.Context(), o); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("a small file: %v", err)
	}
}

// TestBeside: what fio, dd and iperf3 say of what they measure is understood, and nothing is left behind. In a soak it is of the same thing: neither is ten times the other.
func TestBeside(t *testing.T) {
	o := quick
	o.Dir, o.Workers, o.Runs = t.TempDir(), 4, kill.Times(1, 3)
	pairs := must.Get(hardware.Beside(t.Context(), o))(t)
	seen := map[string]bool{}
	for _, p := range pairs {
		seen[p.Program] = true
		if len(p.Ours) != o.Runs || len(p.Theirs) != o.Runs || p.Ratio <= 0 || math.IsInf(p.Ratio, 0) || p.How == "" || seed.Soak() && (p.Ratio < 0.1 || p.Ratio > 10) {
			t.Errorf("%+v", p)
		}
	}
	for _, program := range []string{"fio", "dd", "iperf3"} {
		if _, err := exec.LookPath(program); err == nil != seen[program] {
			t.Errorf("%s: %v, and it was measured: %v", program, err, seen[program])
		}
	}
	empty(t, o.Dir)
}

// TestTheirUnits: fio counts milliseconds, dd seconds and iperf3 bits.
func TestTheirUnits(t *testing.T) {
	o, bin := quick, t.TempDir()
	o.Dir, o.Runs, o.Size = t.TempDir(), 1, 32<<20
	for program, says := range map[string]string{
		"fio":    `{"jobs": [{"read": {"io_bytes": 4000, "runtime": 2}, "write": {"io_bytes": 6000, "runtime": 2}}]}`,
		"dd":     "33488896 bytes (33 MB, 32 MiB) copied, 0.5 s, 67 MB/s",
		"iperf3": `{"end": {"sum_received": {"bits_per_second": 8000}}}`,
	} {
		must.Do(t, os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\necho '"+says+"'\n"), 0o700))
	}
	t.Setenv("PATH", bin)
	pairs := must.Get(hardware.Beside(t.Context(), o))(t)
	got := map[string]float64{}
	for _, p := range pairs {
		got[p.Program+" "+p.Name] = p.Theirs[0]
	}
	want := map[string]float64{"fio disk.write": 3e6, "fio disk.read": 2e6, "dd disk.write": 2 * 33488896, "dd disk.read": 2 * 33488896, "iperf3 loopback.send": 1000, "iperf3 loopback.receive": 1000}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
