package policy

import (
	"flag"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"datamove.dev/test/document"
	"datamove.dev/test/must"
)

var update = flag.Bool("update", false, "write docs/reference/policy.md")

const referenceIntroduction = `# Policies

<!-- generated from tiering/policy by make docs -->

A policy is a YAML document of the kind TierPolicy. ` + "`datamove policy lint FILE`" + ` names each mistake with line and column, ` + "`datamove policy schema`" + ` prints
the JSON Schema for editors, and ` + "`datamove policy plan NAME`" + ` prints what a policy would do. [Policies](../guides/policies.md) says how they are used.

` + "`[]`" + ` stands for each item of a list, and NAME for a name of the author's choice. A list of single values may be one value.
`

// reference writes what a policy may have.
type reference struct {
	t        *testing.T
	comments *document.Comments
	b        strings.Builder
	tables   map[reflect.Type]bool // those that have their section, or will
	next     []reflect.Type
}

// TestReference holds docs/reference/policy.md to the types of a policy and to their comments. Each key has a meaning.
func TestReference(t *testing.T) {
	r := reference{t: t, comments: must.Get(document.ReadComments("."))(t), tables: map[reflect.Type]bool{}}
	r.b.WriteString(referenceIntroduction)
	r.later(reflect.TypeFor[Policy]())
	for len(r.next) > 0 {
		of := r.next[0]
		r.next = r.next[1:]
		r.table(of)
	}
	r.verbs()
	r.values()
	r.variables()
	document.Hold(t, "../..", "docs/reference/policy.md", r.b.String(), *update && !t.Failed())
}

// later has a table be written after those before it.
func (r *reference) later(of reflect.Type) {
	if !r.tables[of] {
		r.tables[of] = true
		r.next = append(r.next, of)
	}
}

// headings are where each table stands.
var headings = map[reflect.Type]string{
	reflect.TypeFor[Policy](): "The document", reflect.TypeFor[Metadata](): "metadata", reflect.TypeFor[Spec](): "spec", reflect.TypeFor[Scope](): "spec.scope",
	reflect.TypeFor[Schedule](): "spec.schedule", reflect.TypeFor[Trigger](): "spec.trigger[]", reflect.TypeFor[Source](): "spec.source", reflect.TypeFor[Class](): "spec.classes[]",
	reflect.TypeFor[Rule](): "spec.rules[]", reflect.TypeFor[Order](): "spec.order", reflect.TypeFor[Limits](): "spec.limits", reflect.TypeFor[Safety](): "spec.safety",
	reflect.TypeFor[Report](): "spec.report", reflect.TypeFor[Match](): "match", reflect.TypeFor[Action](): "spec.rules[].action", reflect.TypeFor[Approval](): "spec.safety.approval",
}

// table writes the keys of one.
func (r *reference) table(of reflect.Type) {
	if headings[of] == "" {
		r.t.Errorf("nothing says where the table %s stands", of)
	}
	fmt.Fprintf(&r.b, "\n## %s\n\n%s\n\n%s", headings[of], document.Cell(r.comments.Types[of.Name()]), document.Head("key", "value", "default", "meaning"))
	for _, f := range reflect.VisibleFields(of) {
		name := f.Tag.Get("yaml")
		if name == "" {
			continue
		}
		means, usual := r.meaning(f.Type, r.comments.Fields[of.Name()][f.Name])
		switch {
		case strings.Contains(f.Tag.Get("declare"), "required"):
			usual = "required"
		case of == reflect.TypeFor[Match]():
			usual = "holds"
		case of == reflect.TypeFor[Action]() && usual == "":
			usual = r.needed(name)
		}
		if usual == "" && f.Type.Kind() == reflect.Bool {
			usual = "`false`"
		}
		inner := table(f.Type)
		if means == "" && inner != nil {
			means = r.comments.Types[inner.Name()]
		}
		if f.Type == reflect.TypeFor[*Where]() && means == "" {
			means = "expression that is true or false, looked at last"
		}
		if means == "" || usual == "" && inner == nil {
			r.t.Errorf("%s.%s: nothing says what it is, or what holds where it is left out", of, f.Name)
		}
		if inner != nil {
			r.later(inner)
		}
		kind := r.kind(f.Type)
		if of == reflect.TypeFor[Action]() && name == "then" {
			kind = "`" + string(Release) + "`" // Action.fields refuses the others
		}
		r.b.WriteString(document.Row("`"+name+"`", kind, document.Cell(usual), document.Cell(means)))
	}
}

