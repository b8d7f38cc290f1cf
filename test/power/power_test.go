// Package power cuts the power of a disk while the real program copies to it, and
// looks at what is on the disk afterwards: everything that was reported done is
// there and whole, directories with their times, nothing under a final name is a part or something else, and the
// same command, with the journal that was on the same disk, ends with equal trees.
//
// There are two disks. One is an image in a file system with reflinks: a clone of it
// is what a disk has that loses power at that instant, with all that was written in
// order until then. The other one lies on a file system in user space that knows
// which writes were flushed: a cut loses a random subset of the others, in any
// order, as the cache of a real disk does.
//
// POWER_CUTS is how many cuts there are on each disk, and POWER_SEED repeats their
// instants.
package power

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/crash/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// options mount the disk so that the kernel repairs nothing by itself: it may write a
// name before the data of its file, as POSIX allows.
const options = "data=writeback,noauto_da_alloc"

// disk holds an ext4 that can lose power.
type disk struct {
	mount string
	cut   func(t *testing.T) (image string) // what would be on it if the power went now
}

const diskBytes = 768 << 20

func TestPowerCut(t *testing.T) {
	for name, make := range map[string]func(*testing.T, *rand.Rand) disk{
		"in order":   orderedDisk,
		"forgetting": forgetfulDisk,
	} {
		t.Run(name, func(t *testing.T) {
			rig.Root(t)
			seed := number(t, "POWER_SEED", uint64(time.Now().UnixNano()))
			t.Logf("POWER_SEED=%d", seed)
			random := rand.New(rand.NewPCG(seed, 1))
			cuts(t, make(t, random), random)
		})
	}
}

func number(t *testing.T, name string, usual uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// cuts copies to the disk again and again, and cuts its power a few times in each run.
func cuts(t *testing.T, d disk, random *rand.Rand) {
	total := int(number(t, "POWER_CUTS", 20))
	if testing.Short() {
		total = 2
	}
	w := newWork(t)
	whole := w.episode(t, d, 0, 0, random) // how long a run takes
	for n, left := 1, total; left > 0 && !t.Failed(); n++ {
		some := min(left, 3)
		whole = w.episode(t, d, some, whole, random)
		left -= some
	}
}

// work is a copy of several trees, which publishes them one after the other. The
// first of them are there already, in an older version.
type work struct {
	sources      []string
	want, former rig.Tree // below the target
	old          string   // what is at the target at first
}

const trees, olds = 5, 2

func newWork(t *testing.T) *work {
	w := &work{want: rig.Tree{}, former: rig.Tree{}, old: rig.Memory(t)}
	base := rig.Memory(t)
	for i := range trees {
		top := fmt.Sprint("tree-", i)
		source := filepath.Join(base, top)
		rig.Make(t, filepath.Join(source, fmt.Sprint("in-", i)), rig.Shape{Seed: uint64(i), Small: 150, Large: 1, LargeBytes: 5 << 20, Odd: i == 0})
		w.sources = append(w.sources, source)
		if i < olds {
			rig.Make(t, filepath.Join(w.old, top, fmt.Sprint("in-", i)), rig.Shape{Seed: uint64(100 + i), Small: 150, Large: 1, LargeBytes: 5 << 20})
		}
	}
	w.want, _ = rig.Look(t, base)
	w.former, _ = rig.Look(t, w.old)
	return w
}

// episode is one run, with so many cuts at random instants of the time that a
// whole run takes, and a bit longer. It returns how long the run took.
func (w *work) episode(t *testing.T, d disk, cuts int, whole time.Duration, random *rand.Rand) time.Duration {
	t.Helper()
	target, state := filepath.Join(d.mount, "target"), filepath.Join(d.mount, "state")
	w.prepare(t, d.mount, target)
	p := rig.New(t)
	p.State = state
	begun := time.Now()
	r := p.Start(t, w.args(target)...)
	defer neighbour(t, d.mount)()
	var taken []snapshot
	instants := make([]time.Duration, cuts)
	for i := range instants {
		instants[i] = time.Duration(random.Int64N(int64(whole)*5/4 + 1))
	}
	slices.Sort(instants)
	for i, at := range instants {
		until := [...]func() bool{now, w.says(r), w.shows(target)}[i%3]
		said := pause(r, at-time.Since(begun), until)
		taken = append(taken, snapshot{d.cut(t), said})
	}
	r.Want(0)
	took := time.Since(begun)
	for _, s := range taken {
		w.check(t, s)
	}
	return took
}

// neighbour is somebody else on the same disk who syncs all the time. With it the
// names that we have made go to the disk at any moment, and not only when we ask for it.
func neighbour(t *testing.T, mount string) (leave func()) {
	f, err := os.Create(filepath.Join(mount, "neighbour"))
	if err != nil {
		t.Fatal(err)
	}
	stop, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		defer f.Close()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := fmt.Fprintln(f, n); err != nil {
				t.Error(err)
				return
			}
			if err := f.Sync(); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	return func() { close(stop); <-left }
}

// pause waits for an instant of a run, and then until something happens or the run
// ends. It returns what the run has said: what it says while the power goes may be
// too late.
func pause(r *rig.Run, d time.Duration, until func() bool) string {
	timer := time.NewTimer(d) // a random instant is what these tests are about
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Ended():
	}
	for !until() {
		select {
		case <-r.Ended():
			return r.Said()
		case <-time.After(100 * time.Microsecond):
		}
	}
	return r.Said()
}

