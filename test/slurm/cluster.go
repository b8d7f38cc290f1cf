package slurm

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// Options say what a cluster has.
type Options struct {
	Nodes int // 0 means 4
	// User is SlurmUser, as whom the controller and what it starts run: "slurm", or "root". "" means slurm, as most sites have it.
	User string
	// Conf are lines for the end of slurm.conf: what a test wants to differ, and the Include of what lies in Etc.
	Conf string
	// Etc are the files that lie beside slurm.conf in /etc/slurm, as os.DirFS of a directory, or fstest.MapFS. Later ones win.
	Etc []fs.FS
	// Binds are files and directories of this machine, by where all machines of the cluster see them: below /opt or /etc, or
	// instead of what is there, as /usr/local/bin. They can be written there if they can here.
	Binds map[string]string
	// NVMeBytes is how much fits in /local_nvme of a node; 0 means 1 GiB.
	NVMeBytes int64
}

// Controller is the number of the machine that is no node: with slurmctld, and where jobs are submitted from. Nodes are 1, 2, and so on.
const Controller = 0

// Cluster is one that runs.
type Cluster struct {
	t        testing.TB
	o        Options
	machines []*machine // the controller, and the nodes
}

// programs is what there has to be, in directories that not everybody has in PATH.
var programs = []string{"slurmctld", "slurmd", "sbatch", "scontrol", "munged", "ip", "nsenter", "unshare", "setpriv", "timeout"}

// path is that of all that runs in a cluster.
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Need skips a test where a cluster can not be had.
func Need(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		loopfs.Skip(t, "needs root")
	}
	for _, name := range programs {
		if !slices.ContainsFunc(filepath.SplitList(path), func(dir string) bool { _, err := exec.LookPath(filepath.Join(dir, name)); return err == nil }) {
			loopfs.Skip(t, "needs "+name+": test/setup installs it")
		}
	}
	for _, pattern := range []string{"/usr/lib*/*/slurm*/burst_buffer_lua.so", "/usr/lib*/*/liblua5.1.so.0"} {
		if found, err := filepath.Glob(pattern); err != nil || len(found) == 0 {
			loopfs.Skip(t, "needs "+filepath.Base(pattern)+": test/setup installs it")
		}
	}
}

// Start starts a cluster, and waits until its nodes are idle. It ends with the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	Need(t)
	c := &Cluster{t: t, o: o.orDefault()}
	t.Cleanup(c.stop)
	c.start()
	return c
}

func (c *Cluster) start() {
	c.t.Helper()
	t, o, began := c.t, c.o, time.Now()
	for n := range o.Nodes + 1 {
		m := &machine{number: n, daemons: map[string]*Daemon{}}
		c.machines = append(c.machines, m)
		must.Do(t, m.on(c.machines[Controller], o))
		if n == Controller {
			must.Do(t, m.ip("link set lo up", "link add br0 type bridge", "address add "+Address(n)+"/24 dev br0", "link set br0 up"))
		}
	}
	must.Do(t, c.configure())
	must.Do(t, c.munge())
	must.Do(t, c.slurmctld())
	for n := 1; n <= o.Nodes; n++ {
		must.Do(t, c.slurmd(n))
	}
	c.Eventually("all nodes are idle", func() error { return allIdle(c.Nodes()) })
	t.Logf("%d nodes are idle after %v", o.Nodes, time.Since(began).Round(time.Millisecond))
}

func (o Options) orDefault() Options {
	if o.Nodes == 0 {
		o.Nodes = 4
	}
	if o.User == "" {
		o.User = "slurm"
	}
	if o.NVMeBytes == 0 {
		o.NVMeBytes = 1 << 30
	}
	return o
}

func allIdle(nodes []Node) error {
	for _, n := range nodes {
		if n.State != "IDLE" {
			return fmt.Errorf("%s is %s %s", n.Name, n.State, n.Reason)
		}
	}
	if len(nodes) == 0 {
		return fmt.Errorf("slurmctld does not answer")
	}
	return nil
}

// stop ends it. What a machine has had of processes, mounts and memory goes with its process 1.
func (c *Cluster) stop() {
	c.t.Helper()
	if c.t.Failed() {
		c.explain()
	}
	c.off()
}

func (c *Cluster) off() {
	for _, m := range slices.Backward(c.machines) {
		m.off()
	}
}
