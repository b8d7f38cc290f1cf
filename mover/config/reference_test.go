package config

import (
	"flag"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover/units"
	"datamove.dev/test/document"
	"datamove.dev/test/must"
)

var update = flag.Bool("update", false, "write docs/reference/configuration.md")

const referenceIntroduction = `# Configuration

<!-- generated from mover/config by make docs -->

` + "`datamove` and `datamoved` read one file: that of `--config` or `DATAMOVE_CONFIG`, else `~/.config/datamove/config.yaml`, else `/etc/datamove/config.yaml`." + `
Without a file the command works in its own process, on paths and on the S3 store of the AWS environment.
` + "`datamove config init` writes a file with every key explained and nothing set, `datamove config check` names each mistake with its line," + `
` + "and `datamove config view` prints each value with the line that it comes from. `datamove service reload` has the service read its file again." + `

NAME stands for a name of the site's choice, and ` + "`[]`" + ` for each item of a list. Secrets are never in the file: it names where they are.
`

// named are the constants that comments of the configuration name.
var named = map[string]string{
	"DefaultListen": DefaultListen, "DefaultData": DefaultData, "DefaultWeight": fmt.Sprint(DefaultWeight), "DefaultSpares": fmt.Sprint(DefaultSpares), "DefaultPeers": DefaultPeers,
	"DefaultSlurmState": DefaultSlurmState, "DefaultSlurmRecords": DefaultSlurmRecords, "DefaultHSMJobs": fmt.Sprint(DefaultHSMJobs),
	"DefaultLead": short(DefaultLead), "DefaultQuiet": short(DefaultQuiet), "DefaultReady": short(DefaultReady), "DefaultDeadline": short(DefaultDeadline),
	"DefaultQuota": "the defaults of its keys",
}

// short is a duration as a configuration has it.
func short(d time.Duration) string {
	if minutes, whole := strings.CutSuffix(d.String(), "m0s"); whole {
		return minutes + "m"
	}
	return d.String()
}

// keysPage writes what a file may have.
type keysPage struct {
	t        *testing.T
	comments *document.Comments
	top      strings.Builder // the rows of keys with a single value or a list of those
	sections strings.Builder
	rows     *strings.Builder
}

// TestReference holds docs/reference/configuration.md to the schema, to the structs and to their comments. Each key has a field, each field a key, and each a meaning.
func TestReference(t *testing.T) {
	r := keysPage{t: t, comments: must.Get(document.ReadComments("."))(t)}
	r.rows = &r.top
	r.fields("", schema, reflect.TypeFor[Config](), func(key string, may rule, of reflect.Type, comment string) {
		if may.keys == nil && may.each == nil && (may.items == nil || may.items.keys == nil) {
			r.key(key, may, of, comment, false)
			return
		}
		var rows strings.Builder
		r.rows = &rows
		about := r.about(key, of)
		if may.each != nil {
			about += " The names: " + form(may.named) + "."
		}
		if _, usual := meaning(comment); usual != "" {
			about += " Without it: " + r.value(usual) + "."
		}
		r.below(key, may, of)
		r.rows = &r.top
		fmt.Fprintf(&r.sections, "\n## %s\n\n%s\n\n%s%s", key, document.Cell(about), document.Head("key", "value", "default", "meaning"), rows.String())
	})
	text := referenceIntroduction + "\n## Single values\n\n" + document.Head("key", "value", "default", "meaning") + r.top.String() + r.sections.String()
	document.Hold(t, "../..", "docs/reference/configuration.md", text, *update && !t.Failed())
}

// fields calls do for each field of a struct with its rule.
func (r *keysPage) fields(key string, of rule, t reflect.Type, do func(key string, may rule, of reflect.Type, comment string)) {
	found := map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("koanf")
		if name == "" || name == "-" {
			continue
		}
		at := strings.TrimPrefix(key+"."+name, ".")
		may, known := of.keys[name]
		if found[name] = true; !known && t == reflect.TypeFor[Quota]() && (name == "slots" || name == "journals") {
			continue // of accounts alone
		} else if !known {
			r.t.Errorf("%s is in %s, and not in the schema", at, t)
			continue
		}
		do(at, may, f.Type, r.comments.Fields[t.Name()][f.Name])
	}
	for name := range of.keys {
		if !found[name] {
			r.t.Errorf("%s.%s is in the schema, and not in %s", key, name, t)
		}
	}
}

// below writes the rows of what is in a table or a list.
func (r *keysPage) below(key string, may rule, of reflect.Type) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case may.items != nil && may.items.keys != nil:
		r.below(key+"[]", *may.items, of.Elem())
	case may.each != nil:
		r.below(key+".NAME", *may.each, of.Elem())
	case may.keys != nil:
		need := may.need
		r.fields(key, may, of, func(at string, may rule, of reflect.Type, comment string) {
			r.key(at, may, of, comment, slices.Contains(need, at[strings.LastIndexByte(at, '.')+1:]))
		})
	}
}

