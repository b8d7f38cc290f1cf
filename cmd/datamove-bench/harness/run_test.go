package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/bench/result"
	"datamove.dev/test/mountns"
	"datamove.dev/test/must"
)

// asProgram says that the test is to be the program: nodes are processes.
const asProgram = "DATAMOVE_BENCH_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(""))
	}
	mountns.Main(m)
}

// nodesOf starts so many nodes, as a batch system does, and writes down their processes: it is a --launch.
func nodesOf(t *testing.T, nodes int) (launch, pids string) {
	t.Setenv(asProgram, "1")
	dir := t.TempDir()
	pids = filepath.Join(dir, "pids")
	script := fmt.Sprintf("#!/bin/sh\nfor i in $(seq %d); do \"$@\" --name n0$i & echo $! >>%s; done\nwait\n", nodes, pids)
	launch = filepath.Join(dir, "launch")
	must.Do(t, os.WriteFile(launch, []byte(script), 0o700))
	return launch, pids
}

// empty says that nothing is left in a directory.
func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind in %s: %v, %v", dir, left, err)
	}
}

// TestRun: a host alone, what it prints and what it saves.
func TestRun(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "run.json")
	out, code := run(t, "", "run", "--suite", "large,small", "--size", "1MiB", "--block", "64KiB", "--files", "10", "--ranks", "2", "--repeats", "2", "--save", file, dir)
	if code != 0 || !strings.Contains(out, "GB/s") || !strings.Contains(out, "rename") {
		t.Errorf("exit %d\n%s", code, out)
	}
	f, err := os.Open(file)
	must.Do(t, err)
	defer f.Close()
	r, err := result.Read(f)
	if err != nil || len(r.Phases) != 2*(4+7) || !strings.HasPrefix(r.Command, "datamove-bench run --suite=large,small --ranks=2 --size=1MiB") || r.Failed != "" {
		t.Errorf("%v, %+v", err, r)
	}
	empty(t, dir)
	out, _, code = runs(t, "", "run", "-q", "--suite", "large", "--size", "1MiB", "--ranks", "2", "-o", "json", dir)
	if r, err := result.Read(strings.NewReader(out)); err != nil || code != 0 || len(r.Phases) != 4 {
		t.Errorf("exit %d, %v\n%s", code, err, out)
	}
}

// TestNodes: nodes that are started by a command join, do their part and end; the curve has each number of them.
func TestNodes(t *testing.T) {
	dir := t.TempDir()
	launch, _ := nodesOf(t, 3)
	out, said, code := runs(t, "", "run", "-q", "--nodes", "3", "--scaling", "--listen", "127.0.0.1:0", "--address", "", "--launch", launch, "--suite", "large", "--size", "1MiB", "--ranks", "2", "-o", "json", dir)
	r, err := result.Read(strings.NewReader(out))
	if err != nil || code != 0 || len(r.Nodes) != 3 || r.Nodes[2].Name != "n03" {
		t.Fatalf("exit %d, %v\n%s%s", code, err, out, said)
	}
	for i, p := range r.Phases {
		if want := []int{1, 2, 3}[i/4]; p.NodeCount != want || len(p.PerNode) != want || p.Last.Ops == 0 {
			t.Errorf("%+v", p)
		}
	}
	empty(t, dir)
}

// TestLaunchEnds: where all that was started has ended before all nodes are there, there is nothing to wait for.
func TestLaunchEnds(t *testing.T) {
	_, said, code := runs(t, "", "run", "-q", "--nodes", "2", "--listen", "127.0.0.1:0", "--launch", "true", "--wait", "1000h", "--suite", "large", "--size", "1MiB", t.TempDir())
	if code != 8 || !strings.Contains(said, "0 of 2 nodes have joined (nobody), and what --launch started has ended") {
		t.Errorf("exit %d\n%s", code, said)
	}
}

// TestLaunched: nodes are told the address that is listened on, and the host's name where that is every address.
func TestLaunched(t *testing.T) {
	for listen, row := range map[string]struct{ address, want string }{
		"127.0.0.1:0": {"", "127.0.0.1:"},
		"[::1]:0":     {"", "[::1]:"},
		":0":          {"", must.Get(os.Hostname())(t) + ":"},
		"0.0.0.0:0":   {"login:7000", "login:7000"},
	} {
		l, err := net.Listen("tcp", listen)
		if err != nil && listen == "[::1]:0" {
			continue // no IPv6 here
		}
		must.Do(t, err)
		f := &runFlags{launch: "srun", address: row.address}
		f.plan.Listen = l
		words := must.Get(f.launched())(t)
		if got := words[len(words)-1]; !strings.HasPrefix(got, row.want) || strings.HasSuffix(got, ":") {
			t.Errorf("--listen %s --address %q: nodes are told %s, want %s", listen, row.address, got, row.want)
		}
		must.Do(t, l.Close())
	}
}

