package roofline

import (
	"maps"
	"math"
	"slices"
)

// usual is the share of its line rate that a link carries as payload at most where nothing was measured: 3FS has 81 % at its servers, Perlmutter more than 90 % by LNet.
const usual = 0.85

// Ceiling is what one kind of thing can carry at most, of all of its kind together.
type Ceiling struct {
	Name     string // "oss.nic"
	Units    int64
	Unit     string  // what there may be more of: "OSS"
	Per      float64 // bytes per second of a unit
	Measured bool    // alone; else it is declared
}

// Total is that of all units, in bytes per second.
func (c *Ceiling) Total() float64 { return float64(c.Units) * c.Per }

// Missing is how many units more it takes to carry a rate.
func (c *Ceiling) Missing(rate float64) int64 {
	return max(0, int64(math.Ceil(rate/c.Per-1e-9))-c.Units)
}

// Path is a way that bytes go.
type Path string

// The paths.
const (
	Reading Path = "read"  // from the parallel file system to clients
	Writing Path = "write" // from clients to the parallel file system
	Staging Path = "stage" // from the object store through clients to the parallel file system
)

// known are the ceilings that may be measured alone.
var known = map[string]bool{"clients.nic": true, "clients.memory": true, "fabric.bisection": true, "oss.nic": true, "oss.memory": true, "oss.read": true, "oss.write": true, "s3.nic": true, "s3.memory": true, "s3.read": true, "wan": true}

func names() []string { return slices.Sorted(maps.Keys(known)) }

// Ceilings are those of a path, the lowest first. What is not declared is none.
func (c *Cluster) Ceilings(p Path) (all []Ceiling) {
	add := func(name, unit string, count int64, per float64) {
		rate, measured := c.Measured[name]
		if measured {
			per = float64(rate)
		}
		if per > 0 {
			all = append(all, Ceiling{name, count, unit, per, measured})
		}
	}
	share := c.Efficiency
	if share == 0 {
		share = usual
	}
	group := func(name, unit string, g *Group, media bool) {
		add(name+".nic", unit, g.Nodes, float64(max(1, g.NICs))*float64(g.NIC)*share)
		add(name+".memory", unit, g.Nodes, float64(g.Memory))
		if !media {
			return
		}
		if p == Reading || name == "s3" {
			add(name+".read", unit, g.Nodes, float64(g.Media.Devices)*float64(g.Media.Read))
		} else {
			add(name+".write", unit, g.Nodes, float64(g.Media.Devices)*float64(g.Media.Write)*g.Media.Parity.share())
		}
	}
	group("clients", "client", c.Clients, false)
	if c.Fabric != nil && c.Fabric.Bisection > 0 {
		const gbit = 1e9 / 8
		add("fabric.bisection", "Gb/s", int64(float64(c.Fabric.Bisection)/gbit), gbit*share)
	}
	group("oss", "OSS", c.OSS, true)
	if p == Staging {
		if c.S3 != nil {
			group("s3", "S3 server", c.S3, true)
		}
		add("wan", "line", 1, float64(c.WAN)*share)
	}
	slices.SortStableFunc(all, func(a, b Ceiling) int { return compareRates(a.Total(), b.Total()) })
	return all
}

func compareRates(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Roof is what a path can carry at most, and what binds it.
func (c *Cluster) Roof(p Path) Ceiling { return c.Ceilings(p)[0] }

// Without is the cluster after one of its servers has failed.
func (c *Cluster) Without() *Cluster {
	less, oss := *c, *c.OSS
	oss.Nodes--
	less.OSS = &oss
	return &less
}

// Price is what the nodes with a declared cost cost together; 0 is none.
func (c *Cluster) Price() (all float64) {
	for _, g := range []*Group{c.Clients, c.OSS, c.S3} {
		if g != nil {
			all += float64(g.Nodes) * g.Cost
		}
	}
	return all
}
