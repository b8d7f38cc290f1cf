package burstbuffer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/directive"
)

func TestMain(m *testing.M) { rig.Main(m) }

// world is a cluster of one node, n1, with a real mover in virtual time: scratch is the node's own, shared and results are seen by all, tape and the
// slow one, too, and have the datasets train and slow; near is on shared already.
type world struct {
	*testing.T
	*Controller
	dir     string
	service *rig.Cluster // nil is none
	uid     uint32       // whose the jobs are

	mu   sync.Mutex
	told []string // guarded by mu
}

const tiers = `tiers:
  scratch: {level: hot, path: SCRATCH, ephemeral: true, node_local: true}
  temp: {level: warm, path: DIR/temp, ephemeral: true}
  shared: {level: warm, path: DIR/shared}
  results: {level: warm, path: DIR/results}
  tape: {level: cold, path: DIR/tape}
  slow: {level: cold, path: DIR/slow}
limits:
  - {endpoint: slow, rate: 100kB/s}
  - {endpoint: scratch, direction: write, rate: 100kB/s}
node: n1
slurm: {state: DIR/run, records: DIR/records, warm: shared, most: 1GiB}
`

// unserved makes the cluster without its mover.
func unserved(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir(), uid: rig.People["alice"]}
	if os.Geteuid() != 0 {
		w.uid = uint32(os.Geteuid())
	}
	w.write("tape/train/picture", "a picture")
	w.write("shared/near/picture", "one that is near")
	w.write("shared/notes/note", "a note")
	for _, name := range []string{"scratch", "temp", "results", "slow"} {
		must.Do(t, os.MkdirAll(w.path(name), 0o755))
	}
	text := strings.NewReplacer("SCRATCH", w.path("scratch"), "DIR", w.dir).Replace(tiers)
	c := must.Get(config.Parse("config.yaml", []byte(text), func(string) string { return "" }))(t)
	w.Controller = &Controller{Config: c, Records: w.path("records"), Told: func(what string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, what)
	}, Dial: func(ctx context.Context) (*api.Client, error) { return w.dial(ctx) }}
	return w
}

// dial reaches the mover. A call takes some time: which of two tasks is the newer one is told by milliseconds.
func (w *world) dial(ctx context.Context, more ...grpc.DialOption) (*api.Client, error) {
	more = append(more, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, ask, answer any, c *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption) error {
		time.Sleep(time.Millisecond)
		return call(ctx, method, ask, answer, c, o...)
	}))
	connect := func(context.Context) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
	if w.service != nil {
		connect = w.service.Connect
	}
	return api.Dial(ctx, "the mover", api.Options{Dialer: connect, Patience: 2 * time.Second, More: more})
}

// served is a cluster with its mover. It is called in a bubble.
func served(t *testing.T) *world {
	t.Helper()
	w := unserved(t)
	conf := *w.Config
	conf.Tiers = maps.Clone(conf.Tiers) // tests change theirs
	w.service = rig.Open(t, rig.Options{Dir: w.dir, Conf: &conf, Accounts: rig.Accounts(t), Home: func(ctx context.Context, _, dir string, labels map[string]string, gid uint32) error {
		return w.node().Make(ctx, dir, gid, labels)
	}}, "n1")
	w.service.Add("train", "tape:train")
	w.service.Add("near", "shared:near")
	return w
}

// kill kills the mover: its coordinator and its agent.
func (w *world) kill() {
	w.Helper()
	w.service.Crash()
	w.service.KillAgent("n1")
}

// start starts it again.
func (w *world) start() {
	w.Helper()
	w.service.Start()
	w.service.Join("n1")
}

// path is that of a name; scratch is the node's.
func (w *world) path(name string) string {
	if rest, ok := strings.CutPrefix(name, "scratch"); ok {
		return rig.ScratchOf(w.dir, "n1") + rest
	}
	return filepath.Join(w.dir, name)
}

func (w *world) write(name, text string) {
	w.Helper()
	must.Do(w.T, os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	must.Do(w.T, os.WriteFile(w.path(name), []byte(text), 0o644))
}

// largeBytes take more than one turn at a limit.
const largeBytes = 6 << 20

// large makes a file that takes a minute to read from the slow tier, to write to it, or to write to the node.
func (w *world) large(name string) {
	w.Helper()
	w.write(name, noise(largeBytes))
}

// noise is so long, and no part of it is like another one.
func noise(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return string(b)
}

func (w *world) job(id uint32) slurm.Job {
	return slurm.Job{ID: id, UID: w.uid, GID: w.uid, User: "somebody", Node: "n1"}
}

// setup begins a job that has these lines.
func (w *world) setup(id uint32, lines ...string) {
	w.Helper()
	w.setupFor(w.job(id), lines...)
}

func (w *world) setupFor(j slurm.Job, lines ...string) {
	w.Helper()
	time.Sleep(time.Nanosecond) // runs are told apart by when they began
	must.Do(w.T, w.Setup(j, text(lines...)))
}

func text(lines ...string) directive.Text { return directive.Text{Script: script(lines...)} }

func script(lines ...string) string {
	return "#!/bin/sh\n#DATAMOVE " + strings.Join(lines, "\n#DATAMOVE ") + "\ntrue\n"
}

// nodes says where it runs.
func (w *world) nodes(id uint32, nodes ...string) {
	w.Helper()
	must.Do(w.T, w.Nodes(id, Place{Nodes: nodes, Name: "train"}))
}

// node is what hooks on the node see.
func (w *world) node() *slurm.Site {
	w.Helper()
	s := must.Get(slurm.Of(w.Config, "n1", w.Dial, func(config.Tier) error { return nil }))(w.T)
	w.Cleanup(func() { must.Do(w.T, s.Close()) })
	return s
}

func (w *world) prolog(id uint32) slurm.Outcome {
	w.Helper()
	out := must.Get(w.node().Prolog(w.Context(), w.job(id)))(w.T)
	return out
}

// wrote is what a job does: it writes files to its directory.
func (w *world) wrote(id uint32, files ...string) {
	w.Helper()
	for _, name := range files {
		dir := w.path("scratch/jobs/" + w.job(id).Dir())
		must.Do(w.T, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must.Do(w.T, os.WriteFile(filepath.Join(dir, name), []byte(fmt.Sprint(id)+" "+name), 0o644))
		w.owned(dir)
	}
}

// owned gives all below a directory to the owner of the jobs.
func (w *world) owned(dir string) {
	w.Helper()
	must.Do(w.T, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(w.uid), -1))
	}))
}

// wants fails when a file does not have these contents; "" is no file.
func (w *world) wants(name, text string) {
	w.Helper()
	got, err := os.ReadFile(w.path(name))
	if string(got) != text || text == "" && !errors.Is(err, mover.ErrNotExist) {
		w.Errorf("%s is %.60q, %v; want %.60q", name, got, err, text)
	}
}

// tasks are those of a job, sorted, as "copy DONE".
func (w *world) tasks(id uint32) (all []string) {
	w.Helper()
	for t, err := range w.service.Tasks(w.Context(), &datamovev1.ListTasksRequest{Labels: map[string]string{slurm.Label: fmt.Sprint(id)}}) {
		must.Do(w.T, err)
		kind := strings.ToLower(strings.TrimPrefix(t.GetSpec().GetKind().String(), "TASK_KIND_"))
		if t.GetSpec().GetLabels()[slurm.Leaves] == slurm.AllNodes {
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
	for l, err := range w.service.Leases(w.Context(), &datamovev1.ListLeasesRequest{}) {
		must.Do(w.T, err)
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
