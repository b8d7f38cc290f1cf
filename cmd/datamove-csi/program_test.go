package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"datamove.dev/csi/mount"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/kill"
)

// TestWords: what is wrong on the command line, or in the configuration, is said by its name.
func TestWords(t *testing.T) {
	p := rig.NewCommand(t, "datamove-csi")
	config := filepath.Join(t.TempDir(), "csi.yaml")
	must(t, os.WriteFile(config, []byte("fileSystems:\n  lab: {use: project, kind: btrfs, root: lab, volume: x}\n"), 0o644))
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
	must(t, err)
	defer conn.Close()
	kubelet := registration.NewRegistrationClient(conn)
	info, err := kubelet.GetInfo(t.Context(), &registration.InfoRequest{}, grpc.WaitForReady(true))
	must(t, err)
	if info.GetType() != "CSIPlugin" || info.GetName() != "csi.datamove.dev" || info.GetEndpoint() != "/var/lib/kubelet/plugins/x/csi.sock" || len(info.GetSupportedVersions()) == 0 {
		t.Errorf("%v", info)
	}
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ok\n", "/metrics": "datamove_csi_calls_now 0\n"} {
		reply, err := http.Get("http://127.0.0.1:19808" + path)
		must(t, err)
		body, err := io.ReadAll(reply.Body)
		must(t, err)
		must(t, reply.Body.Close())
		if !strings.Contains(string(body), want) {
			t.Errorf("%s: %s", path, body)
		}
	}
	_, err = kubelet.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{PluginRegistered: true})
	must(t, err)
	_, _ = kubelet.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{Error: "no such version"})
	n.run.Want(1)
	if got := n.run.Stderr(); !strings.Contains(got, "no such version") {
		t.Errorf("%s", got)
	}
}

// TestKillPublish: killed at any moment of a mount or an unmount, the driver started again finds what was done: there is
// one mount in the end, with its flags, and after the unmount none.
func TestKillPublish(t *testing.T) {
	n, random := newNode(t), kill.Random(t)
	n.begin()
	id := n.created("scratch", "pvc-1")
	for round := range kill.Times(3, 120) {
		q := n.publication(id, "pod")
		q.Readonly = round%2 == 0
		n.interrupted(random, func(ctx context.Context) error {
			_, err := n.NodePublishVolume(ctx, q)
			return err
		})
		_, err := n.NodePublishVolume(t.Context(), q, grpc.WaitForReady(true))
		must(t, err)
		table, err := mount.Table(q.GetTargetPath())
		must(t, err)
		if len(table) != 1 || !strings.Contains(table[0].Options, "nosuid") || strings.Contains(","+table[0].Options+",", ",ro,") != q.GetReadonly() {
			t.Fatalf("round %d: %+v", round, table)
		}
		un := &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: q.GetTargetPath()}
		n.interrupted(random, func(ctx context.Context) error {
			_, err := n.NodeUnpublishVolume(ctx, un)
			return err
		})
		_, err = n.NodeUnpublishVolume(t.Context(), un, grpc.WaitForReady(true))
		must(t, err)
		if _, err := os.Lstat(q.GetTargetPath()); !os.IsNotExist(err) {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

// interrupted kills the driver in the middle of a call, and starts it again.
func (n *node) interrupted(random *rand.Rand, call func(context.Context) error) {
	n.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = call(n.Context()) // how it ends is not known, and does not matter
	}()
	n.run.KillAfter(time.Duration(random.Int64N(int64(8 * time.Millisecond))))
	<-ended
	n.begin()
}
