package gpfs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Verb is what mmapplypolicy does with files that a rule finds. There is none that deletes:
// what shall go is listed, and decided and done elsewhere, after another look.
type Verb string

// The verbs.
const (
	List    Verb = "LIST"
	Migrate Verb = "MIGRATE"
)

// Rule says which files are meant. Its predicates are those that GPFS evaluates by itself
// while it scans inodes; a zero field asks for nothing. All have to hold.
type Rule struct {
	Name string // of the rule and, of a List, of its list
	Verb Verb
	To   string // pool, of Migrate

	Pool     string   // where the files are
	Filesets []string // one of these

	MinBytes, MaxBytes int64 // MaxBytes 0 is no limit; both inclusive
	// Idle is how long nothing has read it, Unchanged its content, Still its attributes
	// either. GPFS counts days of the calendar: what is younger is never found, what is
	// up to a day older may be left out.
	Idle, Unchanged, Still time.Duration
	UID, GID               *uint32
	Named                  string // a pattern of the last part of the name: '*' and '?'
	NotNamed               string // the same, of files that are left out
}

// WriteRules returns the text of a policy that has the rules, in their order. A file is on the
// list of each rule that fits it. It is migrated by the first rule that fits ("Phase one:
// Selecting candidate files", IBM Spectrum Scale 4.2.2). What can not be said in a way that
// is read in one way only is an error.
//
// The text is read twice. GPFS first sends it through m4, with [ and ] as quotes. Macros of m4
// can run programs: so all of the text stands between these, in which nothing is expanded, and no
// word in it may have one. Then it is SQL: texts stand between ', which is doubled in them.
// Source: "Using macro processing utilities with policy rules", IBM Spectrum Scale 4.2.0.
func WriteRules(rules []Rule) (string, error) {
	if len(rules) == 0 {
		return "", errors.New("a policy needs a rule")
	}
	var s script
	s.raw("[")
	seen := map[string]bool{}
	for i := range rules {
		r := &rules[i]
		if seen[r.Name] {
			return "", fmt.Errorf("rule %q: %w: there are two of that name", r.Name, ErrName)
		}
		seen[r.Name] = true
		if err := r.write(&s); err != nil {
			return "", fmt.Errorf("rule %q: %w", r.Name, err)
		}
	}
	s.raw("]\n")
	if s.text.Len() > maxPolicy {
		return "", fmt.Errorf("a policy of %d bytes: GPFS takes %d", s.text.Len(), maxPolicy)
	}
	return s.text.String(), nil
}

// maxPolicy is the limit of a policy file: 1 MiB ("Policies - usage errors", IBM Storage Scale 5.2.0).
const maxPolicy = 1 << 20

func (r *Rule) write(s *script) error {
	if err := checkName("its name", r.Name); err != nil {
		return err
	}
	switch r.Verb {
	case List:
		// With EXEC '' and -I defer nothing is run. ESCAPE '%' has all but letters, digits
		// and "-_.~" of names written as %XX, so that every line can be taken apart
		// ("Policy rules: Terms", IBM Spectrum Scale 4.2.3).
		s.words("RULE EXTERNAL LIST ").quoted(r.Name).words(" EXEC '' ESCAPE '%'\n")
		s.words("RULE ").quoted(r.Name).words(" LIST ").quoted(r.Name).from(r.Pool).words(" SHOW(VARCHAR(FILE_SIZE))")
	case Migrate:
		if err := checkName("the pool it moves to", r.To); err != nil {
			return err
		}
		s.words("RULE ").quoted(r.Name).words(" MIGRATE").from(r.Pool).words(" TO POOL ").quoted(r.To)
	default:
		return fmt.Errorf("%w: it has no verb %q", ErrName, r.Verb)
	}
	if r.Verb == List && r.To != "" {
		return fmt.Errorf("%w: a list has no pool to move to", ErrName)
	}
	for i, name := range r.Filesets {
		s.words([]string{" FOR FILESET (", ", "}[min(i, 1)]).quoted(name)
	}
	if len(r.Filesets) > 0 {
		s.words(")")
	}
	for i, p := range r.predicates() {
		s.words([]string{"\n  WHERE ", "\n    AND "}[min(i, 1)])
		p(s)
	}
	s.words("\n")
	return s.err
}

