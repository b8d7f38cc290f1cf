package arch

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// bounds are measures of the hand-written code that is shipped, and what they may not exceed. A bound is only
// ever lowered, to what the measure is by then.
var bounds = map[string]int{
	"files that name a kind of task":                10,   // a new kind is a row in mover/task, a module of the coordinator and a runner of the worker
	"packages directly below mover":                 22,   // what they are: docs/architecture.md
	"lines of the largest package":                  6000, // without tests
	"lines of comments with who, whose …":           2,    // sentences are about components: CONTRIBUTING.md
	"lines of messages with somebody, nobody …":     36,   // the same holds for what programs say
	"methods of the command line's App":             45,   // a command is a function of it
	"methods of the coordinator's Service":          55,
	"methods of the coordinator's largest part":     103,
	"files that switch on the scheme of a location": 2, // how each is written, and what opens it: elsewhere IsPath, InStore, InTier and IsDataset tell
	"files that name the scheme of a location":      4, // these two, and what makes locations: the parser, and tiers
}

var (
	kindNames = regexp.MustCompile(`TASK_KIND_[A-Z]`)
	persons   = regexp.MustCompile(`(?i)\b(who|whoever|whose|whom|somebody|nobody)\b`)
	people    = regexp.MustCompile(`(?i)\b(whoever|whom|somebody|nobody|anybody|everybody)\b`)
	bySchemes = regexp.MustCompile(`\bswitch\b[^/]*\.Scheme\b|\bmap\[(location\.)?Scheme\]`)
	ofScheme  = regexp.MustCompile(`(?m)^\t(\w+) +Scheme = "(\w+)"`)
	besideIt  = regexp.MustCompile(`^tiering/\w+/\w+server/`) // servers that the coordinator's parts became
	ofPart    = regexp.MustCompile(`^func \(\w+ \*(\w+)\) `)
)

// namesScheme is a pattern of lines that name a scheme of package location, whichever those are.
func namesScheme(t *testing.T) *regexp.Regexp {
	t.Helper()
	var names, words []string
	for _, file := range must.Get(filepath.Glob(filepath.Join(root, "mover/location/*.go")))(t) {
		for _, scheme := range ofScheme.FindAllStringSubmatch(string(must.Get(os.ReadFile(file))(t)), -1) {
			names, words = append(names, scheme[1]), append(words, scheme[2])
		}
	}
	name, word := "("+strings.Join(names, "|")+`)\b`, strings.Join(words, "|")
	return regexp.MustCompile(`\blocation\.` + name + `|\bScheme( [=!]=|:| =) *(` + name + `|"(` + word + `)")`)
}

// TestSchemesAreCounted: what names a scheme is counted, and a scheme that is new in package location is one of them.
func TestSchemesAreCounted(t *testing.T) {
	of := namesScheme(t)
	for _, line := range []string{"l.Scheme == location.POSIX", "location.Location{Scheme: S3}", "case location.InTier:", `l.Scheme = "dataset"`} {
		if !of.MatchString(line) {
			t.Errorf("%s is not counted by %s", line, of)
		}
	}
	if found := ofScheme.FindStringSubmatch("\tCeph Scheme = \"ceph\""); found == nil || found[1] != "Ceph" || found[2] != "ceph" {
		t.Errorf("a new scheme is found as %q", found)
	}
	if of.MatchString("l.Scheme == other") {
		t.Error("no scheme is named there")
	}
}

// TestMeasures keeps what a newcomer meets first from growing.
func TestMeasures(t *testing.T) {
	schemes := namesScheme(t)
	found, packages, methods := map[string]int{}, map[string]int{}, map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skip(path, d.Name())
		}
		name := must.Get(filepath.Rel(root, path))(t)
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".pb.go") || strings.HasPrefix(name, "test/") {
			return nil
		}
		measure(t, name, schemes, found, packages, methods)
		return nil
	})
	must.Do(t, err)
	for dir, lines := range packages {
		found["lines of the largest package"] = max(found["lines of the largest package"], lines)
		if filepath.Dir(dir) == "mover" {
			found["packages directly below mover"]++
		}
	}
	found["methods of the coordinator's Service"] = methods["mover/coordinator.Service"]
	found["methods of the command line's App"] = methods["cmd/datamove/cli.App"]
	delete(methods, "cmd/datamove/cli.App")
	for _, n := range methods {
		found["methods of the coordinator's largest part"] = max(found["methods of the coordinator's largest part"], n)
	}
	for what, bound := range bounds {
		switch is := found[what]; {
		case is > bound:
			t.Errorf("%s: %d; it may not exceed %d", what, is, bound)
		case is == 0:
			t.Errorf("%s: nothing was counted", what)
		default:
			t.Logf("%s: %d of %d", what, is, bound)
		}
	}
}

// measure adds what is counted in one file.
func measure(t *testing.T, name string, schemes *regexp.Regexp, found, packages, methods map[string]int) {
	t.Helper()
	f := must.Get(os.Open(filepath.Join(root, name)))(t)
	defer f.Close()
	named, switches, namesScheme := false, false, false
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		packages[filepath.Dir(name)]++
		_, comment, _ := strings.Cut(line, "//")
		if persons.MatchString(comment) {
			found["lines of comments with who, whose …"]++
		}
		if slices.ContainsFunc(quoted.FindAllString(line, -1), func(said string) bool { return strings.Contains(said, " ") && people.MatchString(said) }) {
			found["lines of messages with somebody, nobody …"]++
		}
		named = named || kindNames.MatchString(line)
		switches, namesScheme = switches || bySchemes.MatchString(line), namesScheme || schemes.MatchString(line)
		if of := ofPart.FindStringSubmatch(line); of != nil && (strings.HasPrefix(name, "mover/coordinator/") || besideIt.MatchString(name) || filepath.Dir(name) == "cmd/datamove/cli" && of[1] == "App") {
			methods[filepath.Dir(name)+"."+of[1]]++
		}
	}
	must.Do(t, lines.Err())
	if named {
		found["files that name a kind of task"]++
	}
	if switches {
		found["files that switch on the scheme of a location"]++
	}
	if namesScheme {
		found["files that name the scheme of a location"]++
	}
}
