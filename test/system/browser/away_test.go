package browser

import (
	"testing"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/units"
)

// testAway: while the service is away the page says so, and keeps what it knew with its
// age; when the service is back, the page shows what it says now, by itself. It goes
// away whole, and only behind its door.
func testAway(t *testing.T, w *window) {
	s := cluster()
	h := newHouse(t, s)
	id := s.tasks[0].Id
	w.open(h.url+"/#/tasks/"+id, 1600, 1000)
	w.mayFail()
	w.equals(h.task(id), true)
	w.wait("text('#link').startsWith('live')")
	for _, way := range []struct{ leave, back func() }{{func() { h.leave() }, h.open}, {func() { h.silence() }, h.speak}} {
		before := h.task(id)
		way.leave()
		w.says("#link", "away")
		w.wait("/^The service does not answer .*What you see is \\d.* old, from \\d\\d:\\d\\d:\\d\\d/.test(text('#banner'))")
		w.equals(before, true)
		w.wait("all('.deeds > button').length === 2 && all('.deeds > button').every((b) => b.disabled)")
		w.wait("getComputedStyle(document.querySelector('main')).filter.includes('grayscale')")
		first := ask[string](w, "({text}) => text('#banner')")
		w.wait("text('#banner') !== %q", first) // its age goes on
		w.shot("away")

		s.change(id, func(t *datamovev1.Task) {
			t.Progress.BytesDone += gib
			t.Progress.BytesPerSecond += 1 << 20
			t.Agent = "n02"
		})
		s.add(task(running, "/new", "/newer", 1, 2, 1, 2))
		way.back()
		w.wait("text('#link').startsWith('live') && !all('#banner').length")
		w.equals(h.task(id), true)
		w.equals(h.task(s.tasks[0].Id), false)
		w.wait("all('.deeds > button').every((b) => !b.disabled)")
		var rate float64
		for _, one := range s.tasks {
			rate += map[bool]float64{true: one.GetProgress().GetBytesPerSecond()}[one.State == running]
		}
		w.says("#rate", units.PerSecond(rate))
	}
}

// testFull: while the service takes no new work the page says so, and why.
func testFull(t *testing.T, w *window) {
	s := cluster()
	h := newHouse(t, s)
	w.open(h.url+"/", 1280, 800)
	w.wait("text('#link').startsWith('live') && !all('#banner').length")
	for _, full := range []string{"no room: 0 B free on the disk of the service", ""} {
		s.mu.Lock()
		s.full = full
		s.mu.Unlock()
		w.wait("(text('#banner') ?? '').includes(%q) && all('#banner').length === %d", full, map[bool]int{true: 1}[full != ""])
	}
}

// testLate: a page that is opened while the service is away begins when it is there.
func testLate(t *testing.T, w *window) {
	s := cluster()
	h := newHouse(t, s)
	h.silence()
	w.mayFail()
	w.open(h.url+"/", 1280, 800)
	w.wait("text('#banner')?.includes('Nothing is known yet')")
	h.speak()
	w.equals(h.task(s.tasks[0].Id), false)
	w.wait("!all('#banner').length")
}

// testDenied: what the service does not tell is said in its place, and the rest works.
func testDenied(t *testing.T, w *window) {
	s := cluster()
	h := newHouse(t, deny{s})
	w.mayFail()
	w.open(h.url+"/", 1280, 800)
	w.wait("text('.tasks .note')?.includes('permission denied')")
	eval[string](w, "location.hash = '#/agents'")
	w.wait("all('.agents tbody tr').length === 8")
	eval[string](w, "location.hash = '#/tiers'")
	w.wait("text('.view .note')?.includes('permission denied')")
}
