// Package seed decides the random choices of tests. It owns one number: the same in
// each run, so that a test does the same in each run, or that of DATAMOVE_SEED.
//
// A test draws from Rand(t), or gives Of(t) to what wants a number. Both come from the
// number and the name of the test, so that another test changes nothing for this one.
// A failure of such a test says what repeats it.
//
// Package property has the properties of pgregory.net/rapid begin with the number, too.
//
// Soak says whether large campaigns have the sizes of "make soak".
package seed

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	// Variable of the environment has another seed, a number from 1. Empty is as if it was not set.
	Variable = "DATAMOVE_SEED"
	// SoakVariable of the environment, 1, gives campaigns their large sizes.
	SoakVariable = "DATAMOVE_SOAK"

	usual = 1 // the seed without Variable
)

var home, _ = os.Getwd() // of a test binary the directory of its package, whatever a test changes to later

func read(text string) uint64 {
	if text == "" {
		return usual
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		panic(fmt.Sprintf("%s: %q is no number from 1", Variable, text))
	}
	return n
}

// Number returns the seed of this run. It reads the environment each time, so that go test knows what a result
// that it keeps hangs on.
func Number() uint64 { return read(os.Getenv(Variable)) }

// Of returns the seed of a test.
func Of(t testing.TB) uint64 {
	t.Helper()
	number := Number()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(repeats(number, t.Name()))
		}
	})
	return of(number, t.Name())
}

func of(number uint64, name string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", number, name) // never fails
	return h.Sum64()
}

// Rand returns the random numbers of a test. Two calls for one test give the same ones.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Of(t), 0))
}

// Soak reports whether campaigns have the sizes of "make soak", which take minutes to hours, and not those of
// each run. What testing.Short makes smaller still is the test's business.
func Soak() bool { return os.Getenv(SoakVariable) == "1" }

// repeats says what repeats a test.
func repeats(number uint64, name string) string {
	var pattern []string
	for part := range strings.SplitSeq(name, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	only, sizes := strings.Join(pattern, "/"), ""
	if Soak() {
		sizes = SoakVariable + "=1 "
	}
	return fmt.Sprintf("to repeat: make soak SEED=%d ONLY=%s\nor: %s%s=%d go test -count=1 -run %s %s", number, quoted(strings.ReplaceAll(only, "$", "$$")), sizes, Variable, number, quoted(only), folder())
}

// quoted is a word for a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// folder is that of the package under test, from the root of its module.
func folder() string {
	for dir := home; dir != "/" && dir != "" && dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return "." + strings.TrimPrefix(home, dir)
		}
	}
	return "."
}
