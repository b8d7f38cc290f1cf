package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// TestRunnerPassage: the passage of docs/architecture.md on task kinds shows a Runner as it is, and names what a worker.Job offers: all of it, and no more.
func TestRunnerPassage(t *testing.T) {
	page := string(must.Get(os.ReadFile(filepath.Join(root, "docs", "architecture.md")))(t))
	_, passage, found := strings.Cut(page, "\n## How to add a task kind\n")
	passage, _, _ = strings.Cut(passage, "\n## ")
	block := regexp.MustCompile("(?s)```go\n(.*?)\n *```").FindStringSubmatch(passage)
	if !found || block == nil {
		t.Fatal("there is no such passage, with a Runner as an example")
	}
	shown := regexp.MustCompile(`(?m)^ {3}`).ReplaceAllString(block[1], "")
	if is := must.Get(os.ReadFile(filepath.Join(root, "tiering", "dataset", "datasetworker", "accessprobe.go")))(t); !strings.Contains(string(is), shown) {
		t.Errorf("tiering/dataset/datasetworker/accessprobe.go does not have\n%s", shown)
	}
	var named []string
	for _, m := range regexp.MustCompile(`\bj\.([A-Z]\w*)`).FindAllStringSubmatch(passage, -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	named = slices.Compact(named)
	if offered := methodsOf(t, filepath.Join(root, "mover", "agent", "worker"), "Job"); !slices.Equal(named, offered) {
		t.Errorf("it names %v, and a Job has %v", named, offered)
	}
}

// methodsOf are the exported methods of a type, sorted.
func methodsOf(t *testing.T, dir, of string) (names []string) {
	t.Helper()
	for _, file := range must.Get(fs.Glob(os.DirFS(dir), "*.go"))(t) {
		for _, d := range must.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file), nil, 0))(t).Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !f.Name.IsExported() {
				continue
			}
			recv := f.Recv.List[0].Type
			if p, pointer := recv.(*ast.StarExpr); pointer {
				recv = p.X
			}
			if name, plain := recv.(*ast.Ident); plain && name.Name == of {
				names = append(names, f.Name.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}
