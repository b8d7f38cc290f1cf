package guests

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/lossydisk"
	"datamove.dev/test/must"
	"datamove.dev/test/power/work"
	"datamove.dev/test/seed"
	"datamove.dev/test/vm"
	"datamove.dev/test/vm/nbd"
	"datamove.dev/test/vm/wire"
)

// victim is a disk of the machine that loses its power.
type victim struct {
	name, system, options string
	platter               *lossydisk.Disk
	socket                string
}

// disk is how the guest mounts it.
func (v *victim) disk(device string) work.Disk {
	return work.Disk{Device: device, Mount: "/disks/" + v.name, Type: v.system, Options: v.options}
}

// remnant is what is left of a disk after a cut, and what had been said before.
type remnant struct {
	*victim
	image, said string
}

// outage is the machine and its disks.
type outage struct {
	t       *testing.T
	dir     string // on the host
	random  *rand.Rand
	scratch string // an image with the sources, which loses nothing
	victims []*victim
	left    []remnant
}

const (
	copyBytes = 20 << 20 // that a copy writes at least
	diskBytes = 768 << 20
)

// TestOutage cuts the power of a machine while it copies, and boots another one with
// what is left on its disks: everything that was reported done is there, nothing is
// half there, and the same command ends with equal trees. The disks forget what was
// not flushed, in any order; the last cut kills the machine, too.
//
//safety:3 with test/power TestPowerCut
func TestOutage(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	for _, v := range []*victim{
		{name: "ext4", system: "ext4"},
		{name: "ext4-writeback", system: "ext4", options: writeback},
		{name: "xfs", system: "xfs"},
	} {
		o.serve(v)
	}
	o.happen()
	o.check()
}

// writeback are options with which ext4 repairs nothing by itself: it may write a name before
// the data of its file, as POSIX allows.
const writeback = "data=writeback,noauto_da_alloc"

func newOutage(t *testing.T) *outage {
	o := &outage{t: t, dir: memory(t), random: seed.Rand(t)}
	o.scratch = image(t, o.dir, "scratch", "ext4", 3<<30)
	return o
}

// serve makes a disk, and a server for it.
func (o *outage) serve(v *victim) {
	o.t.Helper()
	p := must.Get(lossydisk.New(image(o.t, o.dir, v.name, v.system, diskBytes), o.chance()))(o.t)
	v.platter, v.socket = p, filepath.Join(o.dir, v.name+".socket")
	server := must.Get(nbd.Serve(v.socket, p))(o.t)
	o.t.Cleanup(func() {
		must.Tell(o.t, server.Close())
		must.Tell(o.t, p.Close())
	})
	o.victims = append(o.victims, v)
}

// chance decides what a disk loses.
func (o *outage) chance() *rand.Rand { return rand.New(rand.NewPCG(o.random.Uint64(), 3)) }

// guest has the sources at /tmp, where the first disk is, and the disks that are given.
func (o *outage) guest() *vm.Guest {
	return &vm.Guest{
		Modules:  []string{"ext4", "xfs", "btrfs", "dm_log_writes", "dm_flakey"},
		Programs: []string{"cp", "sync"},
		Files: []vm.File{
			{Path: "/bin/datamove", From: program(o.t, "cmd/datamove")},
			{Path: "/tests/outage", From: tests(o.t, "test/power/outage")},
		},
		Disks: []vm.Disk{{File: o.scratch}},
		Mounts: []wire.Mount{
			{Source: vm.DiskName(0), Target: "/tmp", Type: "ext4"},
			{Source: "/tmp", Target: "/dev/shm", Bind: true}, // its own has no attributes of users
		},
		Env: append([]string{"OUTAGE_SOURCES=/tmp"}, guestEnv...),
	}
}

// inside runs one test of test/power/outage, and nothing after it when it fails. What the
// program says stays apart from its errors, as it does not with vm.TestCommand.
func inside(test string, env ...string) wire.Command {
	return wire.Command{Args: []string{"/tests/outage", "-test.run=^" + test + "$"}, Env: env}
}

