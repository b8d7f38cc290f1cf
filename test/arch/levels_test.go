package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"datamove.dev/test/level"
	"datamove.dev/test/must"
)

// starters are packages of ours that start programs for tests that go test does not know of. Commands of ours are not among them: the test binary is what
// they are (test/crash/rig). Nor is mover/backend/s3/s3test: a test process reads the sources of s3dev, and go test remembers what files of the module a test has read.
var starters = map[string]bool{module + "/test/chromium": true}

// TestNothingStaleIsCached: a package whose tests build or start a program that go test does not know of is never taken from the cache: after a change of the
// program it would have passed without it.
func TestNothingStaleIsCached(t *testing.T) {
	starts := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return skip(path, d.Name())
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			if name, _ := strconv.Unquote(spec.Path.Value); starters[name] {
				starts[folder] = "it imports " + name
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && buildsProgram(call) {
				starts[folder] = "it runs go build or go run"
			}
			return true
		})
		return nil
	})
	must.Do(t, err)
	for folder, why := range starts {
		if level.Of(folder) == level.Hermetic && !level.Builds(folder) && folder != "mover/backend/s3/s3test" {
			t.Errorf("%s may be passed from the cache for a program that did not run: %s; see test/level", folder, why)
		}
	}
	if starts["mover/agent/sandbox"] == "" {
		t.Errorf("of those that start programs only %v are found", starts)
	}
}

// buildsProgram reports whether a call is exec.Command("go", ...) with build or run.
func buildsProgram(call *ast.CallExpr) bool {
	words := map[string]bool{}
	for _, arg := range call.Args {
		if lit, ok := arg.(*ast.BasicLit); ok {
			word, _ := strconv.Unquote(lit.Value)
			words[word] = true
		}
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && strings.HasPrefix(s.Sel.Name, "Command") && words["go"] && (words["build"] || words["run"])
}
