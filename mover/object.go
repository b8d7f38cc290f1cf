package mover

import (
	"slices"
	"strings"
)

// Attribute is one of the things that an object of a store has beside its bytes and the facts of a file: a header that it is given out
// with, user metadata, its tags, its storage class.
type Attribute struct{ Name, Value string }

// The names of attributes. Those of headers are the names of the headers, in small letters; of user metadata it is MetadataPrefix and the name, in
// small letters.
const (
	MetadataPrefix = "meta."
	AttributeType  = "content-type"
	AttributeTags  = "tags"          // all of them, in one value, as a query of a URL has them, sorted
	AttributeClass = "storage-class" // none is STANDARD
)

// FactsOfObject are the facts that Entry.Object has.
const FactsOfObject = FactHeaders | FactMetadata | FactTags | FactClass

// XattrObject begins the names of extended attributes that keep, on a file system and in a manifest, what an object had.
//
// A file that has any of them states all four facts: of a fact without an attribute the object has none. Only a content type that the name may give
// (TypeOfName) stays unknown where there is no header. XattrKnown says which facts are stated where that is otherwise. A file that has
// none of them states nothing.
const XattrObject = "user.datamove.s3."

// XattrKnown is the attribute that names the facts which a file states ("headers,metadata,tags,class"). It is there where the attributes do not say it:
// an object that has nothing any more, or no type where its name would give one, or of which some facts were not read.
const XattrKnown = XattrObject + "known"

// objectWords are the facts of objects, in the words of --preserve.
var objectWords = [...]struct {
	fact Facts
	word string
}{{FactHeaders, "headers"}, {FactMetadata, "metadata"}, {FactTags, "tags"}, {FactClass, "class"}}

// Fact is the fact that an attribute is of.
func (a *Attribute) Fact() Facts {
	switch {
	case a.Name == AttributeTags:
		return FactTags
	case a.Name == AttributeClass:
		return FactClass
	case strings.HasPrefix(a.Name, MetadataPrefix):
		return FactMetadata
	}
	return FactHeaders
}

// ObjectOf returns the attributes of some facts, as far as they are known.
func (e *Entry) ObjectOf(facts Facts) []Attribute { return attributesOf(e.Object, facts&e.Known) }

// KeptObject returns the attributes of some facts that a file system has to keep. A content type that the object would get by its name again
// (TypeOfName) is none of them, where it is the only header.
func (e *Entry) KeptObject(facts Facts) []Attribute {
	list := e.ObjectOf(facts)
	if headers := attributesOf(list, FactHeaders); len(headers) == 1 && headers[0] == (Attribute{AttributeType, e.typeOfName()}) {
		return attributesOf(list, FactsOfObject&^FactHeaders)
	}
	return list
}

// KeptFacts are those of some facts that a file system has to keep: they have attributes, or the name gives a type that the object has not.
func (e *Entry) KeptFacts(facts Facts) (kept Facts) {
	for _, a := range e.KeptObject(facts) {
		kept |= a.Fact()
	}
	if e.untyped(facts) {
		kept |= FactHeaders
	}
	return kept
}

// untyped reports whether an object has no headers, and would get a type by its name.
func (e *Entry) untyped(facts Facts) bool {
	return (facts & e.Known).Has(FactHeaders) && e.typeOfName() != "" && len(e.ObjectOf(FactHeaders)) == 0
}

func (e *Entry) typeOfName() string {
	if e.Kind != File {
		return ""
	}
	return TypeOfName(e.Name)
}

func attributesOf(all []Attribute, facts Facts) []Attribute {
	other := func(a Attribute) bool { return !facts.Has(a.Fact()) }
	if !slices.ContainsFunc(all, other) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), other)
}

// DifferingAttribute names the first attribute of some facts that two lists do not both have, with the same value; "" is none. Both are sorted.
func DifferingAttribute(a, b []Attribute, facts Facts) string {
	a, b = attributesOf(a, facts), attributesOf(b, facts)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return min(a[i].Name, b[i].Name)
		}
	}
	switch {
	case len(a) > len(b):
		return a[len(b)].Name
	case len(b) > len(a):
		return b[len(a)].Name
	}
	return ""
}

// SortAttributes puts attributes in the order of Entry.Object.
func SortAttributes(list []Attribute) {
	slices.SortFunc(list, func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) })
}

// AllXattrs are the extended attributes of e, as far as they are known, and those that keep what it has as an object.
func (e *Entry) AllXattrs() []Xattr { return e.xattrsWith(e.ObjectOf(FactsOfObject), false) }

