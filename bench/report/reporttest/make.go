// Package reporttest makes runs and reports for tests of reports and of their pages, the same for the same seed.
package reporttest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"datamove.dev/bench/report"
	"datamove.dev/bench/result"
	"datamove.dev/bench/roofline"
	"datamove.dev/test/must"
)

// Maker makes runs as the generator would write them, of what chance has done to them.
type Maker struct {
	chance  *rand.Rand
	noise   float64
	slower  map[string]float64 // by phase: of its rate
	Targets int                // 8 unless a test wants fewer
}

// NewMaker returns one with chance from that seed.
func NewMaker(seed uint64) *Maker {
	return &Maker{chance: rand.New(rand.NewPCG(seed, 1)), noise: 0.02, slower: map[string]float64{}, Targets: 8}
}

// Kind is a phase: what one node reaches alone, and of how many nodes there is half of the rate of the last.
type Kind struct {
	Suite, Name string
	Unit        result.Unit
	oneNode     float64
	half        float64
	micros      float64
}

// Kinds are phases of the suites of our own.
var Kinds = []Kind{
	{"large", "write", result.Bytes, 8.1e9, 22, 2900},
	{"large", "read", result.Bytes, 10.4e9, 30, 1800},
	{"large", "verify", result.Bytes, 9.1e9, 31, 2100},
	{"small", "create", result.Ops, 31e3, 7, 240},
	{"small", "stat", result.Ops, 88e3, 12, 80},
	{"small", "unlink", result.Ops, 35e3, 6, 210},
}

// IO500 are the phases of that one.
var IO500 = []Kind{
	{"io500", "ior-easy-write", result.Bytes, 8e9, 22, 3000},
	{"io500", "mdtest-easy-write", result.Ops, 31e3, 9, 240},
	{"io500", "ior-hard-write", result.Bytes, 0.9e9, 9, 900},
	{"io500", "mdtest-hard-write", result.Ops, 9e3, 8, 800},
	{"io500", "find", result.Ops, 400e3, 20, 10},
	{"io500", "ior-easy-read", result.Bytes, 10e9, 30, 1800},
	{"io500", "mdtest-easy-stat", result.Ops, 88e3, 12, 80},
	{"io500", "ior-hard-read", result.Bytes, 2.3e9, 12, 500},
	{"io500", "mdtest-hard-stat", result.Ops, 60e3, 12, 90},
	{"io500", "mdtest-easy-delete", result.Ops, 35e3, 9, 220},
	{"io500", "mdtest-hard-read", result.Ops, 20e3, 9, 300},
	{"io500", "mdtest-hard-delete", result.Ops, 11e3, 9, 700},
}

// Run is one run of Kinds of phases.
func (m *Maker) Run(nodes []int, repeats int, all ...Kind) *result.Run {
	r := &result.Run{Schema: result.Schema, ID: fmt.Sprintf("%016x", m.chance.Uint64()), Version: "1.8.0", Command: "datamove-bench run --suite large,small --nodes 1,2,4,8 --repeats 5 /scratch/bench",
		Begun: time.Date(2026, 11, 26, 20, 15, 0, 0, time.UTC)}
	for t := range m.Targets {
		r.Targets = append(r.Targets, fmt.Sprintf("/scratch/ost%02d", t))
	}
	for n := range nodes[len(nodes)-1] {
		r.Nodes = append(r.Nodes, result.Node{Name: fmt.Sprintf("gpu%03d", n+1), CPU: "AMD EPYC 9654 96-Core Processor", Cores: 192, MemoryBytes: 1536 << 30, Kernel: "6.12.48",
			ClockAhead: (m.chance.Float64() - 0.5) / 500, ClockError: 40e-6})
	}
	for repeat := range repeats {
		for _, n := range nodes {
			for _, k := range all {
				r.Phases = append(r.Phases, m.phase(k, n, repeat+1))
			}
		}
	}
	return r
}

const ranksOfNode = 16

// phase is one, that takes about twelve seconds.
func (m *Maker) phase(k Kind, nodes, repeat int) result.Phase {
	reached := k.oneNode * float64(nodes) / (1 + float64(nodes-1)/k.half) * (1 + m.noise*m.chance.NormFloat64())
	if by := m.slower[k.Name]; by > 0 {
		reached *= by
	}
	took := 12 + m.chance.Float64()
	amount := int64(reached * took)
	p := result.Phase{Suite: k.Suite, Name: k.Name, Unit: k.Unit, Repeat: repeat, NodeCount: nodes, Ranks: nodes * ranksOfNode, Cache: "direct, past page caches",
		What:  fmt.Sprintf("%d ranks on %d nodes, 1 file of 4.00 GiB each, in blocks of 4.00 MiB", nodes*ranksOfNode, nodes),
		Files: int64(nodes * ranksOfNode), Skew: m.chance.Float64() / 1000, SkewError: 80e-6, CPU: took * float64(nodes) * 3, PeakBytes: 300 << 20}
	p.Last = m.done(k.Unit, took, amount)
	p.First = m.done(k.Unit, took*0.9, int64(float64(amount)*0.93))
	const every = 0.25
	steps := int(math.Ceil(took / every))
	node, target := make([][]int64, nodes), make([][]int64, m.Targets)
	for i := range node {
		node[i] = make([]int64, steps)
	}
	for i := range target {
		target[i] = make([]int64, steps)
	}
	each := float64(amount) / float64(steps*nodes*m.Targets)
	for s := range steps {
		for n := range nodes {
			for t := range m.Targets {
				x := each * (1 + 0.2*m.chance.NormFloat64())
				if t == m.Targets-3 && s > 18 && s < 30 { // a server that has something else to do
					x *= 0.1
				}
				if t == 1 && s > 33 && s < 37 { // and one that stands still
					x = 0
				}
				if n == nodes-1 && nodes > 1 {
					x *= 0.8
				}
				if s == steps-1 {
					x *= math.Mod(took, every) / every
				}
				node[n][s] += int64(max(0, x))
				target[t][s] += int64(max(0, x))
			}
		}
	}
	for n := range node {
		p.PerNode = append(p.PerNode, m.share(fmt.Sprintf("gpu%03d", n+1), k.Unit, took-float64(n%3)*0.1, every, node[n]))
	}
	for t := range target {
		p.PerTarget = append(p.PerTarget, m.share(fmt.Sprintf("/scratch/ost%02d", t), k.Unit, took, every, target[t]))
	}
	p.Latency = m.Latency(k.micros, 20_000)
	return p
}