func now() bool { return true }

// says waits until the run says something more: it has just promised something.
func (w *work) says(r *rig.Run) func() bool {
	before := -1
	return func() bool {
		n := len(r.Said())
		if before < 0 {
			before = n
		}
		return n > before
	}
}

// shows waits until a tree appears: its names are there, and not yet on the disk.
func (w *work) shows(target string) func() bool {
	waiting := ""
	return func() bool {
		for i := olds; waiting == "" && i < trees; i++ {
			if name := filepath.Join(target, fmt.Sprint("tree-", i), fmt.Sprint("in-", i)); !there(name) {
				waiting = name
			}
		}
		return waiting == "" || there(waiting)
	}
}

func there(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

func (w *work) args(target string) []string {
	return append([]string{"copy", "-o", "jsonl", "--into", target}, w.sources...)
}

// prepare makes the target anew, and puts it on stable storage.
func (w *work) prepare(t *testing.T, mount, target string) {
	t.Helper()
	if err := os.RemoveAll(target); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{{"cp", "-a", w.old, target}, {"sync", "-f", mount}} {
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", line, err, out)
		}
	}
}

// snapshot is what was on the disk at a cut, and what had been said before.
type snapshot struct{ image, said string }

// check mounts what is left after a cut, and looks at it.
func (w *work) check(t *testing.T, s snapshot) {
	t.Helper()
	mount := rig.Loop(t, s.image, options)
	target := filepath.Join(mount, "target")
	seen, _ := rig.Look(t, target)
	for name, n := range seen {
		old, was := w.former[name]
		now, will := w.want[name]
		if n.Type != os.ModeDir && !(was && n.Content() == old.Content()) && !(will && n.Content() == now.Content()) {
			t.Errorf("%q is neither the old nor the new version: %v", name, n)
		}
	}
	for name, old := range w.former {
		if _, there := seen[name]; !there {
			t.Errorf("%q was there, on stable storage, and is gone: %v", name, old)
		}
	}
	done := w.done(t, s.said)
	t.Logf("%d of %d names were there, %d of them reported done", len(seen), len(w.want), len(done))
	for _, name := range done {
		is, want := seen[name], w.want[name]
		if is.Content() != want.Content() || want.Type == os.ModeDir && is != want { // a directory is its facts
			t.Errorf("%q was reported done; it should be %v\n\tand is %v", name, want, is)
		}
	}
	if !t.Failed() {
		w.again(t, mount, target)
	}
	rig.Unmount(t, mount)
	if err := os.Remove(s.image); err != nil {
		t.Error(err)
	}
}

// done returns the names of what was reported to have come.
func (w *work) done(t *testing.T, said string) (names []string) {
	t.Helper()
	for line := range strings.Lines(said) {
		var item struct {
			Schema, Name, Op, Kind, Error string
			Name64                        []byte
		}
		if !strings.HasSuffix(line, "\n") {
			break // it was being written
		}
		if err := json.Unmarshal([]byte(line), &item); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if item.Schema != "datamove.item/v1" {
			continue
		}
		name := item.Name
		if item.Name64 != nil {
			name = string(item.Name64)
		}
		for i := range w.sources {
			if full := filepath.Join(filepath.Base(w.sources[i]), name); strings.HasPrefix(name, fmt.Sprintf("in-%d/", i)) {
				names = append(names, full)
			}
		}
	}
	return names
}

// again runs the command as the host would after its reboot, in a mount namespace
// where the kernel says that it has booted since.
func (w *work) again(t *testing.T, mount, target string) {
	t.Helper()
	boot := filepath.Join(t.TempDir(), "boot_id")
	if err := os.WriteFile(boot, []byte("11111111-2222-3333-4444-555555555555\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	p := rig.New(t)
	p.State = filepath.Join(mount, "state")
	p.Wrapper = []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`, boot}
	r := p.Do(t, 0, w.args(target)...)
	if strings.Contains(r.Stderr(), "damaged journal") {
		t.Errorf("the journal did not survive: %s", r.Stderr())
	}
	for _, source := range w.sources {
		rig.SameTrees(t, source, filepath.Join(target, filepath.Base(source)), false)
	}
}
