package roofline_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"datamove.dev/bench/result"
	"datamove.dev/bench/roofline"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// ran is a run of some numbers of nodes, five times each, on as many hosts; what is written is verified.
func ran(sizes []int, rate func(nodes int) float64) *result.Run {
	r := &result.Run{Schema: result.Schema}
	most := 0
	for _, n := range sizes {
		most = max(most, n)
	}
	for i := range most {
		r.Nodes = append(r.Nodes, result.Node{Name: fmt.Sprintf("n%02d", i), Host: fmt.Sprint(i)})
	}
	for repeat := range 5 {
		for _, n := range sizes {
			for _, name := range []string{"write", "read", "verify"} {
				p := result.Phase{Suite: "large", Name: name, Unit: result.Bytes, Repeat: repeat + 1, NodeCount: n, Last: result.Done{Seconds: 100, Bytes: int64(100 * rate(n))}}
				for i := range n {
					p.PerNode = append(p.PerNode, result.Share{Name: fmt.Sprintf("n%02d", i)})
				}
				r.Phases = append(r.Phases, p)
			}
		}
	}
	return r
}

// measured is a cluster of 32 clients whose roof was measured, and is that of one server.
func measured(t *testing.T, roof, target float64) *roofline.Cluster {
	text := fmt.Sprintf("kind: Cluster\nname: c\nclients: {nodes: 32, nic: 800G}\noss: {nodes: 1, nic: 800G}\nmeasured: {oss.nic: %.0fB/s}\ntarget: {read: %.0fB/s}\n", roof, target)
	c := must.Get(roofline.Read("c.yaml", []byte(text), nil))(t)
	return c
}

// TestVerdicts: of 300 systems, run with some of their nodes or with all of them, none is validated that does not reach its target, and those that clearly do are; what fewer nodes
// are said to show is right for nineteen in twenty.
func TestVerdicts(t *testing.T) {
	wrong, clear, validated, said, right := 0, 0, 0, 0, 0
	for seed := uint64(1); seed <= 300; seed++ {
		r := rand.New(rand.NewPCG(seed, 3))
		truth, roof := system(r)
		is := truth(32)
		target := is * (0.8 + 0.4*r.Float64())
		sizes := [][]int{{1, 2, 4}, {1, 2, 4, 8}, {1, 2, 4, 8, 16}, {1, 2, 4, 8, 16, 24}, {1, 8, 32}, {32}}[r.IntN(6)]
		run := ran(sizes, func(n int) float64 { return truth(float64(n)) * (1 + 0.03*r.NormFloat64()) })
		all := sizes[len(sizes)-1] == 32
		a := measured(t, roof, target).Judge(roofline.Reading, target, run)
		if all && is > 1.1*target {
			clear++
		}
		switch a.Verdict {
		case roofline.Validated:
			validated++
			if is < target || !all {
				wrong++
				t.Errorf("seed %d: validated, and the truth is %.3f of the target (%v)", seed, is/target, sizes)
			}
		case roofline.Extrapolated:
			if said++; is >= target {
				right++
			}
			if len(sizes) < 5 {
				t.Errorf("seed %d: extrapolated of %v", seed, sizes)
			}
		case roofline.Refuted:
			if a.Binding == "extrapolated" || a.Binding == "measured" {
				if said++; is < target {
					right++
				}
			}
		}
	}
	t.Logf("validated %d, of %d that reach it clearly; %d of %d others right", validated, clear, right, said)
	if validated < clear*9/10 || clear < 10 {
		t.Errorf("validated %d of %d", validated, clear)
	}
	if right < said*19/20 || said < 50 {
		t.Errorf("right in %d of %d", right, said)
	}
}

