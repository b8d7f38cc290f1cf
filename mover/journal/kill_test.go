package journal

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	childDir   = "DATAMOVE_JOURNAL_CHILD"
	childLives = "DATAMOVE_JOURNAL_LIVES"
)

// runChild does what a task does until it is killed, and says on stdout what was
// done, one line after each call.
func runChild(dir string) {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	j, err := Open(dir, Options{})
	must(err)
	for n := 0; ; n++ {
		name := fmt.Sprintf("%d-%d", os.Getpid(), n)
		id, err := j.Begin(ctx, large(name))
		must(err)
		fmt.Println("begin", name)
		for i := range 20 {
			must(j.Part(ctx, id, receipt(i)))
			fmt.Println("part", name, i)
		}
		batch := small(50)
		for i := range batch {
			batch[i].Name = fmt.Sprintf("%s-small-%d", name, i)
		}
		staged, err := j.Stage(ctx, batch)
		must(err)
		fmt.Println("stage", name)
		if n%2 == 0 {
			must(j.Complete(ctx, id, 7))
			fmt.Println("complete", name)
			continue
		}
		fmt.Println("clearing", name)
		must(j.Clear(ctx, id, staged))
		fmt.Println("clear", name)
	}
}

// told is what a child said before it was killed.
type told struct {
	parts            int
	staged, complete bool
	clearing, clear  bool
}

func hear(out *bufio.Scanner, all map[string]*told, first chan<- struct{}) (wrong string) {
	for out.Scan() {
		word, rest, _ := strings.Cut(out.Text(), " ")
		name, _, _ := strings.Cut(rest, " ")
		switch word {
		case "begin":
			all[name] = &told{}
			if first != nil {
				close(first)
				first = nil
			}
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
			wrong = out.Text()
		}
	}
	return wrong
}

// TestKill kills a process at random instants. All that it said is there.
func TestKill(t *testing.T) {
	kills := 40
	if testing.Short() {
		kills = 8
	}
	dir, all := t.TempDir(), map[string]*told{}
	for range kills {
		killOne(t, dir, all)
		compare(t, dir, all)
		if t.Failed() {
			return
		}
	}
	if len(all) < kills {
		t.Errorf("only %d drafts in %d lives: the kills came too early to tell", len(all), kills)
	}
}

func killOne(t *testing.T, dir string, all map[string]*told) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+dir)
	pipe, err := child.StdoutPipe()
	check(t, err)
	check(t, child.Start())
	began := make(chan struct{})
	go func() {
		<-began
		<-time.After(rand.N(15 * time.Millisecond)) // the random instant is what is tested
		_ = child.Process.Kill()
	}()
	if wrong := hear(bufio.NewScanner(pipe), all, began); wrong != "" {
		t.Fatal(wrong)
	}
	_ = child.Wait() // always "killed"
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

// runLives opens, fills and removes a journal again and again.
func runLives(dir string) {
	ctx := context.Background()
	fmt.Println("begun")
	for {
		j, err := Open(dir, Options{})
		if err == nil {
			_, err = j.Stage(ctx, small(3000))
		}
		if err == nil {
			err = j.Remove()
		}
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
}

// TestKillOpening kills a process while it opens and removes a journal. No kill
// damages it: what was half made or half removed is none, and goes unnoticed.
func TestKillOpening(t *testing.T) {
	kills := 100
	if testing.Short() {
		kills = 20
	}
	dir := filepath.Join(t.TempDir(), "task")
	for n := range kills {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childLives+"="+dir)
		pipe, err := child.StdoutPipe()
		check(t, err)
		check(t, child.Start())
		out := bufio.NewScanner(pipe)
		out.Scan()
		<-time.After(rand.N(40 * time.Millisecond)) // the random instant is what is tested
		check(t, child.Process.Kill())
		for out.Scan() {
			t.Fatal(out.Text())
		}
		_ = child.Wait() // always "killed"
		if n%(patience/2) == 0 {
			closed(t, reopen(t, dir, Options{})) // so many kills in a row would be taken for damage
		}
		if _, err := os.Stat(dir + ".damaged-0"); err == nil {
			t.Fatalf("kill %d damaged it", n)
		}
	}
}
