package guests

import (
	"encoding/json"
	"testing"

	"datamove.dev/test/must"
	"datamove.dev/test/vm"
)

// TestFailingDisk copies to disks whose writes fail at an instant, or are lost without a
// word: no run that lost something ends with 0, and when the disk is healed the same command
// ends with equal trees.
//
//safety:3 a disk of which each write fails, or is lost without a word, from an instant on: no run that lost something ends with 0 (of a disk that lies, with `--verify=read`), and the healed disk ends equal
func TestFailingDisk(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	g := o.guest()
	g.Run = append(g.Run, inside("TestPrepare"))
	rows := []struct {
		test string
		victim
	}{
		{"TestErrors", victim{name: "ext4", system: "ext4", options: writeback}},
		{"TestErrors", victim{name: "xfs", system: "xfs"}},
		{"TestErrors", victim{name: "btrfs", system: "btrfs"}},
		{"TestLies", victim{name: "ext4-lies", system: "ext4"}},
	}
	for _, row := range rows {
		disk := must.Get(json.Marshal(row.disk(vm.DiskName(len(g.Disks)))))(t)
		g.Disks = append(g.Disks, vm.Disk{File: image(t, o.dir, row.name, row.system, diskBytes)})
		g.Run = append(g.Run, judge(row.test, "OUTAGE_DISK="+string(disk)))
	}
	r := boot(t, g)
	whole(t, r)
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) { vm.Replay(t, r.Outcomes[1+i], nil) })
	}
}
