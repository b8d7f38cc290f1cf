package mover

import (
	"regexp"
	"sync"
)

// Pattern returns a regular expression that is compiled when it is first asked for, and panics then if it is not one. A command pays for all that is made
// before main at each of its starts, and bounded repetitions ({2,40}) take up to a millisecond each.
func Pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
