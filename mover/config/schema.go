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
)

// rule says what may stand at a key: text or truth that passes check, a table
// with the given keys, or a table of each under names of the user's choice.
type rule struct {
	check func(text string) error
	truth bool
	keys  map[string]rule
	need  []string // keys that must be there
	each  *rule
	named func(name string) error               // of the names above each
	whole func(has map[string]*yaml.Node) error // of a table as a whole
}

// schema is the whole file (DESIGN, "Words on the command line").
var schema = rule{keys: map[string]rule{
	"tiers": {named: tierName, each: &rule{
		keys: map[string]rule{
			"level":     {check: oneOf("hot", "warm", "cold")},
			"path":      {check: absolute},
			"ephemeral": {truth: true},
			"s3": {need: []string{"bucket"}, keys: map[string]rule{
				"endpoint":    {check: endpoint},
				"bucket":      {check: bucket},
				"prefix":      {check: prefix},
				"region":      {check: word},
				"credentials": {check: credentials},
				"ca":          {check: absolute},
				"path_style":  {truth: true},
				"client":      {check: oneOf("auto", "minio", "aws")},
			}},
		},
		need:  []string{"level"},
		whole: pathOrBucket,
	}},
	"service": {check: service},
}}

// maxDepth bounds what inspect follows; the schema has four levels.
const maxDepth = 16

// inspect compares text with the schema. It returns the line of every key.
func inspect(file string, text []byte) (map[string]int, Problems) {
	in := &inspector{file: file, lines: map[string]int{}}
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
	}
	slices.SortStableFunc(in.problems, func(a, b Problem) int { return a.Line - b.Line })
	return in.lines, in.problems
}

type inspector struct {
	file     string
	lines    map[string]int
	problems Problems
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
	case r.keys != nil || r.each != nil:
		in.table(n, key, r, depth)
	case n.Kind != yaml.ScalarNode:
		in.add(n, key, "must be a single value, not a list or table", "")
	case isNull(n):
		in.add(n, key, "has no value", "give it one, or remove the line")
	case r.truth:
		if n.Tag != "!!bool" {
			in.add(n, key, "must be true or false", "")
		}
	case n.Tag != "!!str":
		in.add(n, key, "must be text", "put quotes around it")
	default:
		if err := r.check(n.Value); err != nil {
			in.add(n, key, err.Error(), "")
		}
	}
}

func (in *inspector) table(n *yaml.Node, key string, r rule, depth int) {
	if n.Kind != yaml.MappingNode {
		if isNull(n) && r.need == nil && r.keys == nil {
			return // "tiers:" with nothing below it
		}
		in.add(n, key, "must be a table of keys and values", "")
		return
	}
	has := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		in.pair(n.Content[i], n.Content[i+1], key, r, has, depth)
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

// pair looks at one key of a table and at what it holds.
func (in *inspector) pair(name, value *yaml.Node, table string, r rule, has map[string]*yaml.Node, depth int) {
	key := strings.TrimPrefix(table+"."+name.Value, ".")
	if has[name.Value] != nil {
		in.add(name, key, fmt.Sprintf("stands here twice, first in line %d", in.lines[key]), "keep one")
		return
	}
	has[name.Value], in.lines[key] = value, name.Line
	if r.each != nil {
		if err := r.named(name.Value); err != nil {
			in.add(name, key, err.Error(), "")
		}
		in.node(value, key, *r.each, depth+1)
		return
	}
	next, ok := r.keys[name.Value]
	if !ok {
		in.add(name, key, "unknown key", nearest(name.Value, r.keys))
		return
	}
	in.node(value, key, next, depth+1)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func pathOrBucket(has map[string]*yaml.Node) error {
	switch {
	case has["path"] != nil && has["s3"] != nil:
		return errors.New("has both path and s3: a tier is one of them")
	case has["path"] == nil && has["s3"] == nil:
		return errors.New("has neither path nor s3: say where the tier is")
	}
	return nil
}

// nearest says which key was probably meant, or else which there are.
func nearest(name string, keys map[string]rule) string {
	sorted := slices.Sorted(maps.Keys(keys))
	best, least := "", 3
	for _, key := range sorted {
		if d := distance(name, key); d < least {
			best, least = key, d
		}
	}
	if best != "" {
		return "did you mean " + best + "?"
	}
	return "known keys: " + strings.Join(sorted, ", ")
}

// distance is the number of letters to add, remove or change between a and b
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
