package browser

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"google.golang.org/grpc"

	"google.golang.org/protobuf/types/known/timestamppb"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/chromium"
)

// deny is a service that tells of agents only.
type deny struct{ *service }

func (d deny) Register(r grpc.ServiceRegistrar) {
	datamovev1.RegisterTaskServiceServer(r, d)
	datamovev1.RegisterTierServiceServer(r, d)
	datamovev1.RegisterAgentServiceServer(r, d)
	datamovev1.RegisterAdminServiceServer(r, d)
}

func (deny) ListTasks(context.Context, *datamovev1.ListTasksRequest) (*datamovev1.ListTasksResponse, error) {
	return nil, &mover.Error{Op: "list", Location: "tasks", Err: mover.ErrPermission}
}

func (deny) ListTiers(context.Context, *datamovev1.ListTiersRequest) (*datamovev1.ListTiersResponse, error) {
	return nil, &mover.Error{Op: "list", Location: "tiers", Err: mover.ErrPermission}
}

// listed waits until the list has exactly these tasks, in this order.
func (w *window) listed(ids ...string) {
	w.t.Helper()
	w.wait("all('.row').sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map((r) => r.id.slice(4)).join(' ') === %q", strings.Join(ids, " "))
}

// testList: the list is what the service has, chosen and ordered as a person wants, and
// the address of the page says so.
func testList(t *testing.T, w *window) {
	s := newService()
	add := func(state datamovev1.TaskState, source, project, owner string, rate float64) string {
		one := task(state, source, "/target", 1, 10, int64(rate), 1000)
		one.Spec.Project, one.Owner, one.Progress.BytesPerSecond = project, &datamovev1.Account{Name: owner}, rate
		s.add(one)
		return one.Id
	}
	a := add(running, "/lustre/a (1)[x].*", "vision", "ada", 100)
	b := add(done, "/lustre/b", "vision", "grace", 0)
	c := add(failed, "s3://archive/C", "llm", "ada", 0)
	d := add(running, "/lustre/d", "llm", "grace", 900)
	h := newHouse(t, s)
	w.open(h.url+"/", 1600, 900)
	w.listed(d, c, b, a)
	w.says("#shown", "4 tasks")
	for _, row := range []struct {
		query string
		want  []string
	}{
		{"states=running", []string{d, a}}, {"states=failed+done", []string{c, b}}, {"states=nonsense", []string{d, c, b, a}},
		{"project=llm", []string{d, c}}, {"owner=ada", []string{c, a}}, {"owner=ada&states=running", []string{a}}, {"project=none", nil},
		{"text=LUSTRE", []string{d, b, a}}, {"text=archive%2Fc", []string{c}}, {"text=a+(1)%5Bx%5D.*", []string{a}}, {"text=grace+llm", []string{d}}, {"text=" + b, []string{b}}, {"text=%5C", nil},
		{"by=rate", []string{d, a, c, b}}, {"by=rate&up=1", []string{c, b, a, d}}, {"by=created&up=1", []string{a, b, c, d}}, {"by=what&up=1", []string{a, b, d, c}},
		{"by=state", []string{d, a, c, b}}, {"by=owner", []string{d, b, c, a}}, {"by=__proto__", []string{d, c, b, a}},
	} {
		eval[string](w, "location.hash = %q", "#/tasks?"+row.query)
		w.listed(row.want...)
	}

	eval[string](w, "location.hash = '#/tasks'")
	w.listed(d, c, b, a)
	w.click("button[data-state=failed]")
	w.listed(c)
	w.wait("location.hash === '#/tasks?states=failed'")
	w.click("button[data-state=failed]")
	w.slash()
	w.key("lustre/b")
	w.listed(b)
	w.wait("location.hash === '#/tasks?text=lustre%%2Fb'")
	w.click(".head .created button") // the other way round
	w.wait("location.hash.includes('up=1')")
	eval[string](w, "location.hash = '#/tasks'")
	w.listed(d, c, b, a)

	s.forget(b)
	w.listed(d, c, a)
	e := add(queued, "/lustre/e", "vision", "ada", 0)
	w.listed(e, d, c, a)
	w.wait("text('button[data-state=queued] b') === '1'")
}

