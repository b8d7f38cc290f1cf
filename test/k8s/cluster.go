package k8s

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// Options say what a cluster has.
type Options struct {
	Nodes int
	// Images are archives, as of Images, that every node has.
	Images []string
	// Binds are directories of this machine that node n sees: which, by where. Where has to be below /opt or /run, which
	// nodes have of their own. nil is none.
	Binds func(n int) map[string]string
}

// Cluster is one that runs.
type Cluster struct {
	t    testing.TB
	dir  string // with everything that it has
	plan plan
	cmd  *exec.Cmd
	gone chan struct{} // closed when its first process has ended
}

// plan is what the first process is told.
type plan struct {
	Dir, Programs, Cgroup string
	Nodes                 int
	Images                []string
	Binds                 []map[string]string // of node 1 first
}

// packaged are the programs that packages of Debian have.
var packaged = []string{"containerd", "ctr", "runc", "etcd", "ip", "nsenter", "containerd-shim-runc-v2"}

// built are those of bin/k8s.
var built = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"}

// Programs is the directory with the programs of test/k8s/programs; it skips where they, or what nodes need, are missing.
func Programs(t testing.TB, more ...string) string {
	t.Helper()
	dir := os.Getenv("DATAMOVE_K8S")
	if dir == "" {
		loopfs.Skip(t, "elsewhere: make e2e-k8s: needs a Kubernetes")
	}
	if os.Geteuid() != 0 {
		loopfs.Skip(t, "needs root")
	}
	for _, name := range packaged {
		if _, err := exec.LookPath(name); err != nil {
			loopfs.Skip(t, "needs "+name+": test/setup k8s installs it")
		}
	}
	for _, name := range append(more, built...) {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			loopfs.Skip(t, "needs "+name+": test/setup k8s builds it")
		}
	}
	return dir
}

// Start starts a cluster, and waits until its nodes are ready. It ends with the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	programs := Programs(t)
	dir := must.Get(os.MkdirTemp("", "datamove-k8s-"))(t)
	c := &Cluster{t: t, dir: dir, plan: plan{Dir: dir, Programs: programs, Cgroup: "datamove-" + filepath.Base(dir), Nodes: o.Nodes, Images: o.Images}}
	for n := 1; n <= o.Nodes && o.Binds != nil; n++ {
		c.plan.Binds = append(c.plan.Binds, o.Binds(n))
	}
	t.Cleanup(c.stop)
	must.Do(t, c.plan.trust())
	text := must.Get(json.Marshal(c.plan))(t)
	c.cmd = exec.Command("/proc/self/exe")
	c.cmd.Env = append(os.Environ(), firstProcess+"="+string(text), "PATH="+programs+":"+os.Getenv("PATH")+":/usr/sbin:/sbin")
	log := must.Get(os.Create(filepath.Join(dir, "log", "first")))(t)
	defer log.Close()
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	must.Do(t, c.cmd.Start())
	c.gone = make(chan struct{})
	go func() {
		defer close(c.gone)
		_ = c.cmd.Wait() // it ends when it is killed, or says in its log why
	}()
	began := time.Now()
	c.Eventually("all nodes are ready", 3*time.Minute, func() error {
		out, err := c.Try("get", "nodes", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {end}`)
		if err != nil {
			return err
		}
		if n := strings.Count(out, "True"); n != o.Nodes {
			return fmt.Errorf("%d of %d", n, o.Nodes)
		}
		_, err = c.Try("get", "serviceaccount", "default")
		return err
	})
	t.Logf("%d nodes are ready after %v", o.Nodes, time.Since(began).Round(100*time.Millisecond))
	return c
}

// stop ends it, and looks if something is left.
func (c *Cluster) stop() {
	c.t.Helper()
	if c.t.Failed() {
		c.explain()
	}
	if c.gone != nil {
		_ = c.cmd.Process.Kill() // it may have ended by itself
		<-c.gone
	}
	if err := c.plan.sweep(); err != nil {
		c.t.Errorf("something is left: %v", err)
	}
	if left, err := mountsBelow(c.dir); err != nil || len(left) > 0 {
		c.t.Errorf("mounts are left: %v, %v", left, err)
	}
	must.Tell(c.t, os.RemoveAll(c.dir))
}

// mountsBelow lists the mounts of this process below a directory.
func mountsBelow(dir string) (left []string, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir) {
			left = append(left, fields[4])
		}
	}
	return left, err
}

// Addresses of the cluster.
const (
	serviceAddress = "10.96.0.1" // of the Service of the API server
	apiPort        = 443
)

var bridge = net.IPv4(10, 99, 0, 254)

// nodeAddress is where node n, from 1 on, is.
func nodeAddress(n int) net.IP { return net.IPv4(10, 99, 0, byte(n)) }

// NodeName is that of node n, from 1 on.
func NodeName(n int) string { return "node" + strconv.Itoa(n) }
