package roofline

import (
	"fmt"
	"math/big"
	"strings"

	"datamove.dev/mover/config/yamldoc"
	"datamove.dev/mover/units"
)

// Cluster is what is declared of one.
type Cluster struct {
	At      yamldoc.Position
	Kind    string   `yaml:"kind" declare:"required"` // Cluster
	Name    string   `yaml:"name" declare:"required"`
	Source  []string `yaml:"source"` // where its figures are from
	Target  *Target  `yaml:"target"`
	Clients *Group   `yaml:"clients" declare:"required"`
	Fabric  *Fabric  `yaml:"fabric"`
	OSS     *Group   `yaml:"oss" declare:"required"`
	S3      *Group   `yaml:"s3"`
	WAN     Link     `yaml:"wan"` // 0 is none

	// Efficiency is the share of its line rate that a link ever carries as payload; 0 means 0.85. Measured ceilings are taken as they are.
	Efficiency float64 `yaml:"efficiency"`
	// Measured are ceilings that were measured alone, of one unit: "oss.nic".
	Measured  map[string]Rate `yaml:"measured"`
	Published *Published      `yaml:"published"`
}

// Target is what a cluster is to do.
type Target struct {
	Read  Rate `yaml:"read"` // aggregate, of the parallel file system; 0 is none
	Write Rate `yaml:"write"`
}

// Group is a number of servers, or clients, that are alike.
type Group struct {
	Nodes  int64 `yaml:"nodes" declare:"required"`
	NICs   int64 `yaml:"nics"` // of a node; 0 means 1
	NIC    Link  `yaml:"nic" declare:"required"`
	Memory Rate  `yaml:"memory"` // of a node: what its processor and memory move, each byte once; 0 is not known
	Media  Media `yaml:"media"`
	Cost   Cost  `yaml:"cost"` // of a node, with its NICs and media
}

// Media are the devices of one server. The zero value is not known.
type Media struct {
	Devices int64  `yaml:"devices"`
	Read    Rate   `yaml:"read"` // of a device
	Write   Rate   `yaml:"write"`
	Parity  Parity `yaml:"parity"` // how writes are spread; none writes each byte once
}

// Fabric is what is between clients and servers.
type Fabric struct {
	Bisection Link `yaml:"bisection"` // of all links between the two halves; 0 is not known
}

// Published is what was measured on a public system.
type Published struct {
	Read  Rate `yaml:"read"`
	Write Rate `yaml:"write"`
}

// Cost is money, in a currency that the file has one of.
type Cost = float64

// Rate is bytes per second: 6.8GB/s.
type Rate float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) error {
	n, err := units.ParseRate(string(text))
	*r = Rate(n)
	return err
}

// GB is a rate in GB/s.
func (r Rate) GB() float64 { return float64(r) / 1e9 }

// Link is a line rate, written as links are called: 100G, 400GbE, 4.8T, 200 Gb/s. It is in bytes per second.
type Link float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Link) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	for _, end := range []string{"bit/s", "bps", "b/s", "bE"} {
		s = strings.TrimSuffix(s, end)
	}
	s = strings.TrimSpace(s)
	number, factor := s, int64(1)
	for unit, of := range map[string]int64{"G": 1e9, "T": 1e12, "M": 1e6} {
		if rest, is := strings.CutSuffix(s, unit); is {
			number, factor = strings.TrimSpace(rest), of
		}
	}
	value, ok := new(big.Rat).SetString(number)
	if !ok || factor == 1 || len(number) > 16 || strings.Trim(number, "0123456789.") != "" {
		return fmt.Errorf("%q: want the rate of a link in bits, like 100G, 400GbE, 200Gb/s or 4.8T", text)
	}
	bits, _ := value.Float64()
	*l = Link(bits * float64(factor) / 8)
	return nil
}

// Parity is how many devices have data, and how many parity: 8+2.
type Parity struct{ Data, Parity int64 }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Parity) UnmarshalText(text []byte) error {
	if _, err := fmt.Sscanf(string(text), "%d+%d", &p.Data, &p.Parity); err != nil || p.Data < 1 || p.Parity < 0 || p.Data+p.Parity > 1000 || fmt.Sprintf("%d+%d", p.Data, p.Parity) != string(text) {
		return fmt.Errorf("%q: want data and parity, like 8+2", text)
	}
	return nil
}

// share is how much of what is written is data.
func (p Parity) share() float64 {
	if p.Data == 0 {
		return 1
	}
	return float64(p.Data) / float64(p.Data+p.Parity)
}

// nodesMost bounds numbers of nodes, NICs and devices.
const nodesMost = 1_000_000

// Read reads the cluster in a text, with some of its fields set to something else: "oss.nic=400G". What is wrong with it is yamldoc.Problems, which are mover.ErrUsage.
func Read(file string, text []byte, set []string) (*Cluster, error) {
	r := &yamldoc.Reader{File: file}
	all := r.Documents(text)
	if len(all) != 1 {
		r.Add(nil, "", "want one cluster, and not %d", len(all))
		return nil, r.Err()
	}
	for _, one := range set {
		if err := change(all[0], one); err != nil {
			return nil, err
		}
	}
	c := &Cluster{}
	r.Into(all[0], "", c)
	if err := r.Err(); err != nil {
		return nil, err
	}
	c.check(r)
	return c, r.Err()
}

// check looks at what fields say together.
func (c *Cluster) check(r *yamldoc.Reader) {
	if c.Kind != "Cluster" {
		r.AddAt(c.At, "kind", "want Cluster, and not %q", c.Kind)
	}
	if c.Efficiency > 1 {
		r.AddAt(c.At, "efficiency", "want a share of the line rate, from 0 to 1, and not %g", c.Efficiency)
	}
	for name, g := range map[string]*Group{"clients": c.Clients, "oss": c.OSS, "s3": c.S3} {
		if g == nil {
			continue
		}
		if g.Nodes < 1 || max(g.Nodes, g.NICs, g.Media.Devices) > nodesMost {
			r.AddAt(c.At, name, "want 1 to %d nodes, and as many NICs and devices at most", nodesMost)
		}
		if g.NIC <= 0 {
			r.AddAt(c.At, name+".nic", "is missing: a node without a link reaches no other")
		}
	}
	for name := range c.Measured {
		if !known[name] {
			r.AddAt(c.At, "measured."+name, "there is no such ceiling; want one of %s", strings.Join(names(), ", "))
		}
	}
	if c.Target != nil && c.Target.Read == 0 && c.Target.Write == 0 {
		r.AddAt(c.At, "target", "want read, write or both")
	}
}
