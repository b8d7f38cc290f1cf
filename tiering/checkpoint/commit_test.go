package checkpoint

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestCommitRoundTrip(t *testing.T) {
	c := Commit{Created: time.Unix(1_700_000_000, 0).UTC(), Save: "0badcafe", Level: mover.Read, From: "/nvme/run", Tags: []string{"best"}, Took: 1500 * time.Millisecond,
		Files: []Committing{{Name: "a", Size: 1, Modified: 5, CRC: 0xae8b14860a799888, HasCRC: true}, {Name: "b/\xff", Size: 0}}}
	text := must.Get(c.Encode())(t)
	if got := ParseCommit(text); !reflect.DeepEqual(got, c) {
		t.Errorf("%+v\nwant %+v", got, c)
	}
	if got := ParseCommit(bytes.ReplaceAll(text, []byte(`"size":1`), []byte(`"size":2`))); got.Torn != torn {
		t.Errorf("a changed one: %+v", got)
	}
	for n := range len(text) - 1 {
		if got := ParseCommit(text[:n]); got.Torn == "" {
			t.Fatalf("%d of %d bytes are a whole one", n, len(text))
		}
	}
	if got := ParseCommit([]byte("{}")); got.Torn == "" || got.Torn == torn {
		t.Errorf("of somebody else: %q", got.Torn)
	}
}

// TestReadWithin: a copy counts as read for a time after it was checked, and no longer because a clock is ahead.
func TestReadWithin(t *testing.T) {
	now, day := time.Unix(1_700_000_000, 0), 24*time.Hour
	for _, row := range []struct {
		what             string
		created, checked time.Duration // before now; 0 of the second is never
		trust            time.Duration
		level            mover.Level
		want             bool
	}{
		{"just now", 0, 0, day, mover.Read, true},
		{"yesterday", day, 0, day, mover.Read, false},
		{"yesterday, and read since", 9 * day, time.Hour, day, mover.Server, true},
		{"nothing is trusted", 0, 0, 0, mover.Read, false},
		{"by a clock that is a minute ahead", -time.Minute, 0, day, mover.Read, true},
		{"by a clock that is a year ahead", -365 * day, 0, day, mover.Read, false},
		{"by a clock that is ahead, where nothing is trusted", -time.Minute, 0, 0, mover.Read, false},
		{"it is no copy", 0, 0, day, mover.Unchecked, false},
		{"it is no copy, and was read since", 9 * day, time.Hour, day, mover.Unchecked, true},
	} {
		c := Commit{Created: now.Add(-row.created), Level: row.level}
		if row.checked != 0 {
			c.Checked = now.Add(-row.checked)
		}
		if got := c.ReadWithin(row.trust, now); got != row.want {
			t.Errorf("%s: %v", row.what, got)
		}
	}
}

// TestCommitWins: what is committed is complete in every profile, whatever else speaks against it, as long as all files are what they were.
func TestCommitWins(t *testing.T) {
	for p := range forms {
		dir := made(t, "step_1/__0_0.distcp", "step_1/half.tmp", "iter_0000001/x", "1/x", "checkpoint-1/x", "global_step1/mp_rank_00_model_states.pt")
		for _, set := range []string{"step_1", "iter_0000001", "1", "checkpoint-1", "global_step1"} {
			tree := must.Get(Read(t.Context(), opened(t, dir), Limits{}))(t)
			text := must.Get(CommitOf(tree, set).Encode())(t)
			must.Do(t, os.WriteFile(filepath.Join(dir, set, Committed), text, 0o644))
		}
		v := found(t, p, dir)
		if len(v.Sets) == 0 {
			t.Errorf("%s: none", p)
		}
		for _, s := range v.Sets {
			if !s.Complete || s.Mark != Committed || s.Commit == nil {
				t.Errorf("%s: %s: %s", p, s.Name, s.Why)
			}
		}
	}
	dir := made(t, "a/x=one", "a/y=two")
	tree := must.Get(Read(t.Context(), opened(t, dir), Limits{}))(t)
	text := must.Get(CommitOf(tree, "a").Encode())(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "a", Committed), text, 0o644))
	for _, row := range []struct {
		what string
		do   func() error
		want string
	}{
		{"something is added", func() error { return os.WriteFile(filepath.Join(dir, "a/z"), nil, 0o644) }, "+a@datamove-commit.json"},
		{"written again, as long", func() error { return os.WriteFile(filepath.Join(dir, "a/x"), []byte("eno"), 0o644) }, "-a: x was written again after it was committed"},
		{"shorter", func() error { return os.WriteFile(filepath.Join(dir, "a/x"), []byte("on"), 0o644) }, "-a: x has another size than when it was committed"},
		{"gone", func() error { return os.Remove(filepath.Join(dir, "a/x")) }, "-a: x is not there, and was when it was committed"},
		{"damaged", func() error { return os.WriteFile(filepath.Join(dir, "a", Committed), text[:len(text)/2], 0o644) }, "-a: datamove-commit.json is damaged"},
	} {
		must.Do(t, row.do())
		if got := printed(found(t, Plain, dir)); got != row.want {
			t.Errorf("%s: %s\nwant %s", row.what, got, row.want)
		}
	}
}

// FuzzCommit: whatever stands in a commit, the files that it names are below the set, and it does not take more than was read.
func FuzzCommit(f *testing.F) {
	text, err := Commit{Files: []Committing{{Name: "a/b", Size: 3}}}.Encode()
	must.Do(f, err)
	f.Add(text)
	f.Add([]byte(`{"format":"datamove-commit","version":1,"files":[{"name":"../x"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := ParseCommit(text)
		for _, file := range c.Files {
			if !mover.ValidName(file.Name) || file.Name == "" || strings.HasPrefix(file.Name, "/") || file.Size < 0 {
				t.Errorf("%+v", file)
			}
		}
	})
}
