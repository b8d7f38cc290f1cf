package uapi

import "datamove.dev/lustre"

// sizeForeign is the head of a lov_foreign_md: magic, length of the value, type, flags.
const sizeForeign = 16

func decodeForeign(b []byte) (*lustre.Foreign, error) {
	if len(b) < sizeForeign {
		return nil, malformed("a foreign layout of %d bytes: its head has %d", len(b), sizeForeign)
	}
	length := le.Uint32(b[4:])
	if uint64(length) > uint64(len(b)-sizeForeign) {
		return nil, malformed("a foreign layout says that its value has %d bytes, and %d are there", length, len(b)-sizeForeign)
	}
	value := append([]byte(nil), b[sizeForeign:sizeForeign+int(length)]...)
	return &lustre.Foreign{Type: le.Uint32(b[8:]), Flags: le.Uint32(b[12:]), Value: value}, nil
}

func encodeForeign(magic uint32, f *lustre.Foreign) ([]byte, error) {
	if len(f.Value) > MaxLayout-sizeForeign {
		return nil, errRange("a foreign value", int64(len(f.Value)))
	}
	b := make([]byte, sizeForeign, sizeForeign+len(f.Value))
	le.PutUint32(b, magic)
	le.PutUint32(b[4:], uint32(len(f.Value)))
	le.PutUint32(b[8:], f.Type)
	le.PutUint32(b[12:], f.Flags)
	return append(b, f.Value...), nil
}
