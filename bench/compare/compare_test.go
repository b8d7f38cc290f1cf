package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// standIn is a program with the command line of datamove: what is tested here is
// the comparison and not the mover.
func standIn(t *testing.T, does string) string {
	path := filepath.Join(t.TempDir(), "datamove")
	script := "#!/bin/sh\n[ \"$1\" = version ] && { echo datamove 1.2.3; exit; }\n" + does + "\n"
	must.Do(t, os.WriteFile(path, []byte(script), 0o755))
	return path
}

func options(t *testing.T, does string) Options {
	return Options{Scenarios: []string{"small-tmpfs"}, Peers: []string{"cp"}, Runs: 3, Scale: 0.001,
		Disk: t.TempDir(), Tmpfs: t.TempDir(), Datamove: standIn(t, does)}
}

func TestCompare(t *testing.T) {
	o := options(t, `exec cp -a "$3" "$4"`)
	results, err := Compare(t.Context(), o)
	if err != nil || len(results) != 1 || len(results[0].Scores) != 2 {
		t.Fatalf("%+v, %v", results, err)
	}
	for i, s := range results[0].Scores {
		if s.Failed != "" || len(s.Samples) != 3 || s.Wall.Median <= 0 || s.CPU.Median <= 0 || s.WallRatio <= 0 {
			t.Errorf("%+v", s)
		}
		in := s.WallInterval
		if i == 0 && in != nil || i > 0 && (in == nil || in.Low > s.WallRatio || in.High < s.WallRatio || s.CPUInterval == nil) {
			t.Errorf("%s: %v beside %v", s.Tool, s.WallRatio, in)
		}
	}
	if v := results[0].Scores[0].Version; v != "1.2.3" {
		t.Errorf("version %q", v)
	}
	if c := results[0].Scores[1].Command; c != "cp -a SRC DST" {
		t.Errorf("command %q", c)
	}
	for _, dir := range []string{o.Disk, o.Tmpfs} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v, %v are left", left, err)
		}
	}
}

// A tool is not fast by failing, or by leaving something out.
func TestCompareIsNotFooled(t *testing.T) {
	for does, why := range map[string]string{
		`echo no room >&2; exit 7`:                           "no room",
		`mkdir "$4"`:                                         "the target has 0 files",
		`cp -a "$3" "$4"; rm "$4"/d0000/f0000000`:            "the target has 99 files",
		`cp -a "$3" "$4"; truncate -s 1 "$4"/d0000/f0000000`: "bytes",
	} {
		results := must.Get(Compare(t.Context(), options(t, does)))(t)
		ours, cp := results[0].Scores[0], results[0].Scores[1]
		if !strings.Contains(ours.Failed, why) || len(ours.Samples) > 0 || ours.WallRatio != 0 {
			t.Errorf("%s: %+v", does, ours)
		}
		if cp.Failed != "" || cp.WallRatio != 0 {
			t.Errorf("%s: and cp: %+v", does, cp)
		}
	}
}

