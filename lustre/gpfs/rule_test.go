package gpfs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/must"
)

func number(n uint32) *uint32 { return &n }

func TestRules(t *testing.T) {
	const day = 24 * time.Hour
	got, err := WriteRules([]Rule{
		{Name: "cold", Verb: List, Pool: "data", Filesets: []string{"vision", "speech"}, MinBytes: 1 << 20, MaxBytes: 1 << 40,
			Idle: 30 * day, Unchanged: day + 1, Still: time.Second, UID: number(0), GID: number(2001), Named: "it's_50%*.ckp?", NotNamed: "!*"},
		{Name: "all", Verb: List},
		{Name: "down", Verb: Migrate, Pool: "system", To: "data", Idle: 7 * day},
	})
	want := `[RULE EXTERNAL LIST 'cold' EXEC '' ESCAPE '%'
RULE 'cold' LIST 'cold' FROM POOL 'data' SHOW(VARCHAR(FILE_SIZE)) FOR FILESET ('vision', 'speech')
  WHERE FILE_SIZE >= 1048576
    AND FILE_SIZE <= 1099511627776
    AND (DAYS(CURRENT_TIMESTAMP) - DAYS(ACCESS_TIME)) > 30
    AND (DAYS(CURRENT_TIMESTAMP) - DAYS(MODIFICATION_TIME)) > 2
    AND (DAYS(CURRENT_TIMESTAMP) - DAYS(CHANGE_TIME)) > 1
    AND USER_ID = 0
    AND GROUP_ID = 2001
    AND NAME LIKE 'it''s!_50!%%.ckp_' ESCAPE '!'
    AND NAME NOT LIKE '!!%' ESCAPE '!'
RULE EXTERNAL LIST 'all' EXEC '' ESCAPE '%'
RULE 'all' LIST 'all' SHOW(VARCHAR(FILE_SIZE))
RULE 'down' MIGRATE FROM POOL 'system' TO POOL 'data'
  WHERE (DAYS(CURRENT_TIMESTAMP) - DAYS(ACCESS_TIME)) > 7
]
`
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestRulesThroughM4: nothing in a rule is expanded by what GPFS sends it through, set as
// GPFS sets it.
func TestRulesThroughM4(t *testing.T) {
	m4, err := exec.LookPath("m4")
	if err != nil {
		t.Skip("needs m4: test/setup installs it")
	}
	dir := t.TempDir()
	through := func(text string) string {
		run := exec.Command(m4)
		run.Dir = dir
		run.Stdin = strings.NewReader("changequote([,])changecom(/*,*/)" + text)
		out, err := run.Output()
		if err != nil {
			t.Errorf("m4: %v", err)
		}
		return string(out)
	}
	for _, name := range []string{"*.ckpt", "syscmd(touch ran)", "define(a,b)a", "dnl", "$1$*$#", "# include(x)", ", ) changequote(", "eval(1+1) __file__ --"} {
		rules, err := WriteRules([]Rule{{Name: "define", Verb: List, Named: name, Filesets: []string{"syscmd(touch ran) /* x", "*/ esyscmd(id)"}, Pool: "len"}})
		must.Do(t, err)
		inner := strings.TrimSuffix(strings.TrimPrefix(rules, "["), "]\n") + "\n"
		if out := through(rules); out != inner {
			t.Errorf("m4 makes of it %q", out)
		}
	}
	ran := filepath.Join(dir, "ran")
	if is(ran) {
		t.Error("a command was run")
	}
	// What this test tells is worth something only if m4 would.
	if through("NAME LIKE 'syscmd(touch ran)'"); !is(ran) {
		t.Error("m4 runs no commands here at all")
	}
}

func is(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestUnsayable: what has two readings is refused, and so is what there is no rule for.
func TestUnsayable(t *testing.T) {
	for name, r := range map[string]Rule{
		"an end of a quote of m4":      {Name: "a", Verb: List, Named: "]syscmd(touch /tmp/x)["},
		"the other one":                {Name: "a", Verb: List, Named: "x["},
		"a quote of m4 as it begins":   {Name: "a", Verb: List, Named: "x`"},
		"a backslash":                  {Name: "a", Verb: List, Named: `x\`},
		"a line end":                   {Name: "a", Verb: List, Named: "x\nRULE"},
		"a NUL":                        {Name: "a", Verb: List, Named: "x\x00"},
		"no UTF-8":                     {Name: "a", Verb: List, Named: "x\xff"},
		"a line end of Unicode":        {Name: "a", Verb: List, Named: "x\u2028"},
		"a control of Unicode":         {Name: "a", Verb: List, Named: "x\u0085"},
		"a path":                       {Name: "a", Verb: List, Named: "a/*"},
		"too long":                     {Name: "a", Verb: List, Named: strings.Repeat("x", 2000)},
		"a fileset that is none":       {Name: "a", Verb: List, Filesets: []string{""}},
		"a fileset with a quote of m4": {Name: "a", Verb: List, Filesets: []string{"x]"}},
		"a pool with one":              {Name: "a", Verb: List, Pool: "x]"},
		"a name of a list that climbs": {Name: "../a", Verb: List},
		"a name with a quote":          {Name: "a'b", Verb: List},
		"no name":                      {Verb: List},
		"no verb":                      {Name: "a"},
		"a verb that deletes":          {Name: "a", Verb: "DELETE"},
		"a list that moves":            {Name: "a", Verb: List, To: "data"},
		"a move to nowhere":            {Name: "a", Verb: Migrate},
		"a negative size":              {Name: "a", Verb: List, MinBytes: -1},
		"a negative age":               {Name: "a", Verb: List, Idle: -1},
	} {
		if text, err := WriteRules([]Rule{r}); !errors.Is(err, ErrName) || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if _, err := WriteRules(nil); err == nil {
		t.Error("no rules are a policy")
	}
	if _, err := WriteRules([]Rule{{Name: "a", Verb: List}, {Name: "a", Verb: List}}); !errors.Is(err, ErrName) {
		t.Errorf("two of one name: %v", err)
	}
	many := make([]string, 8000)
	for i := range many {
		many[i] = strings.Repeat("x", 200)
	}
	if _, err := WriteRules([]Rule{{Name: "a", Verb: List, Filesets: many}}); err == nil {
		t.Error("a policy of more than 1 MiB is taken")
	}
}

// TestDays: what GPFS finds by the calendar is at least as old as was asked for.
func TestDays(t *testing.T) {
	const day = 24 * time.Hour
	for age, want := range map[time.Duration]int64{1: 1, day: 1, day + 1: 2, 30 * day: 30, 1<<63 - 1: 106751, -1: -1} {
		if got := days(age); got != want {
			t.Errorf("%v is %d days", age, got)
		}
	}
	for hour := range 24 { // read at any hour, asked at any other
		for asked := range 24 {
			read := time.Date(2026, 3, 1, hour, 0, 0, 0, time.UTC)
			now := time.Date(2026, 3, 3, asked, 0, 0, 0, time.UTC)
			difference := int64(now.Truncate(day).Sub(read.Truncate(day)) / day)
			if difference > days(day) && now.Sub(read) < day {
				t.Errorf("read at %v it is found at %v", read, now)
			}
		}
	}
}

// skeleton splits rules into what stands outside of texts, and the texts. It reads as m4 and
// SQL do, and fails on what either could take for something of its own.
func skeleton(t *testing.T, rules string) (outside string, texts []string) {
	t.Helper()
	inner, ok := strings.CutPrefix(rules, "[")
	inner, end := strings.CutSuffix(inner, "]\n")
	if !ok || !end || strings.ContainsAny(inner, "[]`\\") {
		t.Fatalf("m4 would read %q", rules)
	}
	var out, text strings.Builder
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\'' {
			out.WriteByte(inner[i])
			continue
		}
		text.Reset()
		for i++; ; i++ {
			if i >= len(inner) {
				t.Fatalf("a text does not end: %q", rules)
			}
			if inner[i] == '\'' {
				if i+1 >= len(inner) || inner[i+1] != '\'' {
					break
				}
				i++
			}
			text.WriteByte(inner[i])
		}
		out.WriteByte('?')
		texts = append(texts, text.String())
	}
	return out.String(), texts
}

// unlike turns a pattern of LIKE back into one of '*' and '?'.
func unlike(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '%':
			b.WriteByte('*')
		case '_':
			b.WriteByte('?')
		case escape:
			i++
			b.WriteByte(pattern[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// FuzzRules: whatever the words are, the rules have the form that they have with harmless
// ones, and say the words; or they are refused.
func FuzzRules(f *testing.F) {
	f.Add("*.ckpt", "tmp*", "vision", "data", int64(1), int64(30))
	f.Add("' OR '1'='1", "x'' --", "a') RULE 'x' DELETE WHERE ('1'='1", "define(x,y)", int64(0), int64(-1))
	f.Add("$1 syscmd(id) /* */ dnl", "''''", "'", "';", int64(1<<62), int64(0))
	f.Fuzz(func(t *testing.T, named, not, fileset, pool string, bytes, age int64) {
		rule := func(named, not, fileset, pool string) Rule {
			return Rule{Name: "r", Verb: List, Named: named, NotNamed: not, Filesets: []string{fileset}, Pool: pool, MinBytes: bytes, Idle: time.Duration(age)}
		}
		text, err := WriteRules([]Rule{rule(named, not, fileset, pool)})
		if err != nil {
			return
		}
		plain, err := WriteRules([]Rule{rule(letter(named), letter(not), letter(fileset), letter(pool))})
		if err != nil {
			t.Fatalf("harmless words are refused: %v", err)
		}
		got, texts := skeleton(t, text)
		want, _ := skeleton(t, plain)
		if got != want {
			t.Fatalf("%q became\n%s", []string{named, not, fileset, pool}, text)
		}
		said := []string{"r", "", "%", "r", "r"}
		if pool != "" {
			said = append(said, pool)
		}
		said = append(said, fileset)
		for _, pattern := range []string{named, not} {
			if pattern == "" {
				continue
			}
			at := len(said)
			said = append(said, pattern)
			if strings.ContainsAny(pattern, "%_!") {
				said = append(said, string(escape))
			}
			texts[at] = unlike(texts[at])
		}
		if !reflect.DeepEqual(texts, said) {
			t.Errorf("it says %q, and not %q", texts, said)
		}
	})
}

func letter(text string) string {
	if text == "" {
		return ""
	}
	return "x"
}
