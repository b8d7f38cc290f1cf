package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"datamove.dev/test/must"
)

// chance is how often the tests of a package use what is not the same in each run.
type chance struct {
	global int // random numbers of the process: rand.N, rand.Shuffle, ...
	clock  int // seeds of the clock or of the process
	crypto int // crypto/rand
}

func (c chance) within(may chance) bool {
	return c.global <= may.global && c.clock <= may.clock && c.crypto <= may.crypto
}

// unseeded are the packages whose tests do, and how often. Each number may only fall: random choices come from test/seed. What crypto/rand is used for
// here decides nothing: keys of certificates, names that are new, and contents. Where the others are, processes are killed after a random time.
var unseeded = map[string]chance{
	"api":                                 {crypto: 2},
	"csi/nodeproxy/relaytest":             {crypto: 2},
	"lustre/client":                       {crypto: 4},
	"mover/server":                        {crypto: 2},
	"mover/server/kubeauth":               {crypto: 2},
	"mover/backend/s3":                    {crypto: 1},
	"mover/backend/s3/s3test":             {crypto: 2},
	"mover/coordinator":                   {crypto: 2},
	"mover/server/pki":                    {crypto: 6},
	"test/fabric":                         {crypto: 1},
	"test/k8s":                            {crypto: 6},
	"test/slurm":                          {crypto: 1},
	"tiering/burst/spotnotice/noticetest": {crypto: 1},
}

// made are what math/rand has that draws nothing by itself.
var made = []string{"New", "NewPCG", "NewChaCha8", "NewSource", "NewZipf", "Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf"}

const (
	rapid = "pgregory.net/rapid"
	seeds = module + "/test/seed/property"
)

// testFiles parses the test files of the module, and all files of packages that only tests use, by their directory.
func testFiles(t *testing.T) (map[string][]*ast.File, *token.FileSet) {
	t.Helper()
	found := must.Get(parsed())(t)
	return found, set
}

var set = token.NewFileSet()

var parsed = sync.OnceValues(func() (map[string][]*ast.File, error) {
	found := map[string][]*ast.File{}
	return found, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skip(path, d.Name())
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil || !strings.HasSuffix(path, ".go") || !strings.HasSuffix(path, "_test.go") && !onlyTests(dir) {
			return err
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution|parser.ParseComments)
		found[dir] = append(found[dir], f)
		return err
	})
})

// imported are the import paths of a file, by their names in it.
func imported(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has refused it
		}
		name := path.Base(strings.TrimSuffix(p, "/v2"))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "_" {
			name += p
		}
		names[name] = p
	}
	return names
}

// chances looks for what is not the same in each run; at are the places.
func chances(f *ast.File, set *token.FileSet) (c chance, at []string) {
	names := imported(f)
	of := func(n ast.Node) (from, what string) {
		if s, is := n.(*ast.SelectorExpr); is {
			if x, is := s.X.(*ast.Ident); is {
				return names[x.Name], s.Sel.Name
			}
		}
		return "", ""
	}
	note := func(n ast.Node, count *int, what string) {
		*count++
		at = append(at, fmt.Sprintf("%s: %s", set.Position(n.Pos()), what))
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch from, what := of(n); {
		case (from == "math/rand" || from == "math/rand/v2") && !slices.Contains(made, what):
			note(n, &c.global, "rand."+what+" draws from the process")
		case from == "crypto/rand":
			note(n, &c.crypto, "crypto/rand")
		}
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		if s, is := call.Fun.(*ast.SelectorExpr); is && (s.Sel.Name == "UnixNano" || s.Sel.Name == "Nanosecond") {
			if now, is := s.X.(*ast.CallExpr); is {
				if from, what := of(now.Fun); from == "time" && what == "Now" {
					note(n, &c.clock, "time.Now()."+s.Sel.Name+"() is a seed")
				}
			}
		}
		if from, _ := of(call.Fun); from == "math/rand" || from == "math/rand/v2" {
			for _, arg := range call.Args {
				ast.Inspect(arg, func(n ast.Node) bool {
					if from, what := of(n); from == "time" && what == "Now" || from == "os" && strings.HasPrefix(what, "Getp") {
						note(n, &c.clock, from+"."+what+" is a seed")
					}
					return true
				})
			}
		}
		return true
	})
	return c, at
}

// TestSeeds: tests do the same in each run.
func TestSeeds(t *testing.T) {
	files, set := testFiles(t)
	for _, dir := range slices.Sorted(maps.Keys(files)) {
		var is chance
		var at []string
		var properties, seeded bool
		for _, f := range files[dir] {
			c, places := chances(f, set)
			is, at = chance{is.global + c.global, is.clock + c.clock, is.crypto + c.crypto}, append(at, places...)
			for _, p := range imported(f) {
				properties, seeded = properties || p == rapid, seeded || p == seeds
			}
		}
		onlyFalls(t, "unseeded", dir, is, unseeded[dir], is.within(unseeded[dir]), at, "test/seed")
		if properties && !seeded && module+"/"+dir != seeds {
			t.Errorf("%s has properties of rapid and does not import test/seed/property: they would be others in each run", dir)
		}
	}
	known(t, "unseeded", unseeded, files)
}

// onlyFalls holds what there is in the tests of a package to what a table allows it, so that the table can only fall.
func onlyFalls[C comparable](t *testing.T, table, dir string, is, may C, within bool, at []string, instead string) {
	t.Helper()
	line := fmt.Sprintf("%q: %+v", dir, is)
	switch {
	case is == may:
	case within:
		t.Errorf("%s is left of %+v: write this into %s, so that it can only fall", line, may, table)
	default:
		t.Errorf("%s, and %s allows %+v; use %s:\n%s", line, table, may, instead, strings.Join(at, "\n"))
	}
}

// known holds a table to the packages that have tests.
func known[C any](t *testing.T, table string, may map[string]C, files map[string][]*ast.File) {
	t.Helper()
	for dir := range may {
		if files[dir] == nil {
			t.Errorf("%s is in %s, and has no tests", dir, table)
		}
	}
}

// TestChances: each way to an unseeded choice is seen, and a seeded one is none.
func TestChances(t *testing.T) {
	for body, want := range map[string]chance{
		`r.N(5)`:                            {global: 1},
		`r.Shuffle(3, f); r.IntN(r.Int())`:  {global: 3},
		`f(r.Perm)`:                         {global: 1},
		`old.Read(b)`:                       {global: 1},
		`r.New(r.NewPCG(1, 2)).N(5)`:        {},
		`old.New(old.NewSource(7)).Read(b)`: {},
		`var x *r.Rand; x.IntN(5)`:          {},
		`r.New(r.NewPCG(1, uint64(time.Now().UnixMilli())))`: {clock: 2}, // of New and of NewPCG
		`old.NewSource(int64(os.Getpid()))`:                  {clock: 1},
		`seed := uint64(time.Now().UnixNano())`:              {clock: 1},
		`time.Unix(5, 0).UnixNano()`:                         {},
		`rand.Text(); rand.Read(b)`:                          {crypto: 2},
	} {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, "x_test.go", `package x
			import ("crypto/rand"; old "math/rand"; r "math/rand/v2"; "os"; "time")
			func _() { `+body+` }`, 0)
		must.Do(t, err)
		if got, at := chances(f, set); got != want {
			t.Errorf("%s: %+v %q, want %+v", body, got, at, want)
		}
	}
}