// table is the struct with keys that a field has, or a list of; nil is none.
func table(of reflect.Type) reflect.Type {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() == reflect.Struct && forms[of] == "" {
		return of
	}
	return nil
}

// kind says what may stand at a key.
func (r *reference) kind(of reflect.Type) string {
	switch {
	case words[of] != nil:
		return document.Cell("`" + strings.Join(words[of], "`, `") + "`")
	case forms[of] != "":
		return "[" + strings.ToLower(of.Name()) + "](#values)"
	}
	switch of.Kind() {
	case reflect.Pointer:
		return r.kind(of.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "list: " + r.kind(of.Elem())
	case reflect.Map:
		return "NAME: " + r.kind(of.Elem())
	case reflect.Struct:
		return "[table](#" + strings.NewReplacer(".", "", "[]", "", " ", "-").Replace(strings.ToLower(headings[of])) + ")"
	}
	return "text"
}

var (
	left    = regexp.MustCompile(`^(.*?)(?:; |^)(?:""|0|nil|none) is (.+)$`)
	without = regexp.MustCompile(`Without one it is (\w+)\.`)
)

// meaning parts a comment: what a key is, and what holds where it is left out. What the words of a type mean stands at them.
func (r *reference) meaning(of reflect.Type, comment string) (means, usual string) {
	means = comment
	if m := left.FindStringSubmatch(comment); m != nil {
		means, usual = m[1], m[2]
	}
	all := r.comments.Constants[of.Name()]
	if m := without.FindStringSubmatch(r.comments.Groups[of.Name()]); m != nil {
		i := slices.IndexFunc(all, func(c document.Constant) bool { return c.Name == m[1] })
		if i < 0 {
			r.t.Errorf("%s: there is no %s", of, m[1])
			return
		}
		usual = "`" + all[i].Value + "`"
	}
	if of == reflect.TypeFor[Verb]() {
		return means, usual // they have a table
	}
	for _, c := range all {
		if c.Comment == "" {
			r.t.Errorf("%s: nothing says what %s is", of, c.Value)
		}
		means += fmt.Sprintf("; `%s`: %s", c.Value, c.Comment)
	}
	return strings.TrimPrefix(means, "; "), usual
}

// needed says which actions need a field.
func (r *reference) needed(name string) string {
	var by []string
	for _, c := range r.comments.Constants["Verb"] {
		if slices.Contains(strings.Fields(takes[Verb(c.Value)]), name+"!") {
			by = append(by, "`"+c.Value+"`")
		}
	}
	if by == nil {
		return ""
	}
	return "required by " + strings.Join(by, ", ")
}

// verbs writes what each action does, and which keys it has.
func (r *reference) verbs() {
	r.b.WriteString("\n### Actions\n\n" + document.Head("type", "does", "keys", "removes"))
	all := r.comments.Constants["Verb"]
	if len(all) != len(takes) {
		r.t.Errorf("%d actions have a comment, and there are %d", len(all), len(takes))
	}
	for _, c := range all {
		v := Verb(c.Value)
		keys, removes := (&Action{Type: v}).takes(), ""
		for i, k := range keys {
			keys[i] = "`" + k + "`"
		}
		if v.Removes() {
			removes = "yes"
		}
		r.b.WriteString(document.Row("`"+c.Value+"`", document.Cell(c.Comment), strings.Join(keys, " "), removes))
	}
}

// values writes the forms of values.
func (r *reference) values() {
	r.b.WriteString("\n## Values\n\n" + document.Head("value", "form"))
	for _, of := range slices.SortedFunc(maps.Keys(forms), func(a, b reflect.Type) int { return strings.Compare(a.Name(), b.Name()) }) {
		_, says, ok := strings.Cut(r.comments.Types[of.Name()], " is ")
		if !ok {
			r.t.Errorf("the comment of %s does not say what it is", of)
		}
		r.b.WriteString(document.Row(strings.ToLower(of.Name()), document.Cell(says)))
	}
}

// variables writes what expressions can use.
func (r *reference) variables() {
	fmt.Fprintf(&r.b, "\n## Variables of expressions\n\nExpressions are CEL, of at most %d bytes. They have these variables, and the lists of `spec.vars`.\n\n%s", textMostCEL, document.Head("variable", "type", "meaning"))
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		r.b.WriteString(document.Row("`"+name+"`", variables[name].is.String(), document.Cell(variables[name].means)))
	}
}
