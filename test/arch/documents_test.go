package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"datamove.dev/test/document"
	"datamove.dev/test/must"
)

var (
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	given   = regexp.MustCompile(`<a (?:name|id)="([^"]+)"`)
)

// anchors are the parts of a document that a link can name, as GitHub makes them of headings.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(document.Prose(text), -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(m[1]) {
			switch {
			case r == ' ':
				b.WriteByte('-')
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				b.WriteRune(r)
			}
		}
		found[b.String()] = true
	}
	for _, m := range given.FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return found
}

// broken are the links of a document that lead nowhere. Read gives the text of a file, or an error; a link to a folder is one to what is in it.
func broken(name, text string, read func(name string) (string, error)) []string {
	var found []string
	for _, m := range linked.FindAllStringSubmatch(document.Prose(text), -1) {
		link := m[1] + m[2]
		if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
			continue
		}
		path, anchor, _ := strings.Cut(link, "#")
		target, there := name, text
		if path != "" {
			target = filepath.Join(filepath.Dir(name), path)
			var err error
			if there, err = read(target); err != nil {
				found = append(found, link)
				continue
			}
		}
		if anchor != "" && strings.HasSuffix(target, ".md") && !anchors(there)[anchor] {
			found = append(found, link)
		}
	}
	return found
}

// TestLinks: each relative link in a document leads to a file that is there, and to a heading in it.
func TestLinks(t *testing.T) {
	files := must.Get(document.Files(root))(t)
	read := func(name string) (string, error) {
		path := filepath.Join(root, name)
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			return "", err
		}
		text, err := os.ReadFile(path)
		return string(text), err
	}
	links := 0
	for _, name := range files {
		text := must.Get(read(name))(t)
		links += len(linked.FindAllString(text, -1))
		for _, link := range broken(name, text, read) {
			t.Errorf("%s: there is no %s", name, link)
		}
	}
	if links < 50 {
		t.Errorf("only %d links are found", links)
	}
}

// source is a file of the tree that a document names as code, by its path or the end of it.
var source = regexp.MustCompile("`((?:[a-z0-9_]+/)+[a-z0-9_]+\\.(?:go|txt|proto))`")

// TestNamedFiles: each file that a document names by a path is there. Documents name files below a package by the end of their path, as transfer/batcher.go.
func TestNamedFiles(t *testing.T) {
	var all strings.Builder
	must.Do(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		all.WriteString("/" + path + "\n")
		return err
	}))
	found := 0
	for _, name := range must.Get(document.Written(root))(t) {
		text := must.Get(os.ReadFile(filepath.Join(root, name)))(t)
		for _, m := range source.FindAllStringSubmatch(string(text), -1) {
			found++
			if !strings.Contains(all.String(), "/"+m[1]+"\n") {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d files are named", found)
	}
}

// ran is why a block does not run: a script or a test runs it.
var ran = regexp.MustCompile(`^(?:(test/script/\S+)|(\S+) (Test\w+)) runs it`)

// TestRunElsewhere: where a block says that a script or a test runs it, that is there.
func TestRunElsewhere(t *testing.T) {
	found := 0
	for _, name := range must.Get(document.Written(root))(t) {
		for _, b := range must.Get(document.Read(root, name))(t) {
			m := ran.FindStringSubmatch(b.NotRun)
			if m == nil {
				if strings.Contains(b.NotRun, "runs it") {
					t.Errorf("%s: %q names neither a script nor a test of a package", b, b.NotRun)
				}
				continue
			}
			found++
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil || m[1] == "" && !hasTest(t, m[2], m[3]) {
				t.Errorf("%s: there is no %s", b, strings.TrimSpace(m[1]+m[2]+" "+m[3]))
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d blocks are run elsewhere", found)
	}
}

// TestBroken: what leads nowhere is found, and nothing else.
func TestBroken(t *testing.T) {
	files := map[string]string{"docs/a.md": "# One thing, `x`\n\n```sh\n# no heading\n```\n<a name=\"by-hand\"></a>\n", "docs": ""}
	read := func(name string) (string, error) {
		text, ok := files[name]
		if !ok {
			return "", os.ErrNotExist
		}
		return text, nil
	}
	for _, row := range []struct{ text, want string }{
		{"[a](docs/a.md) [b](docs/a.md#one-thing-x) [c](docs) [d](https://x.example/none) [e](docs/a.md#by-hand)", ""},
		{"[a](docs/b.md)", "docs/b.md"},
		{"[a](docs/a.md#two)", "docs/a.md#two"},
		{"[a](docs/a.md#no-heading)", "docs/a.md#no-heading"},
		{"# Here\n[a](#here) [b](#there)", "#there"},
		{`<img src="docs/x.svg">`, "docs/x.svg"},
		{"```text\n[a](docs/b.md)\n```\n", ""},
	} {
		if got := strings.Join(broken("x.md", row.text, read), " "); got != row.want {
			t.Errorf("%s: %q, want %q", row.text, got, row.want)
		}
	}
}
