package property

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/test/seed"
)

// drawn is a digest of all that a property is given by rapid, whose actions and generators are of each kind.
func drawn(t *testing.T) string {
	t.Helper()
	all := sha256.New()
	note := func(v any) { _, _ = fmt.Fprintf(all, "%v\n", v) } // never fails
	rapid.Check(t, func(t *rapid.T) {
		note(rapid.Uint64().Draw(t, "number"))
		note(rapid.SliceOf(rapid.IntRange(-5, 5)).Draw(t, "slice"))
		note(rapid.MapOf(rapid.String(), rapid.Float64()).Draw(t, "map"))
		note(rapid.StringMatching(`[a-z]+(/[a-z]+)*`).Draw(t, "text"))
		note(rapid.Permutation([]int{1, 2, 3, 4, 5}).Draw(t, "order"))
		note(rapid.OneOf(rapid.Just(1), rapid.SampledFrom([]int{2, 3})).Draw(t, "choice"))
		action := func(name string) func(*rapid.T) { return func(*rapid.T) { note(name) } }
		t.Repeat(map[string]func(*rapid.T){"a": action("a"), "b": action("b"), "c": action("c"), "d": action("d")})
	})
	return fmt.Sprintf("%x", all.Sum(nil))
}

// TestRapid: properties get the same twice, and what they get does not hang on what has been drawn before.
func TestRapid(t *testing.T) {
	first := drawn(t)
	_ = seed.Rand(t).Uint64()
	if again := drawn(t); again != first {
		t.Error("the second run has drawn something else: -rapid.seed does not hold")
	}
	t.Log("drawn", first) // for TestProcesses
}

// TestDraws tells TestProcesses what package seed draws.
func TestDraws(t *testing.T) { t.Log("drawn", seed.Rand(t).Uint64(), seed.Of(t)) }

// TestFails fails for TestFailure.
func TestFails(t *testing.T) {
	for _, name := range []string{"it's $5 (a)", "other"} {
		t.Run(name, func(t *testing.T) {
			if seed.Rand(t); os.Getenv("SEED_FAILS") != "" && name != "other" {
				t.Error("on purpose")
			}
		})
	}
}

// binary runs this test binary, with nothing of this environment that decides seeds.
func binary(t *testing.T, env, pattern string, args ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-test.v", "-test.run", pattern}, args...)...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "DATAMOVE_") && !strings.HasPrefix(kv, "RAPID_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, strings.Fields(env)...)
	out, _ := cmd.CombinedOutput() // some fail on purpose
	return string(out)
}

// TestProcesses: each process draws the same, unless another seed is named; the command line goes before the environment.
func TestProcesses(t *testing.T) {
	draws := func(env, test string, args ...string) string {
		t.Helper()
		out := binary(t, env, "^"+test+"$", args...)
		found := regexp.MustCompile(`drawn .*`).FindString(out)
		if found == "" {
			t.Fatalf("nothing was drawn: %s", out)
		}
		return found
	}
	for _, test := range []string{"TestRapid", "TestDraws"} {
		once := draws("", test)
		for what, again := range map[string]string{"again": draws("", test), "the usual one": draws("DATAMOVE_SEED=1", test), "an empty one": draws("DATAMOVE_SEED=", test)} {
			if again != once {
				t.Errorf("%s, %s: %s, and %s before", test, what, again, once)
			}
		}
		if other := draws("DATAMOVE_SEED=2", test); other == once || other != draws("DATAMOVE_SEED=2", test) {
			t.Errorf("%s: seed 2 draws %s, and seed 1 %s", test, other, once)
		}
	}
	for what, got := range map[string]string{
		"the command line": draws("DATAMOVE_SEED=7", "TestRapid", "-rapid.seed=2"),
		"RAPID_SEED":       draws("DATAMOVE_SEED=7 RAPID_SEED=2", "TestRapid"),
	} {
		if got != draws("DATAMOVE_SEED=2", "TestRapid") {
			t.Errorf("%s does not go before DATAMOVE_SEED", what)
		}
	}
}

// TestSoak: a soak has more cases, where no flag says how many.
func TestSoak(t *testing.T) {
	usual, soak, few := binary(t, "", "^TestRapid$"), binary(t, "DATAMOVE_SOAK=1", "^TestRapid$"), binary(t, "DATAMOVE_SOAK=1", "^TestRapid$", "-rapid.checks=100")
	passed := regexp.MustCompile(`passed (\d+) tests`)
	for what, row := range map[string]struct{ out, cases string }{"usual": {usual, "100"}, "a soak": {soak, "2000"}, "a soak with a number": {few, "100"}} {
		if found := passed.FindStringSubmatch(row.out); found == nil || found[1] != row.cases {
			t.Errorf("%s: not %s cases: %s", what, row.cases, row.out)
		}
	}
}

// TestFailure: a failure says what repeats it, and the pattern names it alone.
func TestFailure(t *testing.T) {
	out := binary(t, "SEED_FAILS=1 DATAMOVE_SEED=9 DATAMOVE_SOAK=1", "^TestFails$")
	pattern := `^TestFails$/^it'\''s_\$5_\(a\)$`
	for _, want := range []string{
		"make soak SEED=9 ONLY='" + strings.ReplaceAll(pattern, "$", "$$") + "'\n",
		"DATAMOVE_SOAK=1 DATAMOVE_SEED=9 go test -count=1 -run '" + pattern + "' ./test/seed/property\n",
	} {
		if strings.Count(out, want) != 1 {
			t.Errorf("it does not say once %q: %s", want, out)
		}
	}
	again := binary(t, "SEED_FAILS=1 DATAMOVE_SEED=9", strings.ReplaceAll(pattern, `'\''`, `'`))
	if !strings.Contains(again, "on purpose") || strings.Contains(again, "TestFails/other") {
		t.Errorf("the pattern is another one: %s", again)
	}
}
