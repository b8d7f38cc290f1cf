package policy

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"datamove.dev/mover/config/yamldoc"
)

// Schema is the JSON Schema (draft 2020-12) of a policy, for editors. Read knows more: it checks expressions, and what fields say together.
func Schema() ([]byte, error) {
	s := schemaOf(reflect.TypeFor[Policy]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "TierPolicy: rules of what is to happen to files on the tiers"
	s["properties"].(object)["kind"] = object{"const": kindName}
	return json.MarshalIndent(s, "", "  ")
}

type object = map[string]any

// words are the types that take one of some words.
var words = map[reflect.Type][]string{
	reflect.TypeFor[Mode](): slices.Sorted(maps.Keys(modes)), reflect.TypeFor[Verb](): slices.Sorted(maps.Keys(verbs)),
	reflect.TypeFor[Missed](): {string(RunOnce), string(SkipRuns)}, reflect.TypeFor[Overlap](): {string(Forbid)},
	reflect.TypeFor[Measure](): {string(OfBytes), string(OfInodes)}, reflect.TypeFor[Stale](): {string(Rescan), string(Refuse)},
	reflect.TypeFor[Event](): {string(CheckpointComplete), string(CheckpointVerified), string(TaskDone)},
	reflect.TypeFor[By]():    {string(ByAge), string(BySize), string(ByWeight)}, reflect.TypeFor[Recheck](): {string(Identity)},
	reflect.TypeFor[Verify](): {string(ByServer), string(ByReading)},
	reflect.TypeFor[State]():  States, reflect.TypeFor[Rank](): slices.Sorted(maps.Keys(ranks)),
	reflect.TypeFor[Kind](): {"blockdev", "chardev", "dir", "fifo", "file", "socket", "symlink"},
}

// forms are the types that are written as a number or a text of a form.
var forms = map[reflect.Type]string{
	reflect.TypeFor[Span](): `^[0-9.]+(ns|us|ms|s|m|h|d|w)([0-9.]+(m|s|ms))*$`, reflect.TypeFor[Percent](): `^[0-9.]+%?$`,
	reflect.TypeFor[Count](): `^[0-9]+[kMG]?$`, reflect.TypeFor[Bytes](): `^[0-9.]+ ?[A-Za-z]*$`, reflect.TypeFor[Rate](): `^[0-9.]+ ?[A-Za-z]*(/s|/sec)?$`,
	reflect.TypeFor[Sizes](): comparison, reflect.TypeFor[Ages](): comparison, reflect.TypeFor[Counts](): comparison,
	reflect.TypeFor[Name](): `^[A-Za-z0-9._-]{1,128}$`, reflect.TypeFor[Glob](): `^/?[^/]`, reflect.TypeFor[Where](): ".",
}

const comparison = `^(<|<=|>|>=|=|==)? *[0-9.]+ ?[A-Za-z]*( *\.\. *[0-9.]+ ?[A-Za-z]*)?$`

func schemaOf(t reflect.Type) object {
	if w, ok := words[t]; ok {
		return object{"enum": w}
	}
	if f, ok := forms[t]; ok {
		return object{"type": []string{"string", "number"}, "pattern": f}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Slice:
		item := schemaOf(t.Elem())
		list := object{"type": "array", "items": item}
		if t.Elem().Kind() == reflect.Struct && !reflect.PointerTo(t.Elem()).Implements(yamldoc.ScalarType) {
			return list
		}
		return object{"anyOf": []any{item, list}}
	case reflect.Struct:
		return tableSchema(t)
	}
	return object{"type": []string{"string", "number"}}
}

// tableSchema is that of a table. One within itself (not, of match) is anything there: a schema has to end.
func tableSchema(t reflect.Type) object {
	properties, required := object{}, []string{}
	for name, i := range yamldoc.Fields(t) {
		f := t.Field(i)
		if f.Type.Kind() == reflect.Pointer && f.Type.Elem() == t {
			properties[name] = object{"type": "object"}
			continue
		}
		properties[name] = schemaOf(f.Type)
		if strings.Contains(f.Tag.Get("declare"), "required") {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	if t == reflect.TypeFor[Action]() {
		return object{"anyOf": []any{object{"enum": words[reflect.TypeFor[Verb]()]}, s}}
	}
	return s
}
