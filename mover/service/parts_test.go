package service

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// underway are parts on their way to processes, which may take as long as they settle.
type underway struct {
	now   time.Time
	reads map[string]int64 // what each process may read, as it knows
	due   map[string][]sentPart
}

type sentPart struct {
	at   time.Time
	part int64
}

// arrive has those told whose orders are there by now.
func (o *underway) arrive() {
	for name, all := range o.due {
		for len(all) > 0 && !all[0].at.After(o.now) {
			o.reads[name], all = all[0].part, all[1:]
		}
		o.due[name] = all
	}
}

func (o *underway) sum() (sum int64) {
	for _, part := range o.reads {
		sum += part
	}
	return sum
}

// Whoever comes and goes, whatever they use, and however long an order takes: what all may
// read together is never more than the limit, but for a twentieth.
func TestPartsHoldTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1000, 1<<40).Draw(t, "limit")
		o := &underway{now: time.Unix(1, 0), reads: map[string]int64{"n0": limit}, due: map[string][]sentPart{}}
		x := newParts(limit, "n0", o.now)
		working := map[string]bool{}
		last := map[string]time.Time{}
		for step := range rapid.IntRange(1, 100).Draw(t, "steps") {
			for range 8 {
				o.now = o.now.Add(time.Duration(rapid.Int64Range(1, int64(150*time.Millisecond)).Draw(t, "pause")))
				o.arrive()
				if sum, most := o.sum(), limit+limit/partFirst+int64(len(o.reads)); sum > most {
					t.Fatalf("step %d: %d of %d: %v, and told were %+v", step, sum, limit, o.reads, x.of)
				}
			}
			who := fmt.Sprintf("n%d", rapid.IntRange(1, 5).Draw(t, "who"))
			working[who] = rapid.Bool().Draw(t, "works")
			names := []string{"n0"}
			for name, does := range working {
				if does {
					names, last[name] = append(names, name), o.now
				}
			}
			x.enlist(o.now, names...)
			for name := range o.reads {
				x.uses(name, float64(rapid.Int64Range(0, limit).Draw(t, "used")))
				if x.of[name] == nil { // it has nothing to do any more
					delete(o.reads, name)
					delete(o.due, name)
				}
			}
			cut := rapid.IntRange(0, 9).Draw(t, "cut") // who can not be told
			x.divide(o.now, func(name string, part int64) bool {
				if name == fmt.Sprintf("n%d", cut) {
					return false
				}
				at := o.now.Add(time.Duration(rapid.Int64Range(0, int64(partSettles)-1).Draw(t, "takes")))
				if all := o.due[name]; len(all) > 0 && all[len(all)-1].at.After(at) {
					at = all[len(all)-1].at // they come one after the other
				}
				o.due[name] = append(o.due[name], sentPart{at, part})
				return true
			})
		}
	})
}

// rounds divides so many times, a second apart, with processes that use what they may, as
// far as they can.
func rounds(x *parts, now *time.Time, n int, can map[string]int64) map[string]int64 {
	reads := map[string]int64{}
	var names []string
	for name := range can {
		names = append(names, name)
	}
	for range n {
		*now = now.Add(time.Second)
		x.enlist(*now, names...)
		x.divide(*now, func(name string, part int64) bool { reads[name] = part; return true })
		for name, part := range reads {
			x.uses(name, float64(min(part, can[name])))
		}
	}
	return reads
}

// TestPartsGoToWhoUsesThem: all read the same at first, who can not leaves it to the
// others, and who is alone has all.
func TestPartsGoToWhoUsesThem(t *testing.T) {
	const limit = 1000
	now := time.Unix(1, 0)
	x := newParts(limit, "a", now)
	if x.divide(now, func(string, int64) bool { t.Error("one that is alone is told"); return true }); x.split {
		t.Error("it is split")
	}
	about := func(what string, got map[string]int64, name string, want int64) {
		t.Helper()
		if d := got[name] - want; max(d, -d) > limit/partFirst {
			t.Errorf("%s: %s reads %d, want about %d: %v", what, name, got[name], want, got)
		}
	}
	all := map[string]int64{"a": limit, "b": limit}
	about("one comes", rounds(x, &now, 1, all), "b", 0)
	got := rounds(x, &now, 1, all)
	about("a moment later", got, "a", limit/2)
	about("a moment later", got, "b", limit/2)
	got = rounds(x, &now, 10, map[string]int64{"a": limit, "b": 100})
	about("one is slow", got, "b", 250)
	about("one is slow", got, "a", 750)
	about("it is fast again", rounds(x, &now, 10, all), "b", limit/2)
	got = rounds(x, &now, 10, map[string]int64{"a": limit})
	if got["a"] != limit || len(x.of) != 1 {
		t.Errorf("who is alone reads %d of %d", got["a"], limit)
	}

	x = &parts{limit: limit, of: map[string]*part{}, split: true} // of a coordinator that has begun anew
	x.enlist(now, "a", "b")
	x.divide(now, func(name string, part int64) bool {
		if part > limit/partFirst {
			t.Errorf("%s is told to read %d while nobody knows what the other one does", name, part)
		}
		return rand.N(2) == 0
	})
	about("begun anew", rounds(x, &now, 5, all), "a", limit/2)
}
