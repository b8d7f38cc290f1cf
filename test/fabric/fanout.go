package fabric

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
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

// quickMbit is how quick links are while nothing is measured.
const quickMbit = 5000

// Slower is how much longer it took than one link does.
func (f Fan) Slower() float64 { return f.Elapsed.Seconds() / f.Link.Seconds() }

// Unrest is what happens while nodes stage. The zero value is nothing.
type Unrest struct {
	Late time.Duration // after which the last node begins
	Dies time.Duration // after which the first node is cut off, and its agent killed
}

// FanOut stages one dataset to the own tiers of all nodes at once. The source is behind one link like that of each node.
func FanOut(ctx context.Context, r *Rig, w Work, u Unrest) (f Fan, err error) {
	f = Fan{Agents: len(r.Nodes), Bytes: w.bytes()}
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
	f.Measure, f.SourceBytes, err = s.fan(ctx, u)
	f.Elapsed = f.Measure.Elapsed
	cpu, err := s.end(err)
	f.Measure.CPU = cpu
	return f, err
}

// Fan measures row by row how one dataset comes to all nodes, and prints a table. The slowest of a row's rounds counts.
func (p Plan) Fan(ctx context.Context, w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "agents\tMB\tleft its source\tlast s\tone link s\tof one link\tCPU-s/GB\tidle\t")
	work := WorkFor(p.Programs, p.Link, p.Span, p.Object)
	for _, agents := range p.Agents {
		var worst Fan
		for range max(1, p.Rounds) {
			f, err := p.fan(ctx, agents, work)
			if err != nil {
				return errors.Join(fmt.Errorf("%d agents: %w", agents, err), t.Flush())
			}
			if f.Slower() > worst.Slower() || worst.Agents == 0 {
				worst = f
			}
		}
		fmt.Fprintf(t, "%d\t%.0f\t%.3f\t%.1f\t%.1f\t%.2f\t%.1f\t%.0f %%\t\n", agents, float64(worst.Bytes)/1e6, worst.Share(), worst.Elapsed.Seconds(), worst.Link.Seconds(),
			worst.Slower(), worst.CPU.Seconds()/(float64(worst.Bytes)*float64(agents)/1e9), worst.Idle)
	}
	return t.Flush()
}

func (p Plan) fan(ctx context.Context, agents int, work Work) (f Fan, err error) {
	if err := fits(work.bytes() * int64(agents)); err != nil {
		return f, err
	}
	rig, err := New(ctx, agents, p.Link)
	if err != nil {
		return f, err
	}
	f, err = FanOut(ctx, rig, work, Unrest{})
	return f, errors.Join(err, rig.Close())
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
func (s *service) fan(ctx context.Context, u Unrest) (m Measure, source int64, err error) {
	if err := errors.Join(s.rig.reshape(ctx, Link{Mbit: quickMbit}), s.command(ctx, nil, "dataset", "add", "bulk", "pages:000/"), s.rig.reshape(ctx, s.rig.Link)); err != nil {
		return m, 0, err
	}
	before, err := sent(ctx, s.rig.Hub)
	if err != nil {
		return m, 0, err
	}
	m, err = s.rig.write(ctx, s.rig.Nodes, func(ctx context.Context, i int, n *Node) (part, error) {
		stage := []string{"stage", "-q", "dataset:bulk", "--to", "nvme", "--node", n.Name}
		if i == 0 && u.Dies > 0 {
			return part{}, errors.Join(s.command(ctx, nil, append(stage, "--detach")...), s.dies(ctx, i, u.Dies))
		}
		if i == len(s.rig.Nodes)-1 {
			if err := pause(ctx, u.Late); err != nil {
				return part{}, err
			}
		}
		if err := s.command(ctx, nil, append(stage, "--wait")...); err != nil {
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

// dies has a node lose its power after a while, as far as others can see.
func (s *service) dies(ctx context.Context, i int, after time.Duration) error {
	if err := pause(ctx, after); err != nil {
		return err
	}
	return errors.Join(tool(ctx, "", "ip", "-n", s.rig.Nodes[i].space, "link", "set", "eth0", "down"), s.agents[i].cmd.Process.Kill())
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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