// testKeys: everything can be reached without a mouse.
func testKeys(t *testing.T, w *window) {
	s := cluster()
	h := newHouse(t, s)
	w.open(h.url+"/", 1600, 900)
	w.says("#shown", "165 tasks") // all: the end of the list is where it stays
	eval[bool](w, "document.querySelector('.rows').focus() ?? true")
	w.key(kb.ArrowDown + kb.ArrowDown + kb.ArrowUp + kb.ArrowDown)
	w.wait("document.querySelector('.rows').getAttribute('aria-activedescendant') === %q", "row-"+s.tasks[1].Id)
	w.key(kb.Enter)
	w.says(".detail h2", "/lustre/project/genomics/cohort-b → s3://archive/genomics/cohort-b")
	w.key(kb.Escape)
	w.wait("!all('.detail').length && document.activeElement === document.querySelector('.rows')")
	w.key(kb.End)
	w.wait("all(%q).length", "#row-"+s.tasks[len(s.tasks)-1].Id)
	w.key(kb.Home)
	w.wait("all(%q).length", "#row-"+s.tasks[0].Id)
	w.slash()
	w.wait("document.activeElement.type === 'search'")
	w.key(kb.Escape)
	w.wait("document.activeElement === document.body")
	eval[bool](w, "document.querySelector('.brand').focus() ?? true")
	w.key(kb.Tab + kb.Tab + kb.Tab)
	w.key(kb.Enter)
	w.wait("location.hash === '#/tiers'")
}

// testManyRun: what runs is told, also when more runs than there are streams, and when it
// has ended.
func testManyRun(t *testing.T, w *window) {
	s := newService()
	for i := range 40 {
		s.add(task(running, fmt.Sprint("/", i), "/x", 1, 10, 10, 1000))
	}
	h := newHouse(t, s)
	w.open(h.url+"/", 1600, 1000)
	w.wait("all('.row').length")
	for i, state := range []datamovev1.TaskState{running, done, failed, running, done, running} {
		s.change(number(40-i), func(t *datamovev1.Task) {
			t.State, t.Progress.BytesDone, t.Progress.BytesPerSecond = state, int64(100+i), float64(i<<20)
		})
	}
	for i := range 6 {
		w.equals(h.task(number(40-i)), false)
	}
	if open := eval[int](w, "performance.getEntriesByType('resource').filter((r) => r.name.endsWith(':watch')).length"); open > 20 {
		t.Errorf("%d streams were opened", open)
	}
}

// TestManyWindows: all windows of a browser share its few connections, and all of them
// are told: without streams in common three of them would want nine of six connections.
func TestManyWindows(t *testing.T) {
	t.Parallel()
	s := newService()
	for i := range 12 {
		s.add(task(running, fmt.Sprint("/", i), "/x", 1, 10, 10, 1000))
	}
	h := newHouse(t, s)
	var windows []*window
	for i := range 3 {
		windows = append(windows, h.look("/#/tasks/"+number(i+1), 1600, 1000, hurry))
	}
	for round := range 2 {
		for i, w := range windows {
			s.change(number(i+1), func(t *datamovev1.Task) { t.Progress.BytesDone += int64(round + 7) })
			w.equals(h.task(number(i+1)), true)
			w.wait("text('#link').startsWith('live')")
		}
	}
}

// leave ends a server with its streams.
func leave(server *httptest.Server) {
	server.CloseClientConnections()
	server.Close()
}

// TestHTTP2: where streams cost no connection, everything that runs on the screen has one.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	s := newService()
	for i := range 12 {
		s.add(task(running, fmt.Sprint("/", i), "/x", 1, 10, 10, 1000))
	}
	server := httptest.NewUnstartedServer(newHouse(t, s).handler)
	server.EnableHTTP2, server.Config.ErrorLog = true, log.New(io.Discard, "", 0) // a browser tries connections
	server.StartTLS()
	t.Cleanup(func() { leave(server) })
	w := (&site{t: t, url: server.URL}).look("/", 1600, 1000)
	w.wait("performance.getEntriesByType('navigation')[0].nextHopProtocol === 'h2'")
	w.wait("all('.row').length === 12")
	for i := range 12 {
		s.change(number(i+1), func(t *datamovev1.Task) { t.Progress.BytesDone = int64(i) })
	}
	followed := 0
	for late := time.Now().Add(chromium.Patience); followed < 12 && time.Now().Before(late); {
		ask[bool](w, "async ({painted}) => { await painted(); return true }")
		s.with(func() { followed = s.watched })
	}
	if followed != 12 {
		t.Errorf("%d tasks are followed, of 12", followed)
	}
	for i := range 12 {
		w.wait("row(%q).progress.includes(%q)", number(i+1), fmt.Sprintf("%d B/1000 B", i))
	}
}

