package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
	"datamove.dev/mover/units"
	"datamove.dev/test/must"
)

// tight is a directory that says how much room it has.
type tight struct {
	*posix.Backend
	bytes int64
}

func (p tight) Room(context.Context) (mover.Room, error) {
	return mover.Room{Bytes: p.bytes, Files: -1, Why: "limit of project 7"}, nil
}

// TestFits: that a target has less room than a copy needs is told when all is known, and ends one that is not to wait.
func TestFits(t *testing.T) {
	const size = 1 << 20
	for _, row := range []struct {
		name   string
		room   int64
		onFull OnNoSpace
		there  bool // an old version of the file is at the target
		told   bool
		extra  bool // the target has a file that is to be removed
	}{
		{"it fits", size, NoSpaceFail, false, false, false},
		{"it waits", size - 4096, NoSpaceWait, false, true, false},
		{"it ends", size - 4096, NoSpaceFail, false, true, false},
		{"what is replaced gives its room back", size, NoSpaceFail, true, false, false},
		{"and not before the other is there", size - 1, NoSpaceFail, true, true, false},
		{"nothing is known", -1, NoSpaceFail, false, false, false},
		{"it waits, and removes at its end", size - 4096, NoSpaceWait, false, true, true},
		{"it ends before it has removed anything", size - 4096, NoSpaceFail, false, true, true},
		{"it does not wait for what it would remove at its end", size - 256, NoSpaceWait, false, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			source, target := t.TempDir(), t.TempDir()
			must.Do(t, os.WriteFile(filepath.Join(source, "f"), []byte(strings.Repeat("new ", size/4)), 0o600))
			if row.there {
				must.Do(t, os.WriteFile(filepath.Join(target, "f"), []byte(strings.Repeat("o", size)), 0o600))
				must.Do(t, os.Chtimes(filepath.Join(target, "f"), time.Unix(1, 0), time.Unix(1, 0))) // another second than the source's
			}
			lacks := units.Bytes(size - row.room)
			work, limit := Copy, fmt.Sprintf("1.00 MiB are to be written, and there is room for %s, which is %s too little: limit of project 7", units.Bytes(row.room), lacks)
			if row.extra {
				work, limit = Sync, limit+"; 512 B become free only after that, when what the source does not have is removed: sync --delete-before removes it first"
				must.Do(t, os.WriteFile(filepath.Join(target, "extra"), make([]byte, 512), 0o600))
			}
			var told phases
			request := Request{
				Delete: row.extra,
				Work:   work, Source: location.Location{Scheme: location.POSIX, Path: source}, Target: location.Location{Scheme: location.POSIX, Path: target},
				StateDir: t.TempDir(), Reflink: ReflinkNever, OnNoSpace: row.onFull, Observer: &told,
			}
			open := func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
				p, err := posix.Open(l.Path, posix.Options{Create: o.Write})
				return tight{p, row.room}, err
			}
			task := must.Get(Start(t.Context(), request, open))(t)
			report, err := task.Wait()
			times := strings.Count(strings.Join(append(report.Notes, told.all...), "\n"), limit)
			switch {
			case row.told && (row.onFull == NoSpaceFail || row.room+512 >= size):
				if !errors.Is(err, mover.ErrFull) || !strings.Contains(err.Error(), limit) {
					t.Errorf("it ended with %v", err)
				}
			case err != nil:
				t.Errorf("it ended with %v", err)
			case row.told != (times == 1) || times > 1:
				t.Errorf("it told %d times: %q, %q", times, told.all, report.Notes)
			}
		})
	}
}

// TestGrowth: holes take no room, nor does what is not made.
func TestGrowth(t *testing.T) {
	file := func(size, stored int64) mover.Entry { return mover.Entry{Kind: mover.File, Size: size, Stored: stored} }
	for _, row := range []struct {
		a    plan.Action
		want int64
	}{
		{plan.Action{Op: plan.Create, Source: file(100, 100)}, 100},
		{plan.Action{Op: plan.Create, Source: file(100, 10)}, 10},
		{plan.Action{Op: plan.Create, Source: file(10, 4096)}, 10},
		{plan.Action{Op: plan.Replace, Source: file(100, 100), Target: file(40, 40)}, 60},
		{plan.Action{Op: plan.Replace, Source: file(40, 40), Target: file(100, 100)}, 0},
		{plan.Action{Op: plan.Compare, Source: file(100, 100)}, 0},
		{plan.Action{Op: plan.Create, Source: mover.Entry{Kind: mover.Dir, Size: 4096, Stored: 4096}}, 0},
		{plan.Action{Op: plan.Remove, Target: file(100, 100)}, 0},
	} {
		if got := growth(&row.a); got != row.want {
			t.Errorf("%+v: %d", row.a, got)
		}
	}
}
