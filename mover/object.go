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
const XattrObject = "user.datamove.s3."

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
	if headers := attributesOf(list, FactHeaders); len(headers) == 1 && headers[0] == (Attribute{AttributeType, TypeOfName(e.Name)}) {
		return attributesOf(list, FactsOfObject&^FactHeaders)
	}
	return list
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
func (e *Entry) AllXattrs() []Xattr { return e.xattrsWith(e.ObjectOf(FactsOfObject)) }

// KeptXattrs are those of AllXattrs that a file system has to keep.
func (e *Entry) KeptXattrs() []Xattr { return e.xattrsWith(e.KeptObject(FactsOfObject)) }

func (e *Entry) xattrsWith(object []Attribute) []Xattr {
	var all []Xattr
	if e.Known.Has(FactXattrs) {
		all = e.Xattrs
	}
	if len(object) == 0 {
		return all
	}
	all = slices.Clone(all)
	for _, a := range object {
		all = append(all, Xattr{Name: XattrObject + a.Name, Value: []byte(a.Value)})
	}
	slices.SortFunc(all, func(a, b Xattr) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// SetXattrs takes extended attributes apart that AllXattrs has put together. A file says nothing of what it has not: that there are no headers is not known
// then.
func (e *Entry) SetXattrs(all []Xattr) {
	kept := func(x Xattr) bool { return strings.HasPrefix(x.Name, XattrObject) }
	e.Xattrs, e.Object = all, nil
	e.Known &^= FactsOfObject
	if !slices.ContainsFunc(all, kept) {
		return
	}
	for _, x := range all {
		if kept(x) {
			a := Attribute{Name: strings.TrimPrefix(x.Name, XattrObject), Value: string(x.Value)}
			e.Object, e.Known = append(e.Object, a), e.Known|a.Fact()
		}
	}
	e.Xattrs = slices.DeleteFunc(slices.Clone(all), kept)
	SortAttributes(e.Object)
}

// HasXattr reports whether e tells of an extended attribute, or that there is none of that name.
func (e *Entry) HasXattr(name string) bool {
	rest, object := strings.CutPrefix(name, XattrObject)
	if !object {
		return e.Known.Has(FactXattrs)
	}
	a := Attribute{Name: rest}
	return e.Known.Has(a.Fact())
}

// takeObject gives e the attributes of some facts of from.
func (e *Entry) takeObject(from *Entry, facts Facts) {
	object := slices.Concat(attributesOf(e.Object, FactsOfObject&^facts), attributesOf(from.Object, facts))
	SortAttributes(object)
	e.Object = object
}
