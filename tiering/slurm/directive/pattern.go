package directive

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// Values are what patterns stand for.
type Values struct {
	Job   string // %j
	Array string // %A; "" is Job, as in Slurm
	Task  string // %a
	User  string // %u
	Name  string // %x: the user has chosen it
	Node  string // {node}
}

const patterns = "%j, %A, %a, %u, %x, {node} and %%"

// nodePattern stands for the node. It has no percent sign because Slurm replaces those itself in directives of scripts, and what it does not
// know by nothing (burst_buffer.lua, "Burst buffer symbol replacement"; TestSymbols of test/slurm shows it).
const nodePattern = "{node}"

// patternAt is the pattern that a text begins with; "" is none. A percent sign begins one always.
func patternAt(s string) string {
	switch {
	case strings.HasPrefix(s, nodePattern):
		return nodePattern
	case strings.HasPrefix(s, "%"):
		return s[:min(2, len(s))]
	}
	return ""
}

// firstPattern is where the first pattern of a text begins; -1 is nowhere.
func firstPattern(s string) int {
	for i := range len(s) {
		if patternAt(s[i:]) != "" {
			return i
		}
	}
	return -1
}

// value is what a pattern stands for, and what it is called; "" is no pattern.
func (v Values) value(pattern string) (value, called string) {
	switch pattern {
	case "%j":
		return v.Job, "the job's id"
	case "%A":
		if v.Array == "" {
			return v.Job, "the job's id"
		}
		return v.Array, "the array's id"
	case "%a":
		return v.Task, "the task of the array"
	case "%u":
		return v.User, "the user"
	case "%x":
		return v.Name, "the job's name"
	case nodePattern:
		return v.Node, "the node"
	case "%%":
		return "%", "a percent sign"
	}
	return "", ""
}

// Expand replaces the patterns in the part of a location below its root. A value that would make other directories
// than the one segment shows is refused: "..", "a/b", control characters. The result is no pattern
// any more, and is not to be expanded again. Its errors are mover.ErrUsage.
func (v Values) Expand(l location.Location) (location.Location, error) {
	fail := func(what string) (location.Location, error) {
		return location.Location{}, fmt.Errorf("%w: %s: %s", mover.ErrUsage, mover.Printable(l.String()), what)
	}
	var b strings.Builder
	was := l.Below()
	for i := 0; i < len(was); i++ {
		pattern := patternAt(was[i:])
		if pattern == "" {
			b.WriteByte(was[i])
			continue
		}
		value, called := v.value(pattern)
		switch what := fault(value); {
		case called == "":
			return fail(fmt.Sprintf("there is no pattern %s; there are %s", mover.Printable(pattern), patterns))
		case value == "":
			return fail(fmt.Sprintf("%s, %s, is not known here", pattern, called))
		case what != "":
			return fail(fmt.Sprintf("%s, %s, is %s, and %s", pattern, called, shown(value), what))
		}
		b.WriteString(value)
		i += len(pattern) - 1
	}
	expanded := b.String()
	if expanded == was {
		return l, nil
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(expanded, "/"), "/") {
		if what := badSegment(segment); what != "" {
			return fail("with the values of this job a name in it is " + shown(segment) + ": " + what)
		}
	}
	return l.WithBelow(expanded), nil
}

// Uses reports whether one of some patterns stands in a location of the job.
func (j Job) Uses(some ...string) bool {
	for _, r := range j.Requests {
		for _, l := range append([]location.Location{r.From}, r.To...) {
			if usesOne(l.Below(), some) {
				return true
			}
		}
	}
	return false
}

func usesOne(text string, some []string) bool {
	for i := 0; i < len(text); i++ {
		pattern := patternAt(text[i:])
		if pattern == "" {
			continue
		}
		if slices.Contains(some, pattern) {
			return true
		}
		i += len(pattern) - 1
	}
	return false
}

// ArrayOf is the value of %A in what Slurm has made of a script by replacing patterns; "" is that of a job that is none of an array, for which Slurm writes 0, or
// not known.
func ArrayOf(script, replaced string) string {
	was := strings.Split(script, "\n")
	for i, now := range strings.Split(replaced, "\n") {
		if i >= len(was) || !usesOne(was[i], []string{"%A"}) || kindOf(was[i]) == "" || len(was[i]) > LineMost {
			continue
		}
		if m := replacement(was[i]).FindStringSubmatch(now); m != nil && m[1] != "0" {
			return m[1]
		}
	}
	return ""
}

// replacement matches what Slurm makes of a line, and the first %A in it.
func replacement(line string) *regexp.Regexp {
	var b strings.Builder
	array := `([0-9]+)`
	for i := 0; i < len(line); i++ {
		pattern := patternAt(line[i:])
		switch pattern {
		case "", nodePattern:
			b.WriteString(regexp.QuoteMeta(line[i : i+1]))
			continue
		case "%A":
			b.WriteString(array)
			array = `[0-9]+`
		case "%%":
			b.WriteString("%")
		case "%j", "%a":
			b.WriteString(`[0-9]+`)
		case "%u", "%x":
			b.WriteString(".*")
		}
		i += len(pattern) - 1
	}
	return regexp.MustCompile("^" + b.String() + "$")
}

// fault says why a value can not be part of a name.
func fault(value string) string {
	switch {
	case strings.Contains(value, "/"):
		return "a slash would lead to another directory"
	case !utf8.ValidString(value):
		return "it is not UTF-8"
	case strings.ContainsFunc(value, unicode.IsControl):
		return "it has control characters"
	}
	return ""
}

// badSegment says why a name can not stand in a path that we write to.
func badSegment(segment string) string {
	switch {
	case segment == "" || segment == "." || segment == "..":
		return "it would be another directory"
	case len(segment) > 255:
		return "it has more than 255 bytes"
	case segment == ".datamove" || strings.HasPrefix(segment, mover.TempPrefix):
		return "such names are the mover's own"
	}
	return ""
}

// sound says what is wrong with a location by itself.
func sound(l location.Location, nodes bool) (what, mend string) {
	text := l.String()
	switch {
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "a location has control characters, or is not UTF-8", "rename it"
	case shellish(text):
		return shellMeant, shellMend
	case l.IsPath() && !strings.HasPrefix(l.Path, "/"):
		return "a path begins with /", "a job has no directory that it is relative to; in a tier it is TIER:path"
	case l.IsPath() && l.Path == "/":
		return "this is the root of all files", "name a directory"
	}
	below := l.Below()
	if below == "" {
		return "", ""
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(below, "/"), "/") {
		if why := badSegment(segment); why != "" {
			return "the location has a name " + shown(segment) + ": " + why, "write it without"
		}
	}
	return soundPatterns(below, nodes)
}

func soundPatterns(p string, nodes bool) (what, mend string) {
	for i := 0; i < len(p); i++ {
		pattern := patternAt(p[i:])
		switch {
		case pattern == "":
			continue
		case pattern == nodePattern && !nodes:
			return "{node} stands only where a stage-out or a checkpoint goes to", "leave it out: each node has its own directory of the job"
		case pattern == "%n" || pattern == "%N":
			return "Slurm takes " + pattern + " away before any hook sees it", "write {node}"
		}
		if _, called := (Values{}).value(pattern); called == "" {
			return "behind % stands no pattern", "there are " + patterns
		}
		i += len(pattern) - 1
	}
	return "", ""
}
