package browser

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server"
	life "datamove.dev/mover/task"
	"datamove.dev/mover/units"
	"datamove.dev/test/must"
)

// figures are what a page has to show of a task.
type figures struct {
	State   string `json:"state"`
	Bytes   string `json:"bytes"`
	Files   string `json:"files"`
	Rate    string `json:"rate"`
	Percent string `json:"percent"`
}

// figuresOf prints a task as the command line does.
func figuresOf(t *datamovev1.Task) figures {
	p, f := t.GetProgress(), figures{State: life.Word(t.State)}
	more := ""
	if t.State == running && !p.GetPlanComplete() {
		more = "+"
	}
	bytes, files := p.GetPlanned().GetBytes()+p.GetPlanned().GetCompareBytes(), p.GetPlanned().GetFiles()+p.GetPlanned().GetCompares()
	if bytes|files|p.GetBytesDone()|p.GetFilesDone() != 0 { // else nothing is known yet
		of := func(done, planned int64, text func(int64) string) string {
			if planned == 0 { // of a task that stands nothing is planned
				return text(done)
			}
			return text(done) + "/" + text(planned) + more
		}
		f.Bytes, f.Files = of(p.GetBytesDone(), bytes, units.Bytes), of(p.GetFilesDone(), files, units.Count)
	}
	if t.State == running {
		f.Rate = units.PerSecond(p.GetBytesPerSecond())
	}
	switch {
	case t.State == done:
		f.Percent = "100%"
	case p.GetPlanComplete() && bytes > 0:
		f.Percent = fmt.Sprintf("%d%%", min(p.BytesDone, bytes)*100/bytes)
	case p.GetPlanComplete() && files > 0:
		f.Percent = fmt.Sprintf("%d%%", min(p.FilesDone, files)*100/files)
	}
	return f
}

// inDetail and inList read the figures of a task from the page.
const (
	inDetail = `({
		state: text('#task-state .pill') ?? '', bytes: text('#task-bytes') ?? '', files: text('#task-files') ?? '',
		rate: (text('#task-rate') ?? '').split(' · ')[0], percent: text('#task-percent') ?? ''})`
	inList = `((r) => ({
		state: r.state, bytes: (r.progress?.split('\n').at(-1) ?? '').split(' · ')[0], files: (r.progress?.split(' · ')[1] ?? '').replace(/ files.*/, ''),
		rate: r.rate, percent: /^\d+%/.exec(r.progress)?.[0] ?? ''}))(row('TASK'))`
)

// equals waits until the page shows what the API says of a task, in the list and,
// if it is open, beside it.
func (w *window) equals(t *datamovev1.Task, opened bool) {
	w.t.Helper()
	want := must.Get(json.Marshal(figuresOf(t)))(w.t)
	w.wait("JSON.stringify(%s) === %q", strings.ReplaceAll(inList, "TASK", t.Id), want)
	if opened {
		w.wait("JSON.stringify(%s) === %q", inDetail, want)
	}
}

// record notes, from now on, every set of figures that the page shows of an open task.
func (w *window) record() {
	w.t.Helper()
	ask[bool](w, `({text}) => {
		window.shown = new Set()
		new MutationObserver(() => window.shown.add(JSON.stringify(%s))).observe(document.querySelector('.detail'), {subtree: true, childList: true, characterData: true, attributes: true})
		return true
	}`, inDetail)
}

