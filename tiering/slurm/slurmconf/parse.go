package slurmconf

import (
	"strings"
)

// Setting is one line of a configuration.
type Setting struct {
	Key   string // as it is written there
	Value string
	Rest  string // what stands behind the value; Slurm takes that for some keys only, as NodeName
	File  string
	Line  int
}

// line is what Slurm takes for one: without its comment, and with those that a backslash joins to it.
type line struct {
	text   string
	number int // of its beginning
}

// lines cuts a text.
func lines(text string) (all []line) {
	number, open := 0, false
	for raw := range strings.Lines(text) {
		number++
		raw, goesOn := strings.CutSuffix(strings.TrimRight(uncommented(raw), "\r\n"), `\`)
		if !open {
			all = append(all, line{number: number})
		}
		all[len(all)-1].text += raw
		if open = goesOn; len(all[len(all)-1].text) > lineMost {
			open = false // what follows is another one, and this one is wrong
		}
	}
	return all
}

// lineMost is how long a line may become.
const lineMost = 1 << 20

// uncommented is a line up to its '#'. One with a backslash before it is a letter.
func uncommented(s string) string {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '#':
			return s[:i]
		}
	}
	return s
}

// included is the file that a line includes.
func included(text string) (name string, is bool) {
	fields := strings.Fields(text)
	if len(fields) < 2 || !strings.EqualFold(fields[0], "include") {
		return "", false
	}
	return fields[1], true
}

// setting reads a line. One that is none is not ok.
func setting(text string) (s Setting, ok bool) {
	text = strings.TrimLeft(text, blanks)
	end := strings.IndexFunc(text, func(r rune) bool { return !letter(r) })
	if end <= 0 {
		return s, false
	}
	s.Key = text[:end]
	text = strings.TrimLeft(text[end:], blanks)
	if text != "" && strings.ContainsRune("-+*/", rune(text[0])) { // "Key+=Value"
		text = text[1:]
	}
	text, ok = strings.CutPrefix(text, "=")
	if !ok {
		return s, false
	}
	text = strings.TrimLeft(text, blanks)
	if inner, quoted := strings.CutPrefix(text, `"`); quoted {
		if value, rest, closed := strings.Cut(inner, `"`); closed {
			s.Value, s.Rest = value, strings.Trim(rest, blanks)
			return s, true
		}
	}
	if end = strings.IndexAny(text, blanks); end < 0 {
		end = len(text)
	}
	s.Value, s.Rest = strings.ReplaceAll(text[:end], `\#`, "#"), strings.Trim(text[end:], blanks)
	return s, true
}

const blanks = " \t\v\f\r\n"

func letter(r rune) bool {
	return r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// Conf is a configuration: its settings in their order, by their keys in small letters.
type Conf map[string][]Setting

// all are the settings of a key.
func (c Conf) all(key string) []Setting { return c[strings.ToLower(key)] }

// last is the one of them that Slurm takes.
func (c Conf) last(key string) (s Setting, has bool) {
	all := c.all(key)
	if len(all) == 0 {
		return Setting{Key: key}, false
	}
	return all[len(all)-1], true
}

// value is that of a key, or what Slurm takes when there is none.
func (c Conf) value(key, otherwise string) string {
	if s, has := c.last(key); has {
		return s.Value
	}
	return otherwise
}

// flags are the words of a value with commas, in small letters.
func (c Conf) flags(key string) (words []string) {
	for word := range strings.SplitSeq(strings.ToLower(c.value(key, "")), ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}
