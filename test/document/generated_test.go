package document

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// told is a test that notes what it is told.
type told struct {
	testing.TB
	errs []string
}

func (t *told) Helper() {}

func (t *told) Errorf(format string, args ...any) {
	t.errs = append(t.errs, fmt.Sprintf(format, args...))
}

// TestHold: a document that is not what the code says is told with its line, and written with update; around a table nothing changes.
func TestHold(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.md")
	const begin, end = "before\n<!-- table of x, written by make docs -->\n", "<!-- end of the table -->\nafter\n"
	for _, row := range []struct{ name, before, after, err string }{
		{"it is so", begin + "| a |\n" + end, begin + "| a |\n" + end, ""},
		{"another row", begin + "| b |\n" + end, begin + "| a |\n" + end, "a.md:3"},
		{"no row", begin + end, begin + "| a |\n" + end, "a.md:3"},
		{"a row more", begin + "| a |\n| b |\n" + end, begin + "| a |\n" + end, "a.md:4"},
		{"no place", "before\n", "before\n", "no place"},
		{"no end", begin + "| a |\n", begin + "| a |\n", "does not end"},
	} {
		for _, update := range []bool{false, true} {
			must.Do(t, os.WriteFile(path, []byte(row.before), 0o644))
			var said told
			HoldTable(&said, dir, "a.md", "x", "| a |\n", update)
			want, errs := row.before, strings.Join(said.errs, "\n")
			if update {
				want = row.after
			}
			if got := string(must.Get(os.ReadFile(path))(t)); got != want {
				t.Errorf("%s, update %v: %q, want %q", row.name, update, got, want)
			}
			if silent := row.err == "" || update && row.before != row.after; (errs == "") != silent || !silent && !strings.Contains(errs, row.err) {
				t.Errorf("%s, update %v: %q, want %q", row.name, update, errs, row.err)
			}
		}
	}
}

func TestCell(t *testing.T) {
	for text, want := range map[string]string{
		"a | b\nc": `a \| b c`, "*.pt <1h": `\*.pt \<1h`, "`a|*` of *": "`a\\|*` of \\*", "one ` alone *": "one ` alone \\*",
	} {
		if got := Cell(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestReadComments: what stands above and behind is found, in one line, and tests do not count.
func TestReadComments(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte(`package a

// T is
// a type.
type T struct {
	A, B int // both
	// C is above.
	C string
	D bool
}

// M is a word.
type M string

// The words. Without one it is One.
const (
	One M = "one" // the first
	Two M = "two"
)

const other = "x"

// V is a variable.
var V = 1
`), 0o644))
	must.Do(t, os.WriteFile(filepath.Join(dir, "a_test.go"), []byte("package a\n\n// T is of a test.\ntype T int\n"), 0o644))
	c := must.Get(ReadComments(dir))(t)
	const want = "map[M:M is a word. T:T is a type.] map[T:map[A:both B:both C:C is above. D:]] map[M:[{One one the first} {Two two }]] map[M:The words. Without one it is One.]"
	if got := fmt.Sprint(c.Types, c.Fields, c.Constants, c.Groups); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "b.go"), []byte("package a\n\ntype"), 0o644))
	if _, err := ReadComments(dir); err == nil {
		t.Error("a file that can not be read is passed over")
	}
}
