package s3

import (
	"context"
	"strings"
)

// Listen tells of names that something was put to, or removed from, until ctx or the connection ends: what happens between two of them is not told. begun is
// called when it is heard what happens. mover.ErrUnsupported is the answer of a server that has no such thing; MinIO has it.
func (p *Backend) Listen(ctx context.Context, begun func(), tell func(name string)) error {
	return p.wrap("listen to", "", p.client.Listen(ctx, p.prefix, begun, func(key string) {
		if name, ok := listened(p.prefix, key); ok {
			tell(name)
		}
	}))
}

// listened is the name of a key in an event; ok is false of what is not ours to tell.
func listened(prefix, key string) (name string, ok bool) {
	rel, below := strings.CutPrefix(key, prefix)
	rel = strings.TrimSuffix(rel, "/") // the marker of a directory
	if !below || rel == "" || isOwn(rel) {
		return "", false
	}
	name, err := DecodeKey(rel)
	return name, err == nil
}
