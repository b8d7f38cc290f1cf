package journal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/test/kill"
)

// work does what a task does until it is killed, and says what was done, one line after each call.
func work(dir string) error {
	ctx := context.Background()
	j, err := Open(dir, Options{})
	for n := 0; err == nil; n++ {
		err = workOn(ctx, j, fmt.Sprintf("%d-%d", os.Getpid(), n), n%2 == 0)
	}
	return err
}

// workOn does it for one draft, which it completes or gives up.
func workOn(ctx context.Context, j *Journal, name string, completes bool) error {
	id, err := j.Begin(ctx, large(name))
	if err != nil {
		return err
	}
	kill.Say("begin", name)
	for i := range 20 {
		if err := j.Part(ctx, id, receipt(i)); err != nil {
			return err
		}
		kill.Say("part", name, i)
	}
	batch := small(50)
	for i := range batch {
		batch[i].Name = fmt.Sprintf("%s-small-%d", name, i)
	}
	staged, err := j.Stage(ctx, batch)
	if err != nil {
		return err
	}
	kill.Say("stage", name)
	if completes {
		if err := j.Complete(ctx, id, 7); err != nil {
			return err
		}
		kill.Say("complete", name)
		return nil
	}
	kill.Say("clearing", name)
	if err := j.Clear(ctx, id, staged); err != nil {
		return err
	}
	kill.Say("clear", name)
	return nil
}

// told is what a child said before it was killed.
type told struct {
	parts            int
	staged, complete bool
	clearing, clear  bool
}

// hear takes what a child says.
func hear(t testing.TB, all map[string]*told) func(line string) {
	return func(line string) {
		word, rest, _ := strings.Cut(line, " ")
		name, _, _ := strings.Cut(rest, " ")
		switch word {
		case "begin":
			all[name] = &told{}
		case "part":
			all[name].parts++
		case "stage":
			all[name].staged = true
		case "complete":
			all[name].complete = true
		case "clearing":
			all[name].clearing = true
		case "clear":
			all[name].clear = true
		default:
			t.Error(line)
		}
	}
}

// TestKill kills a process again and again. All that it said is there.
//
//safety:3 a real process is killed while it records; all that a method returned for is there
func TestKill(t *testing.T) {
	random := kill.Random(t)
	dir, all := t.TempDir(), map[string]*told{}
	for range kill.Times(3, 60) {
		kill.AtLine(t, "work", dir, "", 1+random.IntN(200), hear(t, all))
		if compare(t, dir, all); t.Failed() {
			return
		}
	}
}

func compare(t *testing.T, dir string, all map[string]*told) {
	j := reopen(t, dir, Options{})
	defer closed(t, j)
	small := map[string]int{}
	records := map[string]Record{}
	for _, r := range j.Left(t.Context()) {
		if name, _, ok := strings.Cut(r.Name, "-small-"); ok {
			small[name]++
			continue
		}
		records[r.Name] = r
	}
	for name, said := range all {
		r, there := records[name]
		switch {
		case said.clear && (there || small[name] > 0):
			t.Errorf("%s: cleared, but %d small ones and the draft (%v) are left", name, small[name], there)
		case said.clearing: // the kill came in between: either way is right
		case !there || len(r.Receipts) < said.parts || said.complete && !r.Complete:
			t.Errorf("%s: said %+v, left %d parts, complete %v", name, *said, len(r.Receipts), r.Complete)
		case said.staged && small[name] != 50:
			t.Errorf("%s: %d of 50 staged records are left", name, small[name])
		}
		for i, got := range r.Receipts {
			if got != receipt(i) {
				t.Errorf("%s: part %d is %+v", name, i, got)
			}
		}
	}
}

// live opens, fills and removes a journal again and again.
func live(dir string) error {
	for {
		if err := liveOnce(dir); err != nil {
			return err
		}
	}
}

func liveOnce(dir string) error {
	j, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	if _, err := j.Stage(context.Background(), small(3000)); err != nil {
		return err
	}
	return j.Remove()
}

// TestKillOpening kills a process at each call with which it makes and removes a journal, and some processes in the
// same one. No kill damages it: what was half made or half removed is none, and goes unnoticed.
//
//safety:3 a real process is killed while it opens or removes a journal, which is no damage
func TestKillOpening(t *testing.T) {
	whole := func(dir string) {
		t.Helper()
		closed(t, reopen(t, dir, Options{}))
		if _, err := os.Stat(dir + ".damaged-0"); err == nil {
			t.Fatal("it was damaged")
		}
	}
	calls, killed := 0, true
	for killed {
		calls++
		dir := filepath.Join(t.TempDir(), "task")
		_, killed = kill.AtCall(t, "live once", dir, calls)
		whole(dir)
	}
	random := kill.Random(t)
	dir := filepath.Join(t.TempDir(), "task")
	for n := range kill.Times(3, 150) {
		kill.AtCall(t, "live", dir, 1+random.IntN(3*calls))
		if n%(patience/2) == 0 { // so many kills in a row would be taken for damage
			whole(dir)
		}
	}
	whole(dir)
}
