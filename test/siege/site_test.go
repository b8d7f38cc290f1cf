// Package siege attacks the service as a site has it: the real binaries datamoved and
// datamove as processes, agents that joined with certificates over TCP, and between
// all of them somebody who kills, stops, cuts off, fills disks and lies.
//
// A site is a coordinator that does no work itself and its nodes, each a process with
// a name of its own behind a wire that can be cut. A witness looks at a target all
// the time: what was published once is whole, and stays as it was. At the end of each
// test every task has ended as it should, the trees are equal, and nothing unfinished
// is left, neither temporary names nor uploads.
//
// What is attacked from inside one process is in test/cluster; the trees, programs
// and the S3 server are those of test/crash/rig.
package siege

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamoved/daemon"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/patience"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // tests mostly wait for leases; the command line has the last word
	rig.Main(m, rig.Commands{"datamove": cli.Main, "datamoved": daemon.Main})
}

// lease is how long an agent may be silent here.
const lease = 2 * time.Second

// long skips what takes long and shows what another test shows in a shorter way.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: without -short")
	}
}

// site is a coordinator and its nodes.
type site struct {
	t      *testing.T
	dir    string // of everything, short enough for a socket, and open to all users
	data   string // of the coordinator
	shared string // the path of the tier "shared"
	more   string // of the configuration
	disks  bool   // see plan

	base string // of the configuration: what all have in common

	service, tool *rig.Program // datamoved, datamove
	store         *rig.Store   // behind the tier "store"; nil without one
	coordinator   *rig.Run
	address       string // over TCP, of the coordinator that runs
	nodes         map[string]*node
	*api.Client   // as root, at the coordinator's socket
}

// plan is what a site is to be.
type plan struct {
	nodes []string
	store bool   // with an S3 server
	data  string // of the coordinator; "" is a directory of its own
	more  string // lines of the configuration
	disks bool   // each node has a disk of its own, the tier "nvme", where checkpoints are saved
}

// newSite starts a coordinator and has nodes join it.
func newSite(t *testing.T, p plan) *site {
	t.Helper()
	rig.Root(t) // services of a site run as root
	dir, err := os.MkdirTemp("/tmp", "siege")
	check(t, err)
	check(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	s := &site{t: t, dir: dir, data: p.data, more: p.more, disks: p.disks, shared: filepath.Join(dir, "shared"), nodes: map[string]*node{},
		service: rig.NewCommand(t, "datamoved"), tool: rig.New(t)}
	if s.data == "" {
		s.data = filepath.Join(dir, "data")
	}
	check(t, os.Mkdir(s.shared, 0o755))
	if p.store {
		s.store = rig.NewStore(shared{t}, rig.New(t))
		check(t, os.WriteFile(s.path("keys"), []byte(s.store.Keys()), 0o600))
	}
	s.configure()
	t.Cleanup(s.tell)
	s.start()
	s.tool.Env = []string{"DATAMOVE_SERVICE=" + s.socket()}
	s.Client, err = api.Dial(t.Context(), s.socket(), api.Options{})
	check(t, err)
	t.Cleanup(func() { _ = s.Client.Close() })
	for _, name := range p.nodes {
		s.join(name)
	}
	return s
}

// shared is a test whose environment is that of others, too: the server changes nothing
// there, and wants to be sure of what our programs are given in any case.
type shared struct{ *testing.T }

// Setenv implements testing.TB.
func (shared) Setenv(string, string) {}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tell logs what the service said last, when the test has failed.
func (s *site) tell() {
	if !s.t.Failed() {
		return
	}
	said := map[string]*rig.Run{"head": s.coordinator}
	for name, n := range s.nodes {
		said[name] = n.run
	}
	for name, run := range said {
		if run != nil {
			text := run.Complained()
			s.t.Logf("%s said last:\n%s", name, text[max(0, len(text)-6000):])
		}
	}
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// socket is the address at which people ask the coordinator.
func (s *site) socket() string { return "unix://" + s.path("head.sock") }

// configure writes the configuration, which coordinator and nodes share.
func (s *site) configure() {
	s.t.Helper()
	text := fmt.Sprintf("leases: {lead: %v}\ntiers:\n  shared: {level: warm, path: %s}\n", lease, s.shared)
	if s.store != nil {
		text += fmt.Sprintf("  store: {level: cold, s3: {endpoint: %q, bucket: %s, credentials: \"file:%s\", region: us-east-1}}\n", s.store.URL, s.store.Bucket(), s.path("keys"))
	}
	check(s.t, os.WriteFile(s.path("config.yaml"), []byte(text+s.nvme("head")+s.more), 0o644))
	s.base = text
}

// nvme is the disk of a node, for its configuration.
func (s *site) nvme(node string) string {
	if !s.disks {
		return ""
	}
	return fmt.Sprintf("  nvme: {level: hot, path: %s, ephemeral: true, node_local: true, feed: inotify, checkpoints: {folders: [run*], quiet: 1s}}\n", s.path("nvme-"+node))
}

// start starts the coordinator, or starts it again on the same data.
func (s *site) start() {
	s.t.Helper()
	s.begin()
	s.ready()
}

// begin starts the coordinator and does not wait for it.
func (s *site) begin() {
	s.t.Helper()
	s.coordinator = s.service.Start(s.t, "--config", s.path("config.yaml"), "--data", s.data, "--node", "head", "--no-agent",
		"--listen", s.socket(), "--listen", "tcp://127.0.0.1:0")
}

// ready waits until the coordinator answers, and finds out where.
func (s *site) ready() {
	s.t.Helper()
	s.coordinator.Until("the coordinator is ready", func() bool { return strings.Contains(s.coordinator.Complained(), "msg=ready") })
	address := ""
	for word := range strings.FieldsSeq(s.coordinator.Complained()) {
		if _, found, ok := strings.Cut(strings.Trim(word, `"`), "tcp://"); ok {
			address = found
		}
	}
	for _, n := range s.nodes {
		n.wire.lead(address)
	}
	s.address = address
}

// crash kills the coordinator.
func (s *site) crash() {
	s.t.Helper()
	s.coordinator.Signal(syscall.SIGKILL)
	s.coordinator.Wait()
}

// join makes a node and waits until it is ready.
func (s *site) join(name string) {
	s.t.Helper()
	answer, err := s.CreateJoinToken(s.t.Context(), &pb.CreateJoinTokenRequest{Name: name, Ttl: durationpb.New(time.Minute)})
	check(s.t, err)
	check(s.t, os.WriteFile(s.path(name+".token"), []byte(answer.GetToken()), 0o600))
	if s.disks {
		check(s.t, os.MkdirAll(s.path("nvme-"+name), 0o755))
		check(s.t, os.WriteFile(s.path("config-"+name+".yaml"), []byte(s.base+s.nvme(name)+s.more), 0o644))
	}
	n := &node{site: s, name: name, wire: newWire(s.t)}
	n.wire.lead(s.address)
	s.nodes[name] = n
	n.start()
	n.ready()
}

// eventually waits for what has to happen.
func (s *site) eventually(what string, is func() bool) {
	s.t.Helper()
	patience.Until(s.t, what, nil, is)
}

// state is that of a node as the coordinator sees it.
func (s *site) state(name string) pb.AgentState {
	l, err := s.ListAgents(context.Background(), &pb.ListAgentsRequest{})
	if err != nil {
		return pb.AgentState_AGENT_STATE_UNSPECIFIED
	}
	for _, a := range l.GetAgents() {
		if a.GetName() == name {
			return a.GetState()
		}
	}
	return pb.AgentState_AGENT_STATE_UNSPECIFIED
}
