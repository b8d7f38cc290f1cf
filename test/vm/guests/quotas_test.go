package guests

import (
	"testing"

	"datamove.dev/test/vm"
	"datamove.dev/test/vm/wire"
)

// TestQuotas: project quotas of ext4 and xfs, and the groups of btrfs, are set, read,
// and enforced; datamove quota, copy and doctor do with them what they say, and so do the volumes of
// the CSI driver and the directories of Slurm jobs.
func TestQuotas(t *testing.T) {
	t.Parallel()
	r := boot(t, &vm.Guest{
		Modules:  []string{"ext4", "xfs", "btrfs", "quota_v2", "loop"},
		Programs: []string{"mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"},
		Files: []vm.File{
			{Path: "/tests/plain", From: tests(t, "lustre/localfs")},
			{Path: "/tests/commands", From: tests(t, "test/system/cli")},
			{Path: "/tests/volumes", From: tests(t, "csi/volumestore")},
			{Path: "/tests/jobs", From: tests(t, "tiering/slurm")},
		},
		Env: guestEnv,
		Run: []wire.Command{
			vm.TestCommand("/tests/plain"),
			vm.TestCommand("/tests/commands", "-test.run=^TestQuotaOnDisks$"),
			vm.TestCommand("/tests/volumes", "-test.run=^TestSystems$/^(ext4|xfs)$"),
			vm.TestCommand("/tests/jobs", "-test.run=^TestCapacity$/^(ext4|xfs)$"),
		},
	})
	whole(t, r)
	t.Run("kernel", func(t *testing.T) {
		simple := map[string]string{}
		for _, name := range []string{"TestSubvolumesSimple", "TestNestedIsHeld", "TestGrouplessIsGathered", "TestFenceOfOld", "TestNestedRemoved/simple", "TestForget"} {
			simple[name] = "simple quotas came with Linux 6.7"
		}
		vm.Replay(t, r.Outcomes[0], simple)
	})
	t.Run("commands", func(t *testing.T) { vm.Replay(t, r.Outcomes[1], nil) })
	t.Run("volumes", func(t *testing.T) { vm.Replay(t, r.Outcomes[2], nil) })
	t.Run("jobs", func(t *testing.T) { vm.Replay(t, r.Outcomes[3], nil) })
}

// TestCaseless: names on file systems that compare them without case, which this machine's kernel may not have.
func TestCaseless(t *testing.T) {
	t.Parallel()
	r := boot(t, &vm.Guest{
		Modules:  []string{"ext4", "vfat", "nls_ascii", "nls_cp437", "loop"},
		Programs: []string{"mkfs.ext4", "mkfs.vfat"},
		Files:    []vm.File{{Path: "/tests/posix", From: tests(t, "mover/backend/posix")}},
		Env:      guestEnv,
		Run:      []wire.Command{vm.TestCommand("/tests/posix", "-test.run=^TestNamesakes$/^(ext4|vfat)$")},
	})
	whole(t, r)
	vm.Replay(t, r.Outcomes[0], nil)
}