// TestNodeDies: a node that is killed in a phase ends the run, is named, and nothing is left on what all share.
func TestNodeDies(t *testing.T) {
	dir := t.TempDir()
	launch, pids := nodesOf(t, 3)
	go func() {
		for t.Context().Err() == nil {
			if found, _ := filepath.Glob(filepath.Join(dir, "*", "large", "r000004*")); len(found) > 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		text, _ := os.ReadFile(pids)
		all := strings.Fields(string(text))
		if pid, err := strconv.Atoi(all[2]); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}()
	out, said, code := runs(t, "", "run", "-q", "--nodes", "3", "--listen", "127.0.0.1:0", "--launch", launch, "--suite", "large", "--size", "1TiB", "--block", "4KiB", "--ranks", "2", "--time", "1m", "-o", "json", dir)
	if code != 8 || !strings.Contains(said, "node n03 is lost") {
		t.Errorf("exit %d\n%s", code, said)
	}
	var r result.Run
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&r); err != nil || len(r.Phases) != 1 || r.Phases[0].Failed == "" || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "n03: lost") {
		t.Errorf("%v, %+v", err, r)
	}
	empty(t, dir)
}

// TestTargetFull: a target without room is exit 7, in words, and is empty afterwards.
func TestTargetFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	dir := t.TempDir()
	must.Do(t, unix.Mount("small", dir, "tmpfs", 0, "size=1m"))
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	out, code := run(t, "", "run", "--suite", "large", "--size", "16MiB", "--ranks", "2", dir)
	if code != 7 || !strings.Contains(out, "no room") || !strings.Contains(out, "large write") {
		t.Errorf("exit %d\n%s", code, out)
	}
	empty(t, dir)
}

// TestKilled: who is interrupted leaves nothing, and what was there before stays.
func TestKilled(t *testing.T) {
	t.Setenv(asProgram, "1")
	dir := t.TempDir()
	mine := filepath.Join(dir, "datamove-bench-of-mine")
	must.Do(t, os.Mkdir(mine, 0o755))
	cmd := exec.Command("/proc/self/exe", "run", "--suite", "large", "--size", "1TiB", "--block", "4KiB", "--ranks", "2", dir)
	var said bytes.Buffer
	cmd.Stderr = &said
	must.Do(t, cmd.Start())
	for {
		if found, _ := filepath.Glob(filepath.Join(dir, "*", "large", "r*")); len(found) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("%v: %s", err, &said)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "datamove-bench-of-mine" {
		t.Errorf("%v, %v", left, err)
	}
}

// TestRunMistakes: what is wrong is said before anything is touched.
func TestRunMistakes(t *testing.T) {
	dir, short := t.TempDir(), filepath.Join(t.TempDir(), "short")
	must.Do(t, os.WriteFile(short, []byte("abc"), 0o600))
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	for _, row := range []struct {
		code int
		want string
		args []string
	}{
		{2, "want a directory or a bucket", []string{"run"}},
		{2, `"larg" is no suite (did you mean large?)`, []string{"run", "--suite", "larg", dir}},
		{2, "s3 is done on buckets", []string{"run", "--suite", "s3", dir}},
		{2, "--size 1XB: want a number of bytes", []string{"run", "--size", "1XB", dir}},
		{2, "is no model", []string{"run", "--model", "13b", dir}},
		{2, "1 or more", []string{"run", "--ranks", "0", dir}},
		{2, "must be table or json", []string{"run", "-o", "xml", dir}},
		{2, "want direct, drop or keep", []string{"run", "--cache", "warm", dir}},
		{2, "no tier nowhere", []string{"run", "nowhere:x"}},
		{2, "and not together", []string{"run", dir, "s3://bucket/x"}},
		{2, "--save: ", []string{"run", "--save", filepath.Join(dir, "nothing", "x"), dir}},
		{2, "want --secret-file", []string{"run", "--nodes", "2", dir}},
		{2, "16 or more", []string{"run", "--nodes", "2", "--secret-file", short, dir}},
		{2, "no such file", []string{"run", "--nodes", "2", "--secret-file", short + "er", dir}},
		{2, "address already in use", []string{"run", "--nodes", "2", "--launch", "true", "--listen", taken.Addr().String(), dir}},
		{8, "--launch: false", []string{"run", "--nodes", "2", "--launch", "false", "--listen", "127.0.0.1:0", dir}},
		{8, "1 of 2 nodes", nil},
		{3, "no such file", []string{"run", filepath.Join(dir, "nothing")}},
		{2, "want the address", []string{"join"}},
		{2, "want HOST:PORT", []string{"join", "head"}},
		{2, "want --secret-file", []string{"join", "head:1"}},
	} {
		if row.args == nil {
			launch, _ := nodesOf(t, 1)
			row.args = []string{"run", "--nodes", "2", "--launch", launch, "--listen", "127.0.0.1:0", "--wait", "1s", dir}
		}
		if out, code := run(t, "", row.args...); code != row.code || !strings.Contains(out, row.want) {
			t.Errorf("%q: exit %d, want %d with %q\n%s", row.args, code, row.code, row.want, out)
		}
	}
	empty(t, dir)
}
