package guests

import (
	"os"
	"testing"

	"datamove.dev/test/must"
	"datamove.dev/test/vm"
	"datamove.dev/test/vm/wire"
)

// TestNFS: copies that are killed, replace what is open, and meet a quota, and the
// contract of a place, and volumes of the CSI driver, on NFS 4.2, 4.1, 4.0 and 3. The server and the client are the same kernel.
func TestNFS(t *testing.T) {
	t.Parallel()
	script := must.Get(os.ReadFile("nfs.sh"))(t)
	versions := []string{"nfs42", "nfs41", "nfs40", "nfs3"} // which nfs.sh mounts by these names
	parts := []struct {
		name    string
		command wire.Command
		env     string // before the mount
	}{
		{"scenarios", vm.TestCommand("/tests/nfs"), "NFS_MOUNT="},
		{"named", vm.TestCommand("/tests/system", "-test.run=NamedMounts"), "DATAMOVE_TEST_MOUNTS=nfs="},
		{"contract", vm.TestCommand("/tests/posix", "-test.run=TestContract/elsewhere"), "DATAMOVE_TEST_DIRS="},
		{"volumes", vm.TestCommand("/tests/base", "-test.run=^TestSystems$/nfs"), "CSI_DIRS=nfs="},
	}
	g := nfsGuest(t, string(script))
	for _, version := range versions {
		for _, p := range parts {
			p.command.Env = []string{p.env + "/" + version, "NFS_EXPORT=/export"}
			g.Run = append(g.Run, p.command)
		}
	}
	mounts := vm.TestCommand("/tests/mount", "-test.run=NFS")
	mounts.Env = []string{"CSI_NFS=127.0.0.1:/", "CSI_NFS_EXPORT=/export"}
	g.Run = append(g.Run, mounts)
	r := boot(t, g)
	whole(t, r)
	if r.Outcomes[0].Code != 0 {
		t.Fatalf("the server was not started:\n%s", r.Outcomes[0].Stderr)
	}
	outcomes := r.Outcomes[1:]
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			for _, p := range parts {
				t.Run(p.name, func(t *testing.T) { vm.Replay(t, outcomes[0], nil) })
				outcomes = outcomes[1:]
			}
		})
	}
	t.Run("mounts", func(t *testing.T) { vm.Replay(t, outcomes[0], nil) })
}

// nfsGuest starts a server whose disk, an ext4 with project quotas, is at /export.
func nfsGuest(t *testing.T, script string) *vm.Guest {
	g := &vm.Guest{
		Modules:  []string{"ext4", "quota_v2", "nfsd", "nfsv4", "nfsv3"},
		Programs: []string{"sh", "mkdir", "chmod", "mount", "rpcbind", "exportfs", "rpc.mountd", "rpc.nfsd"}, //nolint:misspell // a program's name
		Files: []vm.File{
			{Path: "/nfs.sh", Content: script},
			{Path: "/bin/datamove", From: program(t, "cmd/datamove")},
			{Path: "/tests/posix", From: tests(t, "mover/backend/posix")},
			{Path: "/tests/system", From: tests(t, "lustre/detect")},
			{Path: "/tests/nfs", From: tests(t, "test/vm/nfs")},
			{Path: "/tests/base", From: tests(t, "csi/volumestore")},
			{Path: "/tests/mount", From: tests(t, "csi/mount")},
		},
		Disks: []vm.Disk{{File: image(t, memory(t), "export", "ext4", 1<<30, "-O", "quota,project", "-E", "quotatype=prjquota")}},
		Mounts: []wire.Mount{
			{Source: vm.DiskName(0), Target: "/export", Type: "ext4", Options: "prjquota"},
		},
		Env: guestEnv,
		Run: []wire.Command{{Args: []string{"/bin/sh", "/nfs.sh"}}},
	}
	for _, name := range []string{"passwd", "group", "netconfig", "protocols", "services"} {
		g.Files = append(g.Files, vm.File{Path: "/etc/" + name, From: "/etc/" + name, Mode: 0o644})
	}
	return g
}
