package k8s

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// controllers are the hierarchies of cgroups (version 1) that a kubelet needs.
var controllers = []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd"}

const cgroups = "/sys/fs/cgroup"

// node is the first process of a node, in its own mounts and network.
func (p *plan) node(number string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	for _, step := range []func(int) error{p.tell, p.places, p.group, p.join, p.containerd, p.load, p.kubelet} {
		if err := step(n); err != nil {
			return fmt.Errorf("node %d: %w", n, err)
		}
	}
	return p.stay()
}

func (p *plan) of(n int, name ...string) string {
	return filepath.Join(append([]string{p.Dir, NodeName(n)}, name...)...)
}

// tell says which process this is on the machine outside: NSpid of /proc is of this namespace only, and the one outside reads
// it by the inode of its mounts.
func (p *plan) tell(n int) error {
	name, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.Dir, "pids", NodeName(n)), []byte(name), 0o644)
}

// places gives a node directories of its own where its programs write, whatever they are told. Nothing is made on the machine.
func (p *plan) places(n int) error {
	upper, work := p.of(n, "var/lib"), p.of(n, "work")
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	if err := unix.Mount("overlay", "/var/lib", "overlay", 0, "lowerdir=/var/lib,upperdir="+upper+",workdir="+work); err != nil {
		return fmt.Errorf("mount /var/lib: %w", err)
	}
	for _, dir := range []string{"run", "opt", "var/log", "usr/libexec", "var/lib/kubelet", "var/lib/containerd"} {
		mine := p.of(n, "own", dir)
		if err := errors.Join(os.MkdirAll(mine, 0o755), os.MkdirAll("/"+dir, 0o755)); err != nil {
			return err
		}
		if err := unix.Mount(mine, "/"+dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	var binds map[string]string
	if len(p.Binds) >= n {
		binds = p.Binds[n-1]
	}
	for at, dir := range binds {
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(dir, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s at %s: %w", dir, at, err)
		}
	}
	// What is mounted on a node by one pod is to be seen by the others there.
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

func (p *plan) cgroup(n int) string { return p.Cgroup + "-" + strconv.Itoa(n) }

// group makes the cgroups that the pods of a node are in.
func (p *plan) group(n int) error {
	for _, c := range controllers {
		if err := os.MkdirAll(filepath.Join(cgroups, c, p.cgroup(n)), 0o755); err != nil {
			return err
		}
	}
	for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
		text, err := os.ReadFile(filepath.Join(cgroups, "cpuset", f))
		if err == nil {
			err = os.WriteFile(filepath.Join(cgroups, "cpuset", p.cgroup(n), f), text, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweep removes all cgroups of a cluster. Its processes may need a moment to be gone.
func (p *plan) sweep() error {
	var left error
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		left = nil
		tops, err := filepath.Glob(filepath.Join(cgroups, "*", p.Cgroup+"-*"))
		if err != nil {
			return err
		}
		for _, top := range tops {
			var dirs []string
			err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil // it may go meanwhile
			})
			for i := len(dirs) - 1; i >= 0; i-- {
				err = errors.Join(err, unix.Rmdir(dirs[i]))
			}
			left = errors.Join(left, err)
		}
		if left == nil || time.Now().After(limit) {
			return left
		}
	}
}

// join waits until the node is on the bridge.
func (p *plan) join(n int) error {
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := net.InterfaceByName("eth0"); err == nil {
			break
		}
		if time.Now().After(limit) {
			return errors.New("it is not joined to the network")
		}
	}
	commands := []string{"link set lo up", fmt.Sprintf("address add %s/24 dev eth0", nodeAddress(n)), "link set eth0 up", fmt.Sprintf("route add default via %s", bridge)}
	for other := 1; other <= p.Nodes; other++ {
		if other != n {
			commands = append(commands, fmt.Sprintf("route add 10.244.%d.0/24 via %s", other, nodeAddress(other)))
		}
	}
	return ip(commands...)
}

const containerdSocket = "/run/containerd/containerd.sock"

// containerd starts it, with what pods' networks need.
func (p *plan) containerd(n int) error {
	network := fmt.Sprintf(`{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.%d.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni"}}]}`, n)
	runc, err := exec.LookPath("runc")
	if err != nil {
		return err
	}
	config := `version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + Pause + `"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "` + p.of(n, "cni") + `"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "` + runc + `"
      SystemdCgroup = false
`
	file := p.of(n, "containerd.toml")
	if err := errors.Join(os.MkdirAll(p.of(n, "cni"), 0o755), os.WriteFile(p.of(n, "cni", "10-pods.conflist"), []byte(network), 0o644), os.WriteFile(file, []byte(config), 0o644)); err != nil {
		return err
	}
	if err := p.start(NodeName(n)+"-containerd", "containerd", "--config", file); err != nil {
		return err
	}
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("unix", containerdSocket)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(limit) {
			return fmt.Errorf("containerd does not answer: %w", err)
		}
	}
}

// load gives a node its images.
func (p *plan) load(int) error {
	for _, archive := range p.Images {
		if out, err := exec.Command("ctr", "-n", "k8s.io", "images", "import", archive).CombinedOutput(); err != nil {
			return fmt.Errorf("import %s: %w: %s", filepath.Base(archive), err, out)
		}
	}
	return nil
}

// kubelet starts it.
func (p *plan) kubelet(n int) error {
	pki := func(name string) string { return filepath.Join(p.Dir, "pki", name) }
	config := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
readOnlyPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %[2]s}}
authorization: {mode: Webhook}
tlsCertFile: %[3]s
tlsPrivateKeyFile: %[4]s
containerRuntimeEndpoint: unix://%[5]s
cgroupDriver: cgroupfs
cgroupRoot: /%[6]s
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
makeIPTablesUtilChains: false
resolvConf: ""
nodeStatusUpdateFrequency: 5s
volumeStatsAggPeriod: 5s
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "50Mi", nodefs.available: "1%%", imagefs.available: "1%%", nodefs.inodesFree: "1%%"}
`, nodeAddress(n), pki("ca.crt"), pki(NodeName(n)+".crt"), pki(NodeName(n)+".key"), containerdSocket, p.cgroup(n))
	file := p.of(n, "kubelet.yaml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return err
	}
	return p.start(NodeName(n)+"-kubelet", "kubelet", "--config="+file, "--kubeconfig="+pki(NodeName(n)+".kubeconfig"), "--hostname-override="+NodeName(n), "--node-ip="+nodeAddress(n).String(), "--v=2")
}
