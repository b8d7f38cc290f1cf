package directive

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// word is key=value, or a flag.
type word struct {
	key   string
	value string
	flag  bool // it has no value
	at    int  // in the text of its line
}

// words cuts a directive. With a mistake in them there are none.
func (l *line) words() ([]word, *Problem) {
	if p := l.letters(); p != nil {
		return nil, p
	}
	var all []word
	for i := 0; i < len(l.text); {
		if blank(l.text[i]) {
			i++
			continue
		}
		w, end, p := l.word(i)
		if p != nil {
			return nil, p
		}
		all, i = append(all, w), end
	}
	return all, nil
}

// letters looks for those that no directive has.
func (l *line) letters() *Problem {
	if len(l.text) > LineMost {
		return l.wrong(-1, "", fmt.Sprintf("the directive has more than %d bytes", LineMost), "make it shorter, or two of it")
	}
	for i, r := range l.text {
		var what string
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(l.text[i:], "\uFFFD"):
			what = "the text is not UTF-8"
		case r == '\r':
			what = "there is a carriage return; the script has Windows line ends"
		case r != '\t' && unicode.IsControl(r):
			what = "there is a control character"
		case r > unicode.MaxASCII && unicode.IsSpace(r):
			what = "there is a blank that is none in ASCII"
		default:
			continue
		}
		return l.wrong(i, "", what, "write it again by hand; dos2unix repairs line ends")
	}
	return nil
}

// word reads the one that begins at i, and says where it ends.
func (l *line) word(i int) (w word, end int, wrong *Problem) {
	fail := func(at int, what, mend string) (word, int, *Problem) {
		return word{}, 0, l.wrong(at, "", what, mend)
	}
	w.at = i
	end = i
	for end < len(l.text) && !blank(l.text[end]) && l.text[end] != '=' {
		end++
	}
	w.key, w.flag = l.text[i:end], true
	if strings.ContainsAny(w.key, `";`) {
		return fail(i, shown(w.key)+" has a quote or a semicolon", `quotes stand around a value: to="project:my run"; semicolons separate requests in a comment, and a script has a line for each`)
	}
	if end == len(l.text) || l.text[end] != '=' {
		return w, end, nil
	}
	w.flag = false
	if end++; strings.HasPrefix(l.text[end:], `"`) {
		value, n, closed := unquote(l.text[end:])
		if !closed {
			return fail(end, "a quote is not closed", `a value stands between two: to="project:my run"`)
		}
		if w.value, end = value, end+n; end < len(l.text) && !blank(l.text[end]) {
			return fail(end, "behind the closing quote comes a blank", `quotes stand around a whole value: to="project:my run"`)
		}
		return w, end, nil
	}
	begin := end
	for end < len(l.text) && !blank(l.text[end]) {
		if c := l.text[end]; c == '"' || c == ';' {
			return fail(end, "a quote or a semicolon in a value", `such a value stands in quotes as a whole: to="project:my;run"; a script has a line for each request`)
		}
		end++
	}
	w.value = l.text[begin:end]
	return w, end, nil
}

// unquote reads a value in quotes, and says how long it is with them.
func unquote(s string) (value string, n int, closed bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), i + 1, true
		case c == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, false
}

// quote prints a value so that a word with it is read back.
func quote(s string) string {
	plain := s != ""
	for _, c := range []byte(s) {
		if c <= ' ' || strings.IndexByte(`";\|`, c) >= 0 {
			plain = false
		}
	}
	if plain {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
