package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"datamove.dev/test/document"
	"datamove.dev/test/must"
)

var (
	// quoted is what a program says, and code.
	quoted = regexp.MustCompile("\"[^\"\\n]*\"|`[^`\\n]*`")
)

// personsIn are the words of persons in the sentences of a document.
func personsIn(text string) []string {
	return persons.FindAllString(quoted.ReplaceAllString(document.Prose(text), ""), -1)
}

// TestPersons: no sentence of a document has a person as its subject, and none of what is generated of comments, help texts and markers of tests.
func TestPersons(t *testing.T) {
	for _, name := range must.Get(document.Files(root))(t) {
		if name == "CHANGELOG.md" {
			continue // it says what was, in the words of then
		}
		if found := personsIn(string(must.Get(os.ReadFile(filepath.Join(root, name)))(t))); len(found) > 0 {
			t.Errorf("%s has %q: the subject of a sentence is a component or a role", name, found)
		}
	}
	for _, row := range []struct{ text, want string }{
		{"Whoever asks, and nobody else.", "Whoever nobody"},
		{"The whole whole of it.", ""},
		{"```text\nwho\n```\n", ""},
		{"| `who` | nobody |\n", "nobody"},
		{`It prints "nobody is registered".`, ""},
	} {
		if got := strings.Join(personsIn(row.text), " "); got != row.want {
			t.Errorf("%q has %q, want %q", row.text, got, row.want)
		}
	}
}
