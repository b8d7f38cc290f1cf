package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// IdlePercent is how idle the CPUs have to be for a measure to count.
const IdlePercent = 15

// Measure is what went through the links in a time.
type Measure struct {
	Bytes   int64
	Elapsed time.Duration // from the common start to the end of the last
	First   time.Duration // to the end of the first
	PerSec  float64       // bytes
	Idle    float64       // percent of the time of all CPUs
	CPU     time.Duration // of the programs in the nodes, where it is known
}

// Invalid says why a measure does not count; "" when it does.
func (m Measure) Invalid() string {
	if m.Idle < IdlePercent {
		return fmt.Sprintf("the CPUs were %.0f %% idle, and less than %d %% is too little", m.Idle, IdlePercent)
	}
	return ""
}

// cpu is the time that all CPUs have spent since the boot, in ticks.
type cpu struct{ idle, total uint64 }

func readCPU() (cpu, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpu{}, err
	}
	return parseCPU(string(text))
}

// parseCPU reads the first line of /proc/stat: user, nice, system, idle, iowait,
// irq, softirq, steal; guests are in user already. See proc_stat(5).
func parseCPU(text string) (c cpu, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return c, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for i, field := range fields[1:9] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return c, fmt.Errorf("/proc/stat begins with %q", line)
		}
		if c.total += n; i == 3 || i == 4 {
			c.idle += n
		}
	}
	return c, nil
}

// idleSince is how idle the CPUs were between two moments, in percent.
func (c cpu) idleSince(before cpu) float64 {
	if c.total <= before.total || c.idle < before.idle { // iowait may go back
		return 0
	}
	return 100 * float64(c.idle-before.idle) / float64(c.total-before.total)
}

// part is what one node has got, and the time of a CPU that it took there.
type part struct {
	bytes int64
	cpu   time.Duration
}

// timed measures what run does in all nodes at once.
func timed(ctx context.Context, nodes []*Node, run func(ctx context.Context, i int, n *Node) (part, error)) (m Measure, err error) {
	ends, got := make([]time.Duration, len(nodes)), make([]part, len(nodes))
	before, err := readCPU()
	if err != nil {
		return m, err
	}
	begin := time.Now()
	err = together(ctx, nodes, func(ctx context.Context, i int, n *Node) (err error) {
		got[i], err = run(ctx, i, n)
		ends[i] = time.Since(begin)
		return err
	})
	after, err2 := readCPU()
	if err := errors.Join(err, err2); err != nil {
		return m, err
	}
	m.First = ends[0]
	for i, end := range ends {
		m.Bytes, m.CPU = m.Bytes+got[i].bytes, m.CPU+got[i].cpu
		m.First, m.Elapsed = min(m.First, end), max(m.Elapsed, end)
	}
	m.PerSec, m.Idle = float64(m.Bytes)/m.Elapsed.Seconds(), after.idleSince(before)
	return m, nil
}

// iperfPort is the first port that iperf3 listens on, one for each node.
const iperfPort = 5201

// Ceiling is what iperf3 gets from the hub to all nodes at once, in one stream each.
// Its rate is the sum of what the nodes received in the seconds that each of them
// counted: what it takes to begin and to end is not in it.
func Ceiling(ctx context.Context, r *Rig, span time.Duration) (Measure, error) {
	ctx, stop := context.WithTimeout(ctx, span+30*time.Second)
	defer stop()
	servers := make([]*Process, len(r.Nodes))
	for i := range r.Nodes {
		p, err := r.Hub.Start(ctx, Command{Path: "iperf3", Args: []string{"-s", "-1", "--forceflush", "-p", strconv.Itoa(iperfPort + i)}})
		if err != nil {
			return Measure{}, err
		}
		defer p.Stop()
		servers[i] = p
	}
	for _, p := range servers {
		if err := p.Said(ctx, "Server listening"); err != nil {
			return Measure{}, err
		}
	}
	rates := make([]float64, len(r.Nodes))
	m, err := timed(ctx, r.Nodes, func(ctx context.Context, i int, n *Node) (got part, err error) {
		got, rates[i], err = iperf(ctx, n, r.Hub.IP, iperfPort+i, span)
		return got, err
	})
	m.PerSec = 0
	for _, rate := range rates {
		m.PerSec += rate
	}
	return m, err
}

// iperf receives for a time, and returns what, and how many bytes in a second.
func iperf(ctx context.Context, n *Node, server string, port int, span time.Duration) (got part, perSec float64, err error) {
	p, err := n.Start(ctx, Command{Path: "iperf3", Args: []string{"-c", server, "-p", strconv.Itoa(port), "-R", "-J", "-t", strconv.Itoa(max(1, int(span.Seconds())))}})
	if err == nil {
		err = p.Wait()
	}
	if err != nil {
		return got, 0, err
	}
	var report struct {
		End struct {
			Received struct {
				Bytes int64   `json:"bytes"`
				Bits  float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal([]byte(p.Stdout.String()), &report); err != nil {
		return got, 0, fmt.Errorf("iperf3 in %s: %w", n.Name, err)
	}
	if report.End.Received.Bits <= 0 {
		return got, 0, fmt.Errorf("iperf3 in %s received nothing", n.Name)
	}
	return part{report.End.Received.Bytes, p.CPU()}, report.End.Received.Bits / 8, nil
}
