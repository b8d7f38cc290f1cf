package directive

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// What begins the lines that are for us. Old ones of Slurm's DataWarp plugin are known
// only to be refused.
const (
	ours = "#DATAMOVE"
	cray = "#DW"
	old  = "#BB"
)

// line is one directive: what stands behind its beginning.
type line struct {
	kind   string
	source string
	text   string
	spans  []span
}

// span is where a part of the text stands in the source.
type span struct {
	at     int // in the text
	line   int // 0: there are no lines
	column int
}

// problem tells of a mistake at a byte of the text; a negative one is the whole line.
func (l *line) problem(at int, word, what, mend string) Problem {
	p := Problem{Source: l.source, Word: word, What: what, Mend: mend}
	for _, s := range l.spans {
		if s.at > max(at, 0) {
			break
		}
		p.Line, p.Column = s.line, 0
		if at >= 0 || s.line == 0 {
			p.Column = s.column + utf8.RuneCountInString(l.text[s.at:min(max(at, 0), len(l.text))])
		}
	}
	return p
}

// wrong is such a mistake, as an answer.
func (l *line) wrong(at int, word, what, mend string) *Problem {
	p := l.problem(at, word, what, mend)
	return &p
}

// kindOf says what a line of a script is for; "" is nothing of ours. Slurm calls us for
// everything that begins with our directive.
func kindOf(raw string) string {
	if strings.HasPrefix(raw, ours) {
		return ours
	}
	for _, kind := range []string{cray, old} {
		if rest, ok := strings.CutPrefix(raw, kind); ok && (rest == "" || blank(rest[0])) {
			return kind
		}
	}
	return ""
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

// scanner reads the head of a script as Slurm does.
type scanner struct {
	lines    []*line
	open     *line // that goes on in the next line
	problems Problems
}

func scan(script string) ([]*line, Problems) {
	s := &scanner{}
	rest, ended := script[:min(len(script), ScriptMost)], false
	for n := 1; rest != ""; n++ {
		raw, after, whole := strings.Cut(rest, "\n")
		if !whole && len(script) > ScriptMost {
			break // cut in the middle
		}
		if raw != "" && raw[0] != '#' {
			s.unseen(n, rest)
			ended = true
			break
		}
		if raw != "" { // to Slurm, an empty line is none
			s.add(n, raw)
		}
		rest = after
	}
	s.close()
	if !ended && len(script) > ScriptMost {
		s.problems = append(s.problems, Problem{Source: "script", What: fmt.Sprintf("its first %d bytes are comments only, and no more are looked at", ScriptMost),
			Mend: "put the directives and the first command before that"})
	}
	return s.lines, s.problems
}

// add takes one line that begins with '#'.
func (s *scanner) add(n int, raw string) {
	kind := kindOf(raw)
	if s.open != nil && s.open.kind != kind {
		s.close()
	}
	if kind == "" {
		if like := resembles(raw); like != "" {
			s.problems = append(s.problems, Problem{Source: "script", Line: n, Word: like, What: "to Slurm this is a comment", Mend: "a directive begins with exactly " + like + " and a blank; before a line that is to stay out stands one more #"})
		}
		return
	}
	text := raw[len(kind):]
	l := s.open
	if l == nil {
		l = &line{kind: kind, source: "script"}
		s.lines = append(s.lines, l)
	}
	if text != "" && !blank(text[0]) {
		s.problems = append(s.problems, Problem{Source: "script", Line: n, Column: len(kind) + 1, What: "behind " + kind + " comes a blank", Mend: example(StageIn)})
		l.kind = "" // no second message
	}
	text, goesOn := strings.CutSuffix(text, `\`)
	if len(l.text) <= LineMost { // else it is too long already, and is not read
		l.spans = append(l.spans, span{len(l.text), n, len(kind) + 1})
		l.text += text
	}
	if s.open = nil; goesOn {
		s.open = l
	}
}

// close tells of a line that was to go on.
func (s *scanner) close() {
	if s.open == nil {
		return
	}
	if s.open.kind != "" && s.open.kind != old {
		s.problems = append(s.problems, s.open.problem(len(s.open.text), "", `a line that ends in \ goes on in the next one, which begins with `+s.open.kind+", too", "remove the backslash, or write "+s.open.kind+" before what follows"))
	}
	s.open.kind, s.open = "", nil
}

// marker stands in a comment before what is for us, in any letters.
const marker = "datamove:"

// lower makes small letters of those of ASCII, each byte where it was.
func lower(text string) string {
	b := []byte(text)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// comment finds our part of a job's comment.
func comment(text string) []*line {
	var all []*line
	column, counted := 1, 0
	folded := lower(text)
	for at := 0; ; {
		i := strings.Index(folded[at:], marker)
		if i < 0 {
			return all
		}
		begin := at + i + len(marker)
		if at+i > 0 && strings.IndexByte(" \t\n;,|", text[at+i-1]) < 0 { // the end of another word
			at = begin
			continue
		}
		at = begin + separator(text[begin:], '|')
		column, counted = column+utf8.RuneCountInString(text[counted:begin]), begin
		all = append(all, pieces("comment", text[begin:at], column)...)
	}
}

// pieces cuts a text, which begins at a column, at its semicolons.
func pieces(source, text string, column int) []*line {
	var all []*line
	for {
		piece := text[:separator(text, ';')]
		if strings.Trim(piece, " \t") != "" {
			all = append(all, &line{kind: ours, source: source, text: piece, spans: []span{{0, 0, column}}})
		}
		if len(piece) == len(text) {
			return all
		}
		text = text[len(piece)+1:]
		column += utf8.RuneCountInString(piece) + 1
	}
}

// separator is where c first stands outside of quotes, or the end.
func separator(s string, c byte) int {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == c && !quoted:
			return i
		}
	}
	return len(s)
}
