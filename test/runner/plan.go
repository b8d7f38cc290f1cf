package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"datamove.dev/test/level"
)

// listed is what go list tells of a package.
type listed struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Module                             struct{ Path string }
}

func (p *listed) folder() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
}

func (p *listed) hasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// list is the packages of the module in a folder that have tests.
func list(dir string) ([]*listed, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Module", "./...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", dir, err)
	}
	var all []*listed
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := in.Decode(p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if p.hasTests() {
			all = append(all, p)
		}
	}
}

// batch is packages that one go test runs.
type batch struct {
	race     bool
	fresh    bool // never from the cache
	memory   bool // with its files in memory, where measure does not say it
	packages []string
}

// plan puts the packages of a level into batches. The race detector is for packages that start goroutines: it costs three times the time, and has nothing to find in others.
// Those that build programs are run although nothing that go test knows of has changed, for it does not know the programs; with anew all are. What uses most begins
// first, so that nothing long is left for the end.
func plan(of level.Level, all []*listed, race, anew bool) (batches []batch, others int, err error) {
	all = slices.SortedStableFunc(slices.Values(all), func(a, b *listed) int { return cmp.Compare(budget(b.folder()), budget(a.folder())) })
	add := func(b batch, p string) {
		i := slices.IndexFunc(batches, func(x batch) bool { return x.race == b.race && x.fresh == b.fresh && x.memory == b.memory })
		if i < 0 {
			i, batches = len(batches), append(batches, b)
		}
		batches[i].packages = append(batches[i].packages, p)
	}
	for _, p := range all {
		if level.Of(p.folder()) != of {
			others++
			continue
		}
		b := batch{
			fresh:  anew || of != level.Hermetic || level.Builds(p.folder()),
			memory: !anew && of == level.Hermetic && !level.Disk(p.folder()),
		}
		if race && of == level.Hermetic {
			if b.race, err = p.raced(); err != nil {
				return nil, 0, err
			}
		}
		add(b, p.ImportPath)
	}
	return batches, others, nil
}

// raced reports whether the race detector may find something in a package. Commands wire what has been tested with it, and start it in programs, which are not.
func (p *listed) raced() (bool, error) {
	top, _, _ := strings.Cut(p.folder(), "/")
	if top == "cmd" || top == "bench" || p.folder() == "" { // and the commands that are modules of their own
		return false, nil
	}
	files := p.GoFiles
	if strings.HasPrefix(p.folder(), "test/") {
		files = slices.Concat(files, p.TestGoFiles, p.XTestGoFiles)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		if startsGoroutines(file) {
			return true, nil
		}
	}
	return false, nil
}

func startsGoroutines(file *ast.File) (starts bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Go" || s.Sel.Name == "AfterFunc") {
				starts = true
			}
		}
		return !starts
	})
	return starts
}
