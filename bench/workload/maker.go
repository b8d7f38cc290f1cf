package workload

import (
	"fmt"
	"slices"
	"strings"

	"datamove.dev/bench/loadgen"
	"datamove.dev/bench/result"
	"datamove.dev/mover/units"
)

// maker makes phases, one suite after the other.
type maker struct {
	Sizes
	suite  string
	repeat int
	nodes  int // that take part in what is made now
	works  []loadgen.Work
}

// add adds a phase on a tree. Reads are of what another node has written, where there is one, and else another rank.
func (m *maker) add(name string, do loadgen.Deed, tree loadgen.Tree, change ...func(*loadgen.Work)) {
	w := loadgen.Work{Suite: m.suite, Name: name, Do: do, Unit: result.Ops, Repeat: m.repeat, Nodes: m.nodes, Ranks: m.Ranks, Tree: tree, Cache: m.Cache, Limit: m.Limit}
	for _, c := range change {
		c(&w)
	}
	if do == loadgen.Read || do == loadgen.Stat {
		w.Shift = 1
		if m.nodes > 1 {
			w.Shift = w.Ranks
		}
		w.Shift %= w.Nodes * w.Ranks
	}
	w.What = what(&w)
	m.works = append(m.works, w)
}

func bytes(w *loadgen.Work)  { w.Unit = result.Bytes }
func verify(w *loadgen.Work) { w.Verify = true }
func last(w *loadgen.Work)   { w.Last = true }
func synced(w *loadgen.Work) { w.Durable = loadgen.EachEnd }
func atEnd(w *loadgen.Work)  { w.Durable = loadgen.AtEnd }
func global(w *loadgen.Work) { w.Order = loadgen.Global }

// what is a phase for people.
func what(w *loadgen.Work) string {
	t := &w.Tree
	said := []string{fmt.Sprintf("%s on %s", units.Plural(int64(w.Ranks), "rank", "ranks"), units.Plural(int64(w.Nodes), "node", "nodes"))}
	switch {
	case t.Shared:
		said = append(said, fmt.Sprintf("one file, %s of each rank", units.Bytes(t.Bytes)))
	case t.Bytes > 0:
		said = append(said, fmt.Sprintf("%s of %s each", units.Plural(int64(t.Files), "file", "files"), units.Bytes(t.Bytes)))
	default:
		said = append(said, fmt.Sprintf("%s each", units.Plural(int64(t.Files), "empty file", "empty files")))
	}
	if t.Block > 0 && t.Block < t.Bytes {
		said = append(said, "in blocks of "+units.Bytes(t.Block))
	}
	switch {
	case t.Dirs > 0:
		said = append(said, units.Plural(int64(t.Dirs), "directory", "directories")+" of each rank")
	case t.Files > 1:
		said = append(said, "in one directory of all")
	}
	if w.Order != loadgen.Forward {
		said = append(said, "by chance among those of all ranks")
	}
	if w.Limit > 0 {
		said = append(said, "for at most "+units.Duration(w.Limit))
	}
	return strings.Join(said, ", ")
}

func (m *maker) large() {
	t := loadgen.Tree{Name: "large", Files: 1, Bytes: m.Bytes, Block: m.Block}
	m.add("write", loadgen.Write, t, bytes, synced)
	m.add("read", loadgen.Read, t, bytes)
	m.add("verify", loadgen.Read, t, bytes, verify)
	m.add("unlink", loadgen.Unlink, t, last)
}

func (m *maker) shared() {
	t := loadgen.Tree{Name: "shared", Files: 1, Bytes: whole(m.Bytes, m.Block), Block: m.Block, Shared: true}
	m.add("write", loadgen.Write, t, bytes, synced)
	m.add("read", loadgen.Read, t, bytes)
	m.add("verify", loadgen.Read, t, bytes, verify, last)
}

// whole is as many blocks as are in some bytes, and at least one.
func whole(bytes, block int64) int64 { return max(1, bytes/block) * block }

func (m *maker) small() {
	t := loadgen.Tree{Name: "small", Dirs: m.Dirs, Files: m.Files, Bytes: m.FileBytes}
	m.add("mkdir", loadgen.Mkdir, t)
	m.add("write", loadgen.Write, t, atEnd)
	m.add("stat", loadgen.Stat, t)
	m.add("read", loadgen.Read, t)
	m.add("verify", loadgen.Read, t, verify)
	m.add("rename", loadgen.Rename, t)
	m.add("unlink", loadgen.Unlink, t, last)
}

func (m *maker) metadata() { m.names(loadgen.Tree{Name: "metadata", Dirs: m.Dirs, Files: m.Files}) }

func (m *maker) storm() { m.names(loadgen.Tree{Name: "storm", Files: m.Files}) }

// names works on empty files.
func (m *maker) names(t loadgen.Tree) {
	if t.Dirs > 0 {
		m.add("mkdir", loadgen.Mkdir, t)
	}
	m.add("create", loadgen.Create, t)
	m.add("stat", loadgen.Stat, t)
	m.add("rename", loadgen.Rename, t)
	m.add("list", loadgen.List, t)
	m.add("unlink", loadgen.Unlink, t, last)
}

