package slurm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/mover/task"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

// site is a cluster with datamove in it, as a site installs it: what lies in deploy/slurm, a coordinator beside slurmctld, and an agent on
// each node.
type site struct {
	*Cluster
	head   *Daemon
	agents map[int]*Daemon

	clientMu sync.Mutex
	clients  map[string]*api.Client // by address: each is a connection, of which one person may have 256
}

// siteConf is the configuration of datamove on all machines: /project is fast, tape and slow are not, and all see all but scratch.
const siteConf = "tiers:\n" + siteTiers + siteRest

const siteTiers = `
  scratch: {level: hot, path: /local_nvme, ephemeral: true, node_local: true}
  project: {level: warm, path: /project}
  cache: {level: warm, path: /project/cache, ephemeral: true}
  archive: {level: cold, path: /opt/archive}
  tape: {level: cold, path: /opt/archive/tape}
  slow: {level: warm, path: /project/slow}
`

const siteRest = `
limits:
  - {endpoint: tape, rate: 2MB/s}
  - {endpoint: slow, rate: 2MB/s}
roles:
  slurm: {members: [slurm], may: [person.act]}
slurm: {scratch: scratch, warm: cache, ready: 20s, quiet: 1s}
leases: {lead: 5s}
`

// ours is a directory with some of our programs.
func ours(t *testing.T, names ...string) string {
	t.Helper()
	programs := t.TempDir()
	must.Do(t, os.Chmod(programs, 0o755))
	for _, name := range names {
		must.Do(t, rig.Install(filepath.Join(programs, name)))
	}
	return programs
}

// deployed starts one of a test's own. Change changes what is in /etc/slurm before; nil changes nothing.
func deployed(t *testing.T, o Options, change func(fstest.MapFS)) *site {
	t.Helper()
	soak(t)
	s := &site{Cluster: Start(t, o.with(t, shippedFiles(t, change), ours(t, "datamove", "datamoved"), t.TempDir())), agents: map[int]*Daemon{}}
	s.install(siteConf)
	return s
}

// with adds what is ours: files for /etc/slurm, programs, and a directory that all see as /opt/archive.
func (o Options) with(t *testing.T, files fs.FS, programs, archive string) Options {
	t.Helper()
	must.Do(t, os.Chmod(archive, 0o777|os.ModeSticky))
	o.Conf += "\nInclude slurm.conf.datamove\n"
	o.Etc = append(o.Etc, files)
	o.Binds = map[string]string{"/usr/local/bin": programs, "/opt/archive": archive}
	return o
}

// install makes the directories that datamove wants, and starts the coordinator, and an agent on each node.
func (s *site) install(conf string) {
	s.t.Helper()
	t := s.t
	etc := s.Path(Controller, "/etc/datamove")
	must.Do(t, errors.Join(os.MkdirAll(etc, 0o755), write(etc+"/config.yaml", conf), os.MkdirAll(s.Path(Controller, "/var/lib/datamove/slurm"), 0o711),
		os.Chmod(s.Path(Controller, "/var/lib/datamove"), 0o711), own(s.Path(Controller, "/var/lib/datamove/slurm"), UID(s.o.User)),
		os.Chmod(s.Path(Controller, "/var/lib/datamove/slurm"), 0o700)))
	for _, dir := range []string{"/project/cache", "/project/slow", "/opt/archive/tape"} {
		must.Do(t, errors.Join(os.MkdirAll(s.Path(Controller, dir), 0o777), os.Chmod(s.Path(Controller, dir), 0o777|os.ModeSticky)))
	}
	for _, user := range []string{Anna, Ben} {
		dir := s.Path(Controller, "/project/"+user)
		must.Do(t, errors.Join(os.Mkdir(dir, 0o755), own(dir, UID(user))))
	}
	s.startHead()
	for n := 1; n <= s.o.Nodes; n++ {
		var token struct{ Token string }
		s.datamove(&token, "agent", "token", MachineName(n))
		must.Do(t, os.MkdirAll(s.Path(n, "/run/datamove"), 0o755))
		must.Do(t, os.WriteFile(s.Path(n, "/run/token"), []byte(token.Token), 0o600))
		s.startAgent(n, "--token-file", "/run/token")
	}
	s.agentsReady(s.o.Nodes)
}

