package guests

import (
	"testing"

	"datamove.dev/test/vm"
	"datamove.dev/test/vm/wire"
)

// TestQuotas: project quotas of ext4 and xfs, and the groups of btrfs, are set, read,
// and enforced.
func TestQuotas(t *testing.T) {
	r := boot(t, &vm.Guest{
		Modules:  []string{"ext4", "xfs", "btrfs", "quota_v2", "loop"},
		Programs: []string{"mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"},
		Files:    []vm.File{{Path: "/tests/plain", From: built(t, vm.BuildTest, "lustre/plain")}},
		Env:      guestEnv,
		Run:      []wire.Command{vm.TestCommand("/tests/plain")},
	})
	whole(t, r)
	vm.Replay(t, r.Outcomes[0], map[string]string{
		"TestSubvolumesSimple": "simple quotas came with Linux 6.7",
	})
}