// testEnded: what has ended is not followed, however long it is looked at.
func testEnded(t *testing.T, w *window) {
	s := newService()
	s.add(task(done, "/a", "/b", 1, 1, 1, 1))
	h := newHouse(t, s)
	w.open(h.url+"/#/tasks/"+number(1), 1280, 800)
	w.equals(h.task(number(1)), true)
	for late, rounds := time.Now().Add(chromium.Patience), 0; rounds < 10; s.with(func() { rounds = s.rounds }) {
		ask[bool](w, "async ({painted}) => { await painted(); return true }")
		if time.Now().After(late) {
			t.Fatalf("%d rounds in %v", rounds, chromium.Patience)
		}
	}
	s.with(func() {
		if s.watches != 0 {
			t.Errorf("it is followed %d times", s.watches)
		}
	})
}

// testClock: ages are by the clock of the service, which need not be ours.
func testClock(t *testing.T, w *window) {
	s := newService()
	one := task(done, "/a", "/b", 1, 1, 1, 1)
	one.CreateTime = ago(-50 * time.Minute)
	s.add(one)
	h := newHouse(t, s)
	ahead := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		h.handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { leave(ahead) })
	w.open(ahead.URL+"/", 1600, 1000)
	w.wait("/^10m..s$/.test(row(%q).created)", one.Id)
}

// testNoTask: an address of a task that is not there.
func testNoTask(t *testing.T, w *window) {
	h := newHouse(t, newService())
	w.mayFail()
	w.open(h.url+"/#/tasks/"+number(1), 1280, 800)
	w.wait("text('.detail .note')?.includes('file does not exist')")
	w.wait("text('.tasks .note')?.includes('There are no tasks yet')")
	w.click(".close")
	w.wait("location.hash === '#/tasks'")
}

// testChart: the axis has units, and a pointer or a key shows what it was.
func testChart(t *testing.T, w *window) {
	s := newService()
	one := task(running, "/a", "/b", 1, 10, 10, 1000)
	one.Progress.BytesPerSecond = 700 << 20
	one.StartTime = timestamppb.New(s.started.Add(-time.Hour))
	s.add(one)
	h := newHouse(t, s)
	w.open(h.url+"/#/tasks/"+one.Id, 1600, 1000)
	w.wait("/^The rate is known since \\d\\d:\\d\\d:\\d\\d, when this page/.test(text('#chart-since'))")
	for _, selector := range []string{".detail .chart", "#overview .chart"} {
		w.wait("[...document.querySelectorAll('%s .axis text')].map((e) => e.textContent).join(' ').startsWith('0 B/s 256 MiB/s 512 MiB/s 768 MiB/s')", selector)
		w.wait("document.querySelector('%s').ariaLabel?.includes(': now 700 MiB/s, at most 700 MiB/s in ')", selector)
		w.wait("document.querySelector('%s .line').getBBox().width > 2", selector)
		eval[bool](w, "document.querySelector('%s').focus() ?? true", selector)
		w.key(kb.ArrowLeft + kb.ArrowLeft)
		w.wait("/^\\d\\d:\\d\\d:\\d\\d  700 MiB.s$/.test(text('%s .reading'))", selector)
		w.key(kb.Tab)
		w.wait("!all('%s .reading').length", selector)
		box := eval[[]float64](w, "(({x, y, width, height}) => [x + width - 20, y + height / 2])(document.querySelector('%s').getBoundingClientRect())", selector)
		w.point(box[0], box[1])
		w.wait("/^\\d\\d:\\d\\d:\\d\\d  700 MiB.s$/.test(text('%s .reading'))", selector)
	}
}
