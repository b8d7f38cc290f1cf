package units

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseIDs reads a range of project IDs, FIRST-LAST, both ends in it. 0 is what is in no project, and 4294967295 means "none" to the kernel.
func ParseIDs(s string) (first, last uint32, err error) {
	from, to, _ := strings.Cut(s, "-")
	a, err := strconv.ParseUint(strings.TrimSpace(from), 10, 32)
	b, err2 := strconv.ParseUint(strings.TrimSpace(to), 10, 32)
	if err != nil || err2 != nil || a == 0 || b < a || b >= 1<<32-1 {
		return 0, 0, fmt.Errorf("%q: want a range of project IDs, FIRST-LAST, from 1 on", s)
	}
	return uint32(a), uint32(b), nil
}