func (m *Maker) done(u result.Unit, seconds float64, amount int64) result.Done {
	if u == result.Bytes {
		return result.Done{Seconds: seconds, Bytes: amount, Ops: amount / (4 << 20)}
	}
	return result.Done{Seconds: seconds, Ops: amount}
}

func (m *Maker) share(name string, u result.Unit, seconds, every float64, series []int64) result.Share {
	sum := int64(0)
	for _, x := range series {
		sum += x
	}
	return result.Share{Name: name, Done: m.done(u, seconds, sum), Every: every, Series: series}
}

// Latency is one with a long tail.
func (m *Maker) Latency(micros float64, count int) result.Latency {
	h := hdrhistogram.New(100, int64(time.Hour), 2)
	for range count {
		v := micros * 1e3 * math.Exp(0.35*m.chance.NormFloat64())
		if m.chance.Float64() < 0.004 {
			v *= 6 + 20*m.chance.Float64()
		}
		_ = h.RecordValue(int64(v))
	}
	at := func(percent float64) float64 { return float64(h.ValueAtPercentile(percent)) / 1e3 }
	text, err := h.EncodeV2()
	if err != nil {
		panic(err)
	}
	return result.Latency{Count: h.TotalCount(), Mean: h.Mean() / 1e3, P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1e3, HDR: string(text)}
}

// Example is a run of all suites on up to eight nodes that is worse than it was, with some failures, beside what the cluster can do.
func Example(t testing.TB) *report.Report {
	t.Helper()
	m := NewMaker(1)
	m.slower["read"] = 0.82
	run := m.Run([]int{1, 2, 4, 8}, 5, append(append([]Kind{}, Kinds...), IO500...)...)
	run.Notes = []string{"the time of day of gpu004 is 1.2s off; phases begin together all the same"}
	for i := range run.Phases {
		switch p := &run.Phases[i]; {
		case p.Name == "verify" && p.NodeCount == 8 && p.Repeat == 2:
			p.Wrong = 3
		case p.Name == "stat" && p.NodeCount == 4 && p.Repeat == 1:
			p.Failed = "gpu003: lost: connection reset by peer"
		}
	}
	return report.Sum([]*result.Run{run}, report.Options{Baseline: []*result.Run{NewMaker(2).Run([]int{1, 2, 4, 8}, 5, Kinds...)}, Model: Founding(t)})
}

// Founding is what a cluster can do by its model.
func Founding(t testing.TB) *roofline.Report {
	t.Helper()
	c, err := roofline.Read("cluster.yaml", []byte("kind: Cluster\nname: founding\ntarget: {read: 500GB/s, write: 40GB/s}\nclients: {nodes: 32, nic: 100G}\nfabric: {bisection: 4.8T}\n"+
		"oss:\n  nodes: 14\n  nic: 100G\n  media: {devices: 24, read: 2.5GB/s, write: 1.8GB/s, parity: 8+2}\n"), nil)
	must.Do(t, err)
	r := c.Report()
	return &r
}

// nasty is text that would like to be more than text.
const nasty = "<script>alert(1)</script>\"><img src=x onerror=alert(2)>'`{{.}}</title></style></svg>\u202egnp.exe\u2066\x1b[31m\x00=cmd()\r\n"

// Hostile is a report of which every text is nasty.
func Hostile(t testing.TB) *report.Report {
	t.Helper()
	m := NewMaker(3)
	m.Targets = 3
	of := func() *result.Run {
		run := m.Run([]int{1, 2}, 3, Kinds[0], Kinds[3])
		run.ID, run.Version, run.Command, run.Failed, run.Notes = nasty, nasty, nasty, nasty, []string{nasty, nasty}
		for i := range run.Targets {
			run.Targets[i] = fmt.Sprint(i, nasty)
		}
		for i := range run.Nodes {
			n := &run.Nodes[i]
			n.Name, n.CPU, n.Kernel = fmt.Sprint(i, nasty), nasty, nasty
		}
		for i := range run.Phases {
			p := &run.Phases[i]
			p.Suite, p.Name, p.What, p.Cache, p.Durable = p.Suite+nasty, p.Name+nasty, nasty, nasty, nasty
			for k := range p.PerNode {
				p.PerNode[k].Name = fmt.Sprint(k, nasty)
			}
			for k := range p.PerTarget {
				p.PerTarget[k].Name = fmt.Sprint(k, nasty)
			}
			if p.Repeat == 2 {
				p.Failed = nasty
			}
			p.Latency.HDR += nasty
		}
		return run
	}
	model := Founding(t)
	model.Cluster = nasty
	return report.Sum([]*result.Run{of()}, report.Options{Baseline: []*result.Run{of()}, Model: model})
}