// key writes the row of a key, and those below it.
func (r *keysPage) key(key string, may rule, of reflect.Type, comment string, needed bool) {
	means, usual := meaning(comment)
	switch {
	case needed:
		usual = "required"
	case usual == "" && strings.HasPrefix(key, "quotas."):
		usual = ofQuota(key)
	case usual == "" && may.truth:
		usual = "false"
	}
	if means == "" && may.keys != nil {
		means = r.about(key, of)
	}
	if means == "" {
		r.t.Errorf("nothing says what %s is", key)
	}
	if usual == "" && may.keys == nil {
		r.t.Errorf("nothing says what %s is where it is left out: %q", key, comment)
	}
	r.rows.WriteString(document.Row("`"+key+"`", r.kind(may), r.value(usual), r.value(means)))
	r.below(key, may, of)
}

// ofQuota is the default of a key of a quota.
func ofQuota(key string) string {
	name, is := strings.CutPrefix(key, "quotas.default.")
	if !is {
		return "that of the next table"
	}
	values := reflect.ValueOf(DefaultQuota)
	for i, f := range reflect.VisibleFields(values.Type()) {
		if f.Tag.Get("koanf") != name {
			continue
		}
		switch v := values.Field(i).Interface().(type) {
		case Percent:
			return fmt.Sprintf("%d%%", v)
		case Size:
			return units.Bytes(int64(v))
		case int64:
			return units.Count(v)
		}
	}
	return ""
}

// kind says what may stand at a key.
func (r *keysPage) kind(may rule) string {
	least := 1
	if may.zero {
		least = 0
	}
	switch {
	case may.items != nil:
		return "list: " + r.kind(*may.items)
	case may.each != nil:
		return "table by name: " + document.Cell(form(may.named))
	case may.keys != nil:
		return "table"
	case may.truth:
		return "true or false"
	case may.number > 0:
		return fmt.Sprintf("whole number from %d to %s", least, units.Count(may.number))
	}
	return document.Cell(form(may.check))
}

// about is the comment of the type of a table, with the name of the key in place of that of the type.
func (r *keysPage) about(key string, of reflect.Type) string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Map || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	return "`" + key + "`" + strings.TrimPrefix(r.comments.Types[of.Name()], of.Name())
}

var (
	constant = regexp.MustCompile(`\bDefault[A-Z]\w*`)
	left     = regexp.MustCompile(`^(.*?)(?:; |^)(?:""|0|nil|none) is (.+)$`)
	wrong    = regexp.MustCompile(`^is "(?:[^"\\]|\\.)*"; |; this is "(?:[^"\\]|\\.)*"$`)
)

// value is a text for a cell, with the values of the constants that it names.
func (r *keysPage) value(text string) string {
	return constant.ReplaceAllStringFunc(document.Cell(text), func(name string) string {
		value, known := named[name]
		if !known {
			r.t.Errorf("%s is named in a comment, and not known here", name)
		}
		if strings.Contains(value, " ") {
			return value
		}
		return "`" + value + "`"
	})
}

// meaning parts a comment: what a key is, and what holds where it is left out.
func meaning(comment string) (means, usual string) {
	if m := left.FindStringSubmatch(comment); m != nil {
		return m[1], m[2]
	}
	return comment, ""
}

// form is what a check asks of a value, as it says to a wrong one.
func form(check func(string) error) string {
	err := check("\x00 //\n")
	if err == nil {
		panic("the check takes everything")
	}
	return strings.TrimPrefix(strings.TrimPrefix(wrong.ReplaceAllString(err.Error(), ""), "must be "), "tier names are ")
}

// TestForm: what a check asks for is what it says, without the value that was wrong.
func TestForm(t *testing.T) {
	for _, row := range []struct {
		check func(string) error
		want  string
	}{
		{oneOf("a", "b"), "one of a, b"},
		{absolute, "an absolute path"},
		{tierName, "small letters, then digits, - and _ too"},
		{checked[Percent], "a percentage like 85%, from 1% to 100%"},
	} {
		if got := form(row.check); got != row.want {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
	for comment, want := range map[string][2]string{
		`a; b; "" is c; d`: {"a; b", "c; d"}, "none is d": {"", "d"}, "a": {"a", ""},
	} {
		if means, usual := meaning(comment); means != want[0] || usual != want[1] {
			t.Errorf("%q: %q and %q", comment, means, usual)
		}
	}
}
