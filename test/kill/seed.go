package kill

import (
	"math/rand/v2"
	"testing"

	"datamove.dev/test/seed"
)

// Random decides of a test at which event it kills; see test/seed.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	return seed.Rand(t)
}

// Times is how often a test does something: few times for each change, many times in a soak.
func Times(few, many int) int {
	if seed.Soak() {
		return many
	}
	return few
}
