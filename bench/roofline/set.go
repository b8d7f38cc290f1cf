package roofline

import (
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"datamove.dev/mover"
)

// change sets a field of a document to another value: "oss.nic=400G".
func change(doc *yaml.Node, one string) error {
	field, value, ok := strings.Cut(one, "=")
	if !ok || field == "" {
		return mover.Usagef("--set %s: want FIELD=VALUE, like oss.nic=400G", one)
	}
	at, way := doc, strings.Split(field, ".")
	if way[0] == "measured" && len(way) > 1 { // what stands there is called as ceilings are
		way = []string{way[0], strings.Join(way[1:], ".")}
	}
	for _, name := range way {
		if at.Kind == yaml.ScalarNode && at.Tag == "!!null" {
			*at = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: at.Line, Column: at.Column}
		}
		if at.Kind != yaml.MappingNode {
			return mover.Usagef("--set %s: %s is no table of fields", one, field)
		}
		at = child(at, name)
	}
	*at = yaml.Node{Kind: yaml.ScalarNode, Value: value, Tag: tagOf(value), Line: at.Line, Column: at.Column}
	return nil
}

// child is a value in a table, that is made where there is none.
func child(table *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(table.Content); i += 2 {
		if table.Content[i].Value == name {
			return table.Content[i+1]
		}
	}
	value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: table.Line, Column: table.Column}
	table.Content = append(table.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name, Line: table.Line, Column: table.Column}, value)
	return value
}

// tagOf is what YAML takes a plain value for.
func tagOf(value string) string {
	var n yaml.Node
	if yaml.Unmarshal([]byte(value), &n) == nil && len(n.Content) == 1 && n.Content[0].Kind == yaml.ScalarNode {
		return n.Content[0].Tag
	}
	return "!!str"
}
