package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/chromium"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// program is the real thing: a datamoved that coordinates, agents that joined it, and
// the command line. Its page is a site.
type program struct {
	site
	dir     string
	service *rig.Program
	tool    *rig.Program
	address string // of the coordinator, over TCP
	agents  map[string]*rig.Run
	client  *api.Client
}

func newProgram(t testing.TB, agents ...string) *program {
	t.Helper()
	return newProgramOn(t, func(string) {}, agents...)
}

// newProgramOn has prepare make something in the directory of the coordinator first.
func newProgramOn(t testing.TB, prepare func(data string), agents ...string) *program {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "page") // its name leaves room for that of a socket
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, os.RemoveAll(dir)) })
	p := &program{site: site{t: t}, dir: dir, service: rig.NewCommand(t, "datamoved"), tool: rig.New(t), agents: map[string]*rig.Run{}}
	must.Do(t, os.Mkdir(p.path("warm"), 0o755))
	must.Do(t, os.WriteFile(p.path("config.yaml"), fmt.Appendf(nil, `
tiers: {warm: {level: warm, path: %s, cache: {high: 99%%, low: 98%%}}}
leases: {lead: 3s}
roles: {look: {members: [viewer], may: [task.read.any, usage.read.any]}}
metrics: 127.0.0.1:0
`, p.path("warm")), 0o600))
	prepare(p.path("data-head"))
	socket := "unix://" + p.path("s")
	head := p.run("head", "--no-agent", "--listen", socket, "--listen", "tcp://127.0.0.1:0")
	ready := regexp.MustCompile(`msg=ready.*(127\.0\.0\.1:\d+)" page=(\S+)`)
	head.Until("the service is ready", func() bool { return ready.MatchString(head.Complained()) })
	said := ready.FindStringSubmatch(head.Complained())
	p.address, p.url = said[1], "http://"+said[2]
	p.client, err = api.Dial(t.Context(), socket, api.Options{})
	must.Do(t, err)
	t.Cleanup(func() { _ = p.client.Close() })
	p.tool.Env = []string{"DATAMOVE_SERVICE=" + socket}
	for _, name := range agents {
		p.join(name)
	}
	return p
}

func (p *program) path(name string) string { return filepath.Join(p.dir, name) }

func (p *program) run(node string, args ...string) *rig.Run {
	p.t.Helper()
	run := p.service.Start(p.t, append([]string{"--config", p.path("config.yaml"), "--data", p.path("data-" + node), "--node", node}, args...)...)
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("%s said:\n%s", node, run.Complained())
		}
	})
	return run
}

// join starts an agent and waits until it is ready.
func (p *program) join(node string) {
	p.t.Helper()
	answer := must.Get(p.client.CreateJoinToken(p.t.Context(), &datamovev1.CreateJoinTokenRequest{Name: node, Ttl: durationpb.New(time.Minute)}))(p.t)
	p.agents[node] = p.run(node, "--listen", "unix://"+p.path(node), "--join", "tcp://"+p.address, "--token", answer.GetToken())
	p.eventually(node+" is ready", func() bool {
		l := must.Get(p.client.ListAgents(p.t.Context(), &datamovev1.ListAgentsRequest{}))(p.t)
		return slices.ContainsFunc(l.GetAgents(), func(a *datamovev1.Agent) bool {
			return a.GetName() == node && a.GetState() == datamovev1.AgentState_AGENT_STATE_READY
		})
	})
}

func (p *program) eventually(what string, is func() bool) {
	p.t.Helper()
	patience.Until(p.t, what, nil, is)
}

// shown is what the command line says of a task: "task show -o json".
type shown struct {
	Revision uint64 `json:"revision"`
	State    string `json:"state"`
	Agent    string `json:"agent"`
	Tries    int    `json:"tries"`
	Error    string `json:"error"`
	Progress *struct {
		Files        int64   `json:"files"`
		Bytes        int64   `json:"bytes"`
		Rate         float64 `json:"bytes_per_second"`
		PlanComplete bool    `json:"plan_complete"`
		Planned      struct {
			Files        int64 `json:"files"`
			Bytes        int64 `json:"bytes"`
			Compares     int64 `json:"compares"`
			CompareBytes int64 `json:"compare_bytes"`
		} `json:"planned"`
	} `json:"progress"`
}

func (p *program) show(id string) (s shown) {
	p.t.Helper()
	must.Do(p.t, json.Unmarshal([]byte(p.tool.Start(p.t, "task", "show", "-o", "json", id).Want(0).Stdout()), &s))
	return s
}

// figures are those that a page has to show.
func (s *shown) figures() figures {
	t := &datamovev1.Task{State: datamovev1.TaskState(datamovev1.TaskState_value["TASK_STATE_"+strings.ToUpper(s.State)])}
	if p := s.Progress; p != nil {
		t.Progress = &datamovev1.Progress{FilesDone: p.Files, BytesDone: p.Bytes, BytesPerSecond: p.Rate, PlanComplete: p.PlanComplete, Planned: &datamovev1.Totals{
			Files: p.Planned.Files, Bytes: p.Planned.Bytes, Compares: p.Planned.Compares, CompareBytes: p.Planned.CompareBytes,
		}}
	}
	return figuresOf(t)
}

// look is what a page shows of the task that is open, and which revision that is.
type look struct {
	Revision string  `json:"revision"`
	Figures  figures `json:"figures"`
}

func (w *window) detail() look {
	w.t.Helper()
	return ask[look](w, "({text}) => ({revision: document.querySelector('.detail [data-revision]')?.dataset.revision ?? '', figures: %s})", inDetail)
}

