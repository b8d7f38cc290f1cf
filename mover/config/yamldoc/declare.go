// Package yamldoc reads what people write down for us in YAML: a file that begins with its kind, of which every key is a field that there is. All that is wrong is said
// at once, each with file, line, column and field, and with what to write instead.
//
// A struct says how it is read: the tag yaml names a field, declare:"required" one that has to be there; a field At of the type [Position] is set to where a table
// stands. What has more to say implements [Own], or encoding.TextUnmarshaler. Texts are hostile: their size, depth and aliases are bounded.
//
// Everything here is pure, and for one goroutine.
package yamldoc

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"datamove.dev/mover"
	"datamove.dev/mover/config/spelling"
)

// Position is where something stands in a text, from 1.
type Position struct{ Line, Column int }

// Problem is something in a text that is wrong. It is mover.ErrUsage.
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

// TextMost is how many bytes a text may have.
const TextMost = 1 << 20

// Bounds of what is in it.
const (
	depthMost   = 24
	problemMost = 50
)

// Reader reads documents into structs: every key has to be a field.
type Reader struct {
	File     string    // for people
	Problems Problems  // so far
	Places   Positions // of what Into has read; nil is not noted
}

// Positions has where each field stands.
type Positions map[string]Position

// Of is where a field stands, or else what is around it; the zero Position is not known.
func (p Positions) Of(field string) Position {
	for {
		if at, known := p[field]; known || field == "" {
			return at
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
}

// Own is what reads itself.
type Own interface {
	Read(r *Reader, n *yaml.Node, field string)
}

// Into reads a document, or what stands at a field of one, into what a pointer points to.
func (r *Reader) Into(n *yaml.Node, field string, into any) {
	r.value(n, field, reflect.ValueOf(into).Elem(), 0)
}

// Table reads a table that has the fields of a struct as its keys; into is a pointer to the struct, also where that is Own.
func (r *Reader) Table(n *yaml.Node, field string, into any) {
	r.table(n, field, reflect.ValueOf(into).Elem(), 0)
}

// One is a field that takes one of some words.
func (r *Reader) One(n *yaml.Node, field string, words map[string]string) string {
	if n.Kind != yaml.ScalarNode {
		r.Add(n, field, "want a single word")
		return ""
	}
	if _, ok := words[n.Value]; !ok {
		r.Add(n, field, "unknown word %q%s; want %s", n.Value, meant(n.Value, words), choices(words))
		return ""
	}
	return n.Value
}

func choices(words map[string]string) string {
	all := slices.Sorted(maps.Keys(words))
	if len(all) == 1 {
		return all[0]
	}
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}

// PositionOf is where a node stands.
func PositionOf(n *yaml.Node) Position { return Position{n.Line, n.Column} }

// AddAt notes that something is wrong with a field, and where; the zero Position is not known.
func (r *Reader) AddAt(at Position, field, format string, args ...any) {
	if len(r.Problems) < problemMost {
		r.Problems = append(r.Problems, Problem{r.File, at.Line, at.Column, field, fmt.Sprintf(format, args...)})
	}
}

// Add notes that something is wrong with a field; n is where it stands, nil is not known.
func (r *Reader) Add(n *yaml.Node, field, format string, args ...any) {
	at := Position{}
	if n != nil {
		at = PositionOf(n)
	}
	r.AddAt(at, field, format, args...)
}

// Err returns what is wrong in the order of the text; nil when nothing is.
func (r *Reader) Err() error {
	if len(r.Problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.Problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return r.Problems
}

// yamlLine finds the line in a message of the YAML library, which has no type for it.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s)(.*)$`)

// Documents splits a text.
func (r *Reader) Documents(text []byte) (all []*yaml.Node) {
	if len(text) > TextMost {
		r.Add(nil, "", "has %d bytes; want at most %d in one file", len(text), TextMost)
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
			p := Problem{File: r.File, What: "is not valid YAML: " + err.Error()}
			if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
				p.Line, _ = strconv.Atoi(m[1])
				p.Column, p.What = 1, "is not valid YAML: "+m[2]
			}
			r.Problems = append(r.Problems, p)
			return all
		}
		if len(doc.Content) == 1 && doc.Content[0].Tag != "!!null" {
			all = append(all, doc.Content[0])
		}
	}
}

// value reads a node into a field.
func (r *Reader) value(n *yaml.Node, field string, into reflect.Value, depth int) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || depth > depthMost {
		r.Add(n, field, "anchors and aliases are not read here; write the value out")
		return
	}
	if r.Places != nil {
		r.Places[field] = PositionOf(n)
	}
	if own, ok := into.Addr().Interface().(Own); ok {
		own.Read(r, n, field)
		return
	}
	if text, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		r.Scalar(n, field, text.UnmarshalText)
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
		r.Scalar(n, field, func(text []byte) error { into.SetString(string(text)); return nil })
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
			r.Add(n, field, "want true or false")
			return
		}
		into.SetBool(n.Value == "true" || n.Value == "True" || n.Value == "TRUE")
	case reflect.Int64, reflect.Int:
		var number int64
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&number) != nil || number < 0 {
			r.Add(n, field, "want a whole number, 0 or more")
			return
		}
		into.SetInt(number)
	case reflect.Float64:
		var number float64
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" || n.Decode(&number) != nil || !(number >= 0) || math.IsInf(number, 0) {
			r.Add(n, field, "want a number, 0 or more")
			return
		}
		into.SetFloat(number)
	default:
		panic("declare: a field of type " + into.Type().String())
	}
}