// predicates are what the WHERE of a rule joins.
func (r *Rule) predicates() (all []func(*script)) {
	compare := func(is bool, words string, n int64) {
		if is {
			all = append(all, func(s *script) { s.words(words).number(n) })
		}
	}
	compare(r.MinBytes != 0, "FILE_SIZE >= ", r.MinBytes)
	compare(r.MaxBytes != 0, "FILE_SIZE <= ", r.MaxBytes)
	older := func(age time.Duration, attribute string) {
		compare(age != 0, "(DAYS(CURRENT_TIMESTAMP) - DAYS("+attribute+")) > ", days(age))
	}
	older(r.Idle, "ACCESS_TIME")
	older(r.Unchanged, "MODIFICATION_TIME")
	older(r.Still, "CHANGE_TIME")
	if r.UID != nil {
		compare(true, "USER_ID = ", int64(*r.UID))
	}
	if r.GID != nil {
		compare(true, "GROUP_ID = ", int64(*r.GID))
	}
	like := func(pattern, words string) {
		if pattern != "" {
			all = append(all, func(s *script) { s.words(words).pattern(pattern) })
		}
	}
	like(r.Named, "NAME LIKE ")
	like(r.NotNamed, "NAME NOT LIKE ")
	return all
}

// days rounds up. DAYS differ by more than n only when n times 24 hours have passed.
func days(age time.Duration) int64 {
	const day = 24 * time.Hour
	if age < 0 {
		return -1
	}
	return int64((age + min(day-1, 1<<63-1-age)) / day)
}

// script is a policy being written, and the first thing that could not be said.
type script struct {
	text strings.Builder
	err  error
}

func (s *script) raw(text string) { s.text.WriteString(text) }

// words writes what stands in this file.
func (s *script) words(text string) *script {
	s.text.WriteString(text)
	return s
}

func (s *script) from(pool string) *script {
	if pool == "" {
		return s
	}
	return s.words(" FROM POOL ").quoted(pool)
}

func (s *script) number(n int64) {
	if n < 0 && s.err == nil {
		s.err = fmt.Errorf("%w: a negative number", ErrName)
	}
	s.words(strconv.FormatInt(max(n, 0), 10))
}

// quoted writes a text of SQL.
func (s *script) quoted(text string) *script {
	if err := sayable(text); err != nil && s.err == nil {
		s.err = err
	}
	return s.words("'" + strings.ReplaceAll(text, "'", "''") + "'")
}

// escape stands before a '%' or '_' of LIKE that means itself. It is no letter, so that
// patterns stay readable, and nothing that m4 or SQL knows.
const escape = '!'

// pattern writes a pattern of '*' and '?' as one of LIKE, where they are '%' and '_'.
func (s *script) pattern(pattern string) {
	if err := sayable(pattern); err != nil && s.err == nil {
		s.err = err // below, what is no UTF-8 would become some
	}
	var like strings.Builder
	for _, c := range pattern {
		switch c {
		case '*':
			like.WriteByte('%')
		case '?':
			like.WriteByte('_')
		case '%', '_', escape:
			like.WriteByte(escape)
			like.WriteRune(c)
		default:
			like.WriteRune(c)
		}
	}
	if strings.Contains(pattern, "/") && s.err == nil {
		s.err = fmt.Errorf("pattern %q: %w: it is for the last part of a path", pattern, ErrName)
	}
	s.quoted(like.String())
	if strings.ContainsAny(pattern, "%_"+string(escape)) {
		s.words(" ESCAPE '" + string(escape) + "'")
	}
}

// sayable refuses what m4 or the parser of GPFS could take for something else than a part
// of a text: their quotes, and what they may treat as an escape or an end.
func sayable(text string) error {
	if text == "" || len(text) > 1024 || !utf8.ValidString(text) {
		return fmt.Errorf("%q: %w: 1 to 1024 bytes of UTF-8", cut(text), ErrName)
	}
	for _, c := range text {
		if c < ' ' || c == 0x7f || strings.ContainsRune("[]`\\", c) || c == '\u2028' || c == '\u2029' || c >= 0x80 && c < 0xa0 {
			return fmt.Errorf("%q: %w: %q can not be said in a rule of GPFS", cut(text), ErrName, c)
		}
	}
	return nil
}
