// Package outage is the inside of a machine that loses its power, or a disk: tests that
// test/vm runs in guests, one process each. TestPrepare makes trees; TestCopy copies them to a
// disk and prints what the program prints, until the host kills the machine; TestLogged copies
// them to a disk of which the kernel's dm-log-writes notes every write; TestCheck looks in
// another machine at what was left of a disk. TestErrors and TestLies copy to disks whose writes
// fail, or are lost and nobody is told, by the kernel's dm-flakey.
package outage

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
	"datamove.dev/test/power/work"
)

// The host says by these where things are.
const (
	mounts  = "OUTAGE_MOUNTS"  // mounted disks, separated by spaces
	disk    = "OUTAGE_DISK"    // of TestLogged, TestErrors and TestLies: a work.Disk in JSON, not mounted
	log     = "OUTAGE_LOG"     // of TestLogged: a disk for the log
	sources = "OUTAGE_SOURCES" // a directory on a disk that loses nothing
	left    = "OUTAGE_LEFT"    // of TestCheck: a file with []work.Remnant in JSON
)

func TestMain(m *testing.M) {
	if os.Getenv(sources) == "" {
		fmt.Println("machines lose their power in make e2e-vm")
		return
	}
	rig.Main(m, nil)
}

func trees() *work.Work {
	top := os.Getenv(sources)
	return work.At(filepath.Join(top, "want"), filepath.Join(top, "old"))
}

// TestPrepare makes the trees, and puts what was there before on each disk.
func TestPrepare(t *testing.T) {
	top := os.Getenv(sources)
	w := work.Make(t, filepath.Join(top, "want"), filepath.Join(top, "old"))
	for _, mount := range strings.Fields(os.Getenv(mounts)) {
		w.Prepare(t, mount)
	}
	if out, err := exec.Command("sync").CombinedOutput(); err != nil {
		t.Fatalf("sync: %v\n%s", err, out)
	}
}

// TestCopy copies to one disk.
func TestCopy(t *testing.T) { run(t, trees(), os.Getenv(mounts), os.Stdout) }

// run copies to one disk, beside a neighbour.
func run(t *testing.T, w *work.Work, mount string, stdout io.Writer) {
	t.Helper()
	defer work.Neighbour(t, mount)()
	p := w.Program(t, mount)
	cmd := exec.Command(filepath.Join(os.Getenv(rig.Binaries), "datamove"), w.Args(mount)...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+p.State, "NO_COLOR=1")
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	must.Tell(t, cmd.Run())
}

// TestCheck looks at what is left of the disks, each where it was mounted before, and runs the
// copies once more: the kernel knows by itself that it has booted since. Disks with places of
// their own are looked at at once.
func TestCheck(t *testing.T) {
	w := trees()
	text := must.Get(os.ReadFile(os.Getenv(left)))(t)
	var remnants []work.Remnant
	must.Do(t, json.Unmarshal(text, &remnants))
	w.Look(t)
	places := map[string][]work.Remnant{}
	for _, r := range remnants {
		places[r.Mount] = append(places[r.Mount], r)
	}
	for place, remnants := range places {
		t.Run(filepath.Base(place), func(t *testing.T) {
			t.Parallel()
			for _, r := range remnants {
				t.Run(r.Name, func(t *testing.T) {
					mount(t, r.Disk)
					defer unmount(t, r.Mount)
					w.Check(t, r.Mount, r.Said, nil)
				})
			}
		})
	}
}

func mount(t *testing.T, d work.Disk) {
	t.Helper()
	must.Do(t, os.MkdirAll(d.Mount, 0o755))
	if err := unix.Mount(d.Device, d.Mount, d.Type, 0, d.Options); err != nil {
		t.Fatalf("%s can not be mounted: %v", d.Device, err)
	}
}

// unmount takes the file system away with all that its kernel knows of it. It is busy for
// a moment when a test beside this one begins a program, which has our files until its exec.
func unmount(t *testing.T, mount string) {
	t.Helper()
	err := unix.Unmount(mount, 0)
	for end := time.Now().Add(10 * time.Second); err == unix.EBUSY && time.Now().Before(end); err = unix.Unmount(mount, 0) {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Fatalf("unmount %s: %v", mount, err)
	}
}
