// Package arch holds the sentences of docs/architecture.md about the tree as a table,
// and fails when the tree stops obeying them: which package may import which, where
// each heavy library lives, and what no shipped binary contains.
package arch

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

const (
	module = "datamove.dev"
	root   = "../.."
)

// imports are the import paths of one package.
type imports map[string]bool

// tree reads the imports of every package of the module, nested modules apart, of shipped files only.
func tree(t *testing.T) map[string]imports {
	t.Helper()
	return treeOf(t, func(file string) bool { return !strings.HasSuffix(file, "_test.go") })
}

// treeOf is tree of the files that are chosen.
func treeOf(t *testing.T, chosen func(file string) bool) map[string]imports {
	t.Helper()
	found := map[string]imports{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skip(path, d.Name())
		}
		if !strings.HasSuffix(path, ".go") || !chosen(path) {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if found[dir] == nil {
			found[dir] = imports{}
		}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			found[dir][name] = true
		}
		return nil
	})
	must.Do(t, err)
	if len(found["mover"]) == 0 {
		t.Fatal("the tree was not found")
	}
	return found
}

func skip(path, name string) error {
	if path == root {
		return nil
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	if err == nil || name == "testdata" || name == "bin" || name == "dist" || strings.HasPrefix(name, ".") {
		return filepath.SkipDir
	}
	return nil
}

func TestArrows(t *testing.T) {
	for dir, imported := range tree(t) {
		rule, known := packages[dir]
		if onlyTests(dir) && !known {
			continue
		}
		if !known {
			t.Errorf("%s is not in the table: say in test/arch what it may import", dir)
			continue
		}
		for path := range imported {
			to, ours := strings.CutPrefix(path, module+"/")
			if ours && !slices.Contains(rule.may, to) {
				t.Errorf("%s imports %s, which the table does not allow", dir, to)
			}
		}
	}
}

// TestMoverStandsAlone: nothing below mover imports what is built on it, in tests neither. An exception that is not needed any more goes.
func TestMoverStandsAlone(t *testing.T) {
	all, shipped := treeOf(t, func(string) bool { return true }), tree(t)
	excepted := map[string]bool{}
	for dir, imported := range all {
		if dir != "mover" && !strings.HasPrefix(dir, "mover/") {
			continue
		}
		for path := range imported {
			part, _, _ := strings.Cut(strings.TrimPrefix(path, module+"/"), "/")
			switch {
			case !strings.HasPrefix(path, module+"/") || !slices.Contains(above, part):
			case part == "tiering" && slices.Contains(testedWithTiering, dir) && !shipped[dir][path]:
				excepted[dir] = true
			default:
				t.Errorf("%s imports %s: let it declare what it needs, and cmd register what has that", dir, path)
			}
		}
	}
	for _, dir := range testedWithTiering {
		if !excepted[dir] {
			t.Errorf("no test of %s imports tiering any more: take it off testedWithTiering", dir)
		}
	}
	for _, part := range above {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(dir string) bool { return dir == part || strings.HasPrefix(dir, part+"/") }) {
			t.Errorf("there is no %s", part)
		}
	}
}

// The table itself obeys the steps, and knows nothing that is not there.
func TestSteps(t *testing.T) {
	found := tree(t)
	for dir, rule := range packages {
		if found[dir] == nil {
			t.Errorf("%s is in the table, and not in the tree", dir)
		}
		for _, to := range rule.may {
			below, known := packages[to]
			switch {
			case !known:
				t.Errorf("%s may import %s, which is not in the table", dir, to)
			case below.step == words && rule.step == words, partOf(to, dir):
			case below.step >= rule.step:
				t.Errorf("%s may import %s, which does not stand below it", dir, to)
			}
		}
	}
}

// partOf reports whether two packages are parts of one command.
func partOf(a, b string) bool {
	command := func(dir string) string { return strings.Join(strings.SplitN(dir+"//", "/", 3)[:2], "/") }
	return strings.HasPrefix(a, "cmd/") && command(a) == command(b)
}

// onlyTests reports whether a package is part of nothing that is shipped.
func onlyTests(dir string) bool {
	return strings.HasPrefix(dir, "test/") || packages[dir].step == tests
}

// library returns the line of homes that an import path belongs to.
func library(path string) (string, bool) {
	for lib := range homes {
		if path == lib || strings.HasPrefix(path, lib+"/") {
			return lib, true
		}
	}
	return "", false
}

