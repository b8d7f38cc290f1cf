package fabric

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Fan is what it took to bring one dataset to all nodes.
type Fan struct {
	Agents      int
	Bytes       int64         // of the dataset
	SourceBytes int64         // that left the hub, as its network interface counts them: the source and the coordinator
	Elapsed     time.Duration // until the last node had it, whole and compared
	Link        time.Duration // that iperf3 would take for the same bytes over one link
	Measure
}

// Share is how often the dataset left its source.
func (f Fan) Share() float64 { return float64(f.SourceBytes) / float64(f.Bytes) }

// Slower is how much longer it took than one link does.
func (f Fan) Slower() float64 { return f.Elapsed.Seconds() / f.Link.Seconds() }

// FanOut stages one dataset to the own tiers of all nodes at once. The source is behind one link like that of each node.
func FanOut(ctx context.Context, r *Rig, w Work) (f Fan, err error) {
	f = Fan{Agents: len(r.Nodes), Bytes: w.bytes()}
	if err := tool(ctx, "qdisc replace dev eth0 root "+r.Link.tbf()+"\n", "tc", "-n", r.Hub.space, "-batch", "-"); err != nil {
		return f, err
	}
	one := *r
	one.Nodes = r.Nodes[:1]
	single, err := Ceiling(ctx, &one, 3*time.Second)
	if err != nil {
		return f, err
	}
	f.Link = time.Duration(float64(f.Bytes) / single.PerSec * float64(time.Second))
	server, err := w.Serve(ctx, &one)
	if err != nil {
		return f, err
	}
	defer server.Stop()
	s, err := w.nodeLocal(ctx, r)
	if err != nil {
		return f, err
	}
	f.Measure, f.SourceBytes, err = s.fan(ctx)
	f.Elapsed = f.Measure.Elapsed
	cpu, err := s.end(err)
	f.Measure.CPU = cpu
	return f, err
}

// nodeLocal is a service of which each node has a tier of its own.
func (w Work) nodeLocal(ctx context.Context, r *Rig) (*service, error) {
	const tier = "  nvme: {level: hot, path: %s, ephemeral: true, node_local: true}\n"
	s := w.newService(r)
	for _, n := range r.all() {
		dir := filepath.Join(n.Dir, "nvme")
		if err := errors.Join(os.MkdirAll(dir, 0o755), s.configure(n, fmt.Sprintf(tier, dir))); err != nil {
			return nil, err
		}
	}
	return s, s.begin(ctx)
}

// fan stages.
func (s *service) fan(ctx context.Context) (m Measure, source int64, err error) {
	if err := s.command(ctx, nil, "dataset", "add", "bulk", "pages:000/"); err != nil {
		return m, 0, err
	}
	before, err := sent(ctx, s.rig.Hub)
	if err != nil {
		return m, 0, err
	}
	m, err = s.rig.write(ctx, s.rig.Nodes, func(ctx context.Context, _ int, n *Node) (part, error) {
		if err := s.command(ctx, nil, "stage", "-q", "dataset:bulk", "--to", "nvme", "--node", n.Name, "--wait"); err != nil {
			return part{}, err
		}
		bytes, err := arrived(filepath.Join(n.Dir, "nvme", ".datasets"), s.bytes())
		return part{bytes: bytes}, err
	})
	if err != nil {
		return m, 0, err
	}
	after, err := sent(ctx, s.rig.Hub)
	return m, after - before, err
}

// sent is how many bytes have left a node, as its interface counts them.
func sent(ctx context.Context, n *Node) (int64, error) {
	p, err := n.Start(ctx, Command{Path: "/bin/cat", Args: []string{"/sys/class/net/eth0/statistics/tx_bytes"}})
	if err == nil {
		err = p.Wait()
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(p.Stdout.String()), 10, 64)
}
