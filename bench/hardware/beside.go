package hardware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"datamove.dev/mover"
)

// Pair is what another program has measured of the same thing, in turns with us.
type Pair struct {
	Name    string    `json:"name"` // of the ceiling
	Program string    `json:"program"`
	How     string    `json:"how"`
	Ours    []float64 `json:"ours"` // of each round, in bytes per second
	Theirs  []float64 `json:"theirs"`
	Ratio   float64   `json:"ratio"` // the median of ours divided by theirs
}

// contest is something that we and another program measure.
type contest struct {
	name, program, how string
	ours               func(ctx context.Context) (rate float64, err error)
	theirs             func(ctx context.Context) (rate float64, err error)
}

// Beside measures a disk, the loopback and links to hosts as fio, dd and iperf3 do, in turns with them; what is not installed is left out. It says whether our ceilings can be believed.
// On a host to which a link is measured, "iperf3 -s" runs beside Serve. The loopback is as fast as two processes are, and not as a link is: there the two differ.
func Beside(ctx context.Context, o Options, to ...string) (pairs []Pair, err error) {
	dir, err := os.MkdirTemp(o.Dir, "datamove-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.Workers == 0 {
		o.Workers = diskDepth
	}
	m, err := o.medium(filepath.Join(dir, "file"))
	if err != nil {
		return nil, err
	}
	defer m.file.Close()
	if _, _, err := m.write(ctx, o); err != nil { // its blocks are there
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- Serve(serving, l) }()
	defer func() { stop(); err = errors.Join(err, <-ended) }()
	contests := append(m.contests(o), o.links("loopback", l.Addr().String())...)
	for _, address := range to {
		contests = append(contests, o.links("nic", address)...)
	}
	for _, c := range contests {
		if _, err := exec.LookPath(c.program); err != nil {
			continue
		}
		p, err := c.rounds(ctx, o.runs())
		if err != nil {
			return nil, fmt.Errorf("%s beside %s: %w", c.name, c.program, err)
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// rounds lets both measure by turns, each time another one first.
func (c *contest) rounds(ctx context.Context, rounds int) (Pair, error) {
	p := Pair{Name: c.name, Program: c.program, How: c.how}
	var ratios []float64
	for i := range rounds {
		var rates [2]float64
		for turn := range 2 {
			which := (i + turn) % 2
			var err error
			if rates[which], err = []func(context.Context) (float64, error){c.ours, c.theirs}[which](ctx); err != nil {
				return Pair{}, err
			}
		}
		p.Ours, p.Theirs = append(p.Ours, rates[0]), append(p.Theirs, rates[1])
		ratios = append(ratios, rates[0]/rates[1])
	}
	p.Ratio = of("", "", "", ratios).Rate
	return p, nil
}

// rate is what was done in a second.
func rate(done int64, took time.Duration, err error) (float64, error) {
	return float64(done) / max(took.Seconds(), 1e-9), err
}

// HugePages is what has a program of the C library move bytes through huge pages, as we do: a disk is asked for fewer pieces then, and some are twice as fast. For fio with threads they are
// in heaps, for dd in a mapping of its own. (The GNU C Library manual, "Memory Allocation Tunables"; the kernel aligns a mapping that is a whole number of huge pages.)
func HugePages(program string) (environment string) {
	const tunable = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"
	if program == "dd" {
		return tunable
	}
	return tunable + ":glibc.malloc.mmap_threshold=67108864:glibc.malloc.top_pad=33554432"
}

// ddBlock makes two huge pages of what dd asks for: a block, a page to align it, and what malloc needs.
const ddBlock = extent - 8<<10

// contests are those of a disk: fio with as many threads, each with its part of the file; dd with one stream.
func (m *medium) contests(o Options) (all []contest) {
	one, asDD := o, *m
	one.Workers, asDD.block = 1, ddBlock
	for _, way := range []struct {
		name string
		ours func(*medium, context.Context, Options) (int64, time.Duration, error)
	}{{"disk.write", (*medium).write}, {"disk.read", (*medium).read}} {
		op := strings.TrimPrefix(way.name, "disk.")
		all = append(all,
			contest{way.name, "fio", fmt.Sprintf("%d threads, each with its part of a file, blocks of %d MiB, O_DIRECT, huge pages", o.Workers, extent>>20),
				func(ctx context.Context) (float64, error) { return rate(way.ours(m, ctx, o)) },
				func(ctx context.Context) (float64, error) { return m.fio(ctx, op, o.Workers) }},
			contest{way.name, "dd", fmt.Sprintf("one stream of blocks of %d bytes, O_DIRECT, huge pages", ddBlock),
				func(ctx context.Context) (float64, error) { return rate(way.ours(&asDD, ctx, one)) },
				func(ctx context.Context) (float64, error) { return asDD.dd(ctx, op) }})
	}
	return all
}

// fio writes or reads the file as we do.
func (m *medium) fio(ctx context.Context, op string, threads int) (float64, error) {
	each := m.size / int64(threads) / extent * extent
	if each == 0 {
		return 0, fmt.Errorf("%w: a file of %d bytes is too small for %d threads", mover.ErrUsage, m.size, threads)
	}
	out, err := said(ctx, "fio", "--name=x", "--filename="+m.file.Name(), "--rw="+op, fmt.Sprintf("--bs=%d", extent), fmt.Sprintf("--size=%d", each), fmt.Sprintf("--offset_increment=%d", each),
		fmt.Sprintf("--numjobs=%d", threads), "--direct=1", "--ioengine=psync", "--thread", "--group_reporting", "--end_fsync=1", "--output-format=json")
	if err != nil {
		return 0, err
	}
	type phase struct {
		Bytes  int64   `json:"io_bytes"`
		Millis float64 `json:"runtime"`
	}
	var report struct {
		Jobs []struct{ Read, Write phase }
	}
	if err := json.Unmarshal(out, &report); err != nil || len(report.Jobs) != 1 {
		return 0, fmt.Errorf("the report of fio: %d jobs, %w", len(report.Jobs), err)
	}
	p := report.Jobs[0].Read
	if op == "write" {
		p = report.Jobs[0].Write
	}
	return rate(p.Bytes, time.Duration(p.Millis*float64(time.Millisecond)), nil)
}

// dd writes or reads the file in one stream. It tells the bytes and the seconds last.
func (m *medium) dd(ctx context.Context, op string) (float64, error) {
	args := []string{"if=" + m.file.Name(), "of=/dev/null", "iflag=direct"}
	if op == "write" {
		args = []string{"if=/dev/zero", "of=" + m.file.Name(), "oflag=direct", "conv=notrunc,fsync"}
	}
	out, err := said(ctx, "dd", append(args, fmt.Sprintf("bs=%d", m.block), fmt.Sprintf("count=%d", m.size/m.block))...)
	if err != nil {
		return 0, err
	}
	words := strings.Fields(string(out)) // ... 1073741824 bytes (1.1 GB, 1.0 GiB) copied, 0.73 s, 1.5 GB/s
	at := slices.Index(words, "copied,")
	if at < 0 || at+1 >= len(words) {
		return 0, fmt.Errorf("dd says nothing of its rate: %.200q", out)
	}
	seconds, err := strconv.ParseFloat(words[at+1], 64)
	return rate(m.whole(), time.Duration(seconds*float64(time.Second)), err)
}

// links are the contests of a link, with one stream: iperf3 has one thread for all of them up to version 3.15.
func (o Options) links(name, address string) (all []contest) {
	o.Workers = 1
	for _, way := range []struct {
		name string
		mode byte
		args []string
	}{{".send", comes, nil}, {".receive", goes, []string{"-R"}}} {
		theirs := func(ctx context.Context) (float64, error) { return o.iperf(ctx, address, iperfPort, way.args) }
		if name == "loopback" {
			theirs = func(ctx context.Context) (float64, error) { return o.iperfAlone(ctx, way.args) }
		}
		all = append(all, contest{name + way.name, "iperf3", fmt.Sprintf("one stream of TCP with %s, writes of %d KiB", address, message>>10),
			func(ctx context.Context) (float64, error) { return rate(o.stream(ctx, address, way.mode)) }, theirs})
	}
	return all
}

const (
	iperfPort     = "5201"  // where "iperf3 -s" listens
	iperfPerMilli = 2 << 20 // bytes of a run of less than a second, for each millisecond of it
)

// iperfAlone has iperf3 speak to itself.
func (o Options) iperfAlone(ctx context.Context, args []string) (rate float64, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithTimeout(ctx, o.time()+stuck)
	defer stop()
	server := exec.CommandContext(ctx, "iperf3", "-s", "-1", "-p", port)
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() { stop(); _ = server.Wait() }()
	for {
		rate, err := o.iperf(ctx, address, port, args)
		if !errors.Is(err, mover.ErrUnreachable) { // its server is not there yet
			return rate, err
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// iperf has iperf3 speak to its server on a host.
func (o Options) iperf(ctx context.Context, address, port string, args []string) (float64, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", mover.ErrUsage, err)
	}
	lasts := []string{"-t", strconv.Itoa(int(o.time().Seconds()))}
	if o.time() < time.Second { // it has whole seconds: as many bytes as a quick link takes in less
		lasts = []string{"-n", strconv.FormatInt(o.time().Milliseconds()*iperfPerMilli, 10)}
	}
	out, failed := said(ctx, "iperf3", append([]string{"-c", host, "-p", port, lasts[0], lasts[1], "-l", strconv.Itoa(message), "-J"}, args...)...)
	var report struct {
		Error string
		End   struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return 0, errors.Join(failed, err)
	}
	if report.Error != "" || report.End.Received.Rate <= 0 {
		return 0, fmt.Errorf("%w: iperf3 -s on %s: %.200s", mover.ErrUnreachable, host, report.Error)
	}
	return report.End.Received.Rate / 8, nil
}

// said runs a program, and returns what it said.
func said(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", HugePages(program))
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s: %w: %.300s", program, err, out)
	}
	return out, err
}
