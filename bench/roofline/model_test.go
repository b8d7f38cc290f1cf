package roofline_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/bench/roofline"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// cluster reads one of those that are shipped.
func cluster(t *testing.T, name string, set ...string) *roofline.Cluster {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("../../deploy/clusters", name+".yaml")))(t)
	c := must.Get(roofline.Read(name+".yaml", text, set))(t)
	return c
}

func near(a, b float64) bool { return math.Abs(a-b) <= 0.005*math.Abs(b) }

// TestFounding: 500 GB/s is refused to the founding design, with what binds it and what is missing; and is within reach of the corrected one, also with an OSS down.
func TestFounding(t *testing.T) {
	a := cluster(t, "founding").Judge(roofline.Reading, 500e9)
	if a.Verdict != roofline.Refuted || a.Binding != "oss.nic" || !near(a.Roof, 148.75) || a.Missing["oss.nic"] != 34 || a.Missing["clients.nic"] != 16 || len(a.Missing) != 2 {
		t.Errorf("%+v", a)
	}
	for oss, roof := range map[int]float64{12: 127.5, 16: 170} {
		if a := cluster(t, "founding", fmt.Sprintf("oss.nodes=%d", oss)).Judge(roofline.Reading, 500e9); a.Verdict != roofline.Refuted || !near(a.Roof, roof) {
			t.Errorf("%d OSS: %+v", oss, a)
		}
	}
	if a := cluster(t, "founding", "oss.nic=400G").Judge(roofline.Reading, 500e9); a.Verdict != roofline.Refuted || a.Binding != "clients.nic" || !near(a.Roof, 340) {
		t.Errorf("with other servers alone: %+v", a)
	}
	if a := cluster(t, "founding", "oss.nic=400G", "clients.nic=200G").Judge(roofline.Reading, 500e9); a.Verdict != roofline.Modelled || a.Binding != "fabric.bisection" || !near(a.Roof, 510) {
		t.Errorf("what-if: %+v", a)
	}
	for _, a := range cluster(t, "corrected").Answers() {
		if a.Verdict != roofline.Modelled || len(a.Missing) > 0 || a.OneDown < a.Target {
			t.Errorf("%+v", a)
		}
	}
}

// TestPublished: of systems that are known, the roof is within 15 % of what was measured there: one that its servers bind, and one that its clients do.
func TestPublished(t *testing.T) {
	for name, binding := range map[string]string{"3fs": "oss.nic", "arches": "clients.nic"} {
		c := cluster(t, name)
		roof, measured := c.Roof(roofline.Reading), float64(c.Published.Read)
		if roof.Name != binding || math.Abs(roof.Total()/measured-1) > 0.15 || c.Published.Write != 0 {
			t.Errorf("%s: %.0f GB/s by %s, and %.0f were measured", name, roof.Total()/1e9, roof.Name, measured/1e9)
		}
		t.Logf("%s: %.0f GB/s by %s, %.3f of what was measured", name, roof.Total()/1e9, roof.Name, roof.Total()/measured)
	}
}

// TestCost: what a GB/s costs is the price of all nodes by the roof of a path; without prices there is none.
func TestCost(t *testing.T) {
	set := []string{"clients.cost=10000", "oss.cost=50000.5"}
	c := cluster(t, "founding", set...)
	a := c.Judge(roofline.Reading, 500e9)
	if price := float64(c.Clients.Nodes)*10_000 + float64(c.OSS.Nodes)*50_000.5; c.Price() != price || !near(a.Cost, price/a.Roof) {
		t.Errorf("%.2f, and each GB/s %.2f of %.1f", c.Price(), a.Cost, a.Roof)
	}
	if a := cluster(t, "founding").Judge(roofline.Reading, 500e9); a.Cost != 0 {
		t.Errorf("a cluster without prices costs %g", a.Cost)
	}
}

// topology is a cluster of which one ceiling is the lowest by a margin; what is read of the file alone says which.
func topology(seed uint64) (text, binding string, roof float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	links := []float64{25, 50, 100, 200, 400, 800}
	pick := func(all []float64) float64 { return all[r.IntN(len(all))] }
	clients, oss := 1+r.IntN(512), 1+r.IntN(64)
	clientNIC, ossNIC := pick(links), pick(links)
	bisection := float64(1+r.IntN(400)) * 100
	devices, rate := 1+r.IntN(36), 0.5+6*r.Float64()
	memory, clientMemory := 20+400*r.Float64(), 20+400*r.Float64()
	text = fmt.Sprintf(`kind: Cluster
name: seed-%d
efficiency: 0.9
clients: {nodes: %d, nic: %gG, memory: %.3fGB/s}
fabric: {bisection: %gG}
oss: {nodes: %d, nics: 2, nic: %gG, memory: %.3fGB/s, media: {devices: %d, read: %.3fGB/s}}
`, seed, clients, clientNIC, clientMemory, bisection, oss, ossNIC, memory, devices, rate)
	roof = math.Inf(1)
	for name, total := range map[string]float64{
		"clients.nic": float64(clients) * clientNIC / 8 * 0.9, "clients.memory": float64(clients) * clientMemory, "fabric.bisection": bisection / 8 * 0.9,
		"oss.nic": float64(oss) * 2 * ossNIC / 8 * 0.9, "oss.memory": float64(oss) * memory, "oss.read": float64(oss*devices) * rate,
	} {
		if total < roof {
			binding, roof = name, total
		}
	}
	return text, binding, roof
}

