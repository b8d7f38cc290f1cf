package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"datamove.dev/mover/config/spelling"
)

// maxDepth bounds what inspect follows; the schema has five levels.
const maxDepth = 16

// maxText bounds one value: it is the length of a path.
const maxText = 4096

// inspect compares text with the schema. It returns every value with its line, in
// the order of the file.
func inspect(file string, text []byte) ([]Setting, Problems) {
	in := &inspector{file: file}
	if len(text) > maxBytes {
		in.add(nil, "", fmt.Sprintf("has %d bytes; a configuration has at most %d", len(text), maxBytes), "")
		return nil, in.problems
	}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		in.syntax(err)
		return nil, in.problems
	}
	if next := (yaml.Node{}); !errors.Is(dec.Decode(&next), io.EOF) {
		in.add(&next, "", "has more than one YAML document", "keep one")
	}
	if len(doc.Content) > 0 && !isNull(doc.Content[0]) {
		in.node(doc.Content[0], "", schema, 0)
		in.follow(doc.Content[0])
	}
	slices.SortStableFunc(in.problems, func(a, b Problem) int { return a.Line - b.Line })
	return in.settings, in.problems
}

type inspector struct {
	file     string
	settings []Setting
	named    []reference
	problems Problems
}

// reference is a value that names a tier.
type reference struct {
	at   *yaml.Node
	key  string
	tier string
}

func (in *inspector) add(n *yaml.Node, key, what, mend string) {
	p := Problem{File: in.file, Key: key, What: what, Mend: mend}
	if n != nil {
		p.Line = n.Line
	}
	in.problems = append(in.problems, p)
}

// yamlLine finds the line in a message of the YAML library, which has no type for it.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s)(.*)$`)

func (in *inspector) syntax(err error) {
	p := Problem{File: in.file, What: "is not valid YAML: " + err.Error(), Mend: "look at the indentation, and at quotes and colons"}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		p.What = "is not valid YAML: " + m[2]
	}
	in.problems = append(in.problems, p)
}

func (in *inspector) node(n *yaml.Node, key string, r rule, depth int) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "" || depth > maxDepth:
		in.add(n, key, "uses a YAML anchor or alias", "write the value out")
	case r.items != nil:
		in.list(n, key, r, depth)
	case r.keys != nil || r.each != nil:
		in.table(n, key, r, depth)
	case n.Kind != yaml.ScalarNode:
		in.add(n, key, "must be a single value, not a list or table", "")
	case isNull(n):
		in.add(n, key, "has no value", "give it one, or remove the line")
	default:
		in.value(n, key, r)
	}
}

// value looks at a single value.
func (in *inspector) value(n *yaml.Node, key string, r rule) {
	in.settings = append(in.settings, Setting{key, n.Value, Problem{File: in.file, Line: n.Line}.Place()})
	var number int64
	switch {
	case r.truth:
		if n.Tag != "!!bool" {
			in.add(n, key, "must be true or false", "")
		}
	case r.number > 0:
		least := int64(1)
		if r.zero {
			least = 0
		}
		if n.Tag != "!!int" || n.Decode(&number) != nil || number < least || number > r.number {
			in.add(n, key, fmt.Sprintf("must be a whole number from %d to %d", least, r.number), "")
		}
	case n.Tag != "!!str" && r.check(n.Value) == nil:
		in.add(n, key, "must be text", "put quotes around it")
	case len(n.Value) > maxText:
		in.add(n, key, fmt.Sprintf("has %d bytes; a value has at most %d", len(n.Value), maxText), "")
	default:
		in.text(n, key, r)
	}
}

func (in *inspector) text(n *yaml.Node, key string, r rule) {
	if err := r.check(n.Value); err != nil {
		in.add(n, key, err.Error(), "")
		return
	}
	if r.tier == nil {
		return
	}
	if tier := r.tier(n.Value); tier != "" {
		in.named = append(in.named, reference{n, key, tier})
	}
}

// follow looks whether the tiers that were named are there.
func (in *inspector) follow(root *yaml.Node) {
	tiers := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if table := root.Content[i+1]; root.Content[i].Value == "tiers" && table.Kind == yaml.MappingNode {
			for j := 0; j+1 < len(table.Content); j += 2 {
				tiers[table.Content[j].Value] = true
			}
		}
	}
	for _, ref := range in.named {
		if !tiers[ref.tier] {
			in.add(ref.at, ref.key, fmt.Sprintf("there is no tier %q in this file", ref.tier), nearest(ref.tier, tiers, "tiers"))
		}
	}
}

func (in *inspector) list(n *yaml.Node, key string, r rule, depth int) {
	if n.Kind != yaml.SequenceNode {
		in.add(n, key, "must be a list", "write it as [a, b], or one a line behind hyphens")
		return
	}
	if len(n.Content) == 0 {
		in.add(n, key, "is an empty list", "give it items, or remove the line")
	}
	if !in.fits(n, key, len(n.Content), r) {
		return
	}
	for i, item := range n.Content {
		in.node(item, fmt.Sprintf("%s[%d]", key, i), *r.items, depth+1)
	}
}

func (in *inspector) fits(n *yaml.Node, key string, count int, r rule) bool {
	limit := r.most
	if limit == 0 {
		limit = most
	}
	if count > limit {
		in.add(n, key, fmt.Sprintf("has %d items; there may be %d", count, limit), "")
	}
	return count <= limit
}

func (in *inspector) table(n *yaml.Node, key string, r rule, depth int) {
	if n.Kind != yaml.MappingNode {
		if isNull(n) && r.need == nil && r.keys == nil {
			return // "tiers:" with nothing below it
		}
		in.add(n, key, "must be a table of keys and values", "")
		return
	}
	if r.each != nil && !in.fits(n, key, len(n.Content)/2, r) {
		return
	}
	has, lines := map[string]*yaml.Node{}, map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		at := strings.TrimPrefix(key+"."+name.Value, ".")
		if first, twice := lines[name.Value]; twice {
			in.add(name, at, fmt.Sprintf("stands here twice, first in line %d", first), "keep one")
			continue
		}
		lines[name.Value], has[name.Value] = name.Line, value
		in.pair(name, value, at, r, depth+1)
	}
	for _, need := range r.need {
		if has[need] == nil {
			in.add(n, key, "has no "+need, "add a line "+need+": …")
		}
	}
	if r.whole != nil {
		if err := r.whole(has); err != nil {
			in.add(n, key, err.Error(), "")
		}
	}
}

// pair looks at one key of a table and at what it holds. A name is text: 1e3 would
// be read as another word than it is written.
func (in *inspector) pair(name, value *yaml.Node, key string, r rule, depth int) {
	next, known := r.keys[name.Value]
	switch {
	case name.Tag != "!!str":
		in.add(name, key, "a name must be text", "put quotes around it")
		return
	case r.each != nil:
		next = *r.each
		if err := r.named(name.Value); err != nil {
			in.add(name, key, err.Error(), "")
		}
	case !known:
		in.add(name, key, "unknown key", nearest(name.Value, r.keys, "keys"))
		return
	}
	in.node(value, key, next, depth)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// nearest says which word was probably meant, or else which there are.
func nearest[V any](name string, words map[string]V, are string) string {
	sorted := slices.Sorted(maps.Keys(words))
	switch question := spelling.Question(name, sorted); {
	case question != "":
		return question
	case len(sorted) == 0:
		return "there are no " + are
	case len(sorted) > 20:
		return fmt.Sprintf("there are %d %s", len(sorted), are)
	}
	return "known " + are + ": " + strings.Join(sorted, ", ")
}
