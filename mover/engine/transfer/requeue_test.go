package transfer_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
)

// A small file of a directory that is built in one go becomes a large one while it
// is read. It is moved in parts, and the directory has its times all the same.
//
//safety:4 a small file becomes a large one while it is read; what fails in passing is moved again, and its directory has its times
func TestGrownFileIsMovedInParts(t *testing.T) {
	before := mover.Time{Sec: 1_577_836_800}
	source, target := mem.NewTree(), mem.NewTree()
	source.Put(mover.Entry{Name: "new", Kind: mover.Dir, Mode: 0o750, Mtime: before, Known: mover.FactMode | mover.FactMtime}, nil)
	source.Files(map[string]string{"new/grows": "small", "new/other": "stays"})
	large := strings.Repeat("0123456789abcdef", 1<<16)
	parts := 0
	from := faulty.New(mem.New(source, mem.Options{}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == faulty.Read && c.Name == "new/grows" && c.Nth == 0 && c.Off == 0 {
			source.Put(mover.Entry{Name: "new/grows", Kind: mover.File}, []byte(large))
			source.Put(mover.Entry{Name: "new", Kind: mover.Dir, Mode: 0o750, Mtime: before, Known: mover.FactMode | mover.FactMtime}, nil)
		}
		return faulty.None
	}})
	to := faulty.New(mem.New(target, mem.Options{}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == faulty.Write && c.Name == "new/grows" && c.Off > 0 {
			parts++
		}
		return faulty.None
	}})
	res, err := syncTo(t.Context(), from, to, transfer.Options{Jobs: 1})
	if f := res.failed(); err != nil || f != nil {
		t.Fatal(err, f)
	}
	if parts == 0 {
		t.Error("it was not moved in parts")
	}
	same(t, source, target, mem.Options{})
	told := 0
	for _, r := range res.all {
		if r.Entry.Name == "new" {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the directory was reported %d times", told)
	}
}

// What fails for a passing reason when it is published is moved once more, with
// its directory in place by then.
//
//safety:4 with TestGrownFileIsMovedInParts
func TestPassingFailureIsMovedOnceMore(t *testing.T) {
	source, target := mem.NewTree().Files(files), mem.NewTree()
	to := faulty.New(mem.New(target, mem.Options{}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == faulty.Publish && c.Nth == 0 && slices.Contains([]string{"f/g/h/i", "large", "a"}, c.Name) {
			return faulty.Transient
		}
		return faulty.None
	}})
	res, err := syncTo(t.Context(), mem.New(source, mem.Options{}), to, transfer.Options{})
	if f := res.failed(); err != nil || f != nil {
		t.Fatal(err, f)
	}
	same(t, source, target, mem.Options{})
}

// What is removed, updated or made outside of Publish is told when it is durable,
// and not before.
//
//safety:3 updates, removals and directories are not reported when the last sync fails
func TestToldWhenDurable(t *testing.T) {
	source := mem.NewTree().Files(map[string]string{"dir/a": "1"})
	target := mem.NewTree().Files(map[string]string{"extra": "3"})
	kept := func(mode uint32) mover.Entry {
		return mover.Entry{Name: "kept", Kind: mover.File, Mode: mode, Mtime: mover.Time{Sec: 1}, Known: mover.FactMode | mover.FactMtime}
	}
	source.Put(kept(0o640), []byte("2"))
	target.Put(kept(0o600), []byte("2"))
	disk := mem.Options{Adjust: func(t *mover.Capabilities) { t.CommitBytes, t.CommitEvery, t.DirDrafts = 1<<20, time.Second, false }}
	synced := false
	to := faulty.New(mem.New(target, disk), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op != faulty.Sync {
			return faulty.None
		}
		if !synced {
			return faulty.Unreachable
		}
		return faulty.None
	}})
	res, err := syncTo(t.Context(), mem.New(source, mem.Options{}), to, transfer.Options{})
	if err == nil {
		t.Fatal("the target could not be synced, and Run says nothing")
	}
	for _, r := range res.all {
		if r.Op == plan.Remove || r.Op == plan.Update || r.Entry.Kind == mover.Dir && r.Op != plan.Keep {
			t.Errorf("told before it is durable: %v %s", r.Op, r.Entry.Name)
		}
	}
	target.Files(map[string]string{"extra": "3"})
	target.Put(kept(0o600), []byte("2"))
	synced = true
	res, err = syncTo(t.Context(), mem.New(source, mem.Options{}), to, transfer.Options{})
	if f := res.failed(); err != nil || f != nil {
		t.Fatal(err, f)
	}
	var told []string
	for _, r := range res.all {
		if r.Op == plan.Remove || r.Op == plan.Update {
			told = append(told, r.Entry.Name)
		}
	}
	slices.Sort(told)
	if want := []string{"extra", "kept"}; !slices.Equal(told, want) {
		t.Errorf("removed and updated: %q, want %q", told, want)
	}
}

// A large file of which one part fails for a passing reason is moved once more.
func TestPassingFailureOfAPart(t *testing.T) {
	for _, row := range []struct {
		op   faulty.Op
		what faulty.Fault
	}{{faulty.Write, faulty.Transient}, {faulty.Write, faulty.Torn}, {faulty.Write, faulty.Lost}, {faulty.Read, faulty.Transient}} {
		source, target := mem.NewTree().Files(files), mem.NewTree()
		var failed atomic.Bool // once, and behind the first part
		script := faulty.Options{Script: func(c faulty.Call) faulty.Fault {
			if c.Op == row.op && c.Name == "large" && c.Off > 0 && !failed.Swap(true) {
				return row.what
			}
			return faulty.None
		}}
		res, err := syncTo(t.Context(), faulty.New(mem.New(source, mem.Options{}), script), faulty.New(mem.New(target, mem.Options{}), script), transfer.Options{})
		if f := res.failed(); err != nil || f != nil || !failed.Load() {
			t.Errorf("%v at %v: %v, %v; a part failed: %v", row.what, row.op, err, f, failed.Load())
		}
		same(t, source, target, mem.Options{})
	}
}