// signal goes to the coordinator and all agents.
func (s *site) signal(sig syscall.Signal) {
	s.t.Helper()
	for _, d := range s.agents {
		must.Do(s.t, d.Signal(sig))
	}
	must.Do(s.t, s.head.Signal(sig))
}

// startHead starts the coordinator.
func (s *site) startHead() {
	s.t.Helper()
	s.head = s.Beside(Controller, "datamoved", "datamoved", "--no-agent", "--data", "/var/lib/datamove/head", "--listen", "unix:///run/datamove/datamoved.sock", "--listen", "tcp://"+Address(Controller)+":7643")
	s.Eventually("the coordinator answers", func() error { _, err := s.On(Controller, "datamove", "service", "info"); return err })
}

// startAgent starts the agent of a node.
func (s *site) startAgent(n int, more ...string) {
	s.t.Helper()
	s.agents[n] = s.Beside(n, "datamoved", append([]string{"datamoved", "--data", "/var/lib/datamove", "--join", "tcp://" + Address(Controller) + ":7643", "--listen", "unix:///run/datamove/datamoved.sock"}, more...)...)
}

// again starts the coordinator and the agents anew, with a configuration.
func (s *site) again(conf string) {
	s.t.Helper()
	must.Do(s.t, write(s.Path(Controller, "/etc/datamove/config.yaml"), conf))
	for _, d := range s.agents {
		must.Do(s.t, d.Stop())
	}
	must.Do(s.t, s.head.Stop())
	s.startHead()
	for n := 1; n <= s.o.Nodes; n++ {
		s.startAgent(n)
	}
	s.agentsReady(s.o.Nodes)
}

// The keys of the S3 server.
const keyID, keySecret = "AWS_ACCESS_KEY_ID=datamove", "AWS_SECRET_ACCESS_KEY=datamove-secret"

// storeTier is its tier in a configuration.
func storeTier(address string) string {
	return fmt.Sprintf("  store: {level: cold, s3: {endpoint: \"http://%s:9000\", bucket: data, region: us-east-1, credentials: \"file:/etc/datamove/store.env\"}}\n", address)
}

// s3 starts an S3 server with a bucket beside the controller; before its command stands what it is run by.
func (s *site) s3(address string, by ...string) {
	s.t.Helper()
	program := must.Get(s3test.Binary())(s.t)
	text := must.Get(os.ReadFile(program))(s.t)
	must.Do(s.t, os.WriteFile(s.o.Binds["/opt/archive"]+"/s3dev", text, 0o755))
	must.Do(s.t, errors.Join(os.MkdirAll(s.Path(Controller, "/etc/datamove"), 0o755), os.WriteFile(s.Path(Controller, "/etc/datamove/store.env"), []byte(keyID+"\n"+keySecret+"\n"), 0o600), os.Mkdir(s.Path(Controller, "/opt/archive/store"), 0o755)))
	s.Beside(Controller, "store", append(by, "/opt/archive/s3dev", "--listen", address+":9000", "--dir", "/opt/archive/store", "--buckets", "data")...)
	s.Eventually("the store is ready", func() error {
		if log := s.Log(Controller, "store"); !strings.Contains(log, "ready\n") {
			return fmt.Errorf("it says %s", log)
		}
		return nil
	})
}

func (s *site) agentsReady(n int) {
	s.t.Helper()
	s.Eventually("the agents are there", func() error {
		ready := 0
		for a, err := range s.client().Agents(s.t.Context(), &pb.ListAgentsRequest{}) {
			if err != nil {
				return err
			}
			if a.GetState() == pb.AgentState_AGENT_STATE_READY {
				ready++
			}
		}
		if ready < n {
			return fmt.Errorf("%d of %d are ready", ready, n)
		}
		return nil
	})
}

// client is a connection to the coordinator, for what is asked again and again.
func (s *site) client() *api.Client {
	s.t.Helper()
	address := "unix://" + s.Path(Controller, "/run/datamove/datamoved.sock")
	s.clientMu.Lock()
	defer s.clientMu.Unlock()
	if c := s.clients[address]; c != nil {
		return c
	}
	c := must.Get(api.Dial(s.t.Context(), address, api.Options{}))(s.t)
	s.t.Cleanup(func() { _ = c.Close() })
	if s.clients == nil {
		s.clients = map[string]*api.Client{}
	}
	s.clients[address] = c
	return c
}

