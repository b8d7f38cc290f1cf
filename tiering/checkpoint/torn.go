package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
)

// Peek reads a part of a file of a tree, and less than p at its end.
type Peek func(name string, off int64, p []byte) (n int, err error)

// Torn looks at the beginning and the end of files of a set in formats that say how long they have to be. It says which of them is not whole. After a
// power cut names, sizes and times can be there while the content is not, since most frameworks sync nothing. Nothing in them is
// believed but that. A file that can not be read, or is of another format, is not torn. What a [Commit] names was synced before.
func Torn(t Tree, s Set, peek Peek) (why string) {
	if s.Commit != nil && s.Commit.Torn == "" {
		return ""
	}
	inside := t.under(s.Name)
	mark := ""
	if len(inside) > 0 {
		mark = lateAfter(s.Profile, inside, s.Mark)
	}
	marked := modifiedOf(inside, s.Name+"/"+mark)
	for _, e := range inside {
		name := strings.TrimPrefix(e.Name, s.Name+"/")
		if e.Kind != File || e.Size == 0 || isLate(s.Profile, mark, marked, name, e) {
			continue
		}
		if shape := shapeOf(e.Name); shape != nil && !shape(e, peek) {
			if name == orbaxMetadata {
				return name + " does not say that it was committed"
			}
			return name + " is not whole"
		}
	}
	return absent(inside, peek)
}

// modifiedOf is when an entry was; 0 is none.
func modifiedOf(entries []Entry, name string) int64 {
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return 0
	}
	return entries[i].Modified
}

const orbaxMetadata = "_CHECKPOINT_METADATA"

// shapeOf is what can tell whether a file of that name is whole; nil is nothing.
func shapeOf(name string) func(Entry, Peek) bool {
	_, base := split(name)
	switch {
	case base == orbaxMetadata:
		return orbaxCommitted
	case strings.HasSuffix(base, ".json"), base == "_METADATA", base == "_sharding":
		return jsonWhole
	case strings.HasSuffix(base, ".nemo"):
		return tarWhole
	case strings.HasSuffix(base, ".safetensors"):
		return safetensorsWhole
	case strings.HasSuffix(base, ".pt"), strings.HasSuffix(base, ".pth"), strings.HasSuffix(base, ".ckpt"), strings.HasSuffix(base, ".bin"),
		strings.HasSuffix(base, ".distcp"): // one archive for each tensor
		return zipWhole
	}
	return nil
}

// part reads a range of a file. ok is false when it can not be.
func part(e Entry, peek Peek, off, n int64) (b []byte, ok bool) {
	b = make([]byte, n)
	got, err := peek(e.Name, off, b)
	return b, err == nil && got == len(b)
}

// zipWhole says whether what begins as an archive, as torch.save writes it, ends as one. Other formats begin otherwise, but
// none begins with zeros.
func zipWhole(e Entry, peek Peek) bool {
	head, ok := part(e, peek, 0, min(4, e.Size))
	if !ok {
		return true
	}
	const begins = "PK\x03\x04"
	if string(head) != begins {
		return !blank(head) && !strings.HasPrefix(begins, string(head))
	}
	const end = 22 // bytes of the last record, without a comment, which torch never writes
	if e.Size < end {
		return false
	}
	tail, ok := part(e, peek, e.Size-end, end)
	return !ok || bytes.Equal(tail[:4], []byte("PK\x05\x06"))
}

// tarWhole says whether a file begins as a tar archive, and ends as one: with two blocks of zeros. One that is compressed is not looked into.
func tarWhole(e Entry, peek Peek) bool {
	const block, magic = 512, 257
	head, ok := part(e, peek, 0, min(block, e.Size))
	if !ok {
		return true
	}
	if bytes.HasPrefix(head, []byte("\x1f\x8b")) {
		return true
	}
	if len(head) < block || !bytes.Equal(head[magic:magic+5], []byte("ustar")) {
		return false
	}
	if e.Size%block != 0 || e.Size < 3*block {
		return false
	}
	tail, ok := part(e, peek, e.Size-2*block, 2*block)
	return !ok || blank(tail)
}

// safetensorsWhole says whether a file is as long as its header says: eight bytes have the length of the header, which has where each tensor ends.
func safetensorsWhole(e Entry, peek Peek) bool {
	const headMost = 100 << 20 // as the format allows
	head, ok := part(e, peek, 0, min(8, e.Size))
	if !ok {
		return true
	}
	if len(head) < 8 {
		return false
	}
	n := int64(binary.LittleEndian.Uint64(head))
	if n < 2 || n > headMost || n > e.Size-8 {
		return false
	}
	text, ok := part(e, peek, 8, n)
	if !ok {
		return true
	}
	var tensors map[string]struct {
		Offsets []int64 `json:"data_offsets"`
	}
	var ends int64
	if json.Unmarshal(text, &tensors) != nil && json.Unmarshal(withoutMetadata(text), &tensors) != nil {
		return false
	}
	for _, t := range tensors {
		if len(t.Offsets) == 2 {
			ends = max(ends, t.Offsets[1])
		}
	}
	return e.Size == 8+n+ends
}

// withoutMetadata takes out of a header what is no tensor.
func withoutMetadata(text []byte) []byte {
	var all map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil {
		return nil
	}
	delete(all, "__metadata__")
	out, _ := json.Marshal(all) // of what was JSON before
	return out
}

const jsonMost = 4 << 20

// jsonWhole says whether a text is JSON. A long one is looked at where it ends.
func jsonWhole(e Entry, peek Peek) bool {
	n := min(e.Size, jsonMost)
	text, ok := part(e, peek, e.Size-n, n)
	if !ok {
		return true
	}
	if n == e.Size {
		return json.Valid(text) || json.Valid(inPython(text))
	}
	text = bytes.TrimSpace(text)
	return len(text) > 0 && (text[len(text)-1] == '}' || text[len(text)-1] == ']')
}

// inPython has numbers for what Python writes for those that JSON can not say (json.dump: allow_nan): a loss, or the norm of a gradient. Within texts it does no harm.
func inPython(text []byte) []byte {
	for _, name := range []string{"-Infinity", "Infinity", "NaN"} {
		text = bytes.ReplaceAll(text, []byte(name), []byte("0"))
	}
	return text
}

// orbaxCommitted says whether Orbax has written down when it has committed a checkpoint: it makes the file at the beginning, without that.
func orbaxCommitted(e Entry, peek Peek) bool {
	text, ok := part(e, peek, 0, min(e.Size, jsonMost))
	if !ok || e.Size > jsonMost {
		return true
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(text, &m) != nil {
		return false
	}
	at := m["commit_timestamp_nsecs"]
	return len(at) > 0 && string(at) != "null"
}

func blank(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
