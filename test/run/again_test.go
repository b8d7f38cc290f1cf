package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A module whose tests fail in each way that there is, the flaky one only when it runs for the first time.
var files = map[string]string{
	"go.mod": "module datamove.dev/odd\n\ngo 1.26\n",
	"flaky/x_test.go": `package flaky

import ("os"; "testing")

func TestGood(t *testing.T) {}

func TestFlaky(t *testing.T) {
	t.Run("within", func(t *testing.T) {
		if f, err := os.OpenFile(os.Getenv("ODD_ONCE"), os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
			t.Fatal("the first time")
		}
	})
}
`,
	"broken/x_test.go":  "package broken\n\nimport \"testing\"\n\nfunc TestBroken(t *testing.T) { t.Fatal(\"each time\") }\n",
	"panics/x_test.go":  "package panics\n\nimport \"testing\"\n\nfunc TestPanics(t *testing.T) { panic(\"at last\") }\n",
	"leaves/x_test.go":  "package leaves\n\nimport (\"os\"; \"testing\")\n\nfunc TestLeaves(t *testing.T) { os.Exit(3) }\n",
	"after/x_test.go":   "package after\n\nimport (\"os\"; \"testing\")\n\nfunc TestGood(t *testing.T) {}\n\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(1) }\n",
	"invalid/x_test.go": "package invalid\n\nfunc TestInvalid(t *testing.T) {}\n",
}

func TestAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: it builds modules")
	}
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		packages, left string
		flaky          bool // TestFlaky is named as that
		sum            string
	}{
		{"./flaky", "1", true, "3 passed, 0 failed, 0 skipped"},
		{"./flaky", "0", false, "1 passed, 2 failed, 0 skipped"},
		{"./flaky ./broken", "2", true, "3 passed, 1 failed, 0 skipped"},
		{"./flaky ./broken", "1", false, "1 passed, 3 failed, 0 skipped"}, // too many
		{"./flaky ./panics", "2", false, "1 passed, 3 failed, 0 skipped"},
		{"./flaky ./leaves", "2", false, "1 passed, 3 failed, 0 skipped"},
		{"./flaky ./after", "2", false, "2 passed, 2 failed, 0 skipped"},
		{"./flaky ./invalid", "2", false, "1 passed, 2 failed, 0 skipped"},
	} {
		once := filepath.Join(t.TempDir(), "once")
		t.Setenv("ODD_ONCE", once)
		var out strings.Builder
		args := append([]string{"-modules", dir, "-again", c.left, "-vet=off", "-count=1"}, strings.Fields(c.packages)...)
		err := run(args, true, &out, &out)
		good := strings.Contains(c.sum, " 0 failed")
		if (err == nil) != good || !strings.HasSuffix(out.String(), c.sum+"\n") ||
			strings.Contains(out.String(), "flaky: datamove.dev/odd/flaky TestFlaky") != c.flaky || !strings.Contains(out.String(), "the first time") {
			t.Errorf("%s, %s again: %v\n%s", c.packages, c.left, err, out.String())
		}
	}
}
