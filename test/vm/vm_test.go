package vm

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// A small kernel: b needs c and then d, tries an alias that two modules have, and one
// that nobody has.
var depmod = map[string]string{
	"modules.dep":     "kernel/a-one.ko: kernel/b.ko kernel/c.ko kernel/d.ko.xz\nkernel/b.ko: kernel/c.ko kernel/d.ko.xz\nkernel/c.ko: kernel/d.ko.xz\nkernel/d.ko.xz:\nkernel/fast.ko:\nkernel/slow.ko: kernel/d.ko.xz\n",
	"modules.softdep": "# comment\nsoftdep b pre: crypto-sum nowhere post: a_one\n",
	"modules.alias":   "# comment\nalias crypto-sum fast\nalias crypto-sum slow\nalias pci:v*d* c\n",
	"modules.builtin": "kernel/in.ko\n",
}

func kernelDir(t *testing.T) string {
	dir := t.TempDir()
	for name, text := range depmod {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func TestLoadOrder(t *testing.T) {
	dir := kernelDir(t)
	for _, row := range []struct {
		names []string
		want  string
	}{
		{[]string{"d"}, "d.ko.xz"},
		{[]string{"c", "d"}, "d.ko.xz c.ko"},
		{[]string{"in"}, ""},
		{[]string{"b"}, "fast.ko? d.ko.xz? slow.ko? c.ko b.ko"},
		{[]string{"a_one"}, "d.ko.xz c.ko fast.ko? slow.ko? b.ko a-one.ko"},
		{[]string{"a-one", "b"}, "d.ko.xz c.ko fast.ko? slow.ko? b.ko a-one.ko"},
	} {
		got := must.Get(loadOrder(dir, row.names))(t)
		var files []string
		for _, m := range got {
			name := filepath.Base(m.file)
			if m.soft {
				name += "?"
			}
			files = append(files, name)
		}
		if text := strings.Join(files, " "); text != row.want {
			t.Errorf("%q are loaded as %q, want %q", row.names, text, row.want)
		}
	}
	if _, err := loadOrder(dir, []string{"zfs"}); err == nil || !strings.Contains(err.Error(), "zfs") {
		t.Errorf("a module that is not there: %v", err)
	}
}

func TestCompareReleases(t *testing.T) {
	got := []string{"6.12.3-amd64", "6.1.0-10-amd64", "6.1.0-9-amd64", "5.10.0-44-amd64", "6.1.0-10-rt-amd64"}
	slices.SortFunc(got, compareReleases)
	want := []string{"5.10.0-44-amd64", "6.1.0-9-amd64", "6.1.0-10-amd64", "6.1.0-10-rt-amd64", "6.12.3-amd64"}
	if !slices.Equal(got, want) {
		t.Errorf("from old to new: %q, want %q", got, want)
	}
}

func TestParseLibraries(t *testing.T) {
	got, err := parseLibraries("\tlinux-vdso.so.1 (0x00007ffe)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n")
	want := []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if _, err := parseLibraries("\tlibgone.so => not found\n"); err == nil || !strings.Contains(err.Error(), "libgone") {
		t.Errorf("a library that is not there: %v", err)
	}
}

// TestArchive: an archive has what was put into it, once, below directories of its
// own, as cpio(1) sees it.
func TestArchive(t *testing.T) {
	if _, err := exec.LookPath("cpio"); err != nil {
		t.Skip("needs cpio: test/setup installs it")
	}
	name := filepath.Join(t.TempDir(), "archive")
	a, err := newArchive(name)
	must.Do(t, err)
	a.links()
	a.text("/a/b/odd", "five!", 0o640)
	a.text("a/b/odd", "again", 0o640)
	a.copy("/init", os.Args[0], 0o755)
	a.text("/empty", "", 0o600)
	must.Do(t, a.close())
	f, err := os.Open(name)
	must.Do(t, err)
	defer f.Close()
	dir := t.TempDir()
	cmd := exec.Command("cpio", "--extract", "--quiet", "--no-absolute-filenames")
	cmd.Dir, cmd.Stdin = dir, f
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cpio: %v\n%s", err, out)
	}
	var names []string
	err = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(path, dir))
		return err
	})
	must.Do(t, err)
	if got, want := strings.Join(names, " "), " /a /a/b /a/b/odd /bin /empty /init /lib /lib64 /sbin /usr /usr/bin /usr/lib /usr/lib64 /usr/sbin"; got != want {
		t.Errorf("it has\n\t%s, want\n\t%s", got, want)
	}
	for file, want := range map[string]string{"a/b/odd": "five!", "init": read(t, os.Args[0]), "empty": ""} {
		if got := read(t, filepath.Join(dir, file)); got != want {
			t.Errorf("%s has %d bytes, want %d", file, len(got), len(want))
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "a/b/odd")); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode: %v, %v", info, err)
	}
	if target, err := os.Readlink(filepath.Join(dir, "lib64")); target != "usr/lib64" {
		t.Errorf("lib64 goes to %q, %v", target, err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(name))(t)
	return string(text)
}

// TestVerdicts: every test of a binary has the verdict that it had, and one that did
// not come to its end has none.
func TestVerdicts(t *testing.T) {
	const mark = "\x16" // what -test.v=test2json puts before its own lines
	root, err := verdicts(mark + "=== RUN   TestA\n" + mark + "=== RUN   TestA/low\n    a_test.go:3: needs luck\n" +
		mark + "--- SKIP: TestA/low (0.00s)\n" + mark + "--- PASS: TestA (0.00s)\n" +
		mark + "=== RUN   TestB\n    b_test.go:1: wrong\n" + mark + "--- FAIL: TestB (0.00s)\n" +
		mark + "=== RUN   TestC\npanic: gone\n")
	must.Do(t, err)
	for name, want := range map[string]string{"TestA": "pass", "TestA/low": "skip", "TestB": "fail", "TestC": ""} {
		if got := root.at(name); got.action != want || got.name != name {
			t.Errorf("%s: %q is %q, want %q", name, got.name, got.action, want)
		}
	}
	if said := root.at("TestA/low").output.String(); !strings.Contains(said, "needs luck") {
		t.Errorf("TestA/low said %q", said)
	}
	if want := []string{"TestA", "TestB", "TestC"}; !slices.Equal(root.order, want) {
		t.Errorf("the order is %q, want %q", root.order, want)
	}
}
