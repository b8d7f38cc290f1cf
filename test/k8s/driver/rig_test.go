// Package driver installs the chart on a real Kubernetes, and does with the driver what users and operators do: make e2e-k8s.
package driver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre/localfs"
	"datamove.dev/test/k8s"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
	"datamove.dev/test/vm"
)

func TestMain(m *testing.M) { k8s.Main(m) }

const module = "../../.."

// site is a Kubernetes with the chart, on file systems with quotas: lab, which both nodes have, and scratch of each.
type site struct {
	*testing.T
	*k8s.Cluster
	lab    string // on this machine
	bucket string // of the S3 server, as a directory
}

// limited is a btrfs whose quotas hold.
func limited(t *testing.T) string {
	t.Helper()
	root := loopfs.Mount(t, loopfs.Spec{Type: "btrfs", Bytes: 4 << 30})
	fd := must.Get(unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	must.Do(t, errors.Join((&localfs.Subvolumes{}).Enable(t.Context(), fd, true), unix.Close(fd)))
	return root
}

// install starts a cluster and installs the chart. before is done just before that.
func install(t *testing.T, before ...func(*site)) *site {
	programs := k8s.Programs(t, "csi-provisioner", "csi-resizer", "csi-snapshotter", "snapshot-controller")
	s := &site{T: t, lab: limited(t)}
	scratch := []string{limited(t), limited(t)}
	for _, dir := range scratch {
		must.Do(t, os.Mkdir(filepath.Join(dir, "cache"), 0o755))
	}
	var images []k8s.Image
	for name, version := range map[string]string{"csi-provisioner": "v6.3.0", "csi-resizer": "v2.3.0", "csi-snapshotter": "v8.7.0", "snapshot-controller": "v8.7.0"} {
		images = append(images, k8s.Image{Name: "registry.k8s.io/sig-storage/" + name + ":" + version, Files: map[string]string{name: filepath.Join(programs, name)}, Entry: []string{"/" + name}})
	}
	s.Cluster = k8s.Start(t, k8s.Options{Nodes: 2, Images: append(k8s.Images(t, images...), ours(t)), Binds: func(n int) map[string]string {
		return map[string]string{"/opt/lab": s.lab, "/opt/nvme": scratch[n-1]}
	}})
	s.snapshots()
	s.store()
	for _, do := range before {
		do(s)
	}
	began := time.Now()
	s.Helm("install", "datamove", filepath.Join(module, "deploy/helm/datamove"), "--namespace=datamove", "--create-namespace", "--values="+s.values())
	for _, what := range []string{"deployment/datamove-csi-controller", "daemonset/datamove-csi-node", "statefulset/datamove-coordinator", "daemonset/datamove-agent"} {
		s.Eventually(what+" is ready", 2*time.Minute, func() error {
			_, err := s.Try("-n", "datamove", "rollout", "status", what, "--timeout=5s")
			return err
		})
	}
	t.Logf("the driver is ready after %v", time.Since(began).Round(100*time.Millisecond))
	return s
}

// ours makes our image as make image does, for this machine.
func ours(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"datamove", "datamove-bench", "datamoved", "datamove-csi"} {
		program := must.Get(vm.Build(dir, "datamove.dev/cmd/"+name))(t)
		must.Do(t, os.Rename(program, program+"-linux-"+runtime.GOARCH))
	}
	_, err := command("go", "-C", filepath.Join(module, "deploy/image"), "run", ".", "-programs="+dir, "-out="+dir, "-version=0.1.0", "-architectures="+runtime.GOARCH)
	must.Do(t, err)
	return filepath.Join(dir, "datamove.tar")
}

// values are those of this site.
func (s *site) values() string {
	s.Helper()
	text := must.Get(os.ReadFile("testdata/values.yaml"))(s.T)
	path := filepath.Join(s.TempDir(), "values.yaml")
	must.Do(s.T, os.WriteFile(path, text, 0o600))
	return path
}

