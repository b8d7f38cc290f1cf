package kill

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	Main(map[string]func(string) error{"count": count, "three": three, "ask": ask, "fails": func(string) error { return os.ErrInvalid }})
	os.Exit(m.Run())
}

// count writes numbers to a file, for ever.
func count(file string) error {
	for n := 1; ; n++ {
		if err := os.WriteFile(file, []byte(fmt.Sprint(n)), 0o600); err != nil { // two calls
			return err
		}
		Say(n)
	}
}

// three makes three files, each whole at once.
func three(dir string) error {
	for n := range 3 {
		file := filepath.Join(dir, fmt.Sprint(n))
		if err := os.WriteFile(file+".new", []byte("whole"), 0o600); err != nil {
			return err
		}
		if err := os.Rename(file+".new", file); err != nil {
			return err
		}
		Say(n)
	}
	return nil
}

// TestAtLine: what was said is heard, in order, also after the line at which it was killed.
func TestAtLine(t *testing.T) {
	var heard []string
	file := filepath.Join(t.TempDir(), "file")
	AtLine(t, "count", file, "", 7, func(line string) { heard = append(heard, line) })
	if len(heard) < 7 {
		t.Fatal(heard)
	}
	for i, line := range heard {
		if line != fmt.Sprint(i+1) {
			t.Errorf("line %d is %q", i+1, line)
		}
	}
}

// ask counts as count does, and asks before each number.
func ask(file string) error {
	for n := 1; ; n++ {
		Ask("before", n)
		if err := os.WriteFile(file, []byte(fmt.Sprint(n)), 0o600); err != nil {
			return err
		}
		Say("after", n)
	}
}

// TestAsk: a process that asks is killed where it does.
func TestAsk(t *testing.T) {
	for n := 1; n <= 4; n++ {
		file, heard := filepath.Join(t.TempDir(), "file"), 0
		AtLine(t, "ask", file, "before", n, func(string) { heard++ })
		text, _ := os.ReadFile(file) // there is none before the first
		if want := strings.TrimSuffix(fmt.Sprint(n-1), "0"); string(text) != want || heard != 2*n-1 {
			t.Errorf("killed before %d, after %d lines: the file has %q", n, heard, text)
		}
	}
}

// TestAtCall: a call at which a process is killed is not done, and all before it are. It is the same each time.
func TestAtCall(t *testing.T) {
	for n := 1; n <= 6; n++ {
		file := filepath.Join(t.TempDir(), "file")
		said, killed := AtCall(t, "count", file, n)
		text, _ := os.ReadFile(file) // there is none at the first call
		want := ""
		if n%2 == 1 && n > 1 {
			want = fmt.Sprint(n / 2)
		}
		if !killed || len(said) != (n-1)/2 || string(text) != want {
			t.Errorf("at call %d: killed %v, said %q, the file has %q, want %q", n, killed, said, text, want)
		}
	}
	dir := t.TempDir()
	if n := Calls(t, "three", dir); n != 9 {
		t.Errorf("%d calls, want 9", n)
	}
	if said, killed := AtCall(t, "three", dir, 10); killed || !slices.Equal(said, []string{"0", "1", "2"}) {
		t.Errorf("of nine calls it was killed at the tenth: %v, %q", killed, said)
	}
}

// TestPrefixes: each state between two calls is seen, and each torn write, and is what was said.
func TestPrefixes(t *testing.T) {
	dir, states, torn := t.TempDir(), 0, map[string]int{}
	Prefixes(t, "three", dir, dir, func(t testing.TB, left string, said []string) {
		states++
		whole, _ := filepath.Glob(left + "/?")
		if len(whole) != len(said) {
			t.Errorf("%q are there, %q were said", whole, said)
		}
		for _, file := range whole {
			if text, err := os.ReadFile(file); string(text) != "whole" || err != nil {
				t.Errorf("%s has %q, %v", file, text, err)
			}
		}
		drafts, _ := filepath.Glob(left + "/*.new")
		for _, file := range drafts {
			text, _ := os.ReadFile(file)
			torn[string(text)]++
		}
	})
	if want := map[string]int{"": 3, "wh": 3, "whol": 3, "whole": 3}; states != 16 || !maps.Equal(torn, want) {
		t.Errorf("%d states of 9 calls, with drafts %v", states, torn)
	}
}

// TestRepeat: the seed decides at which event a test kills.
func TestRepeat(t *testing.T) {
	t.Setenv("DATAMOVE_SEED", "7")
	t.Setenv("DATAMOVE_SOAK", "1")
	if a, b := Random(t).Uint64(), Random(t).Uint64(); a != b || Times(3, 25) != 25 {
		t.Error("the same seed decides otherwise")
	}
}
