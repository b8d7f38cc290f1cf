package document

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// endOfTable stands behind a table that is generated.
const endOfTable = "<!-- end of the table -->\n"

// Hold has a test fail when a document below root is not what the code says now; with update it writes it.
func Hold(t testing.TB, root, file, text string, update bool) {
	t.Helper()
	path := filepath.Join(root, file)
	if update {
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		return
	}
	is, err := os.ReadFile(path)
	must.Tell(t, err)
	if line, there, now := firstDifference(string(is), text); line > 0 {
		t.Errorf("%s:%d is not what the code says: make docs\nthere is %q\nwant     %q", file, line, there, now)
	}
}

// HoldTable is Hold for a table in a document: it stands between a line that begins with "<!-- table of NAME" and the next "<!-- end of the table -->".
func HoldTable(t testing.TB, root, file, name, table string, update bool) {
	t.Helper()
	text := string(must.Get(os.ReadFile(filepath.Join(root, file)))(t))
	begins := strings.Index(text, "<!-- table of "+name)
	if begins < 0 {
		t.Errorf("%s has no place for the table of %s", file, name)
		return
	}
	begins += strings.Index(text[begins:], "\n") + 1
	length := strings.Index(text[begins:], endOfTable)
	if length < 0 {
		t.Errorf("%s: the table of %s does not end", file, name)
		return
	}
	Hold(t, root, file, text[:begins]+table+text[begins+length:], update)
}

// firstDifference is the first line that two texts do not share, from 1; 0 is none.
func firstDifference(a, b string) (line int, inA, inB string) {
	if a == b {
		return 0, "", ""
	}
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(as), len(bs)) {
		inA, inB = "", ""
		if i < len(as) {
			inA = as[i]
		}
		if i < len(bs) {
			inB = bs[i]
		}
		if inA != inB || i >= len(as) || i >= len(bs) {
			return i + 1, inA, inB
		}
	}
	return 0, "", ""
}

// cells are what Markdown would take as its own in a cell of a table.
var cells = strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`, "\n", " ")

// Cell is a text as it stands in a cell of a table. What is in backquotes stays as it is, but for bars.
func Cell(text string) string {
	parts := strings.Split(text, "`")
	for i, part := range parts {
		if i%2 == 0 || len(parts)%2 == 0 {
			parts[i] = cells.Replace(part)
		} else {
			parts[i] = strings.ReplaceAll(part, "|", `\|`)
		}
	}
	return strings.Join(parts, "`")
}

// Row is one of a table. Its cells are written as they are: Cell makes them.
func Row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// Head is the head of a table.
func Head(cells ...string) string {
	return Row(cells...) + "|" + strings.Repeat("---|", len(cells)) + "\n"
}
