package document

import (
	"fmt"
	"regexp"
	"strings"
)

// varies are the parts of an output that differ from run to run, each with what they are compared as. All else is compared as it is, but for how many blanks there are.
var varies = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`20\d\d-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?Z?)?`), "DATE"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "CLOCK"},
	{regexp.MustCompile(`\b[0-9][0-9.]* ([KMGT]i?)?B/s`), "RATE"},
	{regexp.MustCompile(`\b(\d+d\d+h|\d+h\d+m(\d+s)?|\d+m\d+(\.\d+)?s|\d+(\.\d+)?(ms|µs|s|m|h))\b`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{12,64}…?`), "DIGEST"},
	{regexp.MustCompile(`\b[0-9a-z]{20}\b`), "ID"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`-{3,}`), "---"},
	{regexp.MustCompile(`\s+`), " "},
}

// plain is a line with what varies taken out.
func plain(line string) string {
	for _, v := range varies {
		line = v.is.ReplaceAllString(line, v.as)
	}
	return strings.TrimSpace(line)
}

// Rest stands in a document for any lines, and in a line for any text.
const Rest = "..."

// Match compares the lines that a document shows with those that a command has printed. What varies from run to run (dates, times, rates, digests, ids, ports) may be
// any of its kind.
func Match(shown, printed []string) error {
	if len(shown) == 0 {
		if len(printed) > 0 {
			return fmt.Errorf("the command prints %q, which is not shown", printed[0])
		}
		return nil
	}
	first, rest := strings.TrimSpace(shown[0]), shown[1:]
	if first == Rest {
		var err error
		for i := range len(printed) + 1 {
			if err = Match(rest, printed[i:]); err == nil {
				return nil
			}
		}
		return fmt.Errorf("after %s: %w", Rest, err)
	}
	if len(printed) == 0 {
		return fmt.Errorf("%q is shown, and not printed", shown[0])
	}
	if !like(plain(shown[0]), plain(printed[0])) {
		return fmt.Errorf("%q is shown, and %q is printed", shown[0], printed[0])
	}
	return Match(rest, printed[1:])
}

// like compares two plain lines, of which the first may leave text out.
func like(shown, printed string) bool {
	parts := strings.Split(shown, Rest)
	if len(parts) == 1 {
		return shown == printed
	}
	rest, ok := strings.CutPrefix(printed, parts[0])
	last := parts[len(parts)-1]
	if !ok || !strings.HasSuffix(rest, last) {
		return false
	}
	rest = strings.TrimSuffix(rest, last)
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return true
}