func TestHomes(t *testing.T) {
	for dir, imported := range tree(t) {
		if onlyTests(dir) || strings.HasPrefix(dir, "api/datamove/") { // what protobuf generates
			continue
		}
		for path := range imported {
			if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") || first == module {
				continue // the standard library, and ours
			}
			lib, known := library(path)
			if !known {
				t.Errorf("%s imports %s, which has no home: see homes", dir, path)
			} else if !slices.ContainsFunc(homes[lib], func(home string) bool { return home == dir || partOf(dir, home) }) {
				t.Errorf("%s imports %s, whose home is %q", dir, path, homes[lib])
			}
		}
	}
}

// What is shipped has no C in it, knows nothing of tests, and starts no servers of ours.
func TestShipped(t *testing.T) {
	for dir, imported := range tree(t) {
		if onlyTests(dir) {
			continue
		}
		for path := range imported {
			forbidden := path == "C" || path == "testing" || strings.Contains(path, "versitygw") ||
				strings.HasPrefix(path, module+"/test/") || strings.HasSuffix(path, "/backendtest")
			if forbidden {
				t.Errorf("%s imports %s", dir, path)
			}
		}
	}
}

// TestHeavy: what takes a minute to compile stays out.
func TestHeavy(t *testing.T) {
	for dir, uses := range tree(t) {
		for path := range uses {
			for lib, instead := range heavy {
				if path == lib || strings.HasPrefix(path, lib+"/") {
					t.Errorf("%s imports %s, which takes a minute to compile: see %s", dir, path, instead)
				}
			}
		}
	}
}

// The command line asks a service for bursts: it has none of what asks AWS for file systems, figures and bills, by no way.
func TestCommandLineIsLight(t *testing.T) {
	out := must.Get(exec.Command("go", "list", "-deps", "./"+root+"/cmd/datamove").Output())(t)
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, module+"/tiering/burst/link") {
		t.Errorf("%d packages, and not the one that estimates bursts", len(deps))
	}
	for _, path := range deps {
		for _, lib := range notInCommandLine {
			if path == lib || strings.HasPrefix(path, lib+"/") {
				t.Errorf("cmd/datamove depends on %s: that is for the workers of datamoved", path)
			}
		}
	}
}

// Each library of the design card is a direct dependency, and used, as soon as
// the part that needs it exists; go.mod has nothing of the test servers.
func TestCard(t *testing.T) {
	required, found := requirements(t, "."), tree(t)
	for lib, dir := range card {
		if found[dir] == nil {
			continue
		}
		used := slices.ContainsFunc(slices.Collect(maps.Keys(found[dir])), func(path string) bool {
			return path == lib || strings.HasPrefix(path, lib+"/")
		})
		if !used {
			t.Errorf("%s does not use %s", dir, lib)
		}
		if !required[lib].direct {
			t.Errorf("%s is no direct dependency in go.mod", lib)
		}
	}
	for lib := range required {
		if strings.Contains(lib, "versitygw") || strings.HasPrefix(lib, module) {
			t.Errorf("go.mod requires %s, which belongs to a nested module", lib)
		}
	}
}

// requirement is a line of a go.mod.
type requirement struct {
	version string
	direct  bool
}

// requirements are those of the module in a folder, by their paths.
func requirements(t *testing.T, dir string) map[string]requirement {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = filepath.Join(root, dir)
	out := must.Get(cmd.Output())(t)
	var file struct {
		Require []struct {
			Path, Version string
			Indirect      bool
		}
	}
	must.Do(t, json.Unmarshal(out, &file))
	all := map[string]requirement{}
	for _, r := range file.Require {
		all[r.Path] = requirement{r.Version, !r.Indirect}
	}
	return all
}

// TestOneVersion: the modules that are built together have each library in one version, which is compiled once.
func TestOneVersion(t *testing.T) {
	ours := requirements(t, ".")
	for _, dir := range []string{"test/s3dev", "deploy/image"} {
		for lib, r := range requirements(t, dir) {
			if o, both := ours[lib]; both && o.version != r.version {
				t.Errorf("%s has %s %s, and the main module %s: go -C %s get %s@%s, or the other way round where that is the newer one", dir, lib, r.version, o.version, dir, lib, o.version)
			}
		}
	}
}
