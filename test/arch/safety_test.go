package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// cited finds `package TestName`, `package FuzzName` and `test/script/name.txt`.
var cited = regexp.MustCompile("`([a-z0-9/-]+) ((?:Test|Fuzz)[A-Za-z0-9_]+)`|`(test/[a-z0-9/.-]+)`")

// TestSafetyNamesWhatIsThere holds SAFETY.md to the tree: each test and script that
// it names is where it says.
func TestSafetyNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "SAFETY.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := cited.FindAllStringSubmatch(string(text), -1)
	if len(found) < 50 {
		t.Fatalf("SAFETY.md names %d tests and scripts; is its notation another one?", len(found))
	}
	for _, f := range found {
		if dir, name, path := f[1], f[2], f[3]; path != "" {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("SAFETY.md names %s: %v", path, err)
			}
		} else if !hasTest(t, dir, name) {
			t.Errorf("SAFETY.md names %s of %s, which is not there", name, dir)
		}
	}
}

// hasTest looks for a test function in the folder of a package.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
