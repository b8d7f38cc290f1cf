package browser

import (
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// programLooks opens every view of the real program, with tasks in every state and an agent
// that is lost, dark and light; in soak narrow, too. Nothing may complain, and nothing may be
// wider than the screen; go test -artifacts keeps the pictures.
func programLooks(t *testing.T, p *program, w *window) {
	t.Helper()
	must.Do(t, os.Mkdir(p.path("warm/odd"), 0o755))
	must.Do(t, os.WriteFile(p.path("warm/odd/small"), []byte("small"), 0o644))
	submit := func(from, to string, rate int64) string {
		t.Helper()
		task, err := p.client.SubmitTask(t.Context(), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{
			Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: from, Target: to, Options: &datamovev1.Options{BytesPerSecond: rate, NoReflink: true},
		}})
		must.Do(t, err)
		return task.GetId()
	}
	is := func(id, state string) {
		t.Helper()
		p.eventually("task "+id+" is "+state, func() bool { return p.show(id).State == state })
	}
	is(submit("warm:odd", "warm:odd-copy", 0), "done")
	broken := submit("warm:missing", "warm:nothing", 0)
	is(broken, "failed")
	held := submit("warm:in", "warm:held", 1<<20)
	p.eventually("it has begun", func() bool { return p.show(held).Progress != nil })
	_, err := p.client.PauseTask(t.Context(), &datamovev1.PauseTaskRequest{Id: held})
	must.Do(t, err)
	is(held, "paused")
	_, err = p.client.AddDataset(t.Context(), &datamovev1.AddDatasetRequest{Name: "odd", Location: "warm:odd"})
	must.Do(t, err)
	moves := submit("warm:in", "warm:moving", 2<<20)
	waits := submit("warm:odd", "warm:moving/odd", 0) // below the target of another one
	p.eventually("it moves", func() bool { s := p.show(moves); return s.Progress != nil && s.Progress.Rate > 0 })
	w.leave()
	w.open(p.url+"/", 1600, 1000)
	w.wait("all('.row').length > 4")
	for _, row := range []struct {
		name, path    string
		width, height int64
		scheme        string
	}{
		{"real tasks wide", "#/tasks", 1600, 1000, "light"},
		{"real tasks narrow", "#/tasks", 400, 860, "dark"},
		{"real running wide", "#/tasks/" + moves, 1600, 1000, "dark"},
		{"real running narrow", "#/tasks/" + moves, 400, 860, "light"},
		{"real failed", "#/tasks/" + broken, 1280, 900, "light"},
		{"real paused", "#/tasks/" + held, 1280, 900, "dark"},
		{"real queued", "#/tasks/" + waits, 1280, 900, "light"},
		{"real agents", "#/agents", 1600, 1000, "light"},
		{"real agents narrow", "#/agents", 400, 860, "dark"},
		{"real tiers", "#/tiers", 1600, 1000, "dark"},
		{"real tiers narrow", "#/tiers", 400, 860, "light"},
		{"real datasets", "#/datasets", 1600, 1000, "light"},
	} {
		if row.width < 1000 && !seed.Soak() {
			continue
		}
		w.do(chromedp.EmulateViewport(row.width, row.height))
		w.prefer(row.scheme, "")
		eval[string](w, "location.hash = %q", row.path)
		w.wait("all('main h2, main .row, main td, main .tier').length")
		if strings.HasPrefix(row.path, "#/tasks/") {
			w.wait("all('#task-state').length && all('h2').length && document.querySelector('.detail .fields, .detail dl, .detail dt')")
		}
		ask[bool](w, "async ({painted}) => { await painted(); await painted(); return true }")
		if strings.HasPrefix(row.path, "#/tiers") { // the marks are those of the configuration
			w.wait("document.querySelector('.fill .high')?.style.left === '99%%' && document.querySelector('.fill .low').style.left === '98%%' && text('.legend .mark')")
		}
		w.shot(row.name)
		if over := eval[int](w, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("%s: the page is %d pixels wider than the screen", row.name, over)
		}
	}
}
