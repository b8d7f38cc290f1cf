package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"datamove.dev/csi/mount"
	"datamove.dev/lustre/localfs"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/mountns"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) {
	rig.Be(rig.Commands{"datamove-csi": Main})
	mountns.Main(m)
}

// node is a machine with a btrfs, and the driver as a process of its own.
type node struct {
	testing.TB
	csi.ControllerClient
	csi.NodeClient
	program *rig.Program
	run     *rig.Run
	dir     string // with the socket, the configuration, and the targets in pods
	args    []string
}

func newNode(t testing.TB) *node {
	t.Helper()
	root := loopfs.Mount(t, loopfs.Spec{Type: "btrfs", Bytes: 2 << 30})
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must.Do(t, err)
	must.Do(t, errors.Join((&localfs.Subvolumes{}).Enable(t.Context(), fd, true), unix.Close(fd)))
	n := &node{TB: t, program: rig.NewCommand(t, "datamove-csi"), dir: t.TempDir()}
	must.Do(t, os.Mkdir(n.pods(), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(n.dir, "csi.yaml"), fmt.Appendf(nil, "fileSystems:\n  lab: {use: project, kind: btrfs, root: %[1]s, volumes: k8s}\n  nvme: {use: scratch, kind: btrfs, root: %[1]s, volumes: csi}\n", root), 0o644))
	n.args = []string{"--endpoint", "unix://" + n.socket(), "--node-id", "n1", "--config", filepath.Join(n.dir, "csi.yaml")}
	t.Cleanup(func() {
		table := must.Get(mount.Table(n.pods()))(t)
		for i := range table {
			must.Do(t, unix.Unmount(table[len(table)-1-i].Point, unix.MNT_DETACH))
		}
	})
	conn, err := grpc.NewClient("unix://"+n.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { // without gRPC's pauses
			return (&net.Dialer{}).DialContext(ctx, "unix", n.socket())
		}), grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}))
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, conn.Close()) })
	n.ControllerClient, n.NodeClient = csi.NewControllerClient(conn), csi.NewNodeClient(conn)
	return n
}

func (n *node) socket() string { return filepath.Join(n.dir, "csi.sock") }
func (n *node) pods() string   { return filepath.Join(n.dir, "pods") }

// begin starts the driver, and waits until it answers.
func (n *node) begin(more ...string) {
	n.Helper()
	must.Do(n, errors.Join(os.RemoveAll(n.socket())))
	n.run = n.program.Start(n, append(n.args, more...)...)
	n.run.Until("it answers", func() bool {
		conn, err := net.Dial("unix", n.socket())
		if err == nil {
			err = conn.Close()
		}
		return err == nil
	})
}

// created makes a volume that is for a namespace.
func (n *node) created(kind, name string) string {
	n.Helper()
	mode := csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	reply, err := n.CreateVolume(n.Context(), &csi.CreateVolumeRequest{Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: 4 << 20},
		VolumeCapabilities: []*csi.VolumeCapability{able(mode)}, Parameters: map[string]string{"type": kind, "mode": "1777"}}, grpc.WaitForReady(true))
	must.Do(n, err)
	return reply.GetVolume().GetVolumeId()
}

func able(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}}, AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}}
}

func (n *node) publication(id, pod string) *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{VolumeId: id, TargetPath: filepath.Join(n.pods(), pod), VolumeCapability: able(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER),
		VolumeContext: map[string]string{"csi.storage.k8s.io/pod.namespace": "vision", "csi.storage.k8s.io/pod.name": pod}}
}
