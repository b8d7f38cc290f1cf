package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"datamove.dev/mover"
)

// absent says which file of a set is not there, or is shorter than it was, although another one in it names it: of a set that was saved to the disks of several nodes, or of
// which some files were lost, what is there may be whole. inside begins with the set itself.
func absent(inside []Entry, peek Peek) (why string) {
	if len(inside) == 0 {
		return ""
	}
	have := map[string]int64{}
	for _, e := range inside {
		if e.Kind == File || e.Kind == Dir {
			have[e.Name] = e.Size
		}
	}
	for _, e := range inside[1:] {
		if e.Kind != File {
			continue
		}
		dir, base := split(e.Name)
		by := strings.TrimPrefix(e.Name, inside[0].Name+"/")
		if _, at := split(dir); base == ocdbtManifest && strings.HasPrefix(at, ocdbtOfProcess) {
			continue // the one of all processes is what is loaded
		}
		names, torn := namedBy(e, base, peek)
		if torn != "" {
			return mover.Printable(strings.TrimPrefix(dir+"/"+torn, inside[0].Name+"/")) + " is not whole"
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			switch size, is := have[dir+"/"+name]; {
			case !is:
				return mover.Printable(name) + " is not there, which " + by + " names"
			case size < names[name]:
				return fmt.Sprintf("%s has %d bytes, of which %s names %d", mover.Printable(name), size, by, names[name])
			}
		}
	}
	return ""
}

// namedBy are the names beside a file that it says are of its set, and how long each is at least. torn is the one of them that is not whole.
func namedBy(e Entry, base string, peek Peek) (names map[string]int64, torn string) {
	switch {
	case base == ".metadata":
		names, whole := shardsIn(e, peek)
		if !whole {
			torn = base
		}
		return names, torn
	case base == ocdbtManifest:
		return ocdbtNames(e, peek)
	case base == "_METADATA":
		return databaseIn(e, peek), ""
	case strings.HasSuffix(base, ".index.json"):
		return weightsIn(e, peek), ""
	case base == "latest":
		return stepIn(e, peek), ""
	}
	return nil, ""
}

// databaseIn is the manifest that Orbax loads arrays by, if it has written down that they are in a database: checkpoint/orbax/checkpoint/_src/metadata/tree.py (orbax 08ec2b42, use_ocdbt).
func databaseIn(e Entry, peek Peek) map[string]int64 {
	const most = 64 << 20
	var tree struct {
		Database bool `json:"use_ocdbt"`
	}
	if e.Size > most {
		return nil
	}
	if text, ok := part(e, peek, 0, e.Size); !ok || json.Unmarshal(text, &tree) != nil || !tree.Database {
		return nil
	}
	return map[string]int64{ocdbtManifest: 0}
}

const (
	metadataMost = 1 << 30 // bytes of .metadata; what is larger is not read
	metadataPart = 4 << 20
	shardNameMax = 64
)

// What an item of a distributed checkpoint says of where it is: torch/distributed/checkpoint/filesystem.py (pytorch b639d82d, 2.5, _StorageInfo).
const (
	itemFile   = "relative_path"
	itemOffset = "offset"
	itemLength = "length"
)

// shardName is how PyTorch names the files of a distributed checkpoint: the rank that has written it, and which of its files it is.
var shardName = mover.Pattern(`__\d{1,9}_\d{1,9}\.distcp`)

// shardsIn are the names of shards in .metadata, which is a pickle, and how long each is at least: where the last of its items ends. A file may be longer, since writers may fill it up. whole is
// false when it ends before it should.
func shardsIn(e Entry, peek Peek) (names map[string]int64, whole bool) {
	if e.Size > metadataMost {
		return nil, true
	}
	names = map[string]int64{}
	file := &peeked{peek: peek, name: e.Name, size: e.Size}
	key, in, fields := "", "", map[string]int64{}
	err := newPickleReader(file, func(text string) bool {
		_, named := names[text]
		return named || text == in || text == itemFile || text == itemOffset || text == itemLength
	}).each(func(one pickleItem) {
		for _, name := range shardName().FindAllString(one.text, -1) {
			names[name] = max(names[name], 0)
		}
		if one.is == aNumber && (key == itemOffset || key == itemLength) {
			fields[key] = one.number
		}
		if key == itemFile {
			in = one.text
			clear(fields)
		}
		if in != "" && len(fields) == 2 {
			names[in] = max(names[in], fields[itemOffset]+fields[itemLength])
			in = ""
		}
		key = one.text
	})
	switch {
	case err == nil, file.failed != nil:
		return names, true
	case errors.Is(err, errBlank): // as after a power cut
		return names, false
	}
	return spelledIn(e, peek)
}

// spelledIn are the names of shards that stand in .metadata as they are, which is no pickle that can be read: each name is written out where it first comes. whole is false when it ends before it
// should.
func spelledIn(e Entry, peek Peek) (names map[string]int64, whole bool) {
	names = map[string]int64{}
	var p frames
	for off := int64(0); off < e.Size; off += metadataPart {
		text, ok := part(e, peek, off, min(metadataPart+shardNameMax, e.Size-off)) // one that lies across the end is in both
		if !ok {
			return nil, true
		}
		for _, name := range shardName().FindAll(text, -1) {
			names[string(name)] = 0
		}
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
func weightsIn(e Entry, peek Peek) (names map[string]int64) {
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
	names = map[string]int64{}
	for _, name := range index.Map {
		if name != "" && !strings.Contains(name, "/") {
			names[name] = 0
		}
	}
	return names
}

// deepTag is a directory of DeepSpeed in a checkpoint of the Trainer, or of Lightning.
var deepTag = mover.Pattern(`^(global_step\d{1,18}|checkpoint)$`)

// stepIn is the directory that the tracker of DeepSpeed in a set names.
func stepIn(e Entry, peek Peek) map[string]int64 {
	text, ok := part(e, peek, 0, min(e.Size, textMost))
	if tag := string(bytes.TrimSpace(text)); ok && deepTag().MatchString(tag) {
		return map[string]int64{tag: 0}
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
