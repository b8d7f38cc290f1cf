package arch

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

var update = flag.Bool("update", false, "write the tables of docs/safety.md")

// cited finds `package TestName`, `package FuzzName` and `test/script/name.txt`.
var cited = regexp.MustCompile("`([a-z0-9/-]+) ((?:Test|Fuzz)[A-Za-z0-9_]+)`|`(test/[a-z0-9/.-]+)`")

// TestSafetyNamesWhatIsThere holds docs/safety.md to the tree: each test and script that
// it names is where it says.
func TestSafetyNamesWhatIsThere(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join(root, "docs", "safety.md")))(t)
	found := cited.FindAllStringSubmatch(string(text), -1)
	if len(found) < 50 {
		t.Fatalf("docs/safety.md names %d tests and scripts; is its notation another one?", len(found))
	}
	for _, f := range found {
		if dir, name, path := f[1], f[2], f[3]; path != "" {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("docs/safety.md names %s: %v", path, err)
			}
		} else if !hasTest(t, dir, name) {
			t.Errorf("docs/safety.md names %s of %s, which is not there", name, dir)
		}
	}
}

// hasTest looks for a test function in the folder of a package.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(root, dir, "*_test.go")))(t)
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}

// A marker directly above a test or at the top of a script says which promise it attacks and how:
//
//	//safety:TABLE what it tries
//	//safety:TABLE with [package] TestName
//
// TABLE is that of a "<!-- begin TABLE -->" in docs/safety.md. The second form puts a test into the row of another one, of the same package where none is named.
// In a script a line begins with "# safety:".
type marker struct{ table, by, how string }

var directive = regexp.MustCompile(`^safety:([a-z0-9/]+) ([^|]+)$`)

func parseMarker(text, by string) (marker, error) {
	m := directive.FindStringSubmatch(text)
	if m == nil {
		return marker{}, fmt.Errorf("%s has the marker %q, and not \"safety:TABLE what it tries\", without |", by, text)
	}
	return marker{m[1], by, m[2]}, nil
}

// markers are those of all tests and scripts.
func markers(t *testing.T) (all []marker) {
	t.Helper()
	add := func(text, by string) {
		m, err := parseMarker(text, by)
		if err != nil {
			t.Error(err)
			return
		}
		all = append(all, m)
	}
	files, set := testFiles(t)
	for dir, files := range files {
		for _, f := range files {
			tests := map[*ast.CommentGroup]string{}
			for _, d := range f.Decls {
				if d, is := d.(*ast.FuncDecl); is && d.Doc != nil && (strings.HasPrefix(d.Name.Name, "Test") || strings.HasPrefix(d.Name.Name, "Fuzz")) {
					tests[d.Doc] = dir + " " + d.Name.Name
				}
			}
			for _, group := range f.Comments {
				for _, c := range group.List {
					if text, is := strings.CutPrefix(c.Text, "//safety:"); is && tests[group] != "" {
						add("safety:"+text, tests[group])
					} else if is {
						t.Errorf("%s: this marker is not directly above a test", set.Position(c.Pos()))
					}
				}
			}
		}
	}
	err := filepath.WalkDir(filepath.Join(root, "test/script"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		by, err := filepath.Rel(root, path)
		for line := range strings.Lines(string(text)) {
			if text, is := strings.CutPrefix(line, "# safety:"); is {
				add("safety:"+strings.TrimSpace(text), by)
			}
		}
		return err
	})
	must.Do(t, err)
	return all
}

// tables makes the rows of each table from markers.
func tables(all []marker) (map[string][]string, error) {
	rows := map[string]map[string][]string{} // by table and the test with the words: the tests of the row
	how := map[marker]string{}
	var others []marker
	for _, m := range all {
		if name, is := strings.CutPrefix(m.how, "with "); is && isName.MatchString(name) {
			dir, _, _ := strings.Cut(m.by, " ")
			if !strings.ContainsAny(name, " /") {
				name = dir + " " + name
			}
			others = append(others, marker{m.table, m.by, name})
			continue
		}
		key := marker{table: m.table, by: m.by}
		if how[key] != "" {
			return nil, fmt.Errorf("%s says twice how it attacks %s", m.by, m.table)
		}
		how[key] = m.how
		if rows[m.table] == nil {
			rows[m.table] = map[string][]string{}
		}
		rows[m.table][m.by] = nil
	}
	for _, o := range others {
		if how[marker{table: o.table, by: o.how}] == "" {
			return nil, fmt.Errorf("%s stands with %s in %s, which says nothing there: has it moved?", o.by, o.how, o.table)
		}
		rows[o.table][o.how] = append(rows[o.table][o.how], o.by)
	}
	made := map[string][]string{}
	for table, rows := range rows {
		for _, by := range slices.Sorted(maps.Keys(rows)) {
			slices.Sort(rows[by])
			names := "`" + strings.Join(append([]string{by}, rows[by]...), "`, `") + "`"
			made[table] = append(made[table], "| "+names+" | "+how[marker{table: table, by: by}]+" |\n")
		}
	}
	return made, nil
}

