package driver

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"datamove.dev/csi/mount"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

// TestWords: what is wrong on the command line, or in the configuration, is said by its name.
func TestWords(t *testing.T) {
	p := rig.NewCommand(t, "datamove-csi")
	config := filepath.Join(t.TempDir(), "csi.yaml")
	must.Do(t, os.WriteFile(config, []byte("fileSystems:\n  lab: {use: project, kind: btrfs, root: lab, volume: x}\n"), 0o644))
	for _, row := range []struct {
		args, want string
		exit       int
	}{
		{"--mode some --node-id n1", `--mode is "some"`, 2},
		{"", "--node-id is missing", 2},
		{"--node-id n1 --register /x", "--register-endpoint", 2},
		{"--node-id n1 --endpoint tcp://:1", "has to be unix:///path", 2},
		{"--node-id n1 --nodes a=b", "--nodes is for --mode controller", 2},
		{"--mode node --node-id n1 --relay :0", "--relay-tls", 2},
		{"--mode controller --nodes a=b --relay-tls /none --config " + config, "field volume not found", 2},
		{"--node-id n1 --config /none", "/none: no such file", 1},
		{"--node-id n1 now", `"now"`, 2},
		{"--nonsense", "unknown flag: --nonsense", 2},
		{"trash restore", "trash list", 2},
		{"hand", "started by the driver", 1},
	} {
		r := p.Do(t, row.exit, strings.Fields(row.args)...)
		if got := r.Stderr(); !strings.Contains(got, row.want) {
			t.Errorf("%s: %s", row.args, got)
		}
	}
}

// TestRegistration: a kubelet finds the driver by its socket, and is told where it is; and what the kubelet does not like ends it.
func TestRegistration(t *testing.T) {
	n := newNode(t)
	plugins := t.TempDir()
	n.begin("--register", plugins, "--register-endpoint", "/var/lib/kubelet/plugins/x/csi.sock", "--http", "127.0.0.1:19808")
	socket := filepath.Join(plugins, "csi.datamove.dev-reg.sock")
	n.run.Until("it can be found", func() bool { _, err := os.Stat(socket); return err == nil })
	for _, path := range []string{socket, n.socket()} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must.Do(t, err)
	defer conn.Close()
	kubelet := registration.NewRegistrationClient(conn)
	info, err := kubelet.GetInfo(t.Context(), &registration.InfoRequest{}, grpc.WaitForReady(true))
	must.Do(t, err)
	if info.GetType() != "CSIPlugin" || info.GetName() != "csi.datamove.dev" || info.GetEndpoint() != "/var/lib/kubelet/plugins/x/csi.sock" || len(info.GetSupportedVersions()) == 0 {
		t.Errorf("%v", info)
	}
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ok\n", "/metrics": "datamove_csi_calls_now 0\n"} {
		reply := must.Get(http.Get("http://127.0.0.1:19808" + path))(t)
		body := must.Get(io.ReadAll(reply.Body))(t)
		must.Do(t, reply.Body.Close())
		if !strings.Contains(string(body), want) {
			t.Errorf("%s: %s", path, body)
		}
	}
	_, err = kubelet.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{PluginRegistered: true})
	must.Do(t, err)
	_, _ = kubelet.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{Error: "no such version"})
	n.run.Want(1)
	if got := n.run.Stderr(); !strings.Contains(got, "no such version") {
		t.Errorf("%s", got)
	}
}

// TestKillPublish: killed after each step of a mount or an unmount that can be seen, the driver started again finds what was done: there is
// one mount in the end, with its flags, and after the unmount none.
func TestKillPublish(t *testing.T) {
	n := newNode(t)
	n.begin()
	id := n.created("scratch", "pvc-1")
	for round := range kill.Times(6, 24) {
		q := n.publication(id, "pod")
		q.Readonly = round%2 == 0
		there := func() bool { _, err := os.Lstat(q.GetTargetPath()); return err == nil }
		mounted := func() bool { return len(n.mounts(q.GetTargetPath())) > 0 }
		n.interrupted([]func() bool{asked, there, mounted}[round%3], func(ctx context.Context) error {
			_, err := n.NodePublishVolume(ctx, q)
			return err
		})
		_, err := n.NodePublishVolume(t.Context(), q, grpc.WaitForReady(true))
		must.Do(t, err)
		table := n.mounts(q.GetTargetPath())
		if len(table) != 1 || !strings.Contains(table[0].Options, "nosuid") || strings.Contains(","+table[0].Options+",", ",ro,") != q.GetReadonly() {
			t.Fatalf("round %d: %+v", round, table)
		}
		un := &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: q.GetTargetPath()}
		n.interrupted([]func() bool{asked, func() bool { return !mounted() }, func() bool { return !there() }}[round%3], func(ctx context.Context) error {
			_, err := n.NodeUnpublishVolume(ctx, un)
			return err
		})
		_, err = n.NodeUnpublishVolume(t.Context(), un, grpc.WaitForReady(true))
		must.Do(t, err)
		if there() {
			t.Fatalf("round %d: it is there still", round)
		}
	}
}

func asked() bool { return true }

func (n *node) mounts(at string) []mount.Mount {
	n.Helper()
	table, err := mount.Table(at)
	must.Do(n, err)
	return table
}

// interrupted kills the driver in the middle of a call, when a step is seen or it has ended, and starts it again.
func (n *node) interrupted(step func() bool, call func(context.Context) error) {
	n.Helper()
	ctx, ends := context.WithCancel(n.Context())
	go func() {
		defer ends()
		_ = call(n.Context()) // how it ends is not known, and does not matter
	}()
	for ctx.Err() == nil && !step() {
		runtime.Gosched()
	}
	n.run.Kill()
	<-ctx.Done()
	n.begin()
}
