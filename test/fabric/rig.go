package fabric

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// MaxNodes is how many nodes a rig can have.
const MaxNodes = 200

// Link is how fast a node is connected, in each direction.
type Link struct {
	Mbit       int           // per second; 0 means 125
	BurstBytes int           // 0 means 256 KiB
	Latency    time.Duration // how long a packet may wait; 0 means 50 ms
}

func (l Link) orDefault() Link {
	if l.Mbit == 0 {
		l.Mbit = 125
	}
	if l.BurstBytes == 0 {
		l.BurstBytes = 256 << 10
	}
	if l.Latency == 0 {
		l.Latency = 50 * time.Millisecond
	}
	return l
}

// BytesPerSecond is what the link lets through, headers included.
func (l Link) BytesPerSecond() int64 { return int64(l.orDefault().Mbit) * 1e6 / 8 }

// tbf is the link in the words of tc.
func (l Link) tbf() string {
	l = l.orDefault()
	return fmt.Sprintf("tbf rate %dmbit burst %d latency %dus", l.Mbit, l.BurstBytes, l.Latency.Microseconds())
}

// Rig is a cluster on this machine. New makes one, Close takes it away.
type Rig struct {
	Hub   *Node   // has the servers; its link is not shaped
	Nodes []*Node // have the agents
	Link  Link
	Dir   string // in memory: what the nodes write

	name   string
	memory *reserve // nil: none is needed
}

// Node is one namespace of a rig.
type Node struct {
	Name string // hub, n01, n02, ...
	IP   string
	Dir  string // of this node alone, in memory

	space string // name of its namespace
}

// mac is its address on the switch.
func (n *Node) mac() string {
	ip := net.ParseIP(n.IP).To4()
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", ip[0], ip[1], ip[2], ip[3])
}

// made counts the rigs of this process.
var made atomic.Int64

// New sweeps what dead rigs have left, and makes a rig of so many nodes.
func New(ctx context.Context, nodes int, link Link) (*Rig, error) {
	if nodes < 1 || nodes > MaxNodes {
		return nil, fmt.Errorf("a rig has 1 to %d nodes, not %d", MaxNodes, nodes)
	}
	if err := Sweep(ctx); err != nil {
		return nil, err
	}
	r := &Rig{Link: link.orDefault(), name: fmt.Sprintf("%s%d", mine(), made.Add(1))}
	r.Hub = r.node("hub", "10.231.0.1")
	for i := range nodes {
		r.Nodes = append(r.Nodes, r.node(fmt.Sprintf("n%02d", i+1), fmt.Sprintf("10.231.1.%d", i+1)))
	}
	if err := r.build(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Rig) node(name, ip string) *Node {
	return &Node{Name: name, IP: ip, Dir: filepath.Join(memory, r.name, name), space: r.name + "-" + name}
}

func (r *Rig) all() []*Node { return append([]*Node{r.Hub}, r.Nodes...) }

func (r *Rig) bridge() string { return r.name + "-switch" }

// build makes the namespaces, then the bridge and a pair of devices for each node,
// then shapes both ends of the pair: each shapes what leaves it.
func (r *Rig) build(ctx context.Context) error {
	spaces := "netns add " + r.bridge() + "\n"
	ports := "link add br0 type bridge\nlink set br0 up\n"
	shapes := ""
	for _, n := range r.all() {
		spaces += "netns add " + n.space + "\n"
		ports += fmt.Sprintf("link add %s type veth peer name eth0 netns %s\nlink set %s master br0\nlink set %s up\n", n.Name, n.space, n.Name, n.Name)
		if n != r.Hub {
			shapes += fmt.Sprintf("qdisc add dev %s root %s\n", n.Name, r.Link.tbf())
		}
	}
	r.Dir = filepath.Join(memory, r.name)
	err := errors.Join(tool(ctx, spaces, "ip", "-batch", "-"), mount(r.Dir))
	if err == nil {
		err = set(ctx, r.bridge(), "net/bridge/bridge-nf-call-iptables", "0") // no firewall looks at what passes the switch
	}
	if err == nil {
		err = tool(ctx, ports, "ip", "-n", r.bridge(), "-batch", "-")
	}
	if err == nil {
		err = tool(ctx, shapes, "tc", "-n", r.bridge(), "-batch", "-")
	}
	for _, n := range r.all() {
		if err == nil {
			err = r.connect(ctx, n)
		}
	}
	return err
}

// mount makes a file system in memory: what the nodes write to is to cost as little as it can. Large pages would make it dearer, and a small
// file as large as one of them.
func mount(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return unix.Mount(prefix, dir, "tmpfs", 0, "mode=755,size=80%")
}

// segments is how many packets TCP sends at least as one on a link: as many as there are in 64 KiB, or as one of 125 Mbit/s sends in that time.
// At the speed of a real link it does so by itself; the links here are slow, and it would make small ones, whose cost is that of a thousand times as many packets. On
// a slower one those of many streams would find no place in the queue.
func (l Link) segments() int { return min(max(44*l.orDefault().Mbit/125, 2), 44) }

// control is how TCP finds its rate: in a way that every namespace may choose. BBR, where it
// is the usual one, sets a timer for each stream and packet, and on a virtual machine that
// costs more than the packet.
const control = "reno"

// set writes a setting of the kernel in a namespace, if the kernel has it.
func set(ctx context.Context, space, name, value string) error {
	return tool(ctx, "", "ip", "netns", "exec", space, "sh", "-c", fmt.Sprintf("test ! -e /proc/sys/%[1]s || echo %[2]s > /proc/sys/%[1]s", name, value))
}

func (r *Rig) connect(ctx context.Context, n *Node) error {
	err := errors.Join(set(ctx, n.space, "net/ipv4/tcp_min_tso_segs", strconv.Itoa(r.Link.segments())), set(ctx, n.space, "net/ipv4/tcp_congestion_control", control))
	if err != nil {
		return err
	}
	lines := fmt.Sprintf("link set lo up\nlink set eth0 address %s\naddr add %s/16 dev eth0\nlink set eth0 up\n", n.mac(), n.IP)
	for _, x := range r.all() {
		if x != n { // who has to be looked for is one of 1024 that all namespaces together may know: gc_thresh3 of arp(7)
			lines += fmt.Sprintf("neigh add %s lladdr %s dev eth0 nud permanent\n", x.IP, x.mac())
		}
	}
	err = tool(ctx, lines, "ip", "-n", n.space, "-batch", "-")
	if err == nil && n != r.Hub {
		err = tool(ctx, "qdisc add dev eth0 root "+r.Link.tbf()+"\n", "tc", "-n", n.space, "-batch", "-")
	}
	return errors.Join(err, os.Mkdir(n.Dir, 0o755))
}

// reshape gives all links another speed, also that of the hub.
func (r *Rig) reshape(ctx context.Context, l Link) error {
	ports := ""
	var err error
	for _, n := range r.all() {
		if n != r.Hub {
			ports += fmt.Sprintf("qdisc replace dev %s root %s\n", n.Name, l.tbf())
		}
		err = errors.Join(err, tool(ctx, "qdisc replace dev eth0 root "+l.tbf()+"\n", "tc", "-n", n.space, "-batch", "-"))
	}
	return errors.Join(err, tool(ctx, ports, "tc", "-n", r.bridge(), "-batch", "-"))
}

// Close kills what still runs in the rig, and removes it. It does not need the
// context of New.
func (r *Rig) Close() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	return sweep(ctx, func(name string) bool { return strings.HasPrefix(name, r.name+"-") || name == r.name })
}

// tool runs a program of iproute2 with its commands on standard input.
func tool(ctx context.Context, input, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
