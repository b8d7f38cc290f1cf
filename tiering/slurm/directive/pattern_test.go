package directive

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
)

var values = Values{Job: "17", Array: "12", Task: "3", User: "ada", Name: "train", Node: "n1"}

//safety:6 with tiering/slurm TestJobOf
func TestExpand(t *testing.T) {
	named := func(name string) Values { v := values; v.Name = name; return v }
	for _, row := range []struct {
		in     string
		values Values
		want   string
	}{
		{"project:x", values, "project:x"},
		{"project:%u/%x/%A_%a/%j-{node}", values, "project:ada/train/12_3/17-n1"},
		{"project:%A", Values{Job: "17"}, "project:17"},
		{"/home/%u/100%%", values, "/home/ada/100%"},
		{"s3://bucket/%x/", values, "s3://bucket/train/"},
		{"dataset:x", Values{}, "dataset:x"},
		{"project:%%x", values, "project:%x"},
		{"project:%x", named("50%j"), "project:50%j"},
		{"project:%x", named("größe (neu)"), "project:größe (neu)"},
		{"project:%x", named("..."), "project:..."},
		{"project:a%x", named(".."), "project:a.."},
	} {
		if got, err := row.values.Expand(place(t, row.in)); err != nil || got.String() != row.want {
			t.Errorf("%s is %s, %v; want %s", row.in, got, err, row.want)
		}
	}
	for _, row := range []struct {
		in     string
		values Values
		want   string
	}{
		{"project:%x", named(".."), "project:%x: with the values of this job a name in it is ..: it would be another directory"},
		{"project:%x/y", named("."), "it would be another directory"},
		{"/home/.%x", named("."), "it would be another directory"},
		{"project:%x", named("a/b"), "%x, the job's name, is a/b, and a slash would lead to another directory"},
		{"project:%x", named("/etc"), "a slash would lead to another directory"},
		{"s3://bucket/%x", named("a\nb"), `%x, the job's name, is "a\nb", and it has control characters`},
		{"project:%x", named("a\x00"), "it has control characters"},
		{"project:%x", named("\xff"), "it is not UTF-8"},
		{"project:%x", named(""), "%x, the job's name, is not known here"},
		{"project:%a", Values{Job: "17"}, "%a, the task of the array, is not known here"},
		{"project:{node}", Values{Job: "17"}, "{node}, the node, is not known here"},
		{"project:%x", named(".datamove"), "such names are the mover's own"},
		{"project:%xmove-x", named(".data"), "such names are the mover's own"},
		{"project:%x%x", named(strings.Repeat("x", 128)), "it has more than 255 bytes"},
		{"project:%q", values, "there is no pattern %q; there are %j"},
		{"project:x%", values, "there is no pattern %; there are"},
	} {
		if got, err := row.values.Expand(place(t, row.in)); !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s is %s, %v; want %s", row.in, got, err, row.want)
		}
	}
}

// TestArrayOf finds the id of an array in what Slurm has made of a script.
func TestArrayOf(t *testing.T) {
	const head = "#!/bin/sh\n"
	for _, row := range []struct{ script, replaced, want string }{
		{"#DATAMOVE stage-out=scratch:out to=project:%A/%a", "#DATAMOVE stage-out=scratch:out to=project:12/3", "12"},
		{"#DATAMOVE stage-out=scratch:out to=project:%A/%a", "#DATAMOVE stage-out=scratch:out to=project:0/4294967294", ""},
		{"# %A\n#DATAMOVE purge=fast:x.*(\n#DATAMOVE purge=fast:%x/%A-%A%%/%q{node}", "# %A\n#DATAMOVE purge=fast:x.*(\n#DATAMOVE purge=fast:9 9/8/12-12%/{node}", "12"},
		{"#DATAMOVE purge=fast:%%A", "#DATAMOVE purge=fast:%A", ""},
		{"#DATAMOVE purge=fast:%A", "#DATAMOVE purge=fast:other", ""},
		{"", "#DATAMOVE purge=fast:12", ""},
	} {
		if got := ArrayOf(head+row.script, head+row.replaced); got != row.want {
			t.Errorf("%q, replaced %q: %q; want %q", row.script, row.replaced, got, row.want)
		}
	}
}

func place(t *testing.T, text string) location.Location {
	t.Helper()
	l := must.Get(location.Parse(text))(t)
	return l
}

// stays fails when what was expanded is not where the text shows it: it has the same
// root and as many names, and those without a pattern are the same.
func stays(t interface{ Fatalf(string, ...any) }, before, after location.Location) {
	x, y := segments(before.Below()), segments(after.Below())
	if before.Scheme != after.Scheme || before.Tier != after.Tier || before.Bucket != after.Bucket || len(x) != len(y) {
		t.Fatalf("%s became %q", before, after)
	}
	for i := range x {
		if y[i] == "." || y[i] == ".." || !strings.Contains(x[i], "%") && x[i] != y[i] {
			t.Fatalf("%s became %q", before, after)
		}
	}
	if back, err := location.Parse(after.String()); err != nil || back != after {
		t.Fatalf("%s became %q, read back %q, %v", before, after, back, err)
	}
}

//safety:6 with tiering/slurm TestJobOf
func FuzzExpand(f *testing.F) {
	for _, name := range []string{"train", "..", "a/b", "%j", "", "\x00", "a b", ".", "ü:"} {
		f.Add("project:%x/%j", name)
		f.Add("/a/.%x", name)
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		before, what, _ := parseLocation(text, true)
		if what != "" || before.IsDataset() {
			return
		}
		v := values
		v.Name = name
		after, err := v.Expand(before)
		if err != nil {
			if !errors.Is(err, mover.ErrUsage) {
				t.Errorf("%v", err)
			}
			return
		}
		stays(t, before, after)
	})
}

// TestPerhaps holds names apart only if no values make them one.
//
//safety:5/jobs with TestPurge
func TestPerhaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.StringMatching(`(a|b|%x|%j|%%){1,3}`)
		a, b := segment.Draw(t, "a"), segment.Draw(t, "b")
		v := Values{Job: rapid.StringMatching(`[ab]{1,2}`).Draw(t, "job"), Name: rapid.StringMatching(`[ab%]{1,2}`).Draw(t, "name")}
		x := must.Get(v.Expand(location.Location{Scheme: location.InTier, Tier: "t", Path: a}))(t)
		y := must.Get(v.Expand(location.Location{Scheme: location.InTier, Tier: "t", Path: b}))(t)
		if x == y && !perhaps(a, b) {
			t.Fatalf("%s and %s are both %s", a, b, x)
		}
	})
}
