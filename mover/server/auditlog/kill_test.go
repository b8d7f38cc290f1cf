package auditlog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

// childOptions make it likely that a kill meets a rotation.
var childOptions = Options{RotateBytes: 100_000, KeepLocations: true}

// long makes of a decision half a kilobyte.
var long = []string{"/" + strings.Repeat("a", 500)}

// appendMany appends from many goroutines until it is killed, and says what is recorded, each after Append has returned.
func appendMany(dir string) error { return appendAll(dir, childOptions) }

// appendUnsynced does the same without waiting for the disk.
func appendUnsynced(dir string) error {
	o := childOptions
	o.NoSync = true
	return appendAll(dir, o)
}

func appendAll(dir string, o Options) error {
	l, err := Open(dir, o)
	if err != nil {
		return err
	}
	done := make(chan error)
	for c := range 16 {
		go func() {
			for n := 0; ; n++ {
				r := submit(fmt.Sprintf("%d-%d-%d", os.Getpid(), c, n))
				r.Locations = long
				if err := l.Append(context.Background(), r); err != nil {
					done <- err
					return
				}
				kill.Say(r.Reason)
			}
		}()
	}
	return <-done
}

// appendFew appends one after the other, with a file for each three.
func appendFew(dir string) error {
	l, err := Open(dir, Options{RotateBytes: 2000, KeepLocations: true})
	if err != nil {
		return err
	}
	for n := range 7 {
		r := submit(fmt.Sprint(n))
		r.Locations = long
		if err := l.Append(context.Background(), r); err != nil {
			return err
		}
		kill.Say(r.Reason)
	}
	return l.Close()
}

// TestKill kills a process again and again. The log can be opened each time, its chain is whole, and what the process
// was told of is there.
//
//safety:7 with TestTampering
func TestKill(t *testing.T) {
	random := kill.Random(t)
	dir, told := t.TempDir(), map[string]bool{}
	var head Head
	for range kill.Times(3, 40) {
		kill.AtLine(t, "append", dir, "", 150+random.IntN(400), func(line string) { told[line] = true })
		head = compare(t, dir, told, head)
	}
	if s := whole(t, dir, head); s.Files < 2 {
		t.Errorf("%d records in one file: no kill can have met a rotation", len(told))
	}
}

// TestKillNoSync shows that the page cache is enough to survive a kill. Without
// waiting for the disk most of the time goes into writes: kills meet them, too.
func TestKillNoSync(t *testing.T) {
	random := kill.Random(t)
	for range kill.Times(3, 60) {
		dir, told := t.TempDir(), map[string]bool{}
		kill.AtLine(t, "append unsynced", dir, "", 1+random.IntN(1000), func(line string) { told[line] = true })
		compare(t, dir, told, Head{})
	}
}

// TestKillInside kills a process at each call, and in the middle of each write: also where a file begins. All that it
// was told of is there, and the log goes on.
func TestKillInside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	must.Do(t, os.Mkdir(dir, 0o700))
	kill.Prefixes(t, "append few", dir, dir, func(t testing.TB, left string, said []string) {
		told := map[string]bool{}
		for _, line := range said {
			told[line] = true
		}
		compare(t, left, told, Head{})
		l := opened(t, left, Options{})
		must.Do(t, l.Append(t.Context(), submit("next")))
		must.Do(t, l.Close())
		told["next"] = true
		compare(t, left, told, Head{})
	})
}

// compare opens a log that was killed, and looks whether all is there once. The
// head of an earlier life must be in it; the present one is returned.
func compare(t testing.TB, dir string, told map[string]bool, earlier Head) Head {
	t.Helper()
	l := opened(t, dir, childOptions)
	must.Do(t, l.Close())
	heads := []Head{l.Head()}
	if earlier.Sequence > 0 {
		heads = append(heads, earlier)
	}
	whole(t, dir, heads...)
	there := map[string]bool{}
	for _, reason := range reasons(t, dir) {
		if there[reason] {
			t.Errorf("%s is there twice", reason)
		}
		there[reason] = true
	}
	for reason := range told {
		if !there[reason] {
			t.Errorf("%s was recorded, and is not there", reason)
		}
	}
	return l.Head()
}
