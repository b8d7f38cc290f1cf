package fabric

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Storage is a parallel file system in small: servers of objects, each behind a link of its own, that agents behind theirs write and read.
type Storage struct {
	Agents, Servers       int
	AgentMbit, ServerMbit int
	Bench, Store          string   // datamove-bench and versitygw, by path
	Flags                 []string // of datamove-bench run

	key string // of the servers, and what nodes of a run know
}

// Nodes is how many nodes a rig has for it.
func (s Storage) Nodes() int { return s.Agents + s.Servers }

// Cluster declares it for datamove-bench model, with what is asked of it, in bytes per second. A link lets through what is shaped, less the headers.
func (s Storage) Cluster(target float64) string {
	return fmt.Sprintf(`kind: Cluster
name: scale-model
target: {read: %.0fB/s}
efficiency: 0.95
clients: {nodes: %d, nic: %dM}
oss: {nodes: %d, nic: %dM}
`, target, s.Agents, s.AgentMbit, s.Servers, s.ServerMbit)
}

const (
	storePort   = 9000 // of each server
	conductPort = 7311 // of who conducts, in the hub
)

// Load has the agents of a rig write, read and verify what is on all servers, and leaves the record in a file. The first nodes are agents, and the others servers. It says how idle the
// CPUs of this machine were: without anything to spare they are what was measured.
func (s Storage) Load(ctx context.Context, r *Rig, record string) (m Measure, err error) {
	if len(r.Nodes) != s.Nodes() {
		return m, fmt.Errorf("a rig of %d nodes for %d", len(r.Nodes), s.Nodes())
	}
	s.key = rand.Text()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	agents, servers := r.Nodes[:s.Agents], r.Nodes[s.Agents:]
	if err := errors.Join(r.shape(ctx, agents, Link{Mbit: s.AgentMbit}), r.shape(ctx, servers, Link{Mbit: s.ServerMbit})); err != nil {
		return m, err
	}
	for _, n := range servers {
		p, err := s.serve(ctx, n)
		if err != nil {
			return m, err
		}
		defer p.Stop()
	}
	secret, err := s.configure(r, servers)
	if err != nil {
		return m, err
	}
	conductor, err := r.Hub.Start(ctx, Command{Path: s.Bench, Args: s.run(r, servers, secret, record), Env: []string{"DATAMOVE_CONFIG=" + filepath.Join(r.Dir, "config.yaml")}})
	if err != nil {
		return m, err
	}
	defer conductor.Stop()
	if err := conductor.Said(ctx, "waits for"); err != nil {
		return m, err
	}
	m, err = timed(ctx, agents, func(ctx context.Context, _ int, n *Node) (part, error) {
		p, err := n.Start(ctx, Command{Path: s.Bench, Args: []string{"join", "--secret-file", secret, "--name", n.Name, "--config", filepath.Join(r.Dir, "config.yaml"), address(r.Hub, conductPort)}})
		if err == nil {
			err = p.Wait()
		}
		if err != nil {
			return part{}, err
		}
		return part{cpu: p.CPU()}, nil
	})
	if err != nil {
		conductor.Stop() // it says what it knows of it
		return m, errors.Join(err, conductor.Wait())
	}
	return m, conductor.Wait()
}

func address(n *Node, port int) string { return net.JoinHostPort(n.IP, strconv.Itoa(port)) }

// shape gives nodes links of another speed.
func (r *Rig) shape(ctx context.Context, nodes []*Node, l Link) (err error) {
	ports := ""
	for _, n := range nodes {
		ports += fmt.Sprintf("qdisc replace dev %s root %s\n", n.Name, l.tbf())
		err = errors.Join(err, tool(ctx, "qdisc replace dev eth0 root "+l.tbf()+"\n", "tc", "-n", n.space, "-batch", "-"))
	}
	return errors.Join(err, tool(ctx, ports, "tc", "-n", r.bridge(), "-batch", "-"))
}

// serve starts the server of a node, with an empty bucket in memory.
func (s Storage) serve(ctx context.Context, n *Node) (*Process, error) {
	root := filepath.Join(n.Dir, "store")
	if err := os.MkdirAll(filepath.Join(root, "bucket"), 0o755); err != nil {
		return nil, err
	}
	p, err := n.Start(ctx, Command{Path: s.Store, Args: []string{"--keep-alive", "--port", address(n, storePort), "--access", "scale", "--secret", s.key, "posix", root}})
	if err == nil {
		err = p.Said(ctx, "listening on")
	}
	return p, err
}

// configure writes a tier for each server, and what nodes have to know.
func (s Storage) configure(r *Rig, servers []*Node) (secret string, err error) {
	keys := filepath.Join(r.Dir, "keys")
	conf := "tiers:\n"
	for _, n := range servers {
		conf += fmt.Sprintf("  %s: {level: cold, s3: {endpoint: \"http://%s\", bucket: bucket, region: us-east-1, credentials: \"file:%s\"}}\n", n.Name, address(n, storePort), keys)
	}
	secret = filepath.Join(r.Dir, "secret")
	return secret, errors.Join(os.WriteFile(filepath.Join(r.Dir, "config.yaml"), []byte(conf), 0o600), os.WriteFile(secret, []byte(s.key), 0o600),
		os.WriteFile(keys, []byte("AWS_ACCESS_KEY_ID=scale\nAWS_SECRET_ACCESS_KEY="+s.key+"\n"), 0o600))
}

// run are the words of who conducts.
func (s Storage) run(r *Rig, servers []*Node, secret, record string) []string {
	args := append([]string{"run", "--nodes", strconv.Itoa(s.Agents), "--listen", address(r.Hub, conductPort), "--secret-file", secret, "--suite", "large", "--save", record}, s.Flags...)
	for _, n := range servers {
		args = append(args, n.Name+":")
	}
	return args
}
