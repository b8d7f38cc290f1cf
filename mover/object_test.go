package mover_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"datamove.dev/mover"
)

// TestStatedObject: what a file keeps of an object, and what it states by that: with any attribute all facts, without one nothing.
func TestStatedObject(t *testing.T) {
	for _, row := range []struct {
		what   string
		name   string
		known  mover.Facts
		object string // names and values
		stated bool
		file   string // attributes that are kept
		states mover.Facts
	}{
		{"a plain object", "f", mover.FactsOfObject, "", false, "", 0},
		{"its type by its name", "f.json", mover.FactsOfObject, "content-type=application/json", false, "", 0},
		{"tags alone", "f", mover.FactsOfObject, "tags=a", false, "tags=a", mover.FactsOfObject},
		{"tags, and the type by its name", "f.json", mover.FactsOfObject, "content-type=application/json tags=a", false, "content-type=application/json tags=a", mover.FactsOfObject},
		{"no type where the name gives one", "f.json", mover.FactsOfObject, "", false, "known=headers,metadata,tags,class", mover.FactsOfObject},
		{"no type, and tags", "f.json", mover.FactsOfObject, "tags=a", false, "known=headers,metadata,tags,class tags=a", mover.FactsOfObject},
		{"nothing any more", "f", mover.FactsOfObject, "", true, "known=headers,metadata,tags,class", mover.FactsOfObject},
		{"the type by its name, and nothing else any more", "f.json", mover.FactsOfObject, "content-type=application/json", true, "content-type=application/json known=headers,metadata,tags,class", mover.FactsOfObject},
		{"something after nothing", "f", mover.FactsOfObject, "meta.a=b", true, "meta.a=b", mover.FactsOfObject},
		{"tags that may not be read", "f", mover.FactsOfObject &^ mover.FactTags, "meta.a=b", false, "known=headers,metadata,class meta.a=b", mover.FactsOfObject &^ mover.FactTags},
		{"a file that never was an object", "f.json", 0, "", false, "", 0},
	} {
		e := mover.Entry{Name: row.name, Kind: mover.File, Known: row.known, Stated: row.stated, Object: attributesFrom(row.object)}
		kept := e.KeptXattrs()
		var text []string
		for _, x := range kept {
			text = append(text, strings.TrimPrefix(x.Name, mover.XattrObject)+"="+string(x.Value))
		}
		if got := strings.Join(text, " "); got != row.file {
			t.Errorf("%s: the file keeps %q, want %q", row.what, got, row.file)
		}
		file := mover.Entry{Name: row.name, Kind: mover.File}
		file.SetXattrs(kept)
		if file.Known != row.states || row.states != 0 && mover.DifferingAttribute(file.Object, e.Object, mover.FactsOfObject) != "" {
			t.Errorf("%s: the file states %q (%b), want %q (%b)", row.what, file.Object, file.Known, e.Object, row.states)
		}
		again := mover.Entry{Name: "other", Kind: mover.File, Known: file.Known, Object: file.Object, Stated: file.Stated}
		listed := mover.Entry{Name: "other", Kind: mover.File}
		if listed.SetXattrs(again.AllXattrs()); listed.Known != row.states || !slices.Equal(listed.Object, file.Object) {
			t.Errorf("%s: its line of a manifest states %q (%b)", row.what, listed.Object, listed.Known)
		}
	}
}

// TestOlderObjects: what earlier versions have written says what it said: they left a type that the name gives out.
func TestOlderObjects(t *testing.T) {
	for _, row := range []struct {
		name, file string
		states     mover.Facts
	}{
		{"f", "tags=a", mover.FactsOfObject},
		{"f.json", "tags=a", mover.FactsOfObject &^ mover.FactHeaders},
		{"f.json", "content-type=text/plain", mover.FactsOfObject},
	} {
		e := mover.Entry{Name: row.name, Kind: mover.File}
		var all []mover.Xattr
		for _, a := range attributesFrom(row.file) {
			all = append(all, mover.Xattr{Name: mover.XattrObject + a.Name, Value: []byte(a.Value)})
		}
		if e.SetXattrs(all); e.Known != row.states {
			t.Errorf("%s with %s states %b, want %b", row.name, row.file, e.Known, row.states)
		}
		if got := e.KeptXattrs(); len(got) != len(all) {
			t.Errorf("%s with %s comes to another file as %v", row.name, row.file, got)
		}
	}
}

// TestOntoObject: an update changes the facts that it knows, and leaves the others as the file states them.
func TestOntoObject(t *testing.T) {
	for _, row := range []struct {
		what, file string
		known      mover.Facts
		object     string
		want       string
	}{
		{"nothing any more", "tags=a", mover.FactsOfObject, "", "known=headers,metadata,tags,class"},
		{"nothing of what was nothing", "", mover.FactsOfObject, "", ""},
		{"no tags any more", "meta.a=b tags=a", mover.FactsOfObject, "meta.a=b", "meta.a=b"},
		{"tags alone are told", "meta.a=b tags=a", mover.FactTags, "", "meta.a=b"},
		{"tags alone are told, at a file that states nothing", "", mover.FactTags, "tags=a", "known=tags tags=a"},
		{"and then none", "known=tags tags=a", mover.FactTags, "", "known=tags"},
		{"a file tells nothing", "tags=a", 0, "", ""},
	} {
		var have []mover.Xattr
		for _, a := range attributesFrom(row.file) {
			have = append(have, mover.Xattr{Name: mover.XattrObject + a.Name, Value: []byte(a.Value)})
		}
		e := mover.Entry{Name: "f", Kind: mover.File, Known: row.known, Object: attributesFrom(row.object)}
		onto := e.OntoObject(have)
		var text []string
		for _, x := range onto.KeptXattrs() {
			text = append(text, fmt.Sprintf("%s=%s", strings.TrimPrefix(x.Name, mover.XattrObject), x.Value))
		}
		if got := strings.Join(text, " "); got != row.want {
			t.Errorf("%s: the file keeps %q, want %q", row.what, got, row.want)
		}
		if told := onto.HasXattr(mover.XattrObject + "meta.other"); told != (row.known != 0) {
			t.Errorf("%s: what is not kept any more is removed: %v", row.what, told)
		}
	}
}

func attributesFrom(text string) (list []mover.Attribute) {
	for field := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(field, "=")
		list = append(list, mover.Attribute{Name: name, Value: value})
	}
	return list
}
