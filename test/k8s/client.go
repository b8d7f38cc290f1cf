package k8s

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"datamove.dev/test/must"
)

// Try runs kubectl, and returns what it prints.
func (c *Cluster) Try(args ...string) (string, error) { return c.kubectl("", args...) }

// Kubectl runs kubectl, which has to succeed.
func (c *Cluster) Kubectl(args ...string) string {
	c.t.Helper()
	out := must.Get(c.kubectl("", args...))(c.t)
	return out
}

// Apply applies manifests.
func (c *Cluster) Apply(manifests string) {
	c.t.Helper()
	_, err := c.kubectl(manifests, "apply", "-f", "-")
	must.Do(c.t, err)
}

// Helm runs helm, which has to succeed.
func (c *Cluster) Helm(args ...string) string {
	c.t.Helper()
	all := append([]string{"--target", fmt.Sprint(c.cmd.Process.Pid), "--net", "--", "helm", "--kubeconfig=" + c.Config()}, args...)
	cmd := exec.Command("nsenter", all...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+c.dir, "HELM_CONFIG_HOME="+c.dir, "HELM_DATA_HOME="+c.dir)
	out := must.Get(run(cmd))(c.t)
	return out
}

// Inside runs a program in the namespaces of node n: its mounts, its network, and the processes of the cluster. 0 is the control plane.
func (c *Cluster) Inside(n int, program ...string) (string, error) {
	args := []string{"--target", c.processOf(n), "--mount", "--net", "--pid", "--"}
	return run(exec.Command("nsenter", append(args, program...)...))
}

// Beside starts a program on the side of the control plane, in its network. It ends with the cluster.
func (c *Cluster) Beside(name string, program ...string) {
	c.t.Helper()
	log := must.Get(os.Create(filepath.Join(c.dir, "log", name)))(c.t)
	defer log.Close()
	cmd := exec.Command("nsenter", append([]string{"--target", fmt.Sprint(c.cmd.Process.Pid), "--net", "--"}, program...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.Do(c.t, cmd.Start())
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()
	})
}

// processOf is a process of node n, as this machine counts: one that has the mounts which the node has said are its own.
func (c *Cluster) processOf(n int) string {
	c.t.Helper()
	if n == 0 {
		return fmt.Sprint(c.cmd.Process.Pid)
	}
	want := must.Get(os.ReadFile(filepath.Join(c.dir, "pids", NodeName(n))))(c.t)
	all := must.Get(filepath.Glob("/proc/[0-9]*"))(c.t)
	for _, dir := range all {
		if mounts, err := os.Readlink(dir + "/ns/mnt"); err == nil && mounts == string(want) {
			return filepath.Base(dir)
		}
	}
	c.t.Fatalf("%s has no process", NodeName(n))
	return ""
}

func (c *Cluster) kubectl(stdin string, args ...string) (string, error) {
	program := filepath.Join(c.plan.Programs, "kubectl")
	all := append([]string{"--target", fmt.Sprint(c.cmd.Process.Pid), "--net", "--", program, "--kubeconfig=" + c.Config()}, args...)
	cmd := exec.Command("nsenter", all...)
	cmd.Stdin = strings.NewReader(stdin)
	return run(cmd)
}

// Config is the kubeconfig of who may do everything. It is good in the network of the control plane.
func (c *Cluster) Config() string { return filepath.Join(c.dir, "pki", "admin.kubeconfig") }

func run(cmd *exec.Cmd) (string, error) {
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(complaint.String()+out.String()))
	}
	return out.String(), nil
}

// Eventually calls until there is no error, or for too long.
func (c *Cluster) Eventually(what string, limit time.Duration, call func() error) {
	c.t.Helper()
	end := time.Now().Add(limit)
	for {
		err := call()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%s: not after %v: %v", what, limit, err)
		}
		select {
		case <-c.gone:
			c.t.Fatalf("%s: the cluster has ended: %v", what, err)
		case <-c.t.Context().Done():
			c.t.Fatalf("%s: %v", what, err)
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// explain shows what is needed to see why a test failed.
func (c *Cluster) explain() {
	c.t.Helper()
	for _, args := range []string{"get pods,pvc,pv,volumesnapshots,csinodes,csistoragecapacities -A -o wide", "get events -A --sort-by=.lastTimestamp", "describe pods -A"} {
		out, err := c.Try(strings.Fields(args)...)
		if err != nil && out == "" {
			break // nobody answers
		}
		c.t.Logf("kubectl %s: %v\n%s", args, err, tail(out, 12000))
	}
	pods, err := c.Try("get", "pods", "-A", "-o", `jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}`)
	for pod := range strings.Lines(pods) {
		if namespace, name, ok := strings.Cut(strings.TrimSpace(pod), "/"); err == nil && ok {
			out, _ := c.Try("logs", "-n", namespace, name, "--all-containers", "--tail=60", "--prefix")
			c.t.Logf("logs of %s/%s:\n%s", namespace, name, out)
		}
	}
	logs, err := filepath.Glob(filepath.Join(c.dir, "log", "*"))
	for _, log := range logs {
		text, readErr := os.ReadFile(log)
		if err == nil && readErr == nil {
			c.t.Logf("end of the log of %s:\n%s", filepath.Base(log), tail(string(text), 2000))
		}
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