// testTask follows a task through its life. The page shows what the API says, and
// never figures of two moments at once.
func testTask(t *testing.T, w *window) {
	s := newService()
	t1 := task(queued, "/lustre/project/vision", "s3://archive/vision", 0, 0, 0, 0)
	t1.Progress = nil
	s.add(task(done, "/a", "/b", 3, 3, 3, 3), t1)
	h := newHouse(t, s)
	w.open(h.url+"/#/tasks/"+t1.Id, 1600, 1000)
	w.equals(h.task(t1.Id), true)
	w.record()
	told := map[string]bool{}
	change := func(with func(*datamovev1.Task)) *datamovev1.Task {
		s.change(t1.Id, with)
		now := h.task(t1.Id)
		text := must.Get(json.Marshal(figuresOf(now)))(t)
		told[string(text)] = true
		return now
	}
	change(func(*datamovev1.Task) {})
	for _, with := range []func(*datamovev1.Task){
		func(t *datamovev1.Task) { t.State, t.Phase, t.Agent = running, "locking", "n01" },
		func(t *datamovev1.Task) {
			t.Phase, t.Progress = "moving", &datamovev1.Progress{Planned: &datamovev1.Totals{Files: 7, Bytes: 1 << 20, Compares: 3, CompareBytes: 4096}, BytesPerSecond: 1.5}
		},
		func(t *datamovev1.Task) {
			t.Progress.FilesDone, t.Progress.BytesDone, t.Progress.BytesPerSecond = 2, 1152<<10, 1152<<10
		},
		func(t *datamovev1.Task) {
			t.Progress.Planned.Bytes, t.Progress.Planned.Files, t.Progress.PlanComplete = 9_007_199_254_740_993, 1_234_567, true
		},
		func(t *datamovev1.Task) {
			t.Progress.BytesDone, t.Progress.BytesPerSecond = 4_503_599_627_370_497, 512<<30
		},
		func(t *datamovev1.Task) { t.State, t.Phase, t.Why = paused, "", "paused by ada" },
		func(t *datamovev1.Task) { t.State, t.Why = queued, "" },
		func(t *datamovev1.Task) {
			t.State, t.Phase, t.Progress.BytesPerSecond, t.Progress.Failed = running, "moving", 0, 12
		},
	} {
		w.equals(change(with), true)
	}
	for i := range 200 {
		change(func(t *datamovev1.Task) {
			t.Progress.BytesDone += 1 << 41
			t.Progress.FilesDone += 999
			t.Progress.BytesPerSecond = float64(i) * (10 << 20)
		})
	}
	w.equals(h.task(t1.Id), true)
	w.equals(change(func(t *datamovev1.Task) {
		t.State, t.Phase, t.Report = done, "", &datamovev1.Report{Planned: t.Progress.Planned, Files: 1_234_570, Bytes: 9_007_199_254_740_993, Elapsed: durationpb.New(0)}
		t.Progress.BytesDone, t.Progress.FilesDone, t.Progress.BytesPerSecond = 9_007_199_254_740_993+4096, 1_234_570, 0
	}), true)
	shown := eval[[]string](w, "[...window.shown]")
	if len(shown) < 10 {
		t.Errorf("the page has shown %d sets of figures only", len(shown))
	}
	for _, one := range shown {
		if !told[one] {
			t.Errorf("the page has shown %s, which the API has never told", one)
		}
	}
	w.wait("text('.detail')?.includes('Report')")
}

