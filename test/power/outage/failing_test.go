package outage

import (
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/power/work"
)

// TestErrors: from an instant on each write and each flush of a disk fails, and the kernel
// says so. The journal is on another disk and remembers everything. All that was said to be
// done is done, also what was said after the first failure.
func TestErrors(t *testing.T) {
	w := trees()
	w.State = t.TempDir()
	r, _ := fail(t, w, "error_writes")
	named(t, r, "input/output error", "read-only file system")
	w.Check(t, theDisk(t).Mount, r.Stdout(), nil)
}

// TestLies: from an instant on each write and each flush seems to be done, and is not. Nobody
// can promise anything then but that who reads what is on the disk finds it out. What was done
// before is there, on the disk and in the journal, as after a power cut.
func TestLies(t *testing.T) {
	w := trees()
	r, said := fail(t, w, "drop_writes", "--verify=read")
	named(t, r, "checksum mismatch")
	w.Check(t, theDisk(t).Mount, said, nil)
}

// fail copies to a disk that breaks when something is said to be done, and more is to be done,
// heals it when the program has ended, and mounts it anew, without what was in the cache. It
// returns what had been said before it broke.
func fail(t *testing.T, w *work.Work, how string, flags ...string) (r *rig.Run, said string) {
	t.Helper()
	d := theDisk(t)
	disk := d.Device
	m := mapDisk(t, "failing", disk, "linear", disk, 0)
	d.Device = m.device
	mount(t, d)
	w.Prepare(t, d.Mount)
	r = w.Program(t, d.Mount).Start(t, append(w.Args(d.Mount), flags...)...)
	for !strings.Contains(r.Said(), "\n") {
		select {
		case <-r.Ended():
			t.Fatalf("it has ended with %d: %s", r.Exit, r.Stderr())
		case <-time.After(time.Millisecond):
		}
	}
	said = r.Said()
	m.become("flakey", disk, 0, 0, 1, 1, how) // from sector 0, up for 0 s of 1 s, with one feature
	if r.Wait(); r.Exit <= 0 {
		t.Errorf("the disk has failed, and the exit code is %d", r.Exit)
	}
	unmount(t, d.Mount)
	m.become("linear", disk, 0)
	mount(t, d)
	t.Cleanup(func() { unmount(t, d.Mount) })
	return r, said
}

// named looks for an error with one of these texts, and a name.
func named(t *testing.T, r *rig.Run, texts ...string) {
	t.Helper()
	all := r.Stdout() + r.Stderr()
	for line := range strings.Lines(all) {
		named := strings.Contains(line, work.Target(theDisk(t).Mount)) || strings.Contains(line, `"name":"in-`)
		if named && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) {
			return
		}
	}
	t.Errorf("no line has one of %q and a name:\n%s", texts, all[max(0, len(all)-4000):])
}
