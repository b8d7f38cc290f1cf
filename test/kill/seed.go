package kill

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// usualSeed is that of every run for which DATAMOVE_SEED names no other one.
const usualSeed = 1

// Random decides of a test at which event it kills: by the seed, and by the name of the test. If the test fails, it
// ends with the command that repeats it.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(usualSeed)
	if text := os.Getenv("DATAMOVE_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("DATAMOVE_SEED: %v", err)
		}
		seed = n
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to repeat: %s", command(t.Name(), seed))
		}
	})
	name := fnv.New64a()
	_, _ = name.Write([]byte(t.Name())) // it never fails
	return rand.New(rand.NewPCG(seed, name.Sum64()))
}

// command repeats a test with its seed.
func command(test string, seed uint64) string {
	env := fmt.Sprintf("DATAMOVE_SEED=%d ", seed)
	if Soak() {
		env += "DATAMOVE_SOAK=1 "
	}
	pkg := "."
	if info, ok := debug.ReadBuildInfo(); ok {
		pkg = strings.TrimSuffix(info.Path, ".test")
	}
	pattern := "^" + strings.ReplaceAll(test, "/", "$/^") + "$"
	return env + "go test -count=1 -run '" + pattern + "' " + pkg
}

// Soak reports whether the sizes are those of a run that may take hours: DATAMOVE_SOAK=1.
func Soak() bool { return os.Getenv("DATAMOVE_SOAK") == "1" }

// Times is how often a test does something: few times for each change, many times in a soak.
func Times(few, many int) int {
	if Soak() {
		return many
	}
	return few
}
