package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"

	"datamove.dev/mover"
)

// absent says which file of a set is not there although another one in it names it: of a set that was saved to the disks of several nodes, or of
// which some files were lost, what is there may be whole. inside begins with the set itself.
func absent(inside []Entry, peek Peek) (why string) {
	if len(inside) == 0 {
		return ""
	}
	have := map[string]bool{}
	for _, e := range inside {
		have[e.Name] = have[e.Name] || e.Kind == File || e.Kind == Dir
	}
	for _, e := range inside[1:] {
		if e.Kind != File {
			continue
		}
		dir, base := split(e.Name)
		names, whole := namedBy(e, base, peek)
		if !whole {
			return strings.TrimPrefix(e.Name, inside[0].Name+"/") + " is not whole"
		}
		for _, name := range names {
			if !have[dir+"/"+name] {
				return name + " is not there, which " + strings.TrimPrefix(e.Name, inside[0].Name+"/") + " names"
			}
		}
	}
	return ""
}

// namedBy are the names beside a file that it says are of its set.
func namedBy(e Entry, base string, peek Peek) (names []string, whole bool) {
	switch {
	case base == ".metadata":
		return shardsIn(e, peek)
	case strings.HasSuffix(base, ".index.json"):
		return weightsIn(e, peek), true
	case base == "latest":
		return stepIn(e, peek), true
	}
	return nil, true
}

const (
	metadataMost = 1 << 30 // bytes of .metadata; what is larger is not read
	metadataPart = 4 << 20
	shardNameMax = 64
)

// shardName is how PyTorch names the files of a distributed checkpoint: the rank that has written it, and which of its files it is.
var shardName = mover.Pattern(`__\d{1,9}_\d{1,9}\.distcp`)

// shardsIn are the names of shards in .metadata. That is a pickle, which is not unpickled, because that runs what it says: in it each name stands as
// it is, once at least, since a string is written out where it first comes (pickle protocol 2 and later). whole is false when it ends before it should.
func shardsIn(e Entry, peek Peek) (names []string, whole bool) {
	if e.Size > metadataMost {
		return nil, true
	}
	var p frames
	for off := int64(0); off < e.Size; off += metadataPart {
		text, ok := part(e, peek, off, min(metadataPart+shardNameMax, e.Size-off)) // one that lies across the end is in both
		if !ok {
			return nil, true
		}
		for _, name := range shardName().FindAll(text, -1) {
			names = append(names, string(name))
		}
		slices.Sort(names)
		names = slices.Compact(names)
		p.read(off, text, e.Size)
	}
	return names, p.whole(e.Size)
}

// frames follow a pickle from frame to frame (protocol 4 and later), each of which says how long it is, and to its end.
type frames struct {
	pickle bool
	framed bool
	next   int64 // where the next one begins
	last   byte
}

// read takes in what stands at an offset.
func (f *frames) read(off int64, text []byte, size int64) {
	const begins, head = "\x80", 9 // PROTO; FRAME and a length of eight bytes
	if off == 0 {
		f.pickle = strings.HasPrefix(string(text[:min(1, len(text))]), begins)
		f.framed, f.next = f.pickle && len(text) > 2 && text[1] >= 4 && text[2] == 0x95, 2
	}
	for at := f.next - off; f.framed && at >= 0 && at+head <= int64(len(text)) && text[at] == 0x95; at = f.next - off {
		long := binary.LittleEndian.Uint64(text[at+1:])
		if long > uint64(size) {
			f.next = size + 1
			return
		}
		f.next += head + int64(long)
	}
	if off+int64(len(text)) == size {
		f.last = text[len(text)-1]
	}
}

// whole says whether the pickle ends where it should. What is none, or has something between its frames, is not judged by their lengths.
func (f *frames) whole(size int64) bool {
	return !f.pickle || f.last == '.' && (!f.framed || f.next <= size)
}

// weightsIn are the files of an index of weights (Hugging Face).
func weightsIn(e Entry, peek Peek) (names []string) {
	const indexMost = 64 << 20
	if e.Size > indexMost {
		return nil
	}
	text, ok := part(e, peek, 0, e.Size)
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	if !ok || json.Unmarshal(text, &index) != nil {
		return nil
	}
	for _, name := range index.Map {
		if name != "" && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// deepTag is a directory of DeepSpeed in a checkpoint of the Trainer, or of Lightning.
var deepTag = mover.Pattern(`^(global_step\d{1,18}|checkpoint)$`)

// stepIn is the directory that the tracker of DeepSpeed in a set names.
func stepIn(e Entry, peek Peek) []string {
	text, ok := part(e, peek, 0, min(e.Size, textMost))
	if tag := string(bytes.TrimSpace(text)); ok && deepTag().MatchString(tag) {
		return []string{tag}
	}
	return nil
}

// weights are the files that have what a model has learned, as its frameworks name them; optimizers, schedulers and random states are none.
var weights = mover.Pattern(`(\.(safetensors|h5|msgpack|distcp|gguf)|(^|/)(pytorch_model|adapter_model|model|consolidated)[^/]*\.(bin|pt|pth)|[-_]model_states\.pt)$`)

// weightless says that a set has no weights, in whatever format.
func weightless(files []string) string {
	if slices.ContainsFunc(files, weights().MatchString) {
		return ""
	}
	return "no weights are in it"
}
