package fabric

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"datamove.dev/bench/result"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// built is where the binaries of these tests are.
var built string

func TestMain(m *testing.M) {
	if os.Getenv("FABRIC_CHILD") != "" {
		child()
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built != "" {
			_ = os.RemoveAll(built)
		}
		os.Exit(code)
	}))
}

// programs builds the real binaries, as they are now, once.
func programs(t *testing.T) Programs {
	t.Helper()
	if built == "" {
		dir := must.Get(os.MkdirTemp("", "datamove-fabric-"))(t)
		built = dir
		cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", "./cmd/datamove", "./cmd/datamoved", "./cmd/datamove-bench", "./test/fabric/pages")
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	return Programs{filepath.Join(built, "datamove"), filepath.Join(built, "datamoved"), filepath.Join(built, "pages")}
}

// need leaves what takes namespaces, and measures, to make soak.
func need(t *testing.T) {
	t.Helper()
	if !seed.Soak() {
		t.Skip("elsewhere: make soak: takes network namespaces, and measures")
	}
	if err := Available(t.Context()); err != nil {
		t.Skip(err)
	}
}

func newRig(t *testing.T, nodes int, link Link) *Rig {
	t.Helper()
	r := must.Get(New(t.Context(), nodes, link))(t)
	t.Cleanup(func() {
		must.Tell(t, r.Close())
		if left := left(r.name); len(left) > 0 {
			t.Errorf("the rig left %q", left)
		}
	})
	return r
}

// left is what there is whose name begins so.
func left(name string) []string {
	mean := func(s string) bool { return strings.HasPrefix(s, name) }
	return append(entries("/run/netns", mean), entries(memory, mean)...)
}

// TestSmoke is the whole model with two nodes: iperf3, then the real binary, through
// shaped links, from a server that has no disk.
func TestSmoke(t *testing.T) {
	need(t)
	p := programs(t)
	r := newRig(t, 2, Link{})
	ceiling := must.Get(Ceiling(t.Context(), r, time.Second))(t)
	work := WorkFor(p, r.Link, time.Second, ObjectBytes)
	measures := []Measure{ceiling}
	for name, load := range map[string]Load{"cli": CLI, "service": Service} {
		m := must.Get(load(t.Context(), r, work))(t)
		measures = append(measures, m)
		round := Round{ceiling, m}
		t.Logf("iperf3 %.1f MB/s, %s %.1f MB/s, %.1f %%, CPUs %.0f %% idle %s", ceiling.PerSec/1e6, name, m.PerSec/1e6, 100*round.Share(), m.Idle, round.Invalid())
		if m.Bytes != 2*work.bytes() || m.CPU == 0 {
			t.Errorf("%s: %d bytes arrived, and 2 × %d were to, in %v of CPUs", name, m.Bytes, work.bytes(), m.CPU)
		}
		must.Do(t, work.Forget(r))
	}
	for _, m := range measures { // more than the links let through is a mistake of ours
		if most := float64(2*r.Link.BytesPerSecond())*m.Elapsed.Seconds() + float64(2*r.Link.BurstBytes); float64(m.Bytes) > most {
			t.Errorf("%d bytes in %v: the links are not shaped", m.Bytes, m.Elapsed)
		}
	}
	verified(t, r, work)
}

// TestReserve: what is taken in the file system of a rig is given back out of its reserve,
// so that as much as before is free, and with the reserve everything is.
func TestReserve(t *testing.T) {
	need(t)
	r := newRig(t, 1, Link{})
	const taken = 64 << 20
	v, err := newReserve(t.Context(), r, taken)
	must.Do(t, err)
	r.memory = v
	_, err = r.write(t.Context(), r.Nodes, func(ctx context.Context, _ int, n *Node) (part, error) {
		if err := os.WriteFile(filepath.Join(n.Dir, "taken"), make([]byte, taken), 0o600); err != nil {
			return part{}, err
		}
		for used, err := v.inUse(); used > v.used-ahead; used, err = v.inUse() {
			if err != nil || ctx.Err() != nil {
				return part{}, errors.Join(err, ctx.Err())
			}
			time.Sleep(handOver)
		}
		return part{bytes: taken}, nil
	})
	must.Do(t, err)
	if want := int64(taken + ahead); v.free != want {
		t.Errorf("%d bytes were given back, and should be %d", v.free, want)
	}
	must.Do(t, v.close())
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := newReserve(ctx, r, taken); !errors.Is(err, context.Canceled) {
		t.Errorf("of a context that is over: %v", err)
	}
	if _, err := os.Stat(v.file.Name()); !os.IsNotExist(err) {
		t.Errorf("a reserve is left: %v", err)
	}
}

// verified compares what the nodes have with what the server generates, by the
// real binary; and one byte that is changed is found.
func verified(t *testing.T, r *Rig, w Work) {
	t.Helper()
	small := w
	small.ObjectBytes /= 8
	server := must.Get(small.Serve(t.Context(), r))(t)
	defer server.Stop()
	n := r.Nodes[1]
	do := func(args ...string) error {
		p := must.Get(n.Start(t.Context(), Command{Path: w.Datamove, Args: args, Env: w.Env(r)}))(t)
		return p.Wait()
	}
	target := filepath.Join(n.Dir, "small")
	must.Do(t, errors.Join(do("copy", "-q", w.Source(1), target), do("verify", w.Source(1), target)))
	f := must.Get(os.OpenFile(filepath.Join(target, "00000.bin"), os.O_RDWR, 0))(t)
	one := make([]byte, 1)
	_, err1 := f.ReadAt(one, 77)
	_, err2 := f.WriteAt([]byte{one[0] ^ 1}, 77)
	must.Do(t, errors.Join(err1, err2, f.Close()))
	var exit *exec.ExitError
	if err := do("verify", w.Source(1), target); !errors.As(err, &exit) || exit.ExitCode() != 9 {
		t.Errorf("a changed byte is not found: %v", err)
	}
}

// TestApart: a node sees the other ones of its rig, and nothing of this machine.
func TestApart(t *testing.T) {
	need(t)
	r := newRig(t, 2, Link{Mbit: 10})
	var devices string
	for _, c := range []struct {
		args []string
		well bool
	}{
		{[]string{"link", "show", "eth0"}, true},
		{[]string{"route", "get", r.Hub.IP}, true},
		{[]string{"route", "get", r.Nodes[1].IP}, true},
		{[]string{"route", "get", "192.0.2.1"}, false}, // there is no way out
	} {
		p := must.Get(r.Nodes[0].Start(t.Context(), Command{Path: "/usr/sbin/ip", Args: c.args}))(t)
		if err := p.Wait(); (err == nil) != c.well {
			t.Errorf("ip %q: %v", c.args, err)
		}
		devices += p.Stdout.String()
	}
	if !strings.Contains(devices, "tbf") {
		t.Errorf("the link is not shaped: %s", devices)
	}
}

// child makes a rig with a process in it, says so, and waits to be killed.
func child() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	r, err := New(ctx, 2, Link{})
	if err == nil {
		var p *Process
		if p, err = r.Nodes[0].Start(ctx, Command{Path: "/usr/bin/sleep", Args: []string{"60"}}); err == nil {
			fmt.Println(r.name, p.cmd.Process.Pid)
			<-ctx.Done()
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestSweep kills a process that has a rig. What runs in the rig dies with it, and
// the next rig removes the rest.
func TestSweep(t *testing.T) {
	need(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "FABRIC_CHILD=1")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.Do(t, err)
	var name string
	var pid int
	_, failed := fmt.Fscan(out, &name, &pid)
	if err := errors.Join(failed, Sweep(t.Context())); err != nil { // it lives: nothing of it is touched
		t.Fatal(err)
	}
	if got := left(name); len(got) != 5 {
		t.Errorf("of the rig that lives there is %q", got)
	}
	inside, err := unix.PidfdOpen(pid, 0)
	must.Do(t, err)
	defer unix.Close(inside)
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	if err := gone(inside); err != nil {
		t.Errorf("what ran in the rig: %v", err)
	}
	must.Do(t, Sweep(t.Context()))
	if got := left(name); len(got) > 0 {
		t.Errorf("%q is left of a dead rig", got)
	}
}

// TestProcess: what fails says what it was and why, and nothing outlives its context.
func TestProcess(t *testing.T) {
	need(t)
	r := newRig(t, 1, Link{})
	n := r.Nodes[0]
	if _, err := n.Start(t.Context(), Command{Path: "/nowhere"}); err == nil {
		t.Error("a program that is not there is started")
	}
	p, err := n.Start(t.Context(), Command{Path: "/bin/sh", Args: []string{"-c", "echo so; echo why >&2; exit 3"}})
	must.Do(t, err)
	if err := p.Wait(); err == nil || !strings.Contains(err.Error(), "sh in n01") || !strings.Contains(err.Error(), "why") {
		t.Errorf("it fails with %v", err)
	}
	must.Tell(t, p.Said(t.Context(), "so"))
	if err := p.Said(t.Context(), "more"); err == nil {
		t.Error("it has ended and says more")
	}
	ctx, stop := context.WithCancel(t.Context())
	if p, err = n.Start(ctx, Command{Path: "/usr/bin/sleep", Args: []string{"60"}}); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := p.Wait(); err == nil {
		t.Error("it outlives its context")
	}
	why := errors.New("one is enough")
	err = together(t.Context(), []*Node{n, n}, func(ctx context.Context, i int, _ *Node) error {
		if i == 0 {
			return why
		}
		<-ctx.Done() // or this test never ends
		return nil
	})
	if !errors.Is(err, why) {
		t.Errorf("together: %v", err)
	}
}

func TestCPU(t *testing.T) {
	before, err1 := parseCPU("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1 2\n")
	after, err2 := parseCPU("cpu  190 0 100 705 105 0 0 0 90 0\n")
	must.Do(t, errors.Join(err1, err2))
	if got := after.idleSince(before); got != 10 {
		t.Errorf("%v %% idle, want 10", got)
	}
	if (Measure{Idle: 14.9}).Invalid() == "" || (Measure{Idle: 15}).Invalid() != "" {
		t.Error("less than 15 % is invalid, and 15 % is not")
	}
	if got := before.idleSince(after); got != 0 {
		t.Errorf("time that goes back is %v %% idle", got)
	}
	for _, text := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 4 5 6 7 x"} {
		if _, err := parseCPU(text); err == nil {
			t.Errorf("%q is taken for CPU times", text)
		}
	}
	if now, err := readCPU(); err != nil || now.total == 0 {
		t.Errorf("this machine: %+v, %v", now, err)
	}
}

func TestMemory(t *testing.T) {
	if got, err := available("MemTotal: 9 kB\nMemAvailable:   1024 kB\n"); err != nil || got != 1<<20 {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := available("MemTotal: 9 kB\n"); err == nil {
		t.Error("a text without it is taken")
	}
	if err := fits(1 << 62); err == nil {
		t.Error("anything fits")
	}
}

func TestOrphan(t *testing.T) {
	self := mine()
	for name, want := range map[string]bool{
		self + "1-n01": false, self + "1": false,
		prefix + "0-1-1": false, prefix + "x-1-1": false, prefix: false, "other-1-1-1": false, // not ours: left alone
		fmt.Sprintf("%s%d-1-1-n01", prefix, os.Getpid()): true, // our number, of another process
		prefix + "4194305-77-1":                          true, // beyond the greatest number of a process
	} {
		if got := orphan(name); got != want {
			t.Errorf("%s is an orphan: %v, want %v", name, got, want)
		}
	}
}

func TestLink(t *testing.T) {
	if got := (Link{}).tbf(); got != "tbf rate 125mbit burst 262144 latency 50000us" {
		t.Error(got)
	}
	if got := (Link{}).BytesPerSecond(); got != 15_625_000 {
		t.Error(got)
	}
}

// TestTable prints what is known, and says what does not count.
func TestTable(t *testing.T) {
	round := func(ceiling, load, idle float64) Round {
		return Round{Measure{PerSec: ceiling * 1e6, Idle: 80}, Measure{PerSec: load * 1e6, Bytes: 4e9, Idle: idle, First: time.Second, Elapsed: 2 * time.Second, CPU: 6 * time.Second}}
	}
	rows := []Row{
		{1, []Round{round(10, 9, 90), round(10, 10, 90), round(10, 9.5, 90)}},
		{2, []Round{round(20, 19, 5), round(20, 17, 50)}}, // what does not count is left out of the median
		{4, []Round{round(40, 20, 14)}},
	}
	var b bytes.Buffer
	must.Do(t, Print(&b, "cli", rows))
	const want = `  agents  iperf3 MB/s  cli MB/s  of iperf3      spread  efficiency  first s  last s  CPU-s/GB  idle iperf3      idle cli
       1         10.0       9.5     95.0 %  90.0-100.0     100.0 %     1.00    2.00       1.5         80 %          90 %
       2         20.0      17.0     85.0 %   85.0-95.0      89.5 %     1.00    2.00       1.5         80 %          50 %
       4         40.0      20.0     50.0 %   50.0-50.0      52.6 %     1.00    2.00       1.5         80 %  14 % INVALID
INVALID: 4 agents: the CPUs were 14 % idle, and less than 15 % is too little
`
	if b.String() != want {
		t.Errorf("it prints\n%s", b.String())
	}
}

// TestFanOut: nodes that stage the same dataset read it once.
func TestFanOut(t *testing.T) {
	need(t)
	p := programs(t)
	for object, most := range map[int64]float64{ObjectBytes: 1.1, 16 << 10: 1.08} { // of small ones 1.1, where each node lists them, and 1.2, where it asks for each
		r := newRig(t, 3, Link{Mbit: 200})
		f := must.Get(FanOut(t.Context(), r, WorkFor(p, r.Link, 4*time.Second, object), Unrest{}))(t)
		t.Logf("%d nodes, objects of %d bytes: it left its source %.3f times, and took %.2f times as long as one link", f.Agents, object, f.Share(), f.Slower())
		if f.Share() > most {
			t.Errorf("with objects of %d bytes it left its source %.3f times", object, f.Share())
		}
	}
}

// TestFanOutUnrest: one node dies in the middle, and one comes late. The source is read again only for what is nowhere else.
//
//safety:7 with test/cluster TestSwarmLies
func TestFanOutUnrest(t *testing.T) {
	need(t)
	r := newRig(t, 5, Link{Mbit: 100})
	w := WorkFor(programs(t), r.Link, 8*time.Second, ObjectBytes)
	f := must.Get(FanOut(t.Context(), r, w, Unrest{Late: 3 * time.Second, Dies: 6 * time.Second}))(t)
	t.Logf("%d nodes: it left its source %.3f times, and took %.2f times as long as one link", f.Agents, f.Share(), f.Slower())
	if f.Share() > 1.1 {
		t.Errorf("it left its source %.3f times", f.Share())
	}
}

// benchOf is datamove-bench beside the other binaries.
func benchOf(p Programs) string { return filepath.Join(filepath.Dir(p.Datamove), "datamove-bench") }

// TestLoad: agents behind their links load servers behind theirs, and the record has all of them; no more goes through than the links let through.
func TestLoad(t *testing.T) {
	need(t)
	store, err := exec.LookPath("versitygw")
	if err != nil {
		t.Skip("needs versitygw: test/setup installs it")
	}
	s := Storage{Agents: 2, Servers: 2, AgentMbit: 250, ServerMbit: 125, Bench: benchOf(programs(t)), Store: store, Flags: []string{"--ranks=2", "--size=8MiB"}}
	r := newRig(t, s.Nodes(), Link{})
	file := filepath.Join(t.TempDir(), "run.json")
	if _, err := s.Load(t.Context(), r, file); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	must.Do(t, err)
	defer f.Close()
	run, err := result.Read(f)
	if err != nil || len(run.Nodes) != 2 || len(run.Targets) != 2 || len(run.Phases) != 4 {
		t.Fatalf("%v, %+v", err, run)
	}
	for _, p := range run.Phases[:3] {
		if most := 2*125e6/8*p.Last.Seconds + 4*256<<10; p.Last.Bytes != 32<<20 || float64(p.Last.Bytes) > most || p.Wrong != 0 || len(p.PerNode) != 2 {
			t.Errorf("%s: %d bytes in %.2f s: %+v", p.Name, p.Last.Bytes, p.Last.Seconds, p)
		}
	}
}
