package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/test/crash/rig"
	"datamove.dev/tiering/hook"
	"datamove.dev/tiering/hook/directive"
)

func TestMain(m *testing.M) { rig.Main(m) }

// world is a cluster of one node, n1, with a real mover: scratch is the node's own, shared and results are seen by all, tape and the
// slow one, too, and have the datasets train and slow; near is on shared already.
type world struct {
	*testing.T
	*Controller
	dir     string
	client  *api.Client
	service *rig.Run
	uid     uint32 // whose the jobs are

	mu   sync.Mutex
	told []string // guarded by mu
}

const tiers = `tiers:
  scratch: {level: hot, path: DIR/scratch, ephemeral: true, node_local: true}
  temp: {level: warm, path: DIR/temp, ephemeral: true}
  shared: {level: warm, path: DIR/shared}
  results: {level: warm, path: DIR/results}
  tape: {level: cold, path: DIR/tape}
  slow: {level: cold, path: DIR/slow}
limits:
  - {endpoint: slow, rate: 1MB/s}
  - {endpoint: scratch, direction: write, rate: 1MB/s}
node: n1
service: unix://DIR/sock
slurm: {state: DIR/run, records: DIR/records, warm: shared, most: 1GiB}
`

// at makes the cluster without its mover.
func at(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir(), uid: 65534}
	if os.Geteuid() != 0 {
		w.uid = uint32(os.Geteuid())
	}
	t.Cleanup(func() { _ = exec.Command("chattr", "-R", "-f", "-i", w.dir).Run() }) // what is staged is sealed
	for dir := w.dir; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {       // jobs are somebody else's, who has to come here
		must(t, os.Chmod(dir, 0o755))
	}
	for _, name := range []string{"scratch", "temp", "shared", "results", "tape", "slow"} {
		must(t, os.Mkdir(w.path(name), 0o755))
	}
	for _, name := range []string{"temp", "results", "slow"} {
		must(t, os.Chmod(w.path(name), 0o777))
	}
	w.write("tape/train/picture", "a picture")
	w.write("shared/near/picture", "one that is near")
	w.write("shared/notes/note", "a note")
	text := strings.ReplaceAll(tiers, "DIR", w.dir)
	w.write("config.yaml", text)
	c, err := config.Parse("config.yaml", []byte(text), func(string) string { return "" })
	must(t, err)
	w.Controller = &Controller{Config: c, Records: w.path("records"), Told: func(what string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, what)
	}, Dial: func(ctx context.Context) (*api.Client, error) {
		return api.Dial(ctx, w.socket(), api.Options{Patience: 2 * time.Second})
	}}
	return w
}

// served is a cluster with its mover.
func served(t *testing.T) *world {
	t.Helper()
	w := at(t)
	w.start()
	cli := w.cli()
	for _, name := range []string{"tape:train", "shared:near"} {
		_, name, _ := strings.Cut(name, ":")
		cli.Do(t, 0, "dataset", "add", name, map[string]string{"train": "tape:", "near": "shared:"}[name]+name)
	}
	return w
}

// cli is the command line as root has it on the host of the controller.
func (w *world) cli() *rig.Program {
	p := rig.New(w.T)
	p.Env = []string{"DATAMOVE_CONFIG=" + w.path("config.yaml"), "DATAMOVE_SERVICE=" + w.socket()}
	return p
}

func (w *world) start() {
	w.Helper()
	w.service = rig.NewCommand(w.T, "datamoved").Start(w.T, "--config", w.path("config.yaml"), "--data", w.path("data"), "--listen", w.socket(), "--node", "n1")
	w.service.Until("it is ready", func() bool {
		c, err := api.Dial(w.Context(), w.socket(), api.Options{})
		if err != nil {
			return false
		}
		agents, err := c.ListAgents(w.Context(), &datamovev1.ListAgentsRequest{})
		if w.client == nil && err == nil && len(agents.GetAgents()) > 0 {
			w.client = c
			w.Cleanup(func() { must(w.T, c.Close()) })
			return true
		}
		return c.Close() == nil && err == nil && len(agents.GetAgents()) > 0
	})
}

