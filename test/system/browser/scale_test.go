package browser

import (
	"fmt"
	"testing"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	life "datamove.dev/mover/task"
	"datamove.dev/mover/units"
	"datamove.dev/test/seed"
)

const many = 100_000

// crowd is a service with many tasks: a few of them run, and many wait.
func crowd() *service {
	s := newService()
	tasks := make([]*datamovev1.Task, many)
	for i := range tasks {
		state := []datamovev1.TaskState{done, done, done, failed, queued, cancelled, done, done}[i%8]
		if i%1000 == 999 {
			state = running
		}
		tasks[i] = task(state, fmt.Sprintf("/lustre/project/group-%d/run-%06d/checkpoints/step-%d", i%40, i, i*17%100_000), fmt.Sprintf("s3://archive/group-%d/run-%06d", i%40, i),
			int64(i%977), 977, int64(i)<<20, many<<20)
		tasks[i].Spec.Project, tasks[i].Owner = fmt.Sprintf("group-%d", i%40), &datamovev1.Account{Name: fmt.Sprintf("user%d", i%300), Uid: uint32(1000 + i%300)}
		tasks[i].CreateTime = ago(time.Duration(many-i) * time.Second)
	}
	s.add(tasks...)
	return s
}

// clockwork notes when the first row is on the screen, and when the list has been read.
const clockwork = `{
	window.times = {}
	const note = (name) => name in times || requestAnimationFrame(() => requestAnimationFrame(() => { times[name] ??= performance.now() }))
	new MutationObserver(() => {
		if (document.querySelector('.row:not([hidden]) .pill')) note('first')
		if (document.querySelector('#shown')?.textContent === '100,000 tasks') note('all')
	}).observe(document, {subtree: true, childList: true, characterData: true, attributes: true})
}`

// TestManyTasks: a list of 100,000 has few elements, each of its ends can be reached,
// and it can be ordered and searched. How long that takes is printed with -v: times
// are from the command to the second frame after it, as the page sees them.
func TestManyTasks(t *testing.T) {
	if !seed.Soak() {
		t.Skip("elsewhere: make soak: 100,000 tasks take a browser 20 s of CPU")
	}
	s := crowd()
	h := newHouse(t, s)
	w := h.look("/", 1600, 1000, clockwork)
	w.says("#shown", "100,000 tasks")
	w.wait("times.all")
	few := func() {
		t.Helper()
		if rows, elements := eval[int](w, "document.querySelectorAll('.row').length"), eval[int](w, "document.querySelectorAll('*').length"); rows >= 500 || elements >= 5000 {
			t.Errorf("%d rows, %d elements", rows, elements)
		}
	}
	// measure is how long it takes to do something and to see what comes of it.
	measure := func(deed, seen string) float64 {
		t.Helper()
		defer few()
		return ask[float64](w, "async ({all, text, row, until, painted}) => { const t0 = performance.now(); %s; await until(() => %s); await painted(); return performance.now() - t0 }", deed, seen)
	}
	few()
	if listed := eval[string](w, "document.querySelector('.rows').ariaRowCount"); listed != fmt.Sprint(many) {
		t.Errorf("%s rows are listed", listed)
	}
	newest, oldest, fastest := number(many), number(1), number(many)
	t.Logf("%-52s %7.0f ms", "first rows, from the opening of the page", eval[float64](w, "times.first"))
	t.Logf("%-52s %7.0f ms", "all 100,000 read, in pages of 1,000", eval[float64](w, "times.all"))
	for _, row := range []struct{ what, deed, seen string }{
		{"another view", "location.hash = '#/agents'", "!all('.row').length && all('.view').length"},
		{"back to the list", "location.hash = '#/tasks'", "row('" + newest + "').state"},
		{"to its end", "document.querySelector('.rows').scrollTop = 1e9", "row('" + oldest + "').state"},
		{"to its middle", "document.querySelector('.rows').scrollTop /= 2", "row('" + number(many/2) + "').state"},
		{"ordered by rate", "document.querySelector('.head .rate button').click(), document.querySelector('.rows').scrollTop = 0", "row('" + fastest + "').state && all('[aria-sort=descending].rate').length"},
		{"ordered by what, text", "document.querySelector('.head .what button').click()", "all('[aria-sort=ascending].what').length && document.querySelector('.rows').ariaRowCount === '100000'"},
		{"only failed ones", "document.querySelector('button[data-state=failed]').click()", "text('#shown') === '12,502 of 100,000 tasks'"},
		{"all states again", "document.querySelector('button[data-state=failed]').click()", "text('#shown') === '100,000 tasks'"},
		{"searched for a word", "{const s = document.querySelector('.tasks input'); s.value = 'run-0777 user77'; s.dispatchEvent(new Event('input'))}", "text('#shown').endsWith(' of 100,000 tasks')"},
	} {
		t.Logf("%-52s %7.0f ms", row.what, measure(row.deed, row.seen))
		if row.what == "to its middle" { // what is seen is told, wherever it is
			for _, n := range []int{many/2 - 3, many / 2} { // one waits, one runs
				s.change(number(n), func(t *datamovev1.Task) { t.State, t.Progress.BytesDone = failed, 7<<20 })
				w.equals(h.task(number(n)), false)
			}
		}
	}
	w.wait("document.querySelector('.rows').ariaRowCount === '1'")

	// What is new is there soon, and what happened while the service was away is found.
	s.add(task(queued, "/run-0777/new", "/user77", 1, 2, 1, 2))
	w.wait("document.querySelector('.rows').ariaRowCount === '2'")
	w.mayFail()
	h.leave()
	w.says("#link", "away")
	for n := range 100 {
		s.change(number(many/3+8*n), func(t *datamovev1.Task) { t.State = cancelled })
	}
	h.open()
	count := map[datamovev1.TaskState]int64{}
	for _, one := range s.tasks {
		count[one.State]++
	}
	for _, state := range states {
		w.says("button[data-state="+life.Word(state)+"] b", units.Count(count[state]))
	}
	few()
	t.Logf("%-52s %7.0f MiB", "memory of the page's program", eval[float64](w, "performance.memory.usedJSHeapSize / (1 << 20)"))
}
