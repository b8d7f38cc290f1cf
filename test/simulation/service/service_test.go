package service

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/seed"
)

// Variables of the environment.
const (
	worldVariable = "DATAMOVE_WORLD"  // the world that TestWorld runs
	batchVariable = "DATAMOVE_WORLDS" // seeds "FIRST COUNT", and " young", one after the other: of the processes of TestService
)

// How many seeds TestService simulates.
const (
	worlds    = 200
	shortPart = 5   // -short and the race detector divide by it
	soakTimes = 15  // DATAMOVE_SOAK=1 multiplies by it
	batch     = 20  // of one process
	atOnce    = 2   // processes
	tries     = 3   // of a world that may fail, while it is made smaller
	smallest  = 120 // worlds that are tried for that
)

func TestMain(m *testing.M) { rig.Main(m) }

// TestService simulates worlds, each process some of them. What fails is made smaller.
//
//safety:1 seeds of the whole service: agents, workers and the coordinator die, sleep and are cut off, messages are late, lost or come twice; after each step each visible file has a content of its sources
//safety:3 with safety:1: at the end each accepted task has ended, and nothing temporary is left
//safety:9 with safety:1: what is done is compared with its source, and replicas with their versions
func TestService(t *testing.T) {
	first, count := seed.Number(), uint64(worlds)
	switch {
	case seed.Soak():
		count *= soakTimes
	case testing.Short() || raced:
		count /= shortPart
	}
	t.Logf("seeds %d to %d", first, first+count-1)
	starts := make(chan uint64)
	go func() {
		defer close(starts)
		for n := uint64(0); n < count && !t.Failed(); n += batch {
			starts <- first + n
		}
	}()
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for from := range starts {
				for end := min(from+batch, first+count); from < end; {
					failed, text := several(t, from, end-from)
					if failed == 0 {
						break
					}
					shrink(t, failed, text)
					from = failed + 1
				}
			}
		})
	}
	wg.Wait()
}

// several runs worlds in a process, and returns the seed of one that failed, or 0.
func several(t *testing.T, from, count uint64) (failed uint64, told string) {
	text := fmt.Sprint(from, " ", count)
	if seed.Soak() {
		text += youngWord
	}
	out, ok := child(t, batchVariable, text)
	if ok {
		return 0, ""
	}
	var begun uint64
	for s := bufio.NewScanner(strings.NewReader(out)); s.Scan(); {
		if n := uint64(0); sscan(s.Text(), &n) {
			begun = n
		}
	}
	if begun == 0 {
		t.Errorf("no world has begun:\n%s", out)
	}
	return begun, out
}

const (
	beginMark = "world begins: "
	youngWord = " young" // with young domains
)

func sscan(line string, n *uint64) bool {
	_, after, ok := strings.Cut(line, beginMark)
	if !ok {
		return false
	}
	_, err := fmt.Sscan(after, n)
	return err == nil
}

// child runs TestWorld in a process of its own.
func child(t *testing.T, variable, value string) (out string, ok bool) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestWorld$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), variable+"="+value)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	err = cmd.Run()
	return b.String(), err == nil
}

// shrink makes a world that fails smaller, and fails with what is left.
func shrink(t *testing.T, failed uint64, text string) {
	w := draw(failed, seed.Soak())
	fails := func(w *world) (string, bool) {
		for range tries {
			if out, ok := child(t, worldVariable, w.String()); !ok {
				return out, true
			}
		}
		return "", false
	}
	if out, again := fails(&w); again {
		text = out
		for left := smallest; left > 0; {
			i := slices.IndexFunc(w.smaller(), func(x world) bool {
				left--
				out, is := fails(&x)
				if is {
					w, text = x, out
				}
				return is || left <= 0
			})
			if i < 0 {
				break
			}
		}
	}
	t.Errorf("%s\nto repeat: make sim WORLD=%s", text, w.String())
}

// TestWorld runs the world that is given, or those of some seeds; without either that of one.
func TestWorld(t *testing.T) {
	var from, count uint64
	if n, _ := fmt.Sscan(os.Getenv(batchVariable), &from, &count); n == 2 {
		for n := from; n < from+count && !t.Failed(); n++ {
			fmt.Fprintln(os.Stderr, beginMark, n)
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) { play(t, draw(n, strings.HasSuffix(os.Getenv(batchVariable), youngWord))) })
			})
		}
		return
	}
	w, err := parse(cmp.Or(os.Getenv(worldVariable), "1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(w.story())
	rig.Bubble(t, func(t *testing.T) { play(t, w) })
}