func (w *world) socket() string { return "unix://" + w.path("sock") }

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, text string) {
	w.Helper()
	must(w.T, os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	must(w.T, os.WriteFile(w.path(name), []byte(text), 0o644))
}

// large makes a file that takes a minute to read from the slow tier, to write to it, or to write to the node.
func (w *world) large(name string) {
	w.Helper()
	b := make([]byte, 80<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	w.write(name, string(b))
}

func (w *world) job(id uint32) hook.Job {
	return hook.Job{ID: id, UID: w.uid, GID: w.uid, User: "somebody", Node: "n1"}
}

// setup begins a job that has these lines.
func (w *world) setup(id uint32, lines ...string) {
	w.Helper()
	must(w.T, w.Setup(w.job(id), directive.Text{Script: script(lines...)}))
}

func script(lines ...string) string {
	return "#!/bin/sh\n#DATAMOVE " + strings.Join(lines, "\n#DATAMOVE ") + "\ntrue\n"
}

// nodes says where it runs.
func (w *world) nodes(id uint32, nodes ...string) {
	w.Helper()
	must(w.T, w.Nodes(id, Place{Nodes: nodes, Name: "train"}))
}

// node is what hooks on the node see.
func (w *world) node() *hook.Site {
	w.Helper()
	s, err := hook.Of(w.Config, "n1", w.Dial, func(config.Tier) error { return nil })
	must(w.T, err)
	w.Cleanup(func() { must(w.T, s.Close()) })
	return s
}

func (w *world) prolog(id uint32) hook.Outcome {
	w.Helper()
	out, err := w.node().Prolog(w.Context(), w.job(id))
	must(w.T, err)
	return out
}

// wrote is what a job does: it writes files to its directory.
func (w *world) wrote(id uint32, files ...string) {
	w.Helper()
	for _, name := range files {
		dir := w.path("scratch/jobs/" + w.job(id).Dir())
		must(w.T, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(w.T, os.WriteFile(filepath.Join(dir, name), []byte(fmt.Sprint(id)+" "+name), 0o644))
		must(w.T, exec.Command("chown", "-R", fmt.Sprint(w.uid), dir).Run())
	}
}

// wants fails when a file does not have these contents; "" is no file.
func (w *world) wants(name, text string) {
	w.Helper()
	got, err := os.ReadFile(w.path(name))
	if string(got) != text || text == "" && !errors.Is(err, mover.ErrNotExist) {
		w.Errorf("%s is %q, %v; want %q", name, got, err, text)
	}
}

// tasks are those of a job, sorted, as "copy DONE".
func (w *world) tasks(id uint32) (all []string) {
	w.Helper()
	for t, err := range w.client.Tasks(w.Context(), &datamovev1.ListTasksRequest{Labels: map[string]string{hook.Label: fmt.Sprint(id)}}) {
		must(w.T, err)
		kind := strings.ToLower(strings.TrimPrefix(t.GetSpec().GetKind().String(), "TASK_KIND_"))
		if t.GetSpec().GetLabels()[hook.Leaves] == hook.AllNodes {
			kind = "mark"
		}
		all = append(all, kind+" "+strings.TrimPrefix(t.GetState().String(), "TASK_STATE_"))
	}
	slices.Sort(all)
	return all
}

func (w *world) wantsTasks(id uint32, want ...string) {
	w.Helper()
	if got := w.tasks(id); !slices.Equal(got, want) {
		w.Errorf("job %d has the tasks %q; want %q", id, got, want)
	}
}

// held are the holders of what is held.
func (w *world) held() (all []string) {
	w.Helper()
	for l, err := range w.client.Leases(w.Context(), &datamovev1.ListLeasesRequest{}) {
		must(w.T, err)
		if strings.HasPrefix(l.GetHolder(), "slurm:") {
			all = append(all, l.GetHolder()+" on "+l.GetNode())
		}
	}
	slices.Sort(all)
	return all
}

func (w *world) wantsHeld(want ...string) {
	w.Helper()
	if got := w.held(); !slices.Equal(got, want) {
		w.Errorf("%q are held; want %q", got, want)
	}
}

// heard says whether somebody was told so.
func (w *world) heard(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.told, func(s string) bool { return strings.Contains(s, what) })
}

// until waits for something that the mover does.
func (w *world) until(what string, happened func() bool) {
	w.Helper()
	w.service.Until(what, happened)
}

// within is a context that a phase is given.
func (w *world) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), d)
	w.Cleanup(cancel)
	return ctx
}

func wantsError(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%v; want %v", err, kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v; it says nothing of %s", err, word)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
