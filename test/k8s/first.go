package k8s

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The variables that say what this process is: the first one of a cluster, or of a node.
const (
	firstProcess = "DATAMOVE_K8S_FIRST"
	nodeProcess  = "DATAMOVE_K8S_NODE"
)

// Main is what a TestMain calls at its end.
func Main(m *testing.M) {
	text := os.Getenv(firstProcess)
	if text == "" {
		os.Exit(m.Run())
	}
	var p plan
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		if n, is := os.LookupEnv(nodeProcess); is {
			err = p.node(n)
		} else {
			err = p.first()
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// first is process 1: it starts the control plane and the nodes, and stays for as long as they do.
func (p *plan) first() error {
	steps := []func() error{p.separate, p.disguise, p.network, p.control}
	for n := 1; n <= p.Nodes; n++ {
		steps = append(steps, func() error { return p.startNode(n) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return p.stay()
}

// separate has what is mounted here be seen here and in nodes only.
func (p *plan) separate() error {
	for _, flags := range []uintptr{unix.MS_REC | unix.MS_PRIVATE, unix.MS_REC | unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", flags, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
	}
	return os.NewSyscallError("mount /proc", unix.Mount("proc", "/proc", "proc", 0, ""))
}

// wanted is what a kubelet insists on. These are settings of the whole machine: it gets to see files that say so.
var wanted = map[string]string{"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1", "kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000"}

func (p *plan) disguise() error {
	for name, value := range wanted {
		file := filepath.Join(p.Dir, "sysctl", strings.ReplaceAll(name, "/", "_"))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, "/proc/sys/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("/proc/sys/%s: %w", name, err)
		}
	}
	return nil
}

// network makes the bridge that joins the nodes. This side of it has the addresses of the API server, and knows which node has
// which pods.
func (p *plan) network() error {
	commands := []string{"link set lo up", "link add br0 type bridge", fmt.Sprintf("address add %s/24 dev br0", bridge), "address add " + serviceAddress + "/32 dev br0", "link set br0 up"}
	for n := 1; n <= p.Nodes; n++ {
		commands = append(commands, fmt.Sprintf("route add 10.244.%d.0/24 via %s", n, nodeAddress(n)))
	}
	return ip(commands...)
}

// ip runs commands of ip(8), and lets this network pass on what is not for it.
func ip(commands ...string) error {
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, out)
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

// control starts the control plane.
func (p *plan) control() error {
	pki := func(name string) string { return filepath.Join(p.Dir, "pki", name) }
	const etcd, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	api := []string{"kube-apiserver", "--etcd-servers=" + etcd, "--bind-address=0.0.0.0", "--advertise-address=" + bridge.String(), "--secure-port=" + strconv.Itoa(apiPort),
		"--service-cluster-ip-range=10.96.0.0/16", "--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"), "--client-ca-file=" + pki("ca.crt"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--service-account-key-file=" + pki("sa.pub"), "--service-account-signing-key-file=" + pki("sa.key"), "--service-account-issuer=https://kubernetes.default.svc",
		"--kubelet-client-certificate=" + pki("kubelet-client.crt"), "--kubelet-client-key=" + pki("kubelet-client.key"), "--kubelet-certificate-authority=" + pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP"}
	err := p.start("etcd", "etcd", "--data-dir="+filepath.Join(p.Dir, "etcd"), "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd, "--listen-peer-urls="+peers,
		"--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers, "--unsafe-no-fsync")
	if err == nil {
		err = p.start("apiserver", api...)
	}
	for limit := time.Now().Add(time.Minute); err == nil; time.Sleep(200 * time.Millisecond) {
		if exec.Command("kubectl", "--kubeconfig="+pki("admin.kubeconfig"), "get", "--raw", "/readyz").Run() == nil {
			break
		}
		if time.Now().After(limit) {
			return fmt.Errorf("the API server is not ready")
		}
	}
	if err == nil {
		err = p.start("controller-manager", "kube-controller-manager", "--kubeconfig="+pki("controller-manager.kubeconfig"), "--bind-address=127.0.0.1", "--service-account-private-key-file="+pki("sa.key"),
			"--root-ca-file="+pki("ca.crt"), "--use-service-account-credentials=true", "--leader-elect=false")
	}
	if err == nil {
		err = p.start("scheduler", "kube-scheduler", "--kubeconfig="+pki("scheduler.kubeconfig"), "--bind-address=127.0.0.1", "--leader-elect=false")
	}
	return err
}

// startNode starts the first process of a node.
func (p *plan) startNode(n int) error {
	name := NodeName(n)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), nodeProcess+"="+strconv.Itoa(n))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET}
	if err := p.run(name, cmd); err != nil {
		return err
	}
	return ip("link add v"+strconv.Itoa(n)+" type veth peer name eth0 netns "+strconv.Itoa(cmd.Process.Pid), "link set v"+strconv.Itoa(n)+" master br0 up")
}

// start starts a program, which goes on.
func (p *plan) start(name string, args ...string) error {
	return p.run(name, exec.Command(args[0], args[1:]...))
}

func (p *plan) run(name string, cmd *exec.Cmd) error {
	log, err := os.Create(filepath.Join(p.Dir, "log", name))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// stay waits for all that end, also those whose parents did, for ever.
func (p *plan) stay() error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err == unix.ECHILD {
			return fmt.Errorf("everything has ended")
		}
		if err == nil && status.ExitStatus() != 0 {
			fmt.Fprintf(os.Stderr, "process %d ended with %d\n", pid, status.ExitStatus())
		}
	}
}
