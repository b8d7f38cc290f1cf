package audit

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	childDir    = "DATAMOVE_AUDIT_CHILD"
	childNoSync = "DATAMOVE_AUDIT_NOSYNC"
)

// childOptions make it likely that a kill meets a rotation.
var childOptions = Options{RotateBytes: 100_000, KeepLocations: true, NoSync: os.Getenv(childNoSync) != ""}

// runChild appends from many goroutines until it is killed, and says on stdout what
// is recorded, each after Append has returned.
func runChild(dir string) {
	l, err := Open(dir, childOptions)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	long := []string{"/" + strings.Repeat("a", 500)}
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
				fmt.Println(r.Reason)
			}
		}()
	}
	fmt.Println("error", <-done)
	os.Exit(1)
}

// TestKill kills a process at random instants. The log can be opened each time, its
// chain is whole, and what the process was told of is there.
func TestKill(t *testing.T) {
	kills := 30
	if testing.Short() {
		kills = 8
	}
	dir, told := t.TempDir(), map[string]bool{}
	var head Head
	for range kills {
		killOne(t, dir, told)
		head = compare(t, dir, told, head)
	}
	if s := whole(t, dir, head); len(told) < kills || s.Files < 2 {
		t.Errorf("only %d records: the kills came too early to tell", len(told))
	}
}

// TestKillNoSync shows that the page cache is enough to survive a kill. Without
// waiting for the disk most of the time goes into writes: kills meet them, too.
func TestKillNoSync(t *testing.T) {
	kills := 30
	if testing.Short() {
		kills = 4
	}
	for range kills {
		dir, told := t.TempDir(), map[string]bool{}
		killOne(t, dir, told, childNoSync+"=1")
		compare(t, dir, told, Head{})
	}
}

// compare opens a log that was killed, and looks whether all is there once. The
// head of an earlier life must be in it; the present one is returned.
func compare(t *testing.T, dir string, told map[string]bool, earlier Head) Head {
	l := opened(t, dir, childOptions)
	check(t, l.Close())
	heads := []Head{l.Head()}
	if earlier.Sequence > 0 {
		heads = append(heads, earlier)
	}
	s := whole(t, dir, heads...)
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
	t.Logf("%d decisions, %d told, %d files, %d ends cut off", s.Decisions, len(told), s.Files, s.Cuts)
	return l.Head()
}

func killOne(t *testing.T, dir string, told map[string]bool, env ...string) {
	child := exec.Command(os.Args[0])
	child.Env = append(append(os.Environ(), childDir+"="+dir), env...)
	pipe, err := child.StdoutPipe()
	check(t, err)
	check(t, child.Start())
	out := bufio.NewScanner(pipe)
	out.Scan()
	go func() {
		<-time.After(rand.N(25 * time.Millisecond)) // the random instant is what is tested
		_ = child.Process.Kill()
	}()
	for more := true; more; more = out.Scan() {
		if strings.HasPrefix(out.Text(), "error") {
			t.Fatal(out.Text())
		}
		told[out.Text()] = true
	}
	_ = child.Wait() // always "killed"
}