// Scalar reads a single value.
func (r *Reader) Scalar(n *yaml.Node, field string, set func([]byte) error) {
	switch {
	case n.Kind != yaml.ScalarNode:
		r.Add(n, field, "want a single value")
	case n.Tag == "!!null":
		r.Add(n, field, "has no value")
	default:
		if err := set([]byte(n.Value)); err != nil {
			r.Add(n, field, "%v", err)
		}
	}
}

// ScalarType is that of what is read from a single value.
var ScalarType = reflect.TypeFor[encoding.TextUnmarshaler]()

// list reads a list; a single value is a list of one.
func (r *Reader) list(n *yaml.Node, field string, into reflect.Value, depth int) {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	} else if item := into.Type().Elem(); item.Kind() == reflect.Struct && !reflect.PointerTo(item).Implements(ScalarType) {
		r.Add(n, field, "want a list")
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

// free reads a table with free keys.
func (r *Reader) free(n *yaml.Node, field string, into reflect.Value, depth int) {
	into.Set(reflect.MakeMap(into.Type()))
	r.pairs(n, field, func(key, value *yaml.Node) {
		one := reflect.New(into.Type().Elem()).Elem()
		r.value(value, Join(field, key.Value), one, depth+1)
		into.SetMapIndex(reflect.ValueOf(key.Value), one)
	})
}

// table reads a table that has the fields of a struct as its keys.
func (r *Reader) table(n *yaml.Node, field string, into reflect.Value, depth int) {
	if at := into.FieldByName("At"); at.IsValid() {
		at.Set(reflect.ValueOf(PositionOf(n)))
	}
	fields := Fields(into.Type())
	r.pairs(n, field, func(key, value *yaml.Node) {
		i, known := fields[key.Value]
		if !known {
			r.Add(key, Join(field, key.Value), "unknown field%s", meant(key.Value, fields))
			return
		}
		r.value(value, Join(field, key.Value), into.Field(i), depth+1)
	})
	for name, i := range fields {
		if n.Kind == yaml.MappingNode && strings.Contains(into.Type().Field(i).Tag.Get("declare"), "required") && into.Field(i).IsZero() && !r.Within(Join(field, name)) {
			r.Add(n, Join(field, name), "is missing")
		}
	}
}

// Within reports whether something is wrong with a field already.
func (r *Reader) Within(field string) bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool { return strings.HasPrefix(p.Field, field) })
}

// pairs calls each for the pairs of a table.
func (r *Reader) pairs(n *yaml.Node, field string, each func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.Add(n, field, "want a table of fields")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			r.Add(key, field, "want a name before the colon")
		case seen[key.Value]:
			r.Add(key, Join(field, key.Value), "is there twice")
		default:
			seen[key.Value] = true
			each(key, n.Content[i+1])
		}
	}
}

// Fields are the fields of a struct by their names in YAML.
func Fields(t reflect.Type) map[string]int {
	fields := map[string]int{}
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("yaml"); name != "" {
			fields[name] = i
		}
	}
	return fields
}

// Join names a field of a table.
func Join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// meant says which name was perhaps meant.
func meant[T any](name string, names map[string]T) string {
	question := spelling.Question(name, slices.Sorted(maps.Keys(names)))
	if question == "" {
		return ""
	}
	return "; " + question
}
