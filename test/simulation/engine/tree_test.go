package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
)

// grower fills a tree with random entries, and knows what it made.
type grower struct {
	rng   *rand.Rand
	tree  *mem.Tree
	kinds map[string]mover.Kind
	seen  *versions
	links map[string][]string // all names of the content of a name
}

func newGrower(rng *rand.Rand, seen *versions) *grower {
	return &grower{rng: rng, tree: mem.NewTree(), kinds: map[string]mover.Kind{}, seen: seen, links: map[string][]string{}}
}

// grow makes up to n entries.
func (g *grower) grow(n int, sizes []int, avoid map[string]mover.Kind) {
	kinds := []mover.Kind{mover.File, mover.File, mover.File, mover.File, mover.Dir, mover.Symlink, mover.FIFO}
	for range g.rng.IntN(n + 1) {
		name, kind := g.name(), kinds[g.rng.IntN(len(kinds))]
		if !free(g.kinds, name) || !bearable(avoid, name, kind) {
			continue
		}
		g.make(name, kind, sizes[g.rng.IntN(len(sizes))])
	}
}

// name is one of few, so that the trees meet.
func (g *grower) name() string {
	const letters = "abc."
	segments := make([]string, 1+g.rng.IntN(4))
	for i := range segments {
		segments[i] = string(letters[g.rng.IntN(3)]) + strings.TrimRight(string(letters[g.rng.IntN(4)]), "c")
	}
	return strings.Join(segments, "/")
}

func (g *grower) make(name string, kind mover.Kind, size int) {
	e := mover.Entry{
		Name: name, Kind: kind, Known: mover.FactMode | mover.FactMtime,
		Mode: 0o600 | uint32(g.rng.IntN(8)), Mtime: mover.Time{Sec: int64(1 + g.rng.IntN(1<<30))},
	}
	if g.rng.IntN(4) == 0 {
		e.Known |= mover.FactXattrs
		e.Xattrs = []mover.Xattr{{Name: "user.seed", Value: []byte(g.content(9))}}
	}
	g.note(name, kind)
	switch kind {
	case mover.Symlink:
		e.Target = []string{"x", "../y", "/etc"}[g.rng.IntN(3)]
	case mover.File:
		if other := g.anyFile(); other != "" && g.rng.IntN(8) == 0 {
			g.link(other, name)
			return
		}
	}
	if kind != mover.File {
		g.tree.Put(e, nil)
		return
	}
	content := g.content(size)
	g.seen.add(name, content)
	g.tree.Put(e, []byte(content))
}

// note remembers an entry and the directories that come with it.
func (g *grower) note(name string, kind mover.Kind) {
	g.kinds[name] = kind
	for dir, _ := mover.Parent(name); dir != ""; dir, _ = mover.Parent(dir) {
		g.kinds[dir] = mover.Dir
	}
}

func (g *grower) link(old, name string) {
	content, _ := g.tree.Content(old)
	g.seen.add(name, content)
	g.tree.Link(old, name)
	names := append(g.links[old], name)
	if len(names) == 1 {
		names = append(names, old)
	}
	for _, n := range names {
		g.links[n] = names
	}
}

func (g *grower) anyFile() string {
	var files []string
	for name, kind := range g.kinds {
		if _, made := g.tree.Content(name); kind == mover.File && made {
			files = append(files, name)
		}
	}
	if len(files) == 0 {
		return ""
	}
	slices.Sort(files) // the same one for the same seed
	return files[g.rng.IntN(len(files))]
}

// content is random enough that no two contents of a size are the same.
func (g *grower) content(size int) string {
	line := fmt.Sprintf("%x.", g.rng.Uint64())
	return strings.Repeat(line, size/len(line)+1)[:size]
}

// free says whether name can be made beside the names that are there.
func free(made map[string]mover.Kind, name string) bool {
	for other, kind := range made {
		if mover.Within(other, name) || mover.Within(name, other) && kind != mover.Dir {
			return false
		}
	}
	return true
}

// bearable says whether an entry of the target, and its directories, leave room for
// what a copy without removals has to make there.
func bearable(source map[string]mover.Kind, name string, kind mover.Kind) bool {
	if k, ok := source[name]; ok && kind == mover.Dir && k != mover.Dir {
		return false
	}
	for dir, _ := mover.Parent(name); dir != ""; dir, _ = mover.Parent(dir) {
		if k, ok := source[dir]; ok && k != mover.Dir {
			return false
		}
	}
	return true
}
