package browser

import (
	"math"
	"testing"

	"github.com/chromedp/chromedp"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/seed"
)

// lapse lets time run faster in a page, until it is now, so that charts have minutes
// to show.
const lapse = `{
	const faster = 60
	const [timeout, interval, date, clock] = [setTimeout, setInterval, Date.now, performance.now.bind(performance)]
	const began = date() - 9 * 60_000
	window.setTimeout = (f, ms, ...rest) => timeout(f, ms / faster, ...rest)
	window.setInterval = (f, ms, ...rest) => interval(f, ms / faster, ...rest)
	Date.now = () => Math.min(date(), began + clock() * faster)
	performance.now = () => clock() * faster
}`

// TestLooks opens every view, dark and light; in soak narrow, too, and when the charts are full. Nothing may complain,
// and nothing may be wider than the screen; go test -artifacts keeps the pictures, and make screenshots those of the guides.
func TestLooks(t *testing.T) {
	t.Parallel()
	s := cluster()
	h := newHouse(t, s)
	stage, broken := s.tasks[0].Id, s.tasks[4].Id
	w := h.look("/", 1600, 1000, lapse)
	w.wait("all('.row').length")
	for i := 0; ask[float64](w, "({all}) => all('#overview .line')[0].getBBox().width") < 700 && seed.Soak(); i++ {
		s.change(stage, func(t *datamovev1.Task) {
			t.Progress.BytesPerSecond = (480 + 120*math.Sin(float64(i)/20) + 60*math.Sin(float64(i)/3)) * (1 << 20)
			t.Progress.BytesDone += 1 << 24
		})
		s.with(func() {
			for n, a := range s.agents {
				if a.BytesPerSecond > 0 {
					a.BytesPerSecond = (1.5 + math.Sin(float64(i+n*9)/14)) * float64(n*50<<20)
				}
			}
		})
	}
	for _, row := range []struct {
		name, path    string
		width, height int64
		scheme        string
	}{
		{"tasks wide", "#/tasks", 1600, 1000, "light"},
		{"tasks wide dark", "#/tasks", 1600, 1000, "dark"},
		{"tasks narrow", "#/tasks", 400, 860, "light"},
		{"task wide dark", "#/tasks/" + stage, 1600, 1000, "dark"},
		{"task wide", "#/tasks/" + stage, 1600, 1000, "light"},
		{"task narrow", "#/tasks/" + stage, 400, 860, "dark"},
		{"failed", "#/tasks/" + broken, 1280, 900, "light"},
		{"agents", "#/agents", 1600, 1000, "light"},
		{"agents narrow", "#/agents", 400, 860, "dark"},
		{"tiers", "#/tiers", 1600, 640, "dark"},
		{"tiers narrow", "#/tiers", 400, 860, "light"},
		{"datasets", "#/datasets", 1600, 1000, "light"},
		{"datasets narrow", "#/datasets", 400, 860, "dark"},
		{"usage", "#/usage", 1600, 1000, "light"},
		{"usage narrow", "#/usage?by=age", 400, 860, "dark"},
		{"tonight", "#/tonight", 1600, 1000, "dark"},
		{"tonight narrow", "#/tonight", 400, 860, "light"},
	} {
		if row.width < 1600 && !seed.Soak() {
			continue // TestHostileNames is narrow in each run, with longer texts
		}
		w.do(chromedp.EmulateViewport(row.width, row.height))
		w.prefer(row.scheme, "")
		eval[string](w, "location.hash = %q", row.path)
		w.wait("all('main h2, main .row, main td, main .tier').length")
		ask[bool](w, "async ({painted}) => { await painted(); await painted(); return true }")
		w.shot(row.name)
		if over := eval[int](w, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("%s: the page is %d pixels wider than the screen", row.name, over)
		}
	}
}
