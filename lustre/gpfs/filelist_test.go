package gpfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"datamove.dev/test/must"
)

func readList(text string) (all []Listed, err error) {
	for l, e := range ReadList(strings.NewReader(text)) {
		if e != nil {
			return all, e
		}
		all = append(all, l)
	}
	return all, nil
}

func TestReadList(t *testing.T) {
	got, err := readList("41472 2127283612 0  1048576 -- %2Fgpfs%2Ffs1%2Fvision%2Fa%20--%20b%0A%FF\n" +
		"18446744073709551615 4294967295 7 0 -- /gpfs/fs1/plain\n")
	want := []Listed{
		{Inode: 41472, Generation: 2127283612, Bytes: 1 << 20, Path: "/gpfs/fs1/vision/a -- b\n\xff"},
		{Inode: 1<<64 - 1, Generation: 1<<32 - 1, Snapshot: 7, Path: "/gpfs/fs1/plain"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := readList(""); err != nil || len(got) != 0 {
		t.Errorf("an empty list: %v, %v", got, err)
	}
}

// TestBadList: a list that can not be right ends with an error at the line where it is not.
func TestBadList(t *testing.T) {
	const good = "1 2 3 4 -- /a\n"
	for name, line := range map[string]string{
		"cut off":              "1 2 3 4 -- /a",
		"no path":              "1 2 3 4 -- \n",
		"no separator":         "1 2 3 4 /a\n",
		"no size":              "1 2 3 -- /a\n",
		"a field more":         "1 2 3 4 5 -- /a\n",
		"a relative path":      "1 2 3 4 -- a\n",
		"a path that climbs":   "1 2 3 4 -- /a%2F..%2Fb\n",
		"a path with a hole":   "1 2 3 4 -- /a//b\n",
		"a NUL":                "1 2 3 4 -- /a%00\n",
		"a bad escape":         "1 2 3 4 -- /a%4\n",
		"a negative inode":     "-1 2 3 4 -- /a\n",
		"a large generation":   "1 4294967296 3 4 -- /a\n",
		"a large size":         "1 2 3 9223372036854775808 -- /a\n",
		"a size that is none":  "1 2 3 x -- /a\n",
		"an empty line":        "\n",
		"a path that is long":  "1 2 3 4 -- /" + strings.Repeat("a", 4096) + "\n",
		"a line without limit": "1 2 3 4 -- /" + strings.Repeat("a", 1<<20) + "\n",
	} {
		got, err := readList(good + line)
		if !errors.Is(err, ErrReply) || !strings.Contains(err.Error(), "line 2") || len(got) != 1 || len(err.Error()) > 1000 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	broken := errors.New("the disk broke")
	for _, err := range ReadList(io.MultiReader(strings.NewReader(good), iotest.ErrReader(broken))) {
		if err != nil && !errors.Is(err, broken) {
			t.Errorf("it is %v", err)
		}
	}
}

// FuzzList: what is read is a path below the root without a part that climbs, and writing
// it again gives the same.
func FuzzList(f *testing.F) {
	f.Add("41472 2127283612 0  1048576 -- %2Fgpfs%2Ffs1%2Fa%20b\n")
	f.Add("1 2 3 4 -- /a\n1 2 3 4 -- /..\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := readList(text)
		if err != nil && !errors.Is(err, ErrReply) {
			t.Errorf("%v is no ErrReply", err)
		}
		var again strings.Builder
		for _, l := range all {
			if !fs.ValidPath(strings.ToValidUTF8(l.Path[1:], "x")) || strings.IndexByte(l.Path, 0) >= 0 || l.Bytes < 0 {
				t.Errorf("it has %+q", l.Path)
			}
			fmt.Fprintf(&again, "%d %d %d %d -- %s\n", l.Inode, l.Generation, l.Snapshot, l.Bytes, url.PathEscape(l.Path))
		}
		if same, err := readList(again.String()); err != nil || !reflect.DeepEqual(all, same) {
			t.Errorf("%+v, and again %+v, %v", all, same, err)
		}
	})
}

// TestSkipped: a scan that could not look at everything says so, as its page in the documentation
// shows it.
func TestSkipped(t *testing.T) {
	const line = "[I] Directories scan: 10 files, 1 directories, 0 other objects, %s 'skipped' files and/or errors.\n"
	for said, want := range map[string]int64{
		"":                               -1,
		"[I] Loaded policy rules":        -1,
		fmt.Sprintf("[I] x\n"+line, "0"): 0,
		fmt.Sprintf(line+strings.Replace(line, "Directories", "Inodes", 1), "3", "4"): 7,
		fmt.Sprintf(line, "9223372036854775808"):                                      -1,
		fmt.Sprintf(line+line, "9223372036854775807", "1"):                            1<<63 - 1,
		"a file [I] Directories scan: 0 files, 5 'skipped' files and/or errors":       -1,
	} {
		if got := skipped(said); got != want {
			t.Errorf("%q: %d, and not %d", said, got, want)
		}
	}
}

// TestFind: how mmapplypolicy is called, what it gets, and what it left.
func TestFind(t *testing.T) {
	c := commands(t)
	c.play(t, "mmapplypolicy", played{Out: "[I] done\n"})
	scratch := t.TempDir()
	lists, err := c.Find(t.Context(), Scan{Where: "/gpfs/fs1/vision", Nodes: []string{"n1", "nsdNodes"}, Shared: "/gpfs/fs1/.tmp", Threads: 8, Inside: true, Scratch: scratch},
		[]Rule{{Name: "cold", Verb: List}, {Name: "warm", Verb: List}})
	must.Do(t, err)
	if lists.Skipped != -1 {
		t.Errorf("it skipped %d", lists.Skipped)
	}
	want := fmt.Sprintf(`["/gpfs/fs1/vision","-N","n1,nsdNodes","-g","/gpfs/fs1/.tmp","-a","8","--scope","fileset","-L","1","-P","%s/rules","-I","defer","-f","%s/found"]`, lists.dir, lists.dir)
	if calls := c.called(t, "mmapplypolicy"); len(calls) != 1 || calls[0] != want {
		t.Errorf("it was called %q", calls)
	}
	rules, err := os.ReadFile(filepath.Join(lists.dir, "rules"))
	info, err2 := os.Stat(lists.dir)
	if err != nil || err2 != nil || !strings.Contains(string(rules), "RULE 'warm'") || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v %v %q", err, err2, info.Mode(), rules)
	}
	must.Do(t, os.WriteFile(filepath.Join(lists.dir, "found.list.cold"), []byte("1 2 0 4 -- %2Fa\n"), 0o600))
	for rule, want := range map[string]int{"cold": 1, "warm": 0} {
		n := 0
		for l, err := range lists.Read(rule) {
			if n++; err != nil || l.Path != "/a" {
				t.Errorf("%s: %+v, %v", rule, l, err)
			}
		}
		if n != want {
			t.Errorf("%s has %d", rule, n)
		}
	}
	for _, err := range lists.Read("../rules") {
		if !errors.Is(err, ErrName) {
			t.Errorf("another list: %v", err)
		}
	}
	must.Tell(t, lists.Close())
	must.Tell(t, c.Move(t.Context(), Scan{Where: "fs1", Scratch: scratch}, []Rule{{Name: "down", Verb: Migrate, To: "data"}}, true))
	if calls := c.called(t, "mmapplypolicy"); !strings.Contains(calls[len(calls)-1], `"-I","test"`) {
		t.Errorf("it was called %q", calls)
	}

	c.play(t, "mmapplypolicy", played{Err: "[E:1] syntax\n", Exit: 1})
	if _, err := c.Find(t.Context(), Scan{Where: "fs1", Scratch: scratch}, []Rule{{Name: "cold", Verb: List}}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "syntax") {
		t.Errorf("it is %v", err)
	}
	for _, s := range []Scan{{}, {Where: "-x"}, {Where: "/a/.."}, {Where: "fs1", Nodes: []string{"-x"}}, {Where: "fs1", Shared: "x"}} {
		if _, err := c.Find(t.Context(), s, []Rule{{Name: "cold", Verb: List}}); !errors.Is(err, ErrName) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := c.Find(t.Context(), Scan{Where: "fs1"}, []Rule{{Name: "down", Verb: Migrate, To: "data"}}); !errors.Is(err, ErrName) {
		t.Errorf("a migration is found: %v", err)
	}
	if err := c.Move(t.Context(), Scan{Where: "fs1"}, []Rule{{Name: "cold", Verb: List}}, false); !errors.Is(err, ErrName) {
		t.Errorf("a list is moved: %v", err)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