// testAgentDies: the page follows a task from an agent that dies to the next one.
func testAgentDies(t *testing.T, w *window) {
	s := cluster()
	h := newHouse(t, s)
	id := s.tasks[0].Id
	w.open(h.url+"/#/tasks/"+id, 1600, 1000)
	agent := func(n int, with func(*datamovev1.Agent)) {
		s.with(func() { with(s.agents[n]) })
	}
	crew := func() {
		t.Helper()
		var list datamovev1.ListAgentsResponse
		h.get("/v1/agents", &list)
		now := h.task(id)
		var want []string
		for i, name := range slices.Concat([]string{now.Agent}, now.Helpers) {
			if name == "" {
				continue
			}
			at := slices.IndexFunc(list.Agents, func(a *datamovev1.Agent) bool { return a.Name == name })
			state := strings.ToLower(strings.TrimPrefix(list.Agents[at].State.String(), "AGENT_STATE_"))
			want = append(want, strings.Join([]string{name, []string{"leads", "helps"}[min(i, 1)], state, units.PerSecond(list.Agents[at].BytesPerSecond)}, " "))
		}
		w.wait("all('.crew tbody tr').map((r) => [...r.children].slice(0, 4).map((c) => c.innerText).join(' ')).join('\\n') === %q", strings.Join(want, "\n"))
		w.equals(now, true)
	}
	crew()
	agent(0, func(a *datamovev1.Agent) {
		a.State, a.SeenTime, a.BytesPerSecond = datamovev1.AgentState_AGENT_STATE_LOST, ago(40_000_000_000), 0
	})
	w.says("#agents", "8 · 2 lost")
	crew()
	s.change(id, func(t *datamovev1.Task) {
		t.State, t.Phase, t.Agent, t.Helpers, t.Why, t.Progress.BytesPerSecond = queued, "", "", nil, "agent n01 was not heard of for 30s", 0
	})
	crew()
	w.says("#task-phase", "agent n01 was not heard of for 30s")
	s.change(id, func(t *datamovev1.Task) {
		t.State, t.Phase, t.Agent, t.Why, t.Epoch, t.Tries = running, "locking", "n02", "", t.Epoch+1, 2
		t.Progress = &datamovev1.Progress{} // it is planned anew
	})
	crew()
	s.change(id, func(t *datamovev1.Task) {
		t.Phase, t.Helpers = "moving", []string{"n04", "n06"}
		t.Progress = &datamovev1.Progress{PlanComplete: true, Planned: &datamovev1.Totals{Files: 970_725, Bytes: 104 * gib}, FilesDone: 12, BytesDone: 11 << 20, BytesPerSecond: 300 << 20}
	})
	crew()
	w.wait("text('.facts').includes('2, the last one with epoch 1701')")
	eval[string](w, "location.hash = '#/agents'")
	w.wait("all('.agents tbody tr').length === 8")
	var list datamovev1.ListAgentsResponse
	h.get("/v1/agents", &list)
	for _, a := range list.Agents {
		want := strings.Join([]string{strings.ToLower(strings.TrimPrefix(a.State.String(), "AGENT_STATE_")), units.Count(int64(a.Leads)), units.Count(int64(a.Helps)), units.PerSecond(a.BytesPerSecond)}, " ")
		w.wait("all('.agents tbody tr').some((r) => r.querySelector('b').innerText === %q && [...r.children].slice(1, 5).map((c) => c.innerText).join(' ') === %q)", a.Name, want)
	}
}

// testOverview: the line above all views is the sum of what the API says.
func testOverview(t *testing.T, w *window) {
	s := cluster()
	standing := task(running, "scratch:", "", 0, 0, 0, 0)
	standing.Spec.Kind = datamovev1.TaskKind_TASK_KIND_FOLLOW
	s.add(standing)
	s.rates = []*datamovev1.RateMoment{{Time: ago(4 * time.Minute), BytesPerSecond: 77 << 30}}
	h := newHouse(t, s)
	w.open(h.url+"/", 1600, 1000)
	w.wait("document.querySelector('#overview [role=img]')?.getAttribute('aria-label')?.includes('at most 77.0 GiB/s')")
	for range 3 {
		var info datamovev1.Info
		h.get("/v1/info", &info)
		var list datamovev1.ListTasksResponse
		h.get("/v1/tasks?states=TASK_STATE_RUNNING", &list)
		var rate float64
		for _, task := range list.Tasks {
			rate += task.GetProgress().GetBytesPerSecond()
		}
		w.says("#rate", units.PerSecond(rate))
		w.says("#rate-of", "in "+units.Plural(int64(len(list.Tasks))-1, "running task", "running tasks"))
		w.says("#running", units.Count(info.TasksRunning-1)+" · 1 standing")
		w.says("#queued", units.Count(info.TasksQueued))
		w.says("#service", fmt.Sprintf("%s · %s · term %d", info.Node, info.Version, info.Term))
		s.add(task(running, "/x", "/y", 0, 1, 0, gib), task(queued, "/x", "/z", 0, 1, 0, gib))
		s.change(s.tasks[4].Id, func(t *datamovev1.Task) { t.Progress.BytesPerSecond += 1 << 30 })
	}
}