// KeptXattrs are those of AllXattrs that a file system has to keep.
func (e *Entry) KeptXattrs() []Xattr {
	object := e.ObjectOf(FactsOfObject)
	if len(e.KeptObject(FactsOfObject)) == 0 && !e.Stated {
		object = nil
	}
	return e.xattrsWith(object, e.untyped(FactsOfObject))
}

// xattrsWith adds what keeps the attributes of an object, and what says which facts it states, where that is wanted or these do not say it.
func (e *Entry) xattrsWith(object []Attribute, wanted bool) []Xattr {
	var all []Xattr
	if e.Known.Has(FactXattrs) {
		all = e.Xattrs
	}
	stated := e.Known & FactsOfObject
	word := stated != 0 && (wanted || e.Stated && len(e.KeptObject(FactsOfObject)) == 0 || len(object) > 0 && stated != e.implied(object))
	if len(object) == 0 && !word {
		return all
	}
	all = slices.Clone(all)
	for _, a := range object {
		all = append(all, Xattr{Name: XattrObject + a.Name, Value: []byte(a.Value)})
	}
	if word {
		all = append(all, Xattr{Name: XattrKnown, Value: []byte(strings.Join(ObjectWords(stated), ","))})
	}
	slices.SortFunc(all, func(a, b Xattr) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// implied are the facts that a file states by attributes alone.
func (e *Entry) implied(object []Attribute) Facts {
	if e.typeOfName() != "" && len(attributesOf(object, FactHeaders)) == 0 {
		return FactsOfObject &^ FactHeaders
	}
	return FactsOfObject
}

// ObjectWords names the facts of objects among some, in the words of --preserve.
func ObjectWords(facts Facts) (words []string) {
	for _, of := range objectWords {
		if facts.Has(of.fact) {
			words = append(words, of.word)
		}
	}
	return words
}

// factsOf is the other way; words of later versions say nothing.
func factsOf(words string) (facts Facts) {
	for word := range strings.SplitSeq(words, ",") {
		for _, of := range objectWords {
			if of.word == word {
				facts |= of.fact
			}
		}
	}
	return facts
}

// SetXattrs takes extended attributes apart that AllXattrs or KeptXattrs has put together. Name and Kind of e are known by then.
func (e *Entry) SetXattrs(all []Xattr) {
	kept := func(x Xattr) bool { return strings.HasPrefix(x.Name, XattrObject) }
	e.Xattrs, e.Object, e.Stated = all, nil, false
	e.Known &^= FactsOfObject
	if !slices.ContainsFunc(all, kept) {
		return
	}
	var known Facts
	for _, x := range all {
		switch {
		case x.Name == XattrKnown:
			e.Stated, known = true, factsOf(string(x.Value))
		case kept(x):
			a := Attribute{Name: strings.TrimPrefix(x.Name, XattrObject), Value: string(x.Value)}
			e.Object, e.Known = append(e.Object, a), e.Known|a.Fact()
		}
	}
	if !e.Stated {
		known = e.implied(e.Object)
	}
	e.Known |= known
	e.Xattrs = slices.DeleteFunc(slices.Clone(all), kept)
	SortAttributes(e.Object)
}

// HasXattr reports whether e tells of an extended attribute, or that there is none of that name.
func (e *Entry) HasXattr(name string) bool {
	if strings.HasPrefix(name, XattrObject) {
		return e.Known&FactsOfObject != 0
	}
	return e.Known.Has(FactXattrs)
}

// OntoObject is e as it is to be at a file that has those extended attributes: facts of objects that e does not know stay, and what was stated is stated.
func (e *Entry) OntoObject(have []Xattr) Entry {
	of := e.Known & FactsOfObject
	if of == 0 {
		return *e
	}
	there := Entry{Name: e.Name, Kind: e.Kind}
	there.SetXattrs(have)
	stated := there.Known&FactsOfObject != 0
	there.takeObject(e, of)
	onto := *e
	onto.Object, onto.Known, onto.Stated = there.Object, e.Known|there.Known&FactsOfObject, e.Stated || stated
	return onto
}

// takeObject gives e the attributes of some facts of from.
func (e *Entry) takeObject(from *Entry, facts Facts) {
	object := slices.Concat(attributesOf(e.Object, FactsOfObject&^facts), attributesOf(from.Object, facts))
	SortAttributes(object)
	e.Object, e.Stated = object, e.Stated || from.Stated
}
