package policy

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"datamove.dev/mover"
	"datamove.dev/mover/spelling"
)

// Problem is something in the text of policies that is wrong. It is mover.ErrUsage.
type Problem struct {
	File         string
	Line, Column int    // from 1; 0 is not known
	Field        string // "spec.rules[0].match.size"
	What         string // is wrong, and what to write
}

func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	if p.Field != "" {
		fmt.Fprintf(&b, ": %s", p.Field)
	}
	return b.String() + ": " + p.What
}

// Unwrap implements errors.Is.
func (p Problem) Unwrap() error { return mover.ErrUsage }

// Problems are all that was found, in the order of the text. They are mover.ErrUsage.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap implements errors.Is.
func (ps Problems) Unwrap() error { return mover.ErrUsage }

// TextMost is how many bytes a text of policies may have.
const TextMost = 1 << 20

// Bounds of what is in it.
const (
	depthMost   = 24
	problemMost = 50
)

// reader reads documents into structs: every key has to be a field.
type reader struct {
	file     string
	problems Problems
}

func (r *reader) add(n *yaml.Node, field, format string, args ...any) {
	p := Problem{File: r.file, Field: field, What: fmt.Sprintf(format, args...)}
	if n != nil {
		p.Line, p.Column = n.Line, n.Column
	}
	if len(r.problems) < problemMost {
		r.problems = append(r.problems, p)
	}
}

// sorted returns what is wrong in the order of the text; nil when nothing is.
func (r *reader) sorted() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return r.problems
}

// yamlLine finds the line in a message of the YAML library, which has no type for it.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s)(.*)$`)

// documents splits a text.
func (r *reader) documents(text []byte) (all []*yaml.Node) {
	if len(text) > TextMost {
		r.add(nil, "", "has %d bytes; policies have at most %d in one file", len(text), TextMost)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			p := Problem{File: r.file, What: "is not valid YAML: " + err.Error()}
			if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
				p.Line, _ = strconv.Atoi(m[1])
				p.Column, p.What = 1, "is not valid YAML: "+m[2]
			}
			r.problems = append(r.problems, p)
			return all
		}
		if len(doc.Content) == 1 && doc.Content[0].Tag != "!!null" {
			all = append(all, doc.Content[0])
		}
	}
}

// value reads a node into a field.
func (r *reader) value(n *yaml.Node, field string, into reflect.Value, depth int) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || depth > depthMost {
		r.add(n, field, "anchors and aliases are not read here; write the value out")
		return
	}
	if own, ok := into.Addr().Interface().(interface {
		read(r *reader, n *yaml.Node, field string)
	}); ok {
		own.read(r, n, field)
		return
	}
	if text, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		r.scalar(n, field, text.UnmarshalText)
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		r.value(n, field, into.Elem(), depth+1)
	case reflect.Struct:
		r.table(n, field, into, depth)
	case reflect.Slice:
		r.list(n, field, into, depth)
	case reflect.Map:
		r.free(n, field, into, depth)
	case reflect.String:
		r.scalar(n, field, func(text []byte) error { into.SetString(string(text)); return nil })
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
			r.add(n, field, "want true or false")
			return
		}
		into.SetBool(n.Value == "true" || n.Value == "True" || n.Value == "TRUE")
	case reflect.Int64, reflect.Int:
		var number int64
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&number) != nil || number < 0 {
			r.add(n, field, "want a whole number, 0 or more")
			return
		}
		into.SetInt(number)
	default:
		panic("policy: a field of type " + into.Type().String())
	}
}

// scalar reads a single value.
func (r *reader) scalar(n *yaml.Node, field string, set func([]byte) error) {
	switch {
	case n.Kind != yaml.ScalarNode:
		r.add(n, field, "want a single value")
	case n.Tag == "!!null":
		r.add(n, field, "has no value")
	default:
		if err := set([]byte(n.Value)); err != nil {
			r.add(n, field, "%v", err)
		}
	}
}

var scalarType = reflect.TypeFor[encoding.TextUnmarshaler]()

// list reads a list; a single value is a list of one.
func (r *reader) list(n *yaml.Node, field string, into reflect.Value, depth int) {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	} else if item := into.Type().Elem(); item.Kind() == reflect.Struct && !reflect.PointerTo(item).Implements(scalarType) {
		r.add(n, field, "want a list")
		return
	}
	for i, item := range nodes {
		at := field
		if n.Kind == yaml.SequenceNode {
			at = fmt.Sprintf("%s[%d]", field, i)
		}
		one := reflect.New(into.Type().Elem()).Elem()
		r.value(item, at, one, depth+1)
		into.Set(reflect.Append(into, one))
	}
}

// free reads a table whose keys are free.
func (r *reader) free(n *yaml.Node, field string, into reflect.Value, depth int) {
	into.Set(reflect.MakeMap(into.Type()))
	r.pairs(n, field, func(key, value *yaml.Node) {
		one := reflect.New(into.Type().Elem()).Elem()
		r.value(value, join(field, key.Value), one, depth+1)
		into.SetMapIndex(reflect.ValueOf(key.Value), one)
	})
}

// table reads a table whose keys are the fields of a struct.
func (r *reader) table(n *yaml.Node, field string, into reflect.Value, depth int) {
	if at := into.FieldByName("At"); at.IsValid() {
		at.Set(reflect.ValueOf(Position{n.Line, n.Column}))
	}
	fields := fieldsOf(into.Type())
	r.pairs(n, field, func(key, value *yaml.Node) {
		i, known := fields[key.Value]
		if !known {
			r.add(key, join(field, key.Value), "unknown field%s", meant(key.Value, fields))
			return
		}
		r.value(value, join(field, key.Value), into.Field(i), depth+1)
	})
	for name, i := range fields {
		if strings.Contains(into.Type().Field(i).Tag.Get("policy"), "required") && into.Field(i).IsZero() && !r.within(join(field, name)) {
			r.add(n, join(field, name), "is missing")
		}
	}
}

// within reports whether something is wrong with a field already.
func (r *reader) within(field string) bool {
	return slices.ContainsFunc(r.problems, func(p Problem) bool { return strings.HasPrefix(p.Field, field) })
}

// pairs calls each for the pairs of a table.
func (r *reader) pairs(n *yaml.Node, field string, each func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.add(n, field, "want a table of fields")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			r.add(key, field, "want a name before the colon")
		case seen[key.Value]:
			r.add(key, join(field, key.Value), "is there twice")
		default:
			seen[key.Value] = true
			each(key, n.Content[i+1])
		}
	}
}

// fieldsOf are the fields of a struct by their names in YAML.
func fieldsOf(t reflect.Type) map[string]int {
	fields := map[string]int{}
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("yaml"); name != "" {
			fields[name] = i
		}
	}
	return fields
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// meant says which name was perhaps meant.
func meant[T any](name string, names map[string]T) string {
	best := spelling.Nearest(name, slices.Sorted(maps.Keys(names)))
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}