// judge runs one test of test/power/outage for vm.Replay.
func judge(test string, env ...string) wire.Command {
	c := vm.TestCommand("/tests/outage", "-test.run=^"+test+"$")
	c.Env = env
	return c
}

// happen copies to one disk after the other, cuts their power at random instants,
// and kills the machine while it writes to the last one.
func (o *outage) happen() {
	o.t.Helper()
	g := o.guest()
	var all []string
	for _, v := range o.victims {
		d := v.disk(vm.DiskName(len(g.Disks)))
		g.Mounts = append(g.Mounts, wire.Mount{Source: d.Device, Target: d.Mount, Type: d.Type, Options: d.Options})
		g.Disks = append(g.Disks, vm.Disk{Socket: v.socket})
		all = append(all, d.Mount)
		g.Run = append(g.Run, inside("TestCopy", "OUTAGE_MOUNTS="+d.Mount))
	}
	g.Run = append([]wire.Command{inside("TestPrepare", "OUTAGE_MOUNTS="+strings.Join(all, " "))}, g.Run...)
	m := begin(o.t, g)
	if !until(m, func() bool { return m.Exited(0) }) {
		o.t.Fatal(finish(o.t, m).Err())
	}
	last := len(o.victims) - 1
	for i, v := range o.victims {
		o.writes(m, v, i+1)
		o.cut(m, v, i+1)
		o.says(m, i+1)
		if i == last {
			m.Kill()
		}
		o.cut(m, v, i+1)
		if i < last && !until(m, func() bool { return m.Exited(i + 1) }) {
			o.t.Fatal(finish(o.t, m).Err())
		}
	}
	r := finish(o.t, m)
	for i := range last + 1 {
		if r.Outcomes[i].Code != 0 {
			o.t.Fatalf("command %d: %+v", i, r.Outcomes[i])
		}
	}
}

// until waits until something happens in a guest, or the guest ends.
func until(m *vm.Machine, happened func() bool) bool {
	for !happened() {
		select {
		case <-m.Ended():
			return happened()
		case <-time.After(time.Millisecond):
		}
	}
	return true
}

// writes waits until a copy has written as much as chance wants, and says until it says
// something: it has just promised something.
func (o *outage) writes(m *vm.Machine, v *victim, command int) {
	bytes := v.platter.Written() + o.random.Int64N(copyBytes)
	until(m, func() bool { return m.Exited(command) || v.platter.Written() > bytes })
}

func (o *outage) says(m *vm.Machine, command int) {
	until(m, func() bool { return m.Exited(command) || m.Said(command) != "" })
}

// cut keeps what would be on a disk if the power went now. What the copy says at this
// moment may be too late, so what counts is what it has said before.
func (o *outage) cut(m *vm.Machine, v *victim, command int) {
	o.t.Helper()
	o.keep(v, items(m.Said(command)))
}

// keep cuts the power of a disk; said is what had been said before.
func (o *outage) keep(v *victim, said string) {
	o.t.Helper()
	image := filepath.Join(o.dir, fmt.Sprint("cut-", len(o.left)))
	must.Do(o.t, v.platter.Cut(image))
	o.t.Logf("cut %d: %s, after %d bytes were written and %d bytes said", len(o.left), v.name, v.platter.Written(), len(said))
	o.left = append(o.left, remnant{v, image, said})
}

// items are the lines of the program; the others are those of the test around it.
func items(said string) string {
	var b strings.Builder
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "{") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// check boots another machine, which looks at what is left.
func (o *outage) check() {
	o.t.Helper()
	g := o.guest()
	var all []work.Remnant
	for i, r := range o.left {
		all = append(all, work.Remnant{Name: fmt.Sprint(i, "-", r.name), Disk: r.disk(vm.DiskName(len(g.Disks))), Said: r.said})
		g.Disks = append(g.Disks, vm.Disk{File: r.image})
	}
	text := must.Get(json.Marshal(all))(o.t)
	g.Files = append(g.Files, vm.File{Path: "/left.json", Content: string(text)})
	g.Run = []wire.Command{judge("TestCheck", "OUTAGE_LEFT=/left.json")}
	r := boot(o.t, g)
	whole(o.t, r)
	vm.Replay(o.t, r.Outcomes[0], nil)
}
