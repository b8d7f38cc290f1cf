package hostlist

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	_ "datamove.dev/test/seed/property" // of rapid
)

func TestNodes(t *testing.T) {
	for _, row := range []struct{ expr, want string }{
		{"login", "login"},
		{"n1,n2", "n1 n2"},
		{"n[1-3]", "n1 n2 n3"},
		{"n[1-3,07-09],gpu-[1-2]-x[3-4]", "n1 n2 n3 n07 n08 n09 gpu-1-x3 gpu-1-x4 gpu-2-x3 gpu-2-x4"},
		{"n[9-11]", "n9 n10 n11"},
		{"n[08-10]", "n08 n09 n10"},
		{"n[098-101]", "n098 n099 n100 n101"},
		{"n[98-101]", "n98 n99 n100 n101"},
		{"n[3,1,2]", "n3 n1 n2"},
		{"n2,n1,n2", "n2 n1 n2"},
		{"r[1-2]n[1-2].site", "r1n1.site r1n2.site r2n1.site r2n2.site"},
		{"[1-2]", "1 2"},
		{"n[0]", "n0"},
	} {
		got, err := Nodes(row.expr)
		if err != nil || strings.Join(got, " ") != row.want {
			t.Errorf("%s is %v, %v; want %s", row.expr, got, err, row.want)
		}
	}
}

func TestBadNodes(t *testing.T) {
	for _, row := range []struct{ expr, says string }{
		{"", "there is no name"},
		{"n1,", "there is no name"},
		{"n1,,n2", "letter 4: there is no name"},
		{"n[1-3", "not closed"},
		{"n]1", "a name has letters"},
		{"n[[1]]", "in brackets stand numbers"},
		{"n[]", "in brackets stand numbers"},
		{"n[1-]", "in brackets stand numbers"},
		{"n[a-b]", "in brackets stand numbers"},
		{"n[1-2-3]", "in brackets stand numbers"},
		{"n[3-1]", "ends before it begins"},
		{"n[1-003]", "same number of digits"},
		{"n[1-65537]", "more than 65536 names"},
		{"n[1-300]x[1-300]", "more than 65536 names"},
		{"n[1-99999999999999999],m[1-99999999999999999]", "more than 65536 names"},
		{"n[1-9999999999999999999]", "up to 18 digits"},
		{"(null)", "a name has letters"},
		{"../x", "a name has letters"},
		{"-x", "begins with no hyphen"},
		{"n1 n2", "a name has letters"},
		{"n\x1b[1-2]", `"n\x1b"`},
		{strings.Repeat("x", 256), "more than 255 letters"},
		{strings.Repeat("[1-2]", 20), "more than 65536 names"},
		{strings.Repeat("[1]", TextMost/3), "more than 255 letters"},
		{"[1-2]" + strings.Repeat("x", 255), "more than 255 letters"},
		{strings.Repeat("n,", TextMost), "there may be"},
	} {
		got, err := Nodes(row.expr)
		if !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%.40q is %d names, %v; want an error of usage that says %q", row.expr, len(got), err, row.says)
		}
	}
}

func TestMostNodes(t *testing.T) {
	for _, expr := range []string{"n[1-65536]", "n[1-256]x[1-256]", "n[1-32768],m[1-32768]"} {
		if got, err := Nodes(expr); err != nil || len(got) != NamesMost {
			t.Errorf("%s has %d names, %v", expr, len(got), err)
		}
		if _, err := Nodes(expr + ",one"); err == nil {
			t.Errorf("%s and one more is accepted", expr)
		}
	}
}

func TestShort(t *testing.T) {
	for _, row := range []struct{ names, want string }{
		{"", ""},
		{"login", "login"},
		{"n1", "n1"},
		{"n1 n2 n3", "n[1-3]"},
		{"n1 n2 n3 n07 n08 n09 login", "n[1-3,07-09],login"},
		{"n9 n10 n11", "n[9-11]"},
		{"n09 n10", "n[09-10]"},
		{"n3 n1 n2", "n[3,1-2]"},
		{"n1 m1 n2", "n1,m1,n2"},
		{"gpu-1-x3 gpu-1-x4 gpu-2-x3", "gpu-1-x[3-4],gpu-2-x3"},
		{"a b", "a,b"},
	} {
		if got := short(strings.Fields(row.names)); got != row.want {
			t.Errorf("%s is %s in short, want %s", row.names, got, row.want)
		}
	}
}

// TestShortIsReadBack prints lists of names that look alike, and reads them.
func TestShortIsReadBack(t *testing.T) {
	name := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"n", "n0", "gpu-1-x", "", "a."}).Draw(t, "prefix") +
			rapid.StringMatching(`(0?[0-9]{1,2}|99999999999999999999)`).Draw(t, "number") + rapid.SampledFrom([]string{"", "", "", "b"}).Draw(t, "suffix")
	})
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(name, 1, 20).Draw(t, "names")
		text := short(names)
		if got, err := Nodes(text); err != nil || !slices.Equal(got, names) {
			t.Fatalf("%v is %s in short, read back %v, %v", names, text, got, err)
		}
	})
}

//safety:6 with tiering/slurm TestJobOf
func FuzzNodes(f *testing.F) {
	for _, s := range []string{"n[1-3,07-09],gpu-[1-2]-x[3-4]", "n[", "n]", "login,", "n[1-65536]", "[1]", "n[098-101]x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		names, err := Nodes(s)
		if err != nil {
			if !errors.Is(err, mover.ErrUsage) {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		if len(names) == 0 || len(names) > NamesMost {
			t.Fatalf("%q is %d names", s, len(names))
		}
		for _, name := range names {
			if !plain(name) || name == "" || name[0] == '-' || len(name) > NameMost {
				t.Fatalf("%q has the name %q", s, name)
			}
		}
		if text := short(names); len(text) <= TextMost {
			if back, err := Nodes(text); err != nil || !slices.Equal(back, names) {
				t.Fatalf("%q is %q in short, and that is read as %d names, %v", s, text, len(back), err)
			}
		}
	})
}
