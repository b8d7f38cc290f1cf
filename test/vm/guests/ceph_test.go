package guests

import (
	"os"
	"testing"

	"datamove.dev/test/must"
	"datamove.dev/test/vm"
	"datamove.dev/test/vm/wire"
)

// TestCephFS: layouts, quotas, usage, copies, commands, and the contract of a place, on a
// CephFS of the host that the kernel's client has mounted. test/e2e-ceph starts the cluster.
func TestCephFS(t *testing.T) {
	if os.Getenv("CEPH_ADDRESS") == "" {
		t.Skip("elsewhere: make e2e-ceph: needs a cluster, whose address is in CEPH_ADDRESS")
	}
	script := must.Get(os.ReadFile("ceph.sh"))(t)
	const below = "projects/vision/data" // which ceph.sh mounts by itself, too
	env := append([]string{"CEPH_MOUNT=/ceph", "CEPH_MOUNT_USER=/user", "CEPH_MOUNT_BELOW=/below", "CEPH_BELOW=" + below}, guestEnv...)
	for _, name := range []string{"CEPH_ADDRESS", "CEPH_PORT", "CEPH_ID", "CEPH_ADMIN", "CEPH_USER"} {
		env = append(env, name+"="+os.Getenv(name))
	}
	for name, parts := range map[string][]cephPart{
		"place": {
			{"ceph", "lustre/cephfs", "Real", nil},
			{"system", "lustre/detect", "NamedMounts", []string{"DATAMOVE_TEST_MOUNTS=cephfs=/ceph,cephfs=/below"}},
			{"commands", "cmd/datamove/root", "OnCephFS", nil},
			{"volumes", "csi/volumestore", "TestSystems/cephfs", []string{"CSI_DIRS=cephfs=/ceph"}},
			{"contract", "mover/backend/posix", "TestContract/elsewhere", []string{"DATAMOVE_TEST_DIRS=/ceph"}},
		},
		"copies": {{"copies", "test/vm/ceph", "", nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := boot(t, cephGuest(t, string(script), env, parts))
			whole(t, r)
			if r.Outcomes[0].Code != 0 {
				t.Fatalf("it was not mounted:\n%s%s", r.Outcomes[0].Stdout, r.Outcomes[0].Stderr)
			}
			for i, p := range parts {
				t.Run(p.name, func(t *testing.T) { vm.Replay(t, r.Outcomes[i+1], nil) })
			}
		})
	}
}

// cephPart is a test binary, and what of it is run.
type cephPart struct {
	name, pkg, run string
	env            []string
}

// cephGuest mounts the CephFS, and runs the parts.
func cephGuest(t *testing.T, script string, env []string, parts []cephPart) *vm.Guest {
	g := &vm.Guest{
		Network:  true,
		Modules:  []string{"ceph", "crc32c_generic", "ext4"},
		Programs: []string{"cat", "ip", "mkdir", "mount", "sh"},
		Files: []vm.File{
			{Path: "/ceph.sh", Content: script},
			{Path: "/bin/datamove", From: program(t, "cmd/datamove")},
		},
		Disks:  []vm.Disk{{File: image(t, memory(t), "scratch", "ext4", 2<<30)}},
		Mounts: []wire.Mount{{Source: vm.DiskName(0), Target: "/tmp", Type: "ext4"}}, // in memory there would be no attributes of users
		Env:    env,
		Run:    []wire.Command{{Args: []string{"/bin/sh", "/ceph.sh"}}},
	}
	for _, p := range parts {
		g.Files = append(g.Files, vm.File{Path: "/tests/" + p.name, From: tests(t, p.pkg)})
		c := vm.TestCommand("/tests/"+p.name, "-test.run="+p.run)
		c.Env = p.env
		g.Run = append(g.Run, c)
	}
	return g
}
