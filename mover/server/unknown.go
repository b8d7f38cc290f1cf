package server

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"datamove.dev/mover"
)

// understood is an error where a call that changes something says what this service does not know: its program is newer, and what it asks for would be ignored. What
// only asks may: its answer lacks something.
func understood(full string, request any) error {
	m, ok := request.(proto.Message)
	if !ok || !public(full) || reads(full) {
		return nil
	}
	if in, field := unheardOf(m.ProtoReflect()); field > 0 {
		return fmt.Errorf("%w: the request says something (field %d of %s) that this service does not know, since it is older than the program that asks; upgrade the coordinator first, or leave out what is new", mover.ErrUnsupported, field, in)
	}
	return nil
}

// unheardOf is the first field that this program does not know, of a message or of one in it; 0 is none.
func unheardOf(m protoreflect.Message) (in protoreflect.Name, field protowire.Number) {
	if b := m.GetUnknown(); len(b) > 0 {
		field, _, _ = protowire.ConsumeTag(b)
		return m.Descriptor().Name(), field
	}
	look := func(v protoreflect.Value) bool {
		in, field = unheardOf(v.Message())
		return field == 0
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { return look(v) })
			}
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				if !look(v.List().Get(i)) {
					break
				}
			}
		default:
			look(v)
		}
		return field == 0
	})
	return in, field
}