// testSums: what a page shows of each kind of task is what the API says: of those that compare, that stand, that are planned by a policy, and that have failed, with
// what to try.
func testSums(t *testing.T, w *window) {
	s := newService()
	of := func(kind datamovev1.TaskKind, state datamovev1.TaskState, p *datamovev1.Progress) *datamovev1.Task {
		x := task(state, "/lustre/project/a", "archive:a", 0, 0, 0, 0)
		x.Spec.Kind, x.Progress = kind, p
		s.add(x)
		return x
	}
	const verify, follow, remove = datamovev1.TaskKind_TASK_KIND_VERIFY, datamovev1.TaskKind_TASK_KIND_FOLLOW, datamovev1.TaskKind_TASK_KIND_PURGE
	all := []*datamovev1.Task{
		of(verify, running, &datamovev1.Progress{Planned: &datamovev1.Totals{Compares: 669, CompareBytes: gib}, FilesDone: 333, BytesDone: gib / 3, PlanComplete: true, BytesPerSecond: 7 << 20}),
		of(verify, running, &datamovev1.Progress{Planned: &datamovev1.Totals{Compares: 3}, FilesDone: 1, PlanComplete: true}),
		of(verify, done, &datamovev1.Progress{Planned: &datamovev1.Totals{Compares: 669, CompareBytes: gib}, FilesDone: 669, BytesDone: gib, PlanComplete: true}),
		of(follow, running, &datamovev1.Progress{}),
		of(follow, running, &datamovev1.Progress{FilesDone: 12, BytesDone: 5 << 20}),
		of(remove, running, &datamovev1.Progress{Planned: &datamovev1.Totals{Files: 1068, Bytes: 147 << 20}, FilesDone: 7, BytesDone: 1 << 20}),
	}
	broken := of(verify, failed, &datamovev1.Progress{Planned: &datamovev1.Totals{Compares: 2, CompareBytes: 10}, FilesDone: 2, BytesDone: 10, PlanComplete: true, Failed: 1})
	broken.Error, broken.ExitCode = "1 of 2 files differs", 9
	broken.Report = &datamovev1.Report{Failed: 1, Remedy: "datamove copy SRC DST, which brings <b>what</b> is missing"}
	silent := of(verify, failed, &datamovev1.Progress{})
	silent.Error, silent.Report = "it can not begin", &datamovev1.Report{}
	h := newHouse(t, s)
	for i, x := range append(all, broken, silent) {
		if i == 0 {
			w.open(h.url+"/#/tasks/"+x.Id, 1600, 1000)
		} else {
			eval[string](w, "location.hash = '#/tasks/%s'", x.Id)
		}
		w.wait("text('#task-state .pill') === %q", life.Word(x.State))
		w.equals(h.task(x.Id), true)
	}
	eval[string](w, "location.hash = '#/tasks/%s'", broken.Id)
	w.says(".detail .error", h.task(broken.Id).GetError()+" — try: "+h.task(broken.Id).GetReport().GetRemedy())
	eval[string](w, "location.hash = '#/tasks/%s'", silent.Id)
	w.says(".detail .error", "it can not begin")
}

