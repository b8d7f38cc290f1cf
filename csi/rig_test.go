package csi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"datamove.dev/csi/fsclient"
	"datamove.dev/csi/fsworker"
	"datamove.dev/csi/mount"
	"datamove.dev/csi/volume"
	"datamove.dev/lustre/localfs"
	"datamove.dev/mover/config"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/mountns"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// TestMain is the hand, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "hand" {
		if err := fsworker.Serve(context.Background(), fsclient.Methods()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	mountns.Main(m)
}

const mib = 1 << 20

// kubelet is a driver on a btrfs, with a client. It is the kubelet, and the sidecars.
type kubelet struct {
	*testing.T
	csi.ControllerClient
	csi.NodeClient
	driver  *Driver
	socket  string
	root    string                 // of the file system
	pods    string                 // where targets are
	tiers   map[string]config.Tier // of the mover, beside shared and scratch
	shared  string                 // what datasets come from, when there is a mover
	service *rig.Cluster           // that mover
}

// rigged starts one. lab is for projects, nvme for scratch; grants and staging may be changed before the first call.
func rigged(t *testing.T) *kubelet {
	t.Helper()
	return riggedOn(t, 2<<30)
}

// riggedOn is rigged with a file system of a size.
func riggedOn(t *testing.T, bytes int64) *kubelet {
	t.Helper()
	root := loopfs.Mount(t, loopfs.Spec{Type: "btrfs", Bytes: bytes})
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must.Do(t, err)
	must.Do(t, errors.Join((&localfs.Subvolumes{}).Enable(t.Context(), fd, true), unix.Close(fd)))
	config, err := ParseConfig(fmt.Appendf(nil, `
fileSystems:
  lab:  {use: project, kind: btrfs, root: %[1]s, volumes: k8s}
  nvme: {use: scratch, kind: btrfs, root: %[1]s, volumes: csi, keepFree: 10}
grants:
  - {namespaces: [vision], directories: [{fileSystem: lab, path: team/vision}, {fileSystem: lab, path: shared, readOnly: true}]}
`, root))
	must.Do(t, err)
	crew := &fsworker.Pool{Here: fsclient.Methods()} // a process takes a tenth of a second of CPU to begin
	if seed.Soak() {
		crew.Here = nil
	}
	t.Cleanup(crew.Close)
	d := New(Options{Config: config, Files: &fsclient.Files{Pool: crew}, Mode: All, NodeID: "n1", Version: "test", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	r := &kubelet{T: t, driver: d, root: root, pods: t.TempDir()}
	conn, socket := serve(t, d)
	r.socket = socket
	r.ControllerClient, r.NodeClient = csi.NewControllerClient(conn), csi.NewNodeClient(conn)
	t.Cleanup(func() { // before the file system goes, and with it what a test has left
		table := must.Get(mount.Table(r.pods))(t)
		for i := range table {
			must.Do(t, unix.Unmount(table[len(table)-1-i].Point, unix.MNT_DETACH))
		}
	})
	return r
}

// serve starts a driver on a socket, and connects.
func serve(t *testing.T, d *Driver) (*grpc.ClientConn, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "csi.sock")
	l := must.Get(net.Listen("unix", path))(t)
	server := grpc.NewServer(grpc.UnaryInterceptor(d.Unary))
	d.Register(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	conn := must.Get(grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() {
		must.Do(t, conn.Close())
		server.Stop()
		must.Do(t, <-ended)
	})
	return conn, path
}

// refused looks if a call ended with a code.
func (r *kubelet) refused(err error, want codes.Code) {
	r.Helper()
	if status.Code(err) != want {
		r.Errorf("%v, and not %s", err, want)
	}
}

// writer is the capability of most volumes.
func writer(flags ...string) *csi.VolumeCapability {
	return able(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, flags...)
}

func able(mode csi.VolumeCapability_AccessMode_Mode, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: flags}}, AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}}
}

var single = able(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)

// creation is a request for a volume of a claim.
func creation(kind volume.Kind, namespace, name string, bytes int64) *csi.CreateVolumeRequest {
	capability := writer()
	if kind == volume.Scratch {
		capability = single
	}
	return &csi.CreateVolumeRequest{
		Name: "pvc-" + namespace + "-" + name, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes}, VolumeCapabilities: []*csi.VolumeCapability{capability},
		Parameters: map[string]string{"type": string(kind), "mode": "1777", "csi.storage.k8s.io/pvc/namespace": namespace, "csi.storage.k8s.io/pvc/name": name, "csi.storage.k8s.io/pv/name": "pv-" + name},
	}
}

// created makes a volume for a namespace.
func (r *kubelet) created(kind volume.Kind, namespace, name string, bytes int64) *csi.Volume {
	r.Helper()
	reply := must.Get(r.CreateVolume(r.Context(), creation(kind, namespace, name, bytes)))(r.T)
	return reply.GetVolume()
}

// publication is the request of a kubelet for a pod.
func (r *kubelet) publication(id, namespace, pod string) *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{VolumeId: id, TargetPath: filepath.Join(r.pods, namespace+"."+pod), VolumeCapability: writer(),
		VolumeContext: map[string]string{"csi.storage.k8s.io/pod.namespace": namespace, "csi.storage.k8s.io/pod.name": pod, "csi.storage.k8s.io/pod.uid": "u-" + pod, "csi.storage.k8s.io/serviceAccount.name": "default", "csi.storage.k8s.io/ephemeral": "false"}}
}

// published mounts a volume for a pod, and returns where.
func (r *kubelet) published(q *csi.NodePublishVolumeRequest) string {
	r.Helper()
	_, err := r.NodePublishVolume(r.Context(), q)
	must.Do(r.T, err)
	return q.GetTargetPath()
}

// unpublished takes it away.
func (r *kubelet) unpublished(q *csi.NodePublishVolumeRequest) {
	r.Helper()
	_, err := r.NodeUnpublishVolume(r.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: q.GetVolumeId(), TargetPath: q.GetTargetPath()})
	must.Do(r.T, err)
	if _, err := os.Lstat(q.GetTargetPath()); !errors.Is(err, os.ErrNotExist) {
		r.Errorf("%s is there: %v", q.GetTargetPath(), err)
	}
}
