package directive

import (
	"fmt"
	"slices"
	"strings"
)

// unseen tells of directives behind the line n at which Slurm stops reading: the job would run without what it asks for there. What a command writes, or has in
// quotes, is text: scripts make scripts.
func (s *scanner) unseen(n int, rest string) {
	lines := strings.Split(rest, "\n")
	sh := shell{last: map[string]int{}}
	for i, raw := range lines {
		sh.last[strings.TrimLeft(raw, "\t")] = i
	}
	command := 0 // the first
	for i, raw := range lines {
		text := strings.TrimSpace(raw)
		if text != "" && text[0] != '#' && command == 0 {
			command = n + i
		}
		kind := resembles(text)
		if plain := kindOf(text); command == 0 && (plain == ours || plain == cray) {
			kind = plain // also with a mistake in it
		}
		if kind != "" && !sh.inText() {
			s.problems = append(s.problems, unseenAt(n, n+i, command, kind))
		}
		sh.line(i, raw)
	}
}

// unseenAt tells of the directive in a line, where Slurm stops at another one; command is that of the first command before it, or 0.
func unseenAt(stop, at, command int, kind string) Problem {
	p := Problem{Source: "script", Line: at, Word: kind}
	if command == 0 {
		p.What = fmt.Sprintf("it is not seen: Slurm stops reading at line %d, which has only blanks, or blanks before its #", stop)
		p.Mend = "remove the blanks; Windows line ends are such, too"
		return p
	}
	p.What = fmt.Sprintf("it is not seen: Slurm reads no directive behind the first command, which is in line %d", command)
	p.Mend = fmt.Sprintf("put it above line %d; before a line that is to stay out stands one more #", command)
	return p
}

// resembles says which directive a comment may have been meant for: it has the name in any letters, behind blanks or before a colon, and asks for something.
func resembles(text string) (kind string) {
	text, is := strings.CutPrefix(text, "#")
	fields := strings.Fields(lower(text))
	if !is || len(fields) < 2 {
		return ""
	}
	rest := fields[1:]
	switch strings.TrimSuffix(fields[0], ":") {
	case "datamove":
		asks := func(word string) bool {
			key, _, valued := strings.Cut(word, "=")
			_, is := forms[Verb(strings.ReplaceAll(key, "_", "-"))]
			return is && valued
		}
		if slices.ContainsFunc(rest, asks) {
			return ours
		}
	case "dw":
		if slices.Contains(commands, rest[0]) && slices.ContainsFunc(rest[1:], func(word string) bool { return strings.Contains(word, "=") }) {
			return cray
		}
	}
	return ""
}

// shell follows a script as far as to know which of its lines are text of a command: those of a here-document, and those in quotes.
type shell struct {
	quote byte           // that is open; 0 is none
	ends  []end          // of here-documents that have begun, in their order
	last  map[string]int // where a line stands last, without the tabs before it
}

// end is the line that ends a here-document.
type end struct {
	word string
	tabs bool // may stand before it
}

func (x *shell) inText() bool { return x.quote != 0 || len(x.ends) > 0 }

// line goes on behind line i.
func (x *shell) line(i int, text string) {
	text = strings.TrimSuffix(text, "\r")
	if len(x.ends) > 0 && x.quote == 0 {
		e := x.ends[0]
		if text == e.word || e.tabs && strings.TrimLeft(text, "\t") == e.word {
			x.ends = x.ends[1:]
		}
		return
	}
	for at := 0; at < len(text); {
		at += x.step(i, text, at)
	}
}

// step reads what stands at a byte of line i outside of here-documents, and says how long that is.
func (x *shell) step(i int, text string, at int) int {
	c, rest := text[at], text[at:]
	switch {
	case c == '\\' && x.quote != '\'':
		return 2
	case x.quote != 0:
		if c == x.quote {
			x.quote = 0
		}
	case c == '"' || c == '\'':
		x.quote = c
	case c == '#' && (at == 0 || strings.IndexByte(" \t;&|(", text[at-1]) >= 0):
		return len(rest)
	case strings.HasPrefix(rest, "<<<"):
		return 3
	case strings.HasPrefix(rest, "<<"):
		e := hereDocument(rest[2:])
		if e.word != "" && x.last[e.word] > i { // else it is a shift of numbers
			x.ends = append(x.ends, e)
		}
		return 2
	}
	return 1
}

// hereDocument reads the word behind "<<".
func hereDocument(text string) (e end) {
	text, e.tabs = strings.CutPrefix(text, "-")
	text = strings.TrimLeft(text, " \t")
	if i := strings.IndexAny(text, " \t;&|<>()"); i >= 0 {
		text = text[:i]
	}
	e.word = strings.NewReplacer("'", "", `"`, "", `\`, "").Replace(text)
	return e
}