// agree looks at the page and asks the command line until both tell of the same moment,
// and compares what they tell. It returns that.
func (p *program) agree(w *window, id string) shown {
	p.t.Helper()
	var said shown
	p.eventually("page and command line tell of one moment", func() bool {
		before := w.detail()
		said = p.show(id)
		for _, seen := range []look{before, w.detail()} {
			if seen.Revision == strconv.FormatUint(said.Revision, 10) {
				if seen.Figures != said.figures() {
					p.t.Errorf("revision %s: the page shows %+v, and task show has %+v", seen.Revision, seen.Figures, said.figures())
				}
				return true
			}
		}
		return false
	})
	return said
}

// TestProgram: the page of the real program shows of a copy what the command line says,
// before, while and after the agent that leads it is killed, and another one takes over.
// Then a person does deeds.
func TestProgram(t *testing.T) {
	chromium.Need(t)
	p := newProgram(t, "n1", "n2")
	w := takenOver(t, p)
	w.close()
	ownPage(t, p)
}

func takenOver(t *testing.T, p *program) *window {
	t.Helper()
	const files, size, large = 100, 16 << 10, 64 << 20
	must.Do(t, os.Mkdir(p.path("warm/in"), 0o755))
	for n := range files {
		must.Do(t, os.WriteFile(p.path(fmt.Sprintf("warm/in/f%03d", n)), []byte(strings.Repeat(fmt.Sprintf("%08d", n), size/8)), 0o644))
	}
	must.Do(t, os.WriteFile(p.path("warm/in/large"), []byte(strings.Repeat("0123456789abcdef", large/16)), 0o644))
	var task *datamovev1.Task
	var w *window
	var said shown
	// next is when the page tells something else, or the end.
	next := func() {
		t.Helper()
		w.wait("document.querySelector('.detail [data-revision]')?.dataset.revision !== '%d' || text('#task-state .pill') === 'done'", said.Revision)
		said = p.agree(w, task.GetId())
	}
	for rate := int64(4 << 20); task == nil || said.State == "done"; rate /= 2 { // on a busy machine a copy can be faster than three looks
		if w != nil {
			w.close()
		}
		task = must.Get(p.client.SubmitTask(t.Context(), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{
			Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: "warm:in", Target: fmt.Sprint("warm:out", rate), Options: &datamovev1.Options{NoReflink: true, BytesPerSecond: rate},
		}}))(t)
		w, said = p.look("/#/tasks/"+task.GetId(), 1400, 900), shown{}
		for n := 0; said.State != "done" && (n < 3 || said.Progress == nil || said.Progress.Bytes < large/10); n++ {
			next()
		}
	}
	killed := said.Agent
	w.wait("text('.crew tbody')?.startsWith(%q)", killed)
	p.agents[killed].Signal(syscall.SIGKILL)
	tries := said.Tries
	for n := 0; n < 3 || said.Tries == tries && said.State != "done"; n++ {
		if next(); said.State == "done" {
			break
		}
	}
	if said.Agent == killed || said.Tries <= tries {
		t.Errorf("agent %s was killed, and the task is %+v", killed, said)
	}
	w.shot("taken over")
	w.says("#task-state .pill", "done")
	said = p.agree(w, task.GetId())
	want := figures{State: "done", Bytes: said.figures().Bytes, Files: said.figures().Files, Percent: "100%"}
	if got := w.detail().Figures; got != want {
		t.Errorf("at the end the page shows %+v, want %+v", got, want)
	}
	w.equals(p.task(task.GetId()), true)
	eval[string](w, "location.hash = '#/agents'")
	w.wait("text('.agents')?.includes('lost')")
	eval[string](w, "location.hash = '#/tiers'") // the marks are those of the configuration
	w.wait("document.querySelector('.fill .high')?.style.left === '99%%' && document.querySelector('.fill .low').style.left === '98%%' && text('.legend .mark')")
	return w
}

// ownPage: a person without any configuration has the page to do with as on the
// command line, through "datamove service page".
func ownPage(t *testing.T, p *program) {
	t.Helper()
	task, err := p.client.SubmitTask(t.Context(), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{
		Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: "warm:in", Target: "warm:own", Options: &datamovev1.Options{NoReflink: true, BytesPerSecond: 256 << 10},
	}})
	must.Do(t, err)
	door := p.tool.Start(t, "service", "page")
	door.Until("the address is told", func() bool { return strings.HasSuffix(door.Said(), "/\n") })
	own := &site{t: t, url: strings.TrimSuffix(door.Said(), "/\n")}
	w := own.look("/#/tasks/"+task.GetId(), 1400, 900)
	w.wait("text('#link')?.startsWith('live') && !text('#link').includes('reads only')")
	w.says("#task-state .pill", "running")
	w.wait("all('.deeds button').length")
	for _, row := range []struct{ deed, state string }{{"Pause", "paused"}, {"Resume", "running"}} {
		w.wait("[...document.querySelectorAll('.deeds button')].some((b) => b.innerText.trim() === %q && !b.disabled)", row.deed)
		eval[bool](w, "[...document.querySelectorAll('.deeds button')].find((b) => b.innerText.trim() === %q).click() ?? true", row.deed)
		w.says("#task-state .pill", row.state)
		p.eventually("it is "+row.state, func() bool { return p.show(task.GetId()).State == row.state })
	}
	_, err = p.client.CancelTask(t.Context(), &datamovev1.CancelTaskRequest{Id: task.GetId()})
	must.Do(t, err)
	w.says("#task-state .pill", "cancelled")
	w.mayFail()
	door.Signal(syscall.SIGINT)
	door.Want(0)
	w.wait("text('#link') === 'away'")
}