// testDeeds presses the buttons.
func testDeeds(t *testing.T, w *window) {
	s := newService()
	one := task(running, "/a", "/b", 1, 2, 1, 2)
	s.add(one)
	h := newHouse(t, s)
	w.open(h.url+"/#/tasks/"+one.Id, 1280, 800)
	offered := func(deeds ...string) {
		t.Helper()
		w.wait("all('.deeds > button').map((b) => b.dataset.deed).join(' ') === %q", strings.Join(deeds, " "))
	}
	asked := func() (deeds []string) {
		s.with(func() { deeds, s.asked = s.asked, nil })
		return deeds
	}
	offered("pause", "cancel")
	w.click("[data-deed=pause]")
	w.says("#task-state .pill", "paused")
	w.equals(h.task(one.Id), true)
	offered("resume", "cancel")
	w.click("[data-deed=resume]")
	w.says("#task-state .pill", "queued")
	offered("pause", "cancel")

	s.with(func() { s.denied = map[string]bool{"pause": true} })
	w.mayFail() // the browser notes a refusal, too: this test is the last one in its window
	w.click("[data-deed=pause]")
	w.wait("text('.detail .note')?.startsWith('pause: ')")
	offered("cancel")

	if got := asked(); len(got) != 3 {
		t.Errorf("asked for %q", got)
	}
	w.click("[data-deed=cancel]")
	w.click("dialog [autofocus]")
	w.wait("!all('dialog').length")
	if got := asked(); got != nil {
		t.Errorf("asked for %q, and a person has decided otherwise", got)
	}
	w.click("[data-deed=cancel]")
	w.wait("text('dialog').includes('/a → /b')")
	w.click("[data-deed=surely]")
	w.says("#task-state .pill", "cancelled")
	offered()
	if got := asked(); len(got) != 1 || got[0] != "cancel "+one.Id || !api.Ended(h.task(one.Id).State) {
		t.Errorf("asked for %q, and it is %v", got, h.task(one.Id).State)
	}
}

// testViewer: who may only look is offered nothing else.
func testViewer(t *testing.T, w *window) {
	s := cluster()
	s.caller = &datamovev1.Account{Name: server.Viewer.Name, Uid: server.Viewer.UID}
	h := newHouse(t, s)
	w.open(h.url+"/#/tasks/"+s.tasks[0].Id, 1280, 800)
	w.equals(h.task(s.tasks[0].Id), true)
	w.says("#link", "live · viewer · reads only")
	w.wait("!all('.deeds > button').length")
}

// testReport: how a task has ended, and what failed, a hundred at a time.
func testReport(t *testing.T, w *window) {
	s := cluster()
	broken := s.tasks[4]
	for i := range 250 {
		broken.Report.Failures = append(broken.Report.Failures, &datamovev1.Failure{Name: fmt.Appendf(nil, "file %03d", i), Op: "create", Kind: "file", Error: "it is so", ErrorKind: "OTHER"})
	}
	broken.Report.Failed = 253
	h := newHouse(t, s)
	w.open(h.url+"/#/tasks/"+broken.Id, 1280, 800)
	r := h.task(broken.Id).Report
	w.says(".detail .error", broken.Error)
	for title, want := range map[string]string{"Files moved": units.Count(r.Files) + " " + units.Count(r.Planned.Files), "Bytes moved": units.Bytes(r.Bytes) + " " + units.Bytes(r.Planned.Bytes),
		"There already": units.Count(r.Kept) + " " + units.Count(r.Planned.Kept), "Failed": units.Count(r.Failed) + " "} {
		w.wait("all('.figures tbody tr').some((r) => [...r.children].map((c) => c.innerText).join(' ') === %q)", title+" "+want)
	}
	w.wait("text('.detail').includes(%q)", "in "+units.Duration(r.Elapsed.AsDuration())+" · checked: 8,999 files server · exit code 6")
	w.wait("all('.failures tbody tr')[1].children[2].innerText === 'permission denied'")
	for _, shown := range []int{100, 200, 253} {
		w.wait("all('.failures tbody tr').length === %d", shown)
		if shown < 253 {
			w.click(".failures + button")
		}
	}
	got := eval[[]string](w, "[...document.querySelectorAll('.failures tbody tr')].map((r) => r.children[0].innerText)")
	for i, f := range r.Failures {
		if got[i] != mover.Printable(string(f.Name)) {
			t.Errorf("failure %d is %s, want %s", i, got[i], mover.Printable(string(f.Name)))
		}
	}
	if more := eval[int](w, "document.querySelectorAll('.failures + button:not([hidden])').length"); more != 0 {
		t.Error("more is offered, and there is none")
	}
}
