// Command undone says how many worlds of test/simulation/service it takes to find faults of the past: it takes the mend of each out of
// the present code, and runs worlds from seed 1 on until one fails.
//
//	go run ./test/simulation/undone [-worlds 2000] [COMMIT...]
//
// The mends are patches in test/simulation/service/testdata/undone, named by the commits that mended the faults.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

const (
	simulation = "test/simulation/service"
	batch      = 20 // worlds of a process
)

func main() {
	most := flag.Int("worlds", 2000, "give up after so many `WORLDS`")
	flag.Parse()
	patches, err := filepath.Glob(filepath.Join(simulation, "testdata/undone/*.patch"))
	if err == nil && len(patches) == 0 {
		err = errors.New("no patches are here: run it at the root of the repository")
	}
	missed := 0
	for _, p := range patches {
		name := strings.TrimSuffix(filepath.Base(p), ".patch")
		if err != nil || flag.NArg() > 0 && !slices.Contains(flag.Args(), name) {
			continue
		}
		var found find
		if found, err = undo(p, *most); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			continue
		}
		if found.seed == 0 {
			missed++
			fmt.Printf("%s: not found in %d worlds\n", name, *most)
			continue
		}
		fmt.Printf("%s: world %d: %s\n", name, found.seed, found.text)
	}
	if err == nil && missed > 0 {
		err = fmt.Errorf("%d were not found", missed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "undone:", err)
		os.Exit(1)
	}
}

// find is a world that failed; seed 0 is none.
type find struct {
	seed int
	text string
}

// undo runs worlds of the present code without a mend.
func undo(patch string, most int) (find, error) {
	dir, err := os.MkdirTemp("", "undone-")
	if err != nil {
		return find{}, err
	}
	defer os.RemoveAll(dir)
	patch, err = filepath.Abs(patch)
	if err != nil {
		return find{}, err
	}
	tree, program := filepath.Join(dir, "tree"), filepath.Join(dir, "worlds")
	for _, c := range [][]string{
		{"git", "clone", "-q", ".", tree},
		{"git", "-C", tree, "apply", patch},
		{"go", "test", "-C", tree, "-c", "-o", program, "./" + simulation},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			return find{}, fmt.Errorf("%v: %w\n%s", c, err, out)
		}
	}
	return search(program, filepath.Join(tree, simulation), most), nil
}

// search returns the failure with the lowest seed of the batches that ran until one failed.
func search(program, dir string, most int) find {
	var (
		mu    sync.Mutex
		found find
		next  = 1
		wg    sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				mu.Lock()
				from := next
				next += batch
				over := found.seed > 0 || from > most
				mu.Unlock()
				if over {
					return
				}
				if f := run(program, dir, from); f.seed > 0 {
					mu.Lock()
					if found.seed == 0 || f.seed < found.seed {
						found = f
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return found
}

func run(program, dir string, from int) (f find) {
	cmd := exec.CommandContext(context.Background(), program, "-test.run=^TestWorld$", "-test.timeout=5m")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), fmt.Sprint("DATAMOVE_WORLDS=", from, " ", batch, " young"))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return f
	}
	for line := range bytes.Lines(out) {
		text := strings.TrimSpace(string(line))
		if _, seed, ok := strings.Cut(text, "world begins: "); ok {
			_, _ = fmt.Sscan(seed, &f.seed)
		}
		if f.text == "" && (strings.Contains(text, "_test.go:") || strings.HasPrefix(text, "panic:")) {
			f.text = text
		}
	}
	f.text = cmp.Or(f.text, err.Error())
	return f
}
