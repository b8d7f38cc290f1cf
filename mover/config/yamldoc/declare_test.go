package yamldoc_test

import (
	"errors"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/config/yamldoc"
)

type rack struct {
	At    yamldoc.Position
	Nodes int64   `yaml:"nodes" declare:"required"`
	Share float64 `yaml:"share"`
}

type row struct {
	Kind  string          `yaml:"kind" declare:"required"`
	Racks map[string]rack `yaml:"racks"`
	Tags  []string        `yaml:"tags"`
	Spare *rack           `yaml:"spare"`
	Dark  bool            `yaml:"dark"`
}

func read(text string) (all []row, err error) {
	r := &yamldoc.Reader{File: "r.yaml"}
	for _, doc := range r.Documents([]byte(text)) {
		one := row{}
		r.Into(doc, "", &one)
		all = append(all, one)
	}
	return all, r.Err()
}

// TestRead: what is right is read, with where it stands; a single value is a list of one.
func TestRead(t *testing.T) {
	all, err := read("kind: Row\nracks:\n  a: {nodes: 3, share: 0.5}\n  b:\n    nodes: 4\ntags: one\ndark: true\n---\nkind: Row\ntags: [x, y]\nspare: {nodes: 1, share: 2}\n")
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	one := all[0]
	if one.Kind != "Row" || !one.Dark || len(one.Tags) != 1 || one.Racks["a"].Share != 0.5 || one.Racks["b"] != (rack{At: yamldoc.Position{Line: 5, Column: 5}, Nodes: 4}) {
		t.Errorf("%+v", one)
	}
	if all[1].Spare == nil || all[1].Spare.Share != 2 || len(all[1].Tags) != 2 {
		t.Errorf("%+v", all[1])
	}
}

// TestWrong: all that is wrong is said, in the order of the text, and what to write.
func TestWrong(t *testing.T) {
	_, err := read("kind: Row\nrack: {}\nracks:\n  a: {node: 3}\n  a: {nodes: 1}\n  b: {nodes: -1, share: fast}\n  c: 7\ndark: maybe\nspare: &x {nodes: 1}\n")
	if !errors.Is(err, mover.ErrUsage) {
		t.Fatal(err)
	}
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{
		"r.yaml:2:1: rack: unknown field; did you mean racks?", "r.yaml:4:6: racks.a.nodes: is missing", "r.yaml:4:7: racks.a.node: unknown field; did you mean nodes?", "r.yaml:5:3: racks.a: is there twice",
		"r.yaml:6:14: racks.b.nodes: want a whole number, 0 or more", "r.yaml:6:25: racks.b.share: want a number, 0 or more", "r.yaml:7:6: racks.c: want a table of fields",
		"r.yaml:8:7: dark: want true or false", "r.yaml:9:8: spare: anchors and aliases are not read here; write the value out",
	} {
		if i >= len(lines) || lines[i] != want {
			t.Errorf("%q is not in its place in\n%s", want, err)
		}
	}
	for text, want := range map[string]string{"kind: [": "is not valid YAML", "{}": "kind: is missing", strings.Repeat("# much\n", 200_000): "bytes; want at most"} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.10q: %v", text, err)
		}
	}
}

// FuzzRead: whatever comes, it ends, and what is wrong is a mistake of who wrote it.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"kind: Row\nracks: {a: {nodes: 1}}", "? [a]\n: b", "a: &a [*a]", "<<: {kind: x}", "kind: !!binary aGk=", "\xff", "racks: {1: {nodes: 0x10}}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := read(text); err != nil && !errors.Is(err, mover.ErrUsage) {
			t.Error(err)
		}
	})
}
