package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// View returns what prints a message of the API as JSON, with these keys in this order:
//
//	name            the field of that name
//	key=field       a field of another name; key=field.inner is one of a message in it, or of each message in a list
//	key?            left out while the field is not set, or is zero
//	key[]           a list that is [], and not null, while it is empty
//	key { a b }     of a message, or of each message in a list, these keys
//	key:text        always that text
//
// A time is RFC 3339, a duration is seconds, an enum is its word without the prefix, and bytes are a [NameView] of two
// keys. more has the keys that no field has; one with ? is left out while it is nil.
func View[M proto.Message](keys string, more map[string]func(M) any) func(M) any {
	parsed := sync.OnceValue(func() []viewKey {
		var m M
		words := strings.Fields(keys)
		return parseKeys(&words, m.ProtoReflect().Descriptor(), func(key string) bool { return more[key] != nil })
	})
	return func(m M) any {
		return viewed{parsed(), m.ProtoReflect(), func(key string) any { return more[key](m) }}
	}
}

// Views are several messages as JSON has them; nil when there are none.
func Views[M proto.Message](view func(M) any, messages []M) any {
	var all []any
	for _, m := range messages {
		all = append(all, view(m))
	}
	if all == nil {
		return nil
	}
	return all
}

// viewKey is a key of a view.
type viewKey struct {
	name     string
	text     string                         // of a constant
	path     []protoreflect.FieldDescriptor // to the field; nil has none
	inner    []viewKey                      // of a message
	optional bool
	list     bool
}

func parseKeys(words *[]string, of protoreflect.MessageDescriptor, more func(string) bool) (keys []viewKey) {
	for len(*words) > 0 {
		word := (*words)[0]
		*words = (*words)[1:]
		switch word {
		case "}":
			return keys
		case "{":
			last := &keys[len(keys)-1]
			last.inner = parseKeys(words, last.path[len(last.path)-1].Message(), func(string) bool { return false })
			continue
		}
		if name, text, constant := strings.Cut(word, ":"); constant {
			keys = append(keys, viewKey{name: name, text: text})
			continue
		}
		var k viewKey
		word, k.optional = strings.CutSuffix(word, "?")
		word, k.list = strings.CutSuffix(word, "[]")
		name, field, _ := strings.Cut(word, "=")
		if k.name = name; !more(name) {
			k.path = fieldsOf(of, cmp.Or(field, name))
		}
		keys = append(keys, k)
	}
	return keys
}

// fieldsOf are the fields on the way to one, as owner.name.
func fieldsOf(of protoreflect.MessageDescriptor, way string) (path []protoreflect.FieldDescriptor) {
	for name := range strings.SplitSeq(way, ".") {
		f := of.Fields().ByName(protoreflect.Name(name))
		if f == nil {
			panic("cli: " + string(of.Name()) + " has no field " + name)
		}
		path, of = append(path, f), f.Message()
	}
	return path
}

// viewed is a message that is printed as JSON.
type viewed struct {
	keys []viewKey
	m    protoreflect.Message
	more func(key string) any
}

func (v viewed) MarshalJSON() ([]byte, error) {
	b := bytes.NewBufferString("{")
	member := func(key string, value any) error {
		text, err := json.Marshal(value)
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + key + `":`)
		b.Write(text)
		return err
	}
	for _, k := range v.keys {
		value, left := v.value(&k)
		if left && k.optional {
			continue
		}
		name, isName := value.(NameView)
		if isName {
			value = name.Name
		}
		if err := member(k.name, value); err != nil {
			return nil, err
		}
		if len(name.Name64) > 0 {
			if err := member(k.name+"64", name.Name64); err != nil {
				return nil, err
			}
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// value is what a key has, and whether it is left out where that may be.
func (v viewed) value(k *viewKey) (value any, left bool) {
	switch {
	case k.text != "":
		return k.text, false
	case k.path == nil:
		value = v.more(k.name)
		return value, value == nil
	}
	m, f := v.m, k.path[len(k.path)-1]
	for _, on := range k.path[:len(k.path)-1] {
		if on.IsList() {
			var all []any
			for i := range m.Get(on).List().Len() {
				all = append(all, k.one(f, m.Get(on).List().Get(i).Message().Get(f)))
			}
			return all, all == nil
		}
		m = m.Get(on).Message()
	}
	switch field := m.Get(f); {
	case f.IsMap():
		all := map[string]any{}
		field.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
			all[key.String()] = k.one(f.MapValue(), value)
			return true
		})
		value = all
	case f.IsList():
		var all []any
		if k.list {
			all = []any{}
		}
		for i := range field.List().Len() {
			all = append(all, k.one(f, field.List().Get(i)))
		}
		value = all
	default:
		value = k.one(f, field)
	}
	return value, !m.Has(f) || value == 0.0
}

// one is a value of a field that is neither a list nor a map.
func (k *viewKey) one(f protoreflect.FieldDescriptor, value protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.BytesKind:
		return ViewName(string(value.Bytes()))
	case protoreflect.EnumKind:
		values, word := f.Enum().Values(), strconv.Itoa(int(value.Enum()))
		if known := values.ByNumber(value.Enum()); known != nil {
			word = string(known.Name())
		}
		return strings.ToLower(strings.TrimPrefix(word, strings.TrimSuffix(string(values.ByNumber(0).Name()), "UNSPECIFIED")))
	case protoreflect.MessageKind:
		switch m := value.Message().Interface().(type) {
		case *timestamppb.Timestamp:
			return Stamp(m)
		case *durationpb.Duration:
			return m.AsDuration().Seconds()
		}
		return viewed{keys: k.inner, m: value.Message()}
	}
	return value.Interface()
}