// snapshots installs what a distribution of Kubernetes has for snapshots: their types, and the controller.
func (s *site) snapshots() {
	s.Helper()
	dir := must.Get(s.modules("github.com/kubernetes-csi/external-snapshotter/client/v8"))(s.T)
	crds := must.Get(filepath.Glob(filepath.Join(dir, "config/crd/*snapshot.storage.k8s.io*.yaml")))(s.T)
	for _, crd := range crds {
		s.Kubectl("apply", "--server-side", "-f", crd)
	}
	s.Apply(snapshotController)
}

const snapshotController = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: snapshot-controller, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: snapshot-controller}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: snapshot-controller, namespace: kube-system}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: snapshot-controller, namespace: kube-system}
spec:
  selector: {matchLabels: {app: snapshot-controller}}
  template:
    metadata: {labels: {app: snapshot-controller}}
    spec:
      serviceAccountName: snapshot-controller
      dnsPolicy: Default
      containers: [{name: controller, image: "registry.k8s.io/sig-storage/snapshot-controller:v8.7.0"}]
`

// modules is where the source of a module of the snapshotter's is.
func (s *site) modules(path string) (string, error) {
	out, err := command("go", "-C", filepath.Join(module, "test/k8s/programs/snapshotter"), "list", "-m", "-f", "{{.Dir}}", path)
	return strings.TrimSpace(out), err
}

// store starts a S3 server on the side of the control plane, with a bucket archive, and gives the chart its keys.
func (s *site) store() {
	s.Helper()
	dir := s.TempDir()
	program := filepath.Join(dir, "s3dev")
	_, err := command("go", "-C", filepath.Join(module, "test/s3dev"), "build", "-o", program, ".")
	must.Do(s.T, err)
	s.bucket = filepath.Join(dir, "store", "archive")
	must.Do(s.T, os.MkdirAll(s.bucket, 0o755))
	s.Beside("s3dev", program, "--listen=0.0.0.0:9000", "--dir="+filepath.Dir(s.bucket), "--buckets=archive")
	s.Kubectl("create", "namespace", "datamove")
	s.Kubectl("-n", "datamove", "create", "secret", "generic", "archive", "--from-literal=keys=AWS_ACCESS_KEY_ID=datamove\nAWS_SECRET_ACCESS_KEY=datamove-secret\n")
	for n := 1; n <= 2; n++ {
		_, err := s.Inside(n, "install", "-d", "-m", "0700", "-o", "64643", "-g", "64643", "/var/lib/kubelet/coordinator")
		must.Do(s.T, err)
	}
}

// runs waits until a pod does.
func (s *site) runs(pod string) {
	s.Helper()
	s.Eventually(pod+" runs", 2*time.Minute, func() error {
		out, err := s.Try("get", "pod", pod, "-o", "jsonpath={.status.phase}")
		if err == nil && out != "Running" {
			err = errors.New(out)
		}
		return err
	})
}

// snapshot takes one of a claim.
func (s *site) snapshot(name, of string) {
	s.Helper()
	s.Apply(fmt.Sprintf("{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshot, metadata: {name: %s}, spec: {volumeSnapshotClassName: project, source: {persistentVolumeClaimName: %s}}}", name, of))
	s.Eventually("the snapshot is ready", time.Minute, func() error {
		out, err := s.Try("get", "volumesnapshot", name, "-o", "jsonpath={.status.readyToUse}")
		if err == nil && out != "true" {
			err = fmt.Errorf("%q", out)
		}
		return err
	})
}

// in runs the worker in a pod.
func (s *site) in(pod string, args ...string) (string, error) {
	return s.Try(append([]string{"exec", pod, "--", "/worker"}, args...)...)
}

// none is an error as long as kubectl finds what a jsonpath asks for.
func (s *site) none(of, path string) func() error {
	return func() error {
		out, err := s.Try("get", of, "-o", "jsonpath="+path)
		if err == nil && out != "" {
			err = errors.New(out)
		}
		return err
	}
}

// dataset adds one, as root of a node.
func (s *site) dataset(name, at string) {
	s.Helper()
	out, err := s.Try("-n", "datamove", "exec", "daemonset/datamove-agent", "--", "/bin/datamove", "dataset", "add", name, at)
	if err != nil {
		s.Fatalf("%s: %v", out, err)
	}
}