func TestTimeout(t *testing.T) {
	o := options(t, `exec tail -f /dev/null`)
	o.Timeout = 50 * time.Millisecond
	results, err := Compare(t.Context(), o)
	if err != nil || !strings.Contains(results[0].Scores[0].Failed, "stopped after 50ms") {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	o := options(t, `exec cp -a "$3" "$4"`)
	o.Say = func(line string) {
		if strings.Contains(line, "s wall") {
			stop()
		}
	}
	if _, err := Compare(ctx, o); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left, err := os.ReadDir(o.Tmpfs); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

func TestUsage(t *testing.T) {
	for _, o := range []Options{
		{Scenarios: []string{"small-floppy"}}, {Peers: []string{"cp", "xcopy"}}, {Scale: 2}, {Scale: -1}, {Datamove: "/no/such/program"},
	} {
		o.Disk, o.Tmpfs = t.TempDir(), t.TempDir()
		if _, err := Compare(t.Context(), o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestChoose(t *testing.T) {
	got, err := choose([]string{"s3", "large-tmpfs"})
	var names []string
	for _, s := range got {
		names = append(names, s.Name)
	}
	want := []string{"large-tmpfs", "s3-small-up", "s3-small-down", "s3-large-up", "s3-large-down"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
	}
}

func TestScenariosNameTools(t *testing.T) {
	for _, s := range Scenarios() {
		if len(s.Tools) == 0 || !isOurs(s.Tools[0]) {
			t.Errorf("%s: ours is not the first", s.Name)
		}
		for _, name := range s.Tools {
			if _, err := toolNamed(name); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
		}
	}
}

func TestScore(t *testing.T) {
	ms := func(n ...int) (d []time.Duration) {
		for _, n := range n {
			d = append(d, time.Duration(n)*time.Millisecond)
		}
		return d
	}
	for _, c := range []struct {
		values []time.Duration
		want   Spread[time.Duration]
	}{
		{nil, Spread[time.Duration]{}},
		{ms(5), Spread[time.Duration]{5e6, 5e6, 5e6}},
		{ms(9, 1, 4), Spread[time.Duration]{4e6, 1e6, 9e6}},
		{ms(4, 1, 9, 2), Spread[time.Duration]{3e6, 1e6, 9e6}},
	} {
		if got := spreadOf(c.values); got != c.want {
			t.Errorf("spread of %v = %v, want %v", c.values, got, c.want)
		}
	}
	// The machine is half as fast from the third round on.
	score := func(wall ...int) (s Score) {
		for _, d := range ms(wall...) {
			s.Samples = append(s.Samples, Sample{Wall: d})
		}
		return s
	}
	ours := score(3, 3, 6, 6)
	scores := []Score{ours, score(4, 4, 8, 8), score(4, 6, 12), {}}
	compareWith(ours, scores)
	if scores[0].WallRatio != 1 || scores[1].WallRatio != 0.75 || scores[1].CPURatio != 0 || scores[2].WallRatio != 0.5 || scores[3].WallRatio != 0 {
		t.Errorf("%+v", scores)
	}
}

// TestBootstrap: of three rounds the interval is all there is, as two of three draws are the lowest in 7 of 27 cases; of nine it
// leaves out the lowest, below which the median is in 0.1 % of cases, and not the second, with 3.0 %.
func TestBootstrap(t *testing.T) {
	for _, row := range []struct {
		ratios []float64
		want   *Interval
	}{
		{nil, nil},
		{[]float64{0.5, 0.6}, nil},
		{[]float64{0.8, 0.8, 0.8, 0.8}, &Interval{0.8, 0.8}},
		{[]float64{0.7, 0.9, 0.8}, &Interval{0.7, 0.9}},
		{[]float64{9, 1, 8, 2, 7, 3, 6, 4, 5}, &Interval{2, 8}},
	} {
		for range 2 { // and it is always the same
			got := bootstrap(row.ratios)
			if (got == nil) != (row.want == nil) || got != nil && *got != *row.want {
				t.Errorf("%v: %v, want %v", row.ratios, got, row.want)
			}
		}
	}
	sample := func(wall, cpu time.Duration) Sample { return Sample{Wall: wall, CPU: cpu} }
	ours := Score{Tool: Ours, Samples: []Sample{sample(1, 1), sample(2, 1), sample(3, 1)}}
	scores := []Score{ours, {Tool: "warp", Samples: []Sample{sample(2, 0), sample(2, 0), sample(2, 0)}}}
	compareWith(ours, scores)
	if scores[0].WallInterval != nil || *scores[1].WallInterval != (Interval{0.5, 1.5}) || scores[1].CPURatio != 0 || scores[1].CPUInterval != nil {
		t.Errorf("%+v", scores)
	}
}

// The same data set is the same bytes, and no two blocks of it are equal.
func TestData(t *testing.T) {
	d, dir := dataset{files: 5, dirs: 2, bytes: 10_000}, t.TempDir()
	for _, name := range []string{"a", "b"} {
		must.Do(t, d.make(filepath.Join(dir, name)))
		must.Tell(t, d.check(filepath.Join(dir, name)))
	}
	blocks := map[string]bool{}
	for _, name := range []string{"d0000/f0000000", "d0000/f0000002", "d0001/f0000003"} {
		a, err1 := os.ReadFile(filepath.Join(dir, "a", name))
		b, err2 := os.ReadFile(filepath.Join(dir, "b", name))
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(a, b) {
			t.Error(name, "differs", err)
		}
		for block := range slices.Chunk(a, 4096) {
			if blocks[string(block)] {
				t.Error(name, "has a block that was there before")
			}
			blocks[string(block)] = true
		}
	}
}

// TestMemoryIsSeen: dd holds its block in anonymous memory from before its first byte comes until the last one is read.
func TestMemoryIsSeen(t *testing.T) {
	group := newCgroup()
	defer group.remove()
	over := make(chan struct{})
	close(over)
	for _, g := range []cgroup{group, ""} {
		fifo := filepath.Join(t.TempDir(), "fifo")
		must.Do(t, syscall.Mkfifo(fifo, 0o600))
		args := g.wrap([]string{"dd", "if=/dev/zero", "of=" + fifo, "bs=64M", "count=1", "status=none"})
		cmd := exec.Command(args[0], args[1:]...)
		must.Do(t, cmd.Start())
		out := must.Get(os.Open(fifo))(t)
		must.Get(io.ReadFull(out, make([]byte, 1)))(t)
		if seen := g.watch(cmd.Process.Pid, over); seen < 60<<20 || seen > 100<<20 {
			t.Errorf("group %q: %d MiB", g, seen>>20)
		}
		must.Get(io.Copy(io.Discard, out))(t)
		must.Do(t, errors.Join(out.Close(), cmd.Wait()))
	}
	if s := must.Get(spend(t.Context(), call("dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=12"), group))(t); s.CPU <= 0 {
		t.Errorf("%s CPU", s.CPU)
	}
}

// TestLargestIsSeen: what is larger than we are is known, and what is not would be our own size.
func TestLargestIsSeen(t *testing.T) {
	const block = 256 << 20
	s, err := spend(t.Context(), call("dd", "if=/dev/zero", "of=/dev/null", "bs=256M", "count=1"), "")
	if err != nil || s.MaxRSS < block || s.MaxRSS > block+100<<20 {
		t.Errorf("%d MiB, %v", s.MaxRSS>>20, err)
	}
	if s, err = spend(t.Context(), call("true"), ""); err != nil || s.MaxRSS != 0 {
		t.Errorf("%d MiB, %v", s.MaxRSS>>20, err)
	}
}

func TestReport(t *testing.T) {
	r := Report{Schema: ReportSchema, Command: "datamove-bench compare", Runs: 2, Scale: 1, Machine: ThisMachine("."), Results: []Result{
		{Scenario: "small", What: "files", Absent: []string{"fpsync"}, Scores: []Score{
			{Tool: "datamove", Version: "1", Command: "datamove copy SRC DST", Samples: []Sample{{Wall: 2e9, CPU: 1e9, Anon: 5 << 20, MaxRSS: 40 << 20}}},
			{Tool: "cp", Failed: "a | b"},
		}},
		{Scenario: "ceiling-disk", What: "bytes", Ceiling: true, Scores: []Score{
			{Tool: "datamove", Samples: []Sample{{Wall: 2e9, CPU: 1e9}, {Wall: 2e9, CPU: 1e9}, {Wall: 2e9, CPU: 1e9}}},
			{Tool: "fio", Version: "3.33", Samples: []Sample{{Wall: 16e8, CPU: 1e9}, {Wall: 2e9, CPU: 1e9}, {Wall: 25e8, CPU: 1e9}}},
			{Tool: "warp", Samples: []Sample{{Wall: 1e9}}},
			{Tool: "dd", Failed: "no room"},
		}},
		{Scenario: "none", What: "nothing", NotRun: "no disk"},
	}}
	for _, result := range r.Results[:2] {
		for i := range result.Scores {
			result.Scores[i].sum()
		}
		compareWith(result.Scores[0], result.Scores)
	}
	var md, table, text bytes.Buffer
	must.Do(t, errors.Join(r.Markdown(&md), r.Table(&table), r.JSON(&text)))
	for _, want := range []string{"| datamove | 1 | 2.00 | 2.00–2.00 | 1.00 | 1.00 | 1.00–1.00 | 1.00 | 5 | 40 |", `a \| b`, "Not installed: fpsync", "Not run: no disk",
		"| fio | 3.33 | 2.00 | 1.60–2.50 | 1.00 [0.80–1.25] | 1.00 | 1.00–1.00 | 1.00 [1.00–1.00] |", "| warp |  | 1.00 | 1.00–1.00 | 2.00 |  |  |  |  |  |  |",
		"\ndatamove reaches 100 % of fio [80–125 %], 50 % of warp\n", "begin with *ceiling*"} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("no %q in\n%s", want, &md)
		}
	}
	if text := table.String(); !strings.Contains(text, "2.00–2.00") || !strings.Contains(text, "1.00 [0.80–1.25]") || !strings.Contains(text, "\ndatamove reaches") {
		t.Error(text)
	}
	var again Report
	if err := json.Unmarshal(text.Bytes(), &again); err != nil || again.Results[0].Scores[0].Wall.Median != 2*time.Second ||
		*again.Results[1].Scores[1].WallInterval != (Interval{0.8, 1.25}) || again.Results[0].Scores[0].MaxRSS.Max != 40<<20 {
		t.Error(err, again)
	}
}

// peers skips the test unless there are these programs, which CI does not install.
func peers(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("elsewhere: make soak: needs %s: test/setup soak installs it", program)
		}
	}
}

// A store takes what peers bring, and its folder shows it.
func TestStore(t *testing.T) {
	peers(t, "s5cmd", "rclone")
	o := options(t, `exec s5cmd --endpoint-url "$AWS_ENDPOINT_URL_S3" --log error cp "$3/" "$4/"`)
	o.Scenarios, o.Peers, o.Runs, o.Scale = []string{"s3-small-up"}, []string{"rclone"}, 1, 0.002
	results := must.Get(Compare(t.Context(), o))(t)
	if strings.Contains(results[0].NotRun, "versitygw is not in PATH") {
		t.Skip("needs versitygw: test/setup installs it")
	}
	if results[0].NotRun != "" || len(results[0].Absent) > 0 {
		t.Fatal(results[0].NotRun, results[0].Absent)
	}
	for _, s := range results[0].Scores {
		if s.Failed != "" || len(s.Samples) != 1 {
			t.Errorf("%+v", s)
		}
	}
}
