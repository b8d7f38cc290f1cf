package progress

import (
	"bytes"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRemaining runs tasks of known cost and asks for the remaining time when a
// tenth is done: it is right within 15 %.
func TestRemaining(t *testing.T) {
	const perFile, perByte = 2 * time.Millisecond, 2.0 // and 2 ns: 500 MB/s
	small, large := int64(4<<10), int64(512<<20)
	for _, row := range []struct {
		name  string
		sizes func(i int) int64
		files int
	}{
		{"all small", func(int) int64 { return small }, 20000},
		{"all large", func(int) int64 { return large }, 200},
		{"mixed", func(i int) int64 { return small + int64(i%100/99)*(large/16) }, 20000},
		{"small first, large last", func(i int) int64 {
			if i < 18000 {
				return small * int64(1+i/700%9) // sizes differ from one second to the next
			}
			return 1 << 20
		}, 20000},
	} {
		var total Sample
		for i := range row.files {
			total.PlannedFiles++
			total.PlannedBytes += row.sizes(i)
		}
		takes := func(files, bytes int64) time.Duration {
			return time.Duration(files)*perFile + time.Duration(float64(bytes)*perByte)
		}
		whole := takes(total.PlannedFiles, total.PlannedBytes)
		m, s, next := Meter{}, Sample{PlannedFiles: total.PlannedFiles, PlannedBytes: total.PlannedBytes, Complete: true}, time.Duration(0)
		for i := range row.files {
			s.Files++
			s.Bytes += row.sizes(i)
			now := takes(s.Files, s.Bytes)
			if now >= next {
				m.Add(now, s)
				next = now + 200*time.Millisecond
			}
			if now >= whole/5 {
				left, ok := m.Remaining()
				wrong := math.Abs(float64(left-(whole-m.now.at))) / float64(whole-m.now.at)
				if !ok || wrong > 0.15 {
					t.Errorf("%s: %v left of %v at %v (%.0f%% wrong)", row.name, left, whole, m.now.at, wrong*100)
				}
				break
			}
		}
	}
}

func TestRemainingIsNotGuessed(t *testing.T) {
	var m Meter
	for _, s := range []Sample{
		{},
		{Complete: true, PlannedFiles: 10},
		{Files: 5, PlannedFiles: 10, PlannedBytes: 5},
		{Files: 5, PlannedFiles: 10, Complete: true, Paused: "no room"},
	} {
		m.Add(m.now.at+time.Second, s)
		if left, ok := m.Remaining(); ok {
			t.Errorf("%+v: %v", s, left)
		}
	}
}

func TestLines(t *testing.T) {
	var m Meter
	m.Add(time.Second, Sample{Files: 1000, Bytes: 100 << 20, PlannedFiles: 4000, PlannedBytes: 400 << 20})
	if got, want := m.counts(), "1,000/4,000+ files  100 MiB/400 MiB+  100 MiB/s  1,000 files/s  scanning…"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	m.Add(2*time.Second, Sample{Files: 2000, Bytes: 200 << 20, PlannedFiles: 4000, PlannedBytes: 400 << 20, Complete: true, Failed: 1,
		SourceWait: time.Second, TargetWait: 9 * time.Second, Slowest: "a/b\nc", SlowestFor: 12 * time.Second})
	if got, want := m.Plain(2*time.Second),
		`2.00s  2,000/4,000 files  200 MiB/400 MiB  50%  100 MiB/s  1,000 files/s  1 failed  ETA 0:02`+
			`  (waiting for the target 90%, longest in work: 12.0s "a/b\nc")`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	m.Add(3*time.Second, Sample{SourceWait: time.Second, TargetWait: 9 * time.Second, LinkWait: time.Hour})
	if got := m.slow(); got != "waiting for the network 100%" {
		t.Error(got)
	}
	m.Add(3*time.Second, Sample{Paused: "the target is full", Complete: true})
	if got := m.counts(); !strings.HasSuffix(got, "paused: the target is full") {
		t.Error(got)
	}
	for want, s := range map[string]Sample{
		"removing…":  {Step: "removing", Complete: true},
		"finishing…": {Files: 1, PlannedFiles: 2, Bytes: 9, PlannedBytes: 9, Complete: true},
	} {
		m.Add(4*time.Second, s)
		if got := m.counts(); !strings.HasSuffix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// screen is a terminal that can be looked at while it is written to.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// String returns what was written since the last call.
func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.text.Reset()
	return s.text.String()
}

func TestTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out screen
		d := Start(&out, Options{Terminal: true}, func() Sample { return Sample{Files: 1, PlannedFiles: 2, Slowest: "x", SlowestFor: time.Minute} })
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if got := out.String(); strings.Count(got, "\n") != 2 || strings.Contains(got, "\x1b") {
			t.Errorf("first drawing: %q", got)
		}
		if n, err := d.Write([]byte("a line\n")); n != 7 || err != nil {
			t.Errorf("write: %d, %v", n, err)
		}
		if got, want := out.String(), "\x1b[1A\x1b[2K\x1b[1A\x1b[2Ka line\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		_ = out.String()
		d.Stop()
		if got := out.String(); got != "\x1b[1A\x1b[2K\x1b[1A\x1b[2K" {
			t.Errorf("stop: %q", got)
		}
	})
}

func TestPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out screen
		ticks := 0
		d := Start(&out, Options{Tick: func() { ticks++ }}, func() Sample { return Sample{} })
		time.Sleep(35 * time.Second)
		synctest.Wait()
		d.Stop()
		if got := out.String(); strings.Count(got, "\n") != 3 || strings.Contains(got, "\x1b") || ticks != 3 {
			t.Errorf("%d ticks, %q", ticks, got)
		}
	})
}

func TestCut(t *testing.T) {
	for _, row := range []struct {
		in    string
		width int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"日本語", 4, "日本"}, {"", 1, ""}} {
		if got := cut(row.in, row.width); got != row.want {
			t.Errorf("cut(%q, %d) = %q", row.in, row.width, got)
		}
	}
}