// TestTopologies: of twenty clusters by chance the ceiling that binds is named.
func TestTopologies(t *testing.T) {
	bound := map[string]int{}
	for seed := uint64(1); seed <= 20; seed++ {
		text, binding, roof := topology(seed)
		c := must.Get(roofline.Read("c.yaml", []byte(text), nil))(t)
		got := c.Roof(roofline.Reading)
		if got.Name != binding || !near(got.Total()/1e9, roof) {
			t.Errorf("seed %d: %s with %.1f GB/s, want %s with %.1f\n%s", seed, got.Name, got.Total()/1e9, binding, roof, text)
		}
		bound[binding]++
		if a := c.Judge(roofline.Reading, roof*1.01e9); a.Verdict != roofline.Refuted || a.Missing[binding] < 1 {
			t.Errorf("seed %d, a hundredth more: %+v", seed, a)
		}
		if a := c.Judge(roofline.Reading, roof*0.99e9); a.Verdict != roofline.Modelled {
			t.Errorf("seed %d, a hundredth less: %+v", seed, a)
		}
	}
	if len(bound) < 4 {
		t.Errorf("it is always the same that binds: %v", bound)
	}
}

// TestMeasured: what was measured alone stands for what is declared, and is said to be.
func TestMeasured(t *testing.T) {
	c := cluster(t, "corrected", "measured.oss.nic=30GB/s")
	a := c.Judge(roofline.Reading, 500e9)
	if a.Verdict != roofline.Refuted || a.Binding != "oss.nic" || !near(a.Roof, 390) || a.Missing["oss.nic"] != 4 || !a.Ceilings[0].Measured || strings.Contains(strings.Join(a.Declared, " "), "oss.nic") {
		t.Errorf("%+v", a)
	}
}

// TestMistakes: what is wrong with a cluster is said, with its line.
func TestMistakes(t *testing.T) {
	const good = "kind: Cluster\nname: x\nclients: {nodes: 2, nic: 100G}\noss: {nodes: 2, nic: 100G}\n"
	for _, row := range []struct {
		text string
		set  string
		want string
	}{
		{"", "", "want one cluster, and not 0"},
		{good + "---\n" + good, "", "want one cluster, and not 2"},
		{strings.Replace(good, "Cluster", "Klaster", 1), "", `c.yaml:1:1: kind: want Cluster, and not "Klaster"`},
		{strings.Replace(good, "nic: 100G}\noss", "nic: 100GB/s}\noss", 1), "", "c.yaml:3:26: clients.nic: \"100GB/s\": want the rate of a link in bits, like 100G"},
		{strings.Replace(good, "nodes: 2", "nodes: 0", 1), "", "clients.nodes: is missing"},
		{strings.Replace(good, "nodes: 2", "nodes: 1000001", 1), "", "want 1 to 1000000 nodes"},
		{good + "ost: {}\n", "", "c.yaml:5:1: ost: unknown field; did you mean oss?"},
		{good + "efficiency: 85\n", "", "efficiency: want a share of the line rate"},
		{good + "measured: {oss.nics: 1GB/s}\n", "", "there is no such ceiling"},
		{good + "target: {}\n", "", "want read, write or both"},
		{good, "oss.cost=-1", "oss.cost: want a number, 0 or more"},
		{good, "oss.cost=.inf", "oss.cost: want a number, 0 or more"},
		{good, "clients.cost=5000 EUR", "clients.cost: want a number, 0 or more"},
		{good, "oss.nic", "want FIELD=VALUE"},
		{good, "oss.nic.x=1", "is no table of fields"},
		{good, "oss.nik=400G", "unknown field; did you mean nic?"},
	} {
		set := []string{}
		if row.set != "" {
			set = append(set, row.set)
		}
		_, err := roofline.Read("c.yaml", []byte(row.text), set)
		if !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q %s: %v, want %s", row.text, row.set, err, row.want)
		}
	}
}
