package lustre

import (
	"fmt"
	"strconv"
	"strings"
)

// CapabilitiesOf is what a version of Lustre can do, by its number: "2.15.8", "2.17". What
// follows the second number does not matter. (The versions: Lustre Operations Manual,
// "L 2.10" and so on beside each feature.)
func CapabilitiesOf(version string) (Capabilities, error) {
	fields := strings.SplitN(strings.TrimSpace(version), ".", 3)
	if len(fields) < 2 {
		return Capabilities{}, badVersion(version)
	}
	major, err := strconv.Atoi(fields[0])
	if err != nil || major < 1 {
		return Capabilities{}, badVersion(version)
	}
	digits := fields[1]
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end > 0 {
		digits = digits[:end] // 2.15-rc1
	}
	minor, err := strconv.Atoi(digits)
	if err != nil || minor < 0 {
		return Capabilities{}, badVersion(version)
	}
	since := func(n int) bool { return major > 2 || major == 2 && minor >= n }
	return Capabilities{Progressive: since(10), OnMDT: since(11), Overstripes: since(13)}, nil
}

func badVersion(version string) error {
	return fmt.Errorf("%q is no version of Lustre: it is written 2.15 or 2.15.8", version)
}
