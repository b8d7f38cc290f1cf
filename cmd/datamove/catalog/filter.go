package catalog

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	yaml "go.yaml.in/yaml/v3"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/policy"
)

// Filter is which files are asked for, by flags that are the clauses of a policy.
type Filter struct {
	texts   map[string]*string   // clauses of one value, by their names
	lists   map[string]*[]string // clauses of several
	truths  map[string]*bool     // clauses that hold or not
	flags   *pflag.FlagSet
	match   string
	where   string
	any     bool
	classes string // a file
	node    string
	project string // through which the location is used
}

// Flags adds the flags.
func (q *Filter) Flags(flags *pflag.FlagSet) {
	q.texts, q.lists, q.truths, q.flags = map[string]*string{}, map[string]*[]string{}, map[string]*bool{}, flags
	for _, c := range []struct{ name, help string }{
		{"size", "files of this `SIZE`: '>1GiB', '<64KiB', '1MiB..1GiB'"},
		{"idle", "not used for this `TIME`: '>30d'"},
		{"modified", "modified this `TIME` ago: '<1h'"},
		{"seen", "first seen this `TIME` ago"},
		{"links", "with this `NUMBER` of names: '>1'"},
	} {
		q.texts[c.name] = flags.String(c.name, "", c.help)
	}
	for _, c := range []struct{ name, help string }{
		{"kind", "of this `KIND`: file, dir, symlink; or several, with commas"},
		{"owner", "that belong to `NAME`, or to several"},
		{"group", "of the group `NAME`, or of several"},
		{"name", "with a last part like `GLOB`: '*.pt'"},
		{"path", "with a name below the root of the tier like `GLOB`: 'runs/**/*.pt'"},
		{"class", "in this `CLASS` of --classes, or in one of several"},
	} {
		q.lists[c.name] = flags.StringSlice(c.name, nil, c.help)
	}
	for _, c := range []struct{ name, help string }{
		{"leased", "that a lease holds; --leased=false: that none holds"},
		{"pinned", "that a pin keeps; --pinned=false: that none does"},
	} {
		q.truths[c.name] = flags.Bool(c.name, false, c.help)
	}
	flags.StringVar(&q.match, "match", "", "all clauses of a policy's match, as `YAML`; with it the flags above are not used")
	flags.StringVar(&q.where, "where", "", "an expression of policies, as `CEL`: 'size > 1000 && owner != \"root\"'")
	flags.BoolVar(&q.any, "any", false, "one of the flags has to hold, and not all")
	flags.StringVar(&q.classes, "classes", "", "a `FILE` with classes: a policy, or a list of them")
	flags.StringVar(&q.node, "node", "", "the `NODE` of a node-local tier (default this one)")
	flags.StringVar(&q.project, "through", "", "use the location through this `PROJECT` (default any of yours)")
}

// Question makes the question, about a location.
func (q *Filter) Question(location string) (*pb.Question, error) {
	out := &pb.Question{Location: location, Node: q.node, Project: q.project, Match: q.match, Any: q.any, Where: q.where}
	clauses := map[string]any{}
	q.flags.Visit(func(f *pflag.Flag) {
		switch {
		case q.texts[f.Name] != nil:
			clauses[f.Name] = *q.texts[f.Name]
		case q.lists[f.Name] != nil:
			clauses[f.Name] = *q.lists[f.Name]
		case q.truths[f.Name] != nil:
			clauses[f.Name] = *q.truths[f.Name]
		}
	})
	if len(clauses) > 0 {
		if q.match != "" {
			return nil, mover.Misusef("--match has all clauses: leave the other flags out, or write them there")
		}
		text, err := yaml.Marshal(clauses)
		if err != nil {
			return nil, mover.Misusef("what is asked for is no text: %v", err)
		}
		out.Match = string(text)
	}
	if q.classes != "" {
		var err error
		if out.Classes, err = readClasses(q.classes); err != nil {
			return nil, err
		}
	}
	if _, err := (policy.Choice{Match: out.Match, Any: out.Any, Where: out.Where, Classes: out.Classes}).Read(); err != nil {
		return nil, err
	}
	return out, nil
}

// readClasses reads the classes in a file: those of its policies, or all of it.
func readClasses(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", &mover.Error{Op: "read", Location: file, Err: errors.Unwrap(err)}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return "", mover.Misusef("%s: %s", mover.Printable(file), strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 1 && doc.Content[0].Kind == yaml.SequenceNode {
		return string(text), nil
	}
	var p struct {
		Spec struct {
			Classes yaml.Node `yaml:"classes"`
		} `yaml:"spec"`
	}
	if err := yaml.Unmarshal(text, &p); err != nil || p.Spec.Classes.Kind != yaml.SequenceNode {
		return "", mover.Misusef("%s is no list of classes, and no policy that has some", mover.Printable(file))
	}
	out, err := yaml.Marshal(&p.Spec.Classes)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return string(out), nil
}
