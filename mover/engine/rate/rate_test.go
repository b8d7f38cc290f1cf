package rate

import (
	"fmt"
	"math"
	"testing"
	"time"
)

const mib = 1 << 20

var begin = time.Unix(1e9, 0)

// flow is a task of one large file at a constant rate, whose bytes are counted in bursts.
type flow struct {
	rate, burst int64 // bytes per second; bytes that are counted together
	total       int64
}

func (f flow) at(d time.Duration) Work {
	done := int64(d.Seconds() * float64(f.rate))
	return Work{Bytes: min(done-done%f.burst, f.total), PlannedFiles: 1, PlannedBytes: f.total, Complete: true}
}

// TestRate: a constant rate is told as one, whatever bursts its bytes come in, and however
// often it is asked.
func TestRate(t *testing.T) {
	for _, row := range []struct {
		burst  int64
		after  time.Duration // from when on it is right
		within float64
	}{
		{1 << 10, time.Second, 0.01},
		{mib, 2 * time.Second, 0.15},
		{4 * mib, 20 * time.Second, 0.10},
		{16 * mib, 40 * time.Second, 0.35},
	} {
		for _, every := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, time.Second, 10 * time.Second} {
			t.Run(fmt.Sprintf("%d/%v", row.burst, every), func(t *testing.T) {
				var m Meter
				f := flow{rate: 7 * mib, burst: row.burst, total: 1 << 40}
				for at := time.Duration(0); at < 2*time.Minute; at += every {
					m.Add(begin.Add(at), f.at(at))
					if off := m.Read().Bytes/(7*mib) - 1; at >= max(row.after, every) && math.Abs(off) > row.within {
						t.Fatalf("%.0f%% off after %v", off*100, at)
					}
				}
			})
		}
	}
}

// TestCountdown: at a constant rate the time that is left runs down, is right, is never
// nothing while bytes are left, and is not known before the plan is whole.
func TestCountdown(t *testing.T) {
	for _, burst := range []int64{1, 64 << 10, mib} {
		var m Meter
		f := flow{rate: 7 * mib, burst: burst, total: 700 * mib}
		last := time.Duration(math.MaxInt64)
		for at := time.Duration(0); at < 100*time.Second; at += 200 * time.Millisecond {
			m.Add(begin.Add(at), f.at(at))
			left, right := m.Read().Remaining, 100*time.Second-at
			switch {
			case at < time.Second && left == 0:
				continue // nothing is done yet
			case left < time.Second:
				t.Fatalf("bursts of %d: %v left after %v", burst, left, at)
			case at > 5*time.Second && left > last+time.Second*time.Duration(burst)/mib:
				t.Fatalf("bursts of %d: %v left after %v, and %v before that", burst, left, at, last)
			case at > 5*time.Second && math.Abs((left-right).Seconds()) > 1+0.05*right.Seconds():
				t.Fatalf("bursts of %d: %v left after %v", burst, left, at)
			}
			last = left
		}
	}
}

// TestUnknown: the time that is left is not guessed.
func TestUnknown(t *testing.T) {
	for name, w := range map[string]Work{
		"nothing is known":       {},
		"nothing is done":        {Complete: true, PlannedFiles: 10},
		"the plan may grow":      {Files: 5, PlannedFiles: 10, PlannedBytes: 5},
		"all is done":            {Files: 5, PlannedFiles: 5, Bytes: 9, PlannedBytes: 9, Complete: true},
		"only what passed tells": {Bytes: 5, Known: 5, PlannedFiles: 10, PlannedBytes: 9, Complete: true},
	} {
		var m Meter
		m.Add(begin, Work{})
		m.Add(begin.Add(time.Second), w)
		if r := m.Read(); r.Remaining != 0 {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// TestBeginning: what was done before the meter began, and what an earlier run has brought,
// is no rate.
func TestBeginning(t *testing.T) {
	var m Meter
	m.Add(begin, Work{Bytes: 1 << 40, Files: 1 << 20})
	m.Add(begin.Add(time.Second), Work{Bytes: 1<<40 + 1<<50 + mib, Known: 1 << 50, Files: 1 << 20})
	if r := m.Read(); math.Abs(r.Bytes-mib) > 1 || r.Files != 0 {
		t.Errorf("%+v", r)
	}
}

// TestStill: what does not move any more is told so after a while.
func TestStill(t *testing.T) {
	var m Meter
	m.Add(begin, Work{})
	for at := time.Second; at <= 10*time.Second; at += time.Second {
		m.Add(begin.Add(at), Work{Bytes: int64(at.Seconds()) << 30, Files: 1})
	}
	at := 10 * time.Second
	for ; !m.Still(); at += time.Second {
		m.Add(begin.Add(at), Work{Bytes: 10 << 30, Files: 1})
	}
	if at < 20*time.Second || at > time.Minute {
		t.Errorf("still after %v", at)
	}
}

// TestRemaining runs tasks of known cost and asks for the remaining time when a fifth of it
// is over: it is right within 15 %.
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
			return mib
		}, 20000},
	} {
		var total Work
		for i := range row.files {
			total.PlannedFiles++
			total.PlannedBytes += row.sizes(i)
		}
		takes := func(files, bytes int64) time.Duration {
			return time.Duration(files)*perFile + time.Duration(float64(bytes)*perByte)
		}
		whole := takes(total.PlannedFiles, total.PlannedBytes)
		m, w, next := Meter{}, Work{PlannedFiles: total.PlannedFiles, PlannedBytes: total.PlannedBytes, Complete: true}, time.Duration(0)
		m.Add(begin, w)
		for i := range row.files {
			w.Files++
			w.Bytes += row.sizes(i)
			now := takes(w.Files, w.Bytes)
			if now >= next {
				m.Add(begin.Add(now), w)
				next = now + 200*time.Millisecond
			}
			if now >= whole/5 {
				left := m.Read().Remaining
				wrong := math.Abs(float64(left-(whole-m.at.Sub(begin)))) / float64(whole-m.at.Sub(begin))
				if left == 0 || wrong > 0.15 {
					t.Errorf("%s: %v left of %v at %v (%.0f%% wrong)", row.name, left, whole, m.at.Sub(begin), wrong*100)
				}
				break
			}
		}
	}
}
