package guests

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"datamove.dev/test/lossydisk"
	"datamove.dev/test/must"
	"datamove.dev/test/vm"
	"datamove.dev/test/vm/wire"
)

const (
	// logBytes is room for every write of a copy, and of the neighbour who syncs all the time.
	logBytes = 8 << 30
	// logCuts is at how many instants of a log the power is cut, beside its end. They are by
	// chance: every second one is just after the program has said something.
	logCuts = 2
)

// TestWriteLog copies to disks of which the guest's kernel notes every write, and then makes
// of the notes what each disk would have had, had the power gone at one instant or another:
// what TestOutage does at the moments at which the host can act, this does between any two
// writes, with the kernel's own word on which of them were flushed. At the last instant the
// program has ended, and everything is there.
//
//safety:3 with test/power TestPowerCut
func TestWriteLog(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	victims := []*victim{
		{name: "ext4", system: "ext4", options: writeback},
		{name: "xfs", system: "xfs"},
		{name: "btrfs", system: "btrfs"},
	}
	g := o.guest()
	g.Run = []wire.Command{inside("TestPrepare")}
	for _, v := range victims {
		file := image(t, o.dir, v.name, v.system, diskBytes)
		if out, err := exec.Command("cp", file, o.before(v)).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v\n%s", err, out)
		}
		sparse(t, o.log(v), logBytes)
		disk := must.Get(json.Marshal(v.disk(vm.DiskName(len(g.Disks)))))(t)
		g.Disks = append(g.Disks, vm.Disk{File: file}, vm.Disk{File: o.log(v)})
		g.Run = append(g.Run, inside("TestLogged", "OUTAGE_DISK="+string(disk), "OUTAGE_LOG="+vm.DiskName(len(g.Disks)-1)))
	}
	r := boot(t, g)
	good(t, r)
	for i, v := range victims {
		o.replay(v, strings.SplitAfter(items(r.Outcomes[1+i].Stdout), "\n"))
	}
	o.check()
}

// before is what was on a disk before it was mounted, and log where its writes are noted.
func (o *outage) before(v *victim) string { return filepath.Join(o.dir, v.name+".before") }

func (o *outage) log(v *victim) string { return filepath.Join(o.dir, v.name+".log") }

// replay repeats the writes to a disk, and cuts its power a few times. The marks say how many
// lines were said.
func (o *outage) replay(v *victim, lines []string) {
	o.t.Helper()
	var err error
	if v.platter, err = lossydisk.New(o.before(v), o.chance()); err != nil {
		o.t.Fatal(err)
	}
	instants := o.instants(v)
	n, said := 0, 0
	o.entries(v, func(e lossydisk.Entry) {
		must.Do(o.t, v.platter.Apply(e))
		if number, err := strconv.Atoi(e.Mark); err == nil {
			said = number
		}
		if slices.Contains(instants, n) {
			o.keep(v, strings.Join(lines[:said], ""))
		}
		n++
	})
	for _, err := range []error{v.platter.Close(), os.Remove(o.before(v)), os.Remove(o.log(v))} {
		must.Tell(o.t, err)
	}
}

// instants are numbers of entries, after which the power goes.
func (o *outage) instants(v *victim) (instants []int) {
	o.t.Helper()
	var marks []int
	n, begin, end := 0, -1, -1
	o.entries(v, func(e lossydisk.Entry) {
		switch {
		case e.Mark == "begin":
			begin = n
		case e.Mark == "end":
			end = n
		case e.Mark != "" && begin >= 0 && end < 0:
			marks = append(marks, n)
		}
		n++
	})
	if begin < 0 || end < 0 || len(marks) == 0 {
		o.t.Fatalf("the log of %s has %d entries, and the copy is not in it from its begin (%d) to its end (%d), with what it said (%d times)", v.name, n, begin, end, len(marks))
	}
	for i := range logCuts {
		if i%2 == 0 {
			instants = append(instants, marks[o.random.IntN(len(marks))])
		} else {
			instants = append(instants, begin+o.random.IntN(end-begin))
		}
	}
	o.t.Logf("%s: %d entries, the copy from %d to %d, cut at %v", v.name, n, begin, end, instants)
	return append(instants, end)
}

// entries reads the log of a disk.
func (o *outage) entries(v *victim, each func(lossydisk.Entry)) {
	o.t.Helper()
	f := must.Get(os.Open(o.log(v)))(o.t)
	defer f.Close()
	l := must.Get(lossydisk.ReadLog(f, logBytes))(o.t)
	for {
		e, err := l.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must.Do(o.t, err)
		each(e)
	}
}
