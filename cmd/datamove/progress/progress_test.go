package progress

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover/engine/rate"
)

// done is a sample of so much of 4,000 files with 400 MiB.
func done(files, mib int64) Sample {
	return Sample{Work: rate.Work{Files: files, Bytes: mib << 20, PlannedFiles: 4000, PlannedBytes: 400 << 20}}
}

func TestLines(t *testing.T) {
	begin := time.Unix(1e9, 0)
	var m Meter
	m.Add(begin, Sample{})
	m.Add(begin.Add(time.Second), done(1000, 100))
	if got, want := m.counts(), "1,000/4,000+ files  100 MiB/400 MiB+  100 MiB/s  1,000 files/s  scanning…"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	s := done(2000, 200)
	s.Complete, s.Failed, s.Slowest, s.SlowestFor = true, 1, "a/b\nc", 12*time.Second
	s.Waits = Waits{Source: time.Second, Target: 9 * time.Second}
	m.Add(begin.Add(2*time.Second), s)
	if got, want := m.Plain(2*time.Second),
		`2.00s  2,000/4,000 files  200 MiB/400 MiB  50%  100 MiB/s  1,000 files/s  1 failed  ETA 0:02`+
			`  (waiting for the target 90%, longest in work: 12.0s "a/b\nc")`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	s.Rates = &rate.Reading{Bytes: 7 << 20, Remaining: 29 * time.Second}
	m.Add(begin.Add(3*time.Second), s)
	if got, want := m.counts(), "2,000/4,000 files  200 MiB/400 MiB  50%  7.00 MiB/s  1 failed  ETA 0:29"; got != want {
		t.Errorf("of a task elsewhere: %s\nwant %s", got, want)
	}
	for want, s := range map[string]Sample{
		"paused: the target is full": {Paused: "the target is full", Work: rate.Work{Complete: true}},
		"removing…":                  {Step: "removing", Work: rate.Work{Complete: true}},
		"finishing…":                 {Work: rate.Work{Files: 1, PlannedFiles: 2, Bytes: 9, PlannedBytes: 9, Complete: true}},
	} {
		m.Add(begin.Add(4*time.Second), s)
		if got := m.counts(); !strings.HasSuffix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestLiveWait: on a terminal what is waited for has a line of its own.
func TestLiveWait(t *testing.T) {
	var m Meter
	m.Add(time.Unix(1e9, 0), Sample{WaitsFor: "s3://b/x: connection refused, for 0:12, ends in 4:48"})
	want := []string{"0/0+ files  0 B/0 B+  0 B/s", "  waiting: s3://b/x: connection refused, for 0:12, ends in 4:48"}
	if got := m.Live(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := m.counts(); !strings.HasSuffix(got, "B/s  waiting: s3://b/x: connection refused, for 0:12, ends in 4:48") {
		t.Error(got)
	}
}

// TestMostWait: what is waited for is named, a limit too, when it is most of all waiting.
func TestMostWait(t *testing.T) {
	hour := time.Hour
	for _, row := range []struct {
		now, before Waits
		want        string
	}{
		{Waits{}, Waits{}, ""},
		{Waits{Source: hour, Target: hour}, Waits{}, ""},
		{Waits{Source: hour, Target: 9 * hour}, Waits{}, "the target 90%"},
		{Waits{Source: hour, Target: 9 * hour}, Waits{Target: 9 * hour}, "the source 100%"},
		{Waits{Target: hour, Link: 99 * hour}, Waits{}, "the network 99%"},
		{Waits{Target: 2 * hour, Limit: 98 * hour}, Waits{}, "the bandwidth limit 98%"},
		{Waits{Target: hour, Turn: 9 * hour}, Waits{}, "its turn 90%"},
	} {
		if got := mostWait(row.now, row.before); got != row.want {
			t.Errorf("%+v since %+v: %q, want %q", row.now, row.before, got, row.want)
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
		d := Start(&out, Options{Terminal: true}, func() Sample {
			return Sample{Work: rate.Work{Files: 1, PlannedFiles: 2}, Slowest: "x", SlowestFor: time.Minute}
		})
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