// checkpointModel is what MLPerf Storage v2.0 has for one: how many processes write how much together (Submission guidelines, table 2).
type checkpointModel struct {
	ranks int
	bytes float64
}

var models = map[string]checkpointModel{"8b": {8, 105e9}, "70b": {64, 912e9}, "405b": {512, 5.29e12}, "1t": {1024, 18e12}}

func modelNames() []string { return []string{"8b", "70b", "405b", "1t"} }

// checkpoint is one of a model at a scale: each of its ranks has one shard, synced before it counts, as MLPerf has it.
func (m *maker) checkpoint() {
	model := models[m.Model]
	shard := max(4096, int64(model.bytes*m.Scale)/int64(model.ranks)/4096*4096)
	t := loadgen.Tree{Name: "checkpoint", Files: 1, Bytes: shard, Block: min(shard, m.Block)}
	if m.Bucket && shard > m.Block {
		t.Block = m.Block
	}
	ranks := func(w *loadgen.Work) { w.Ranks = (model.ranks + m.nodes - 1) / m.nodes }
	m.add("write", loadgen.Write, t, bytes, synced, ranks)
	m.add("restore", loadgen.Read, t, bytes, verify, ranks)
	m.add("unlink", loadgen.Unlink, t, ranks, last)
}

// samples are those of a file that a data loader reads.
const samples = 256

func (m *maker) dataloader() {
	sample := max(16, m.Sample/16*16)
	files := max(1, m.Bytes/(sample*samples))
	t := loadgen.Tree{Name: "dataloader", Files: int(files), Bytes: sample * samples, Block: sample}
	if m.Bucket { // a sample is no part that S3 takes: an object each
		t = loadgen.Tree{Name: "dataloader", Files: int(files * samples), Bytes: sample}
	}
	m.add("write", loadgen.Write, t, bytes, atEnd)
	m.add("epoch", loadgen.Read, t, bytes, global)
	m.add("verify", loadgen.Read, t, bytes, global, verify, last)
}

func (m *maker) s3() {
	t := loadgen.Tree{Name: "put", Dirs: 1, Files: m.Files, Bytes: m.FileBytes}
	m.add("put", loadgen.Write, t)
	m.add("stat", loadgen.Stat, t)
	m.add("list", loadgen.List, t)
	m.add("get", loadgen.Read, t)
	m.add("verify", loadgen.Read, t, verify)
	m.add("delete", loadgen.Unlink, t, last)
	parts := loadgen.Tree{Name: "multipart", Files: 1, Bytes: m.Bytes, Block: m.Block}
	m.add("multipart", loadgen.Write, parts, bytes)
	m.add("range-get", loadgen.Read, parts, bytes, verify, func(w *loadgen.Work) { w.Order = loadgen.Shuffled })
	m.add("delete-large", loadgen.Unlink, parts, last)
}

// What IO500 has fixed (ior and mdtest of its configuration): ior-hard writes blocks of 47,008 bytes, mdtest-hard files of 3,901.
const (
	hardBlock = 47_008
	hardBytes = 3_901
)

func (m *maker) io500() {
	easy := loadgen.Tree{Name: "ior-easy", Files: 1, Bytes: m.Bytes, Block: m.Block}
	hard := loadgen.Tree{Name: "ior-hard", Files: 1, Bytes: whole(m.Bytes, hardBlock), Block: hardBlock, Shared: true}
	names := loadgen.Tree{Name: "mdtest-easy", Dirs: 1, Files: m.Files}
	crowd := loadgen.Tree{Name: "mdtest-hard", Files: m.Files, Bytes: hardBytes}
	m.add("ior-easy-write", loadgen.Write, easy, bytes, synced)
	m.add("mkdir", loadgen.Mkdir, names)
	m.add("mdtest-easy-write", loadgen.Create, names)
	m.add("ior-hard-write", loadgen.Write, hard, bytes, synced)
	m.add("mdtest-hard-write", loadgen.Write, crowd, atEnd)
	m.add("find", loadgen.Find, names)
	m.add("ior-easy-read", loadgen.Read, easy, bytes, last)
	m.add("mdtest-easy-stat", loadgen.Stat, names)
	m.add("ior-hard-read", loadgen.Read, hard, bytes, last)
	m.add("mdtest-hard-stat", loadgen.Stat, crowd)
	m.add("mdtest-easy-delete", loadgen.Unlink, names, last)
	m.add("mdtest-hard-read", loadgen.Read, crowd)
	m.add("mdtest-hard-delete", loadgen.Unlink, crowd, last)
}

// Nodes are the numbers of nodes of a scaling curve: 1, 2, 4 and so on, and all.
func Nodes(all int) (sizes []int) {
	for n := 1; n < all; n *= 2 {
		sizes = append(sizes, n)
	}
	return append(slices.Clip(sizes), all)
}
