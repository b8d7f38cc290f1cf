package guests

import (
	"testing"

	"datamove.dev/test/vm"
	"datamove.dev/test/vm/wire"
)

// TestQuotaCommands: datamove quota, copy and doctor on project quotas of ext4 and xfs.
func TestQuotaCommands(t *testing.T) {
	r := boot(t, &vm.Guest{
		Modules:  []string{"ext4", "xfs", "quota_v2", "loop"},
		Programs: []string{"mkfs.ext4", "mkfs.xfs"},
		Files:    []vm.File{{Path: "/tests/commands", From: built(t, vm.BuildTest, "cmd/datamove")}},
		Env:      guestEnv,
		Run:      []wire.Command{vm.TestCommand("/tests/commands", "-test.run=^TestQuotaOnDisks$")},
	})
	if r.Failed != "" {
		t.Fatal(r.Failed)
	}
	vm.Replay(t, r.Outcomes[0], nil)
}