var isName = regexp.MustCompile(`^(([a-z0-9/-]+ )?(Test|Fuzz)\w+|test/script/[a-z0-9/.-]+)$`)

// begin opens a table that is made; end closes it.
var begin = regexp.MustCompile(`^<!-- begin ([a-z0-9/]+) -->\n$`)

const end = "<!-- end -->\n"

// render puts tables into the text of docs/safety.md. A test that a table has named and that has no marker any more is an error: its promise would be lost silently.
func render(text string, made map[string][]string) (string, error) {
	var b strings.Builder
	var errs []error
	table, seen, old := "", map[string]bool{}, ""
	for line := range strings.Lines(text) {
		m := begin.FindStringSubmatch(line)
		switch {
		case table != "" && line == end:
			rows := strings.Join(made[table], "")
			for _, c := range cited.FindAllStringSubmatch(old, -1) {
				name := " " + c[2] + "`" // of any package: it may have moved
				if c[3] != "" {
					name = c[0]
				}
				if !strings.Contains(rows, name) {
					errs = append(errs, fmt.Errorf("table %s names %s, which has no such marker any more: mark what holds its promise now, and take the name out by hand", table, c[0]))
				}
			}
			b.WriteString("| attacked by | how |\n|---|---|\n" + rows + line)
			table, old = "", ""
		case table != "":
			old += line
		case m != nil:
			table = m[1]
			if seen[table] || made[table] == nil {
				errs = append(errs, fmt.Errorf("table %s is there twice, or no test has a marker for it", table))
			}
			seen[table] = true
			fallthrough
		default:
			b.WriteString(line)
		}
	}
	for name := range made {
		if !seen[name] {
			errs = append(errs, fmt.Errorf("there is no table %s", name))
		}
	}
	if table != "" {
		errs = append(errs, fmt.Errorf("table %s does not end", table))
	}
	return b.String(), errors.Join(errs...)
}

// TestSafety holds the tables of docs/safety.md to the markers of the tests. With -update it writes them.
func TestSafety(t *testing.T) {
	file := filepath.Join(root, "docs", "safety.md")
	text, err := os.ReadFile(file)
	must.Do(t, err)
	made, err := tables(markers(t))
	must.Do(t, err)
	want, err := render(string(text), made)
	switch {
	case err != nil:
		t.Fatalf("docs/safety.md: %v", err)
	case want != string(text) && *update && !t.Failed():
		must.Do(t, os.WriteFile(file, []byte(want), 0o644))
	case want != string(text):
		t.Error("docs/safety.md is not what the markers of the tests say: make safety")
	}
}

// TestTables: rows are made of markers, and what is wrong with them is told.
func TestTables(t *testing.T) {
	const before = "# Safety\n<!-- begin 1 -->\n" + end + "after\n"
	rows := func(lines string) string {
		return strings.Replace(before, end, "| attacked by | how |\n|---|---|\n"+lines+end, 1)
	}
	for _, row := range []struct {
		name, text string
		all        []marker
		want, err  string
	}{
		{"two tests of a row, and a script", before, []marker{{"1", "z TestB", "with a TestA"}, {"1", "test/script/x.txt", "words"}, {"1", "a TestA", "kills, with care"}, {"1", "a FuzzC", "with TestA"}},
			rows("| `a TestA`, `a FuzzC`, `z TestB` | kills, with care |\n| `test/script/x.txt` | words |\n"), ""},
		{"words that begin with with", before, []marker{{"1", "a TestA", "with care"}}, rows("| `a TestA` | with care |\n"), ""},
		{"a test moves", rows("| `a TestA` | x |\n"), []marker{{"1", "b TestA", "x"}}, rows("| `b TestA` | x |\n"), ""},
		{"a test goes", rows("| `a TestA`, `a TestB` | x |\n"), []marker{{"1", "a TestA", "x"}}, "", "a TestB"},
		{"a script goes", rows("| `test/script/x.txt` | x |\n"), []marker{{"1", "a TestA", "x"}}, "", "x.txt"},
		{"with one that is gone", before, []marker{{"1", "a TestA", "x"}, {"1", "a TestB", "with TestC"}}, "", "a TestC"},
		{"twice", before, []marker{{"1", "a TestA", "x"}, {"1", "a TestA", "y"}}, "", "twice"},
		{"no such table", before, []marker{{"1", "a TestA", "x"}, {"2", "a TestA", "y"}}, "", "no table 2"},
		{"an empty table", before, nil, "", "table 1"},
	} {
		made, err := tables(row.all)
		got := ""
		if err == nil {
			got, err = render(row.text, made)
		}
		if row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) || row.err == "" && (err != nil || got != row.want) {
			t.Errorf("%s: %q, %v", row.name, got, err)
		}
	}
	for text, good := range map[string]bool{"safety:5/jobs a kill": true, "safety:1": false, "safety:1 ": false, "safety: 1 a": false, "safety:1 a | b": false} {
		if _, err := parseMarker(text, "a TestA"); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