// TestNotValidated: what was not measured at that scale, not often enough, not verified, or can not be, is not validated; and it is said why.
func TestNotValidated(t *testing.T) {
	good := func() *result.Run { return ran([]int{32}, func(int) float64 { return 520e9 }) }
	each := func(change func(p *result.Phase)) func(*result.Run) {
		return func(r *result.Run) {
			for i := range r.Phases {
				change(&r.Phases[i])
			}
		}
	}
	for why, row := range map[string]struct {
		change  func(*result.Run)
		verdict roofline.Verdict
		note    string
	}{
		"it was": {func(*result.Run) {}, roofline.Validated, ""},
		"one host": {func(r *result.Run) {
			for i := range r.Nodes {
				r.Nodes[i].Host = "x"
			}
		}, roofline.Modelled, "nodes on one host count as one"},
		"no host": {func(r *result.Run) {
			for i := range r.Nodes {
				r.Nodes[i].Host = ""
			}
		}, roofline.Modelled, "nodes on one host count as one"},
		"fewer nodes":    {func(r *result.Run) { *r = *ran([]int{31}, func(int) float64 { return 520e9 }) }, roofline.Modelled, "run at least 3 sizes"},
		"from memory":    {each(func(p *result.Phase) { p.Cached = true }), roofline.Modelled, "memory of clients"},
		"it has failed":  {each(func(p *result.Phase) { p.Failed = "x" }), roofline.Modelled, "has failed"},
		"a wrong block":  {each(func(p *result.Phase) { p.Wrong = int64(len(p.Name) / 6) }), roofline.Modelled, "not compared"},
		"not verified":   {each(func(p *result.Phase) { p.Suite, p.Name = "io500", "ior-easy-"+p.Name }), roofline.Modelled, "not compared"},
		"twice":          {func(r *result.Run) { r.Phases = r.Phases[:6] }, roofline.Modelled, "3 make a verdict"},
		"less":           {each(func(p *result.Phase) { p.Last.Bytes = p.Last.Bytes * 9 / 10 }), roofline.Refuted, "no ceiling that is known"},
		"just as much":   {func(r *result.Run) { r.Phases[1].Last.Bytes = r.Phases[1].Last.Bytes * 8 / 10 }, roofline.Modelled, "too near"},
		"above the roof": {each(func(p *result.Phase) { p.Last.Bytes *= 2 }), roofline.Modelled, "a ceiling is declared wrongly, or"},
		"something else": {each(func(p *result.Phase) { p.Suite = "small" }), roofline.Modelled, "no run has measured this path"},
	} {
		r := good()
		row.change(r)
		a := measured(t, 600e9, 500e9).Judge(roofline.Reading, 500e9, r)
		if a.Verdict != row.verdict || !strings.Contains(strings.Join(a.Notes, "\n"), row.note) || row.note == "" && len(a.Notes) > 0 {
			t.Errorf("%s: %s, %q", why, a.Verdict, a.Notes)
		}
	}
	if a := measured(t, 400e9, 500e9).Judge(roofline.Reading, 500e9, good()); a.Verdict != roofline.Refuted || a.Binding != "oss.nic" || !strings.Contains(strings.Join(a.Notes, "\n"), "the roof is 400 by oss.nic") {
		t.Errorf("a roof below what was measured: %+v", a)
	}
}

// TestOnTop: of several targets the weakest verdict is on top.
func TestOnTop(t *testing.T) {
	c := measured(t, 600e9, 500e9)
	c.Target.Write = 300e9
	r := ran([]int{32}, func(int) float64 { return 520e9 })
	for i := range r.Phases {
		if r.Phases[i].Name == "write" {
			r.Phases[i].Last.Bytes /= 2
		}
	}
	if top := c.Report(r); top.Path != roofline.Writing || top.Verdict != roofline.Refuted || top.Paths[0].Verdict != roofline.Validated {
		t.Errorf("%+v", top)
	}
}

// TestMeasure: what was measured on one of a group is the ceiling of each of them, and is not called declared.
func TestMeasure(t *testing.T) {
	c := cluster(t, "corrected")
	must.Do(t, c.Measure("oss", map[string][]float64{"nic.send": {40e9, 44e9}, "nic.receive": {43e9}, "disk.read": {30e9, 25e9}, "hash": {20e9}, "meta.stat": {1e6}}))
	want := map[string]float64{"oss.nic": 43e9, "oss.read": 55e9}
	for _, one := range c.Ceilings(roofline.Reading) {
		if rate, ok := want[one.Name]; ok != one.Measured || ok && one.Per != rate {
			t.Errorf("%+v", one)
		}
	}
	if err := c.Measure("mds", nil); !errors.Is(err, mover.ErrUsage) {
		t.Error(err)
	}
	if err := c.Measure("oss", map[string][]float64{"disk.read": {-1}}); !errors.Is(err, mover.ErrUsage) {
		t.Error(err)
	}
}