// ofJob are the labels of what a job has asked for.
func ofJob(id string) map[string]string { return map[string]string{"slurm_job": id} }

// ask runs a command of datamove as root on the controller, which prints JSON.
func (s *site) ask(into any, args ...string) error {
	out, err := s.On(Controller, append(append([]string{"datamove"}, args...), "-o", "json")...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), into)
}

func (s *site) datamove(into any, args ...string) {
	s.t.Helper()
	must.Do(s.t, s.ask(into, args...))
}

// dataset makes files of somebody below a directory that all see, and adds them as a dataset.
func (s *site) dataset(user, name, location, dir string, files, size int) {
	s.t.Helper()
	s.files(user, dir, files, size)
	if out, err := s.As(user, Controller, "", "datamove", "dataset", "add", name, location); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
}

func (s *site) files(user, dir string, files, size int) {
	s.t.Helper()
	at := s.Path(Controller, dir)
	must.Do(s.t, os.MkdirAll(at, 0o755))
	for i := range files {
		must.Do(s.t, os.WriteFile(filepath.Join(at, fmt.Sprintf("f%03d", i)), []byte(strings.Repeat(string(rune('a'+i%26)), size)), 0o644))
	}
	must.Do(s.t, filepath.WalkDir(at, func(name string, _ fs.DirEntry, err error) error { return errors.Join(err, own(name, UID(user))) }))
}

// tasks are those of a job, as KIND STATE SOURCE.
func (s *site) tasks(id string) (all []string) {
	s.t.Helper()
	for x, err := range s.client().Tasks(s.t.Context(), &pb.ListTasksRequest{Labels: ofJob(id)}) {
		must.Do(s.t, err)
		kind := strings.ToLower(strings.TrimPrefix(x.GetSpec().GetKind().String(), "TASK_KIND_"))
		all = append(all, kind+" "+task.Word(x.GetState())+" "+x.GetSpec().GetSource())
	}
	slices.Sort(all)
	return all
}

// under reports whether a task of a job is under way.
func (s *site) under(id string) bool {
	s.t.Helper()
	return slices.ContainsFunc(s.tasks(id), func(x string) bool { return strings.Contains(x, " running ") })
}

// allWell looks whether all tasks of a job have ended well.
func (s *site) allWell(id string) {
	s.t.Helper()
	if got := s.tasks(id); len(got) == 0 || slices.ContainsFunc(got, func(x string) bool { return !strings.Contains(x, " done ") && !strings.Contains(x, " cancelled ") }) {
		s.t.Errorf("tasks of job %s: %q", id, got)
	}
}

// done waits until a job has ended in a state, and Slurm has done with its burst buffer.
func (s *site) done(id, state string) {
	s.t.Helper()
	s.Until(id, state+", and torn down", func(j Job) bool { return j.State == state && j.BurstBufferState == "complete" })
}

// read is what a file has that all machines see.
func (s *site) read(name string) string {
	text, err := os.ReadFile(s.Path(Controller, name))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// allIdleNow looks whether no node is drained, or busy.
func (s *site) allIdleNow() {
	s.t.Helper()
	s.Eventually("all nodes are idle", func() error { return allIdle(s.Nodes()) })
}

// cleanSoon waits until a job has left nothing on the nodes, but what everybody may use.
func (s *site) cleanSoon(id, user string) {
	s.t.Helper()
	s.Eventually("job "+id+" has left nothing", func() error {
		for n := 1; n <= s.o.Nodes; n++ {
			if _, err := os.Lstat(s.Path(n, fmt.Sprintf("/local_nvme/jobs/%s.%d", id, UID(user)))); err == nil {
				return fmt.Errorf("its directory is on node %d", n)
			}
		}
		for lease, err := range s.client().Leases(s.t.Context(), &pb.ListLeasesRequest{Labels: ofJob(id)}) {
			return cmp.Or(err, fmt.Errorf("lease %v", lease))
		}
		return nil
	})
}
