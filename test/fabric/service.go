package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	servicePort = 7643
	startTime   = 30 * time.Second // in which everybody has to be there
)

// Service is a load: one task of datamoved, of all that the nodes can carry. The
// coordinator is in the hub and moves nothing, every node is an agent, and all of
// them write to one directory, as they would in a parallel file system. The time is that of
// the command which waits for the task; that the service is there is not in it.
func Service(ctx context.Context, r *Rig, w Work) (m Measure, err error) {
	server, err := w.Serve(ctx, r)
	if err != nil {
		return m, err
	}
	defer server.Stop()
	s, err := w.service(ctx, r)
	if err != nil {
		return m, err
	}
	m, err = r.write(ctx, []*Node{r.Hub}, func(ctx context.Context, _ int, n *Node) (part, error) {
		err := s.command(ctx, nil, "copy", "-q", "--jobs", jobs, "pages:", "shared:")
		if err != nil {
			return part{}, err
		}
		bytes, err := arrived(s.target, w.bytes()*int64(len(r.Nodes)))
		return part{bytes: bytes}, err
	})
	m.CPU, err = s.end(err)
	return m, err
}

// service is a running datamoved and its agents.
type service struct {
	Work
	rig    *Rig
	target string // where all agents write
	conf   string // of the hub
	confs  map[*Node]string
	head   *Process
	agents []*Process
}

func (w Work) service(ctx context.Context, r *Rig) (s *service, err error) {
	s = w.newService(r)
	err = os.MkdirAll(s.target, 0o755)
	for _, n := range r.all() {
		err = errors.Join(err, s.configure(n, fmt.Sprintf("  shared: {level: warm, path: %s}\n", s.target)))
	}
	if err != nil {
		return nil, err
	}
	return s, s.begin(ctx)
}

func (w Work) newService(r *Rig) *service {
	return &service{Work: w, rig: r, target: filepath.Join(r.Hub.Dir, "target"), conf: filepath.Join(r.Hub.Dir, "config.yaml"), confs: map[*Node]string{}}
}

// configure gives a node the pages, and another tier.
func (s *service) configure(n *Node, tier string) error {
	keys := filepath.Join(n.Dir, "keys")
	s.confs[n] = filepath.Join(n.Dir, "config.yaml")
	conf := fmt.Sprintf(`tiers:
  pages: {level: cold, s3: {endpoint: "http://%s:%d", bucket: pages, region: us-east-1, credentials: "file:%s"}}
`, s.rig.Hub.IP, pagesPort, keys) + tier
	return errors.Join(os.WriteFile(s.confs[n], []byte(conf), 0o600), os.WriteFile(keys, []byte("AWS_ACCESS_KEY_ID=any\nAWS_SECRET_ACCESS_KEY=any\n"), 0o600))
}

// begin starts everybody. After an error nobody is left.
func (s *service) begin(ctx context.Context) error {
	ctx, stop := context.WithTimeoutCause(ctx, startTime, errors.New("the agents are not there in time"))
	defer stop()
	err := s.start(ctx)
	if err != nil {
		_, err = s.end(err)
	}
	return err
}

// start starts the coordinator and all agents, and waits until they are ready.
func (s *service) start(ctx context.Context) (err error) {
	if s.head, err = s.daemon(s.rig.Hub, "--no-agent", "--listen", s.socket(), "--listen", fmt.Sprintf("tcp://%s:%d", s.rig.Hub.IP, servicePort)); err != nil {
		return err
	}
	if err := s.head.Said(ctx, "msg=ready"); err != nil {
		return err
	}
	for _, n := range s.rig.Nodes {
		var token struct{ Token string }
		if err := s.command(ctx, &token, "agent", "token", "-o", "json", n.Name); err != nil {
			return err
		}
		file := filepath.Join(n.Dir, "token")
		if err := os.WriteFile(file, []byte(token.Token), 0o600); err != nil {
			return err
		}
		a, err := s.daemon(n, "--join", fmt.Sprintf("tcp://%s:%d", s.rig.Hub.IP, servicePort), "--token-file", file,
			"--listen", "unix://"+filepath.Join(n.Dir, "socket"))
		if err != nil {
			return err
		}
		s.agents = append(s.agents, a)
	}
	for _, a := range s.agents {
		if err := a.Said(ctx, "msg=ready"); err != nil {
			return err
		}
	}
	return s.here(ctx)
}

// here waits until the coordinator has heard of every agent.
func (s *service) here(ctx context.Context) error {
	for {
		var list []struct{ State string }
		if err := s.command(ctx, &list, "agent", "list", "-o", "json"); err != nil {
			return err
		}
		ready := 0
		for _, a := range list {
			if a.State == "ready" {
				ready++
			}
		}
		if ready == len(s.rig.Nodes) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d agents are ready: %w", ready, len(s.rig.Nodes), context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// daemon starts datamoved in a node. It outlives the time that there is to start.
func (s *service) daemon(n *Node, args ...string) (*Process, error) {
	return n.Start(context.Background(), Command{Path: s.Datamoved, Env: []string{"DATAMOVE_CONFIG=" + s.confs[n]},
		Args: append([]string{"--data", filepath.Join(n.Dir, "data"), "--node", n.Name}, args...)})
}

func (s *service) socket() string { return "unix://" + filepath.Join(s.rig.Hub.Dir, "socket") }

// command runs datamove in the hub, and reads what it prints as JSON.
func (s *service) command(ctx context.Context, answer any, args ...string) error {
	p, err := s.rig.Hub.Start(ctx, Command{Path: s.Datamove, Args: args, Env: []string{"DATAMOVE_CONFIG=" + s.conf, "DATAMOVE_SERVICE=" + s.socket()}})
	if err == nil {
		err = p.Wait()
	}
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal([]byte(p.Stdout.String()), answer)
}

// end stops everybody, and returns the time that the agents and their workers spent
// on CPUs. Of a failure it tells what the service said.
func (s *service) end(failed error) (cpu time.Duration, err error) {
	for _, p := range append(s.agents, s.head) {
		if p == nil {
			continue
		}
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	for _, p := range s.agents {
		cpu += p.CPU()
	}
	if s.head != nil {
		<-s.head.ended
		if failed != nil {
			failed = fmt.Errorf("%w\n%s", failed, strings.TrimSpace(s.head.Stderr.String()))
		}
	}
	data := []string{filepath.Join(s.rig.Hub.Dir, "data")}
	for _, n := range s.rig.Nodes {
		data = append(data, filepath.Join(n.Dir, "data"))
	}
	for _, dir := range data { // the next load has a new authority
		failed = errors.Join(failed, os.RemoveAll(dir))
	}
	return cpu, failed
}
