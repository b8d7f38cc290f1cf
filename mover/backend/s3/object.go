package s3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
)

// What an object has beside its bytes and the facts of a file, as mover.Attribute and in the words of S3.

// attributeHeaders are the headers that are attributes, by the names of those.
var attributeHeaders = func() map[string]string {
	of := map[string]string{mover.AttributeType: headerType, "website-redirect-location": headerRedirect, mover.AttributeClass: headerClass}
	for _, name := range keptHeaders {
		if name != headerRedirect && name != headerClass {
			of[strings.ToLower(name)] = name
		}
	}
	return of
}()

const (
	headerType     = "Content-Type"
	headerTagCount = "X-Amz-Tagging-Count"
)

// typeNone are content types that say nothing: ours, and that of stores which are told none.
var typeNone = []string{"", "application/octet-stream", "binary/octet-stream"}

// classesAsked are the storage classes that a copy keeps (API reference, PutObject, x-amz-storage-class). Others are of a kind of bucket, or a tier
// of one server; GLACIER and DEEP_ARCHIVE are where rules put objects that are read no more, and a copy of one that was restored for it could not be read or verified.
var classesAsked = []string{"STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR", "REDUCED_REDUNDANCY"}

// ownMetadata is user metadata that tells facts of files, and is written anew.
func ownMetadata(name string) bool {
	switch name {
	case metaMode, metaOwner, metaGroup, metaAtime, metaMtime, metaPath, metaCRC:
		return true
	}
	return false
}

// decodeObject adds to e what its headers say of it as an object. Its tags are told apart.
func decodeObject(e *mover.Entry, o *s3api.Object) {
	e.Known |= mover.FactHeaders | mover.FactMetadata | mover.FactClass
	for name, header := range attributeHeaders {
		if e.Kind == mover.Dir && (name == mover.AttributeType || name == mover.AttributeClass) { // of nothing: clients call a marker what they like
			continue
		}
		if value := attributeValue(name, o.Header.Get(header)); value != "" {
			e.Object = append(e.Object, mover.Attribute{Name: name, Value: value})
		}
	}
	for name, value := range o.Metadata() {
		if !ownMetadata(name) {
			e.Object = append(e.Object, mover.Attribute{Name: mover.MetadataPrefix + name, Value: value})
		}
	}
	mover.SortAttributes(e.Object)
}

// attributeValue is what a header says, "" where that is what all objects have.
func attributeValue(name, value string) string {
	switch name {
	case mover.AttributeType:
		if slices.Contains(typeNone, value) {
			return ""
		}
	case "content-encoding":
		return contentEncoding(value)
	case mover.AttributeClass:
		if !slices.Contains(classesAsked, value) {
			return ""
		}
	}
	return value
}

// contentEncoding is without aws-chunked, which is of a transfer and no part of the object; some servers keep it.
func contentEncoding(value string) string {
	if !strings.Contains(value, "aws-chunked") {
		return value
	}
	var rest []string
	for coding := range strings.SplitSeq(value, ",") {
		if coding = strings.TrimSpace(coding); coding != "" && coding != "aws-chunked" {
			rest = append(rest, coding)
		}
	}
	return strings.Join(rest, ",")
}

// countingServers count the tags of an object in the answer to HEAD, by what they call themselves (API reference, HeadObject,
// x-amz-tagging-count).
var countingServers = []string{"AmazonS3", "MinIO"}

// headerCeph is in what Ceph RGW answers of an object; it counts tags, and does not call itself anything.
const headerCeph = "X-Rgw-Object-Type"

// countsTags is whether the server says with an object that this has tags.
func (f *Profile) countsTags(o *s3api.Object) bool {
	if f.Probed.IsZero() {
		return slices.Contains(countingServers, f.Server) || o.Header.Get(headerCeph) != ""
	}
	return f.CountsTags || !f.KeepsTags
}

// tagged reports whether an object has tags, or may have some. To a caller that may not read them a server does not count them.
func (p *Backend) tagged(o *s3api.Object) bool {
	count := o.Header.Get(headerTagCount)
	if count == "" {
		return !p.profile.countsTags(o) && !p.tagsTold.Load()
	}
	p.tagsTold.Store(true)
	return count != "0"
}

// tell asks for the tags of an object that has some. That they may not be read is noted, and they are not known.
func (p *Backend) tell(ctx context.Context, e *mover.Entry, o *s3api.Object) error {
	if e.Kind != mover.File && e.Kind != mover.Dir {
		return nil
	}
	if !p.tagged(o) {
		e.Known |= mover.FactTags
		return nil
	}
	tags, err := p.store.Tags(ctx, o.Key)
	switch kind := s3api.KindOf(err); {
	case kind == mover.ErrUnsupported && o.Header.Get(headerTagCount) == "":
		p.tagsTold.Store(true)
		err = nil
	case kind == mover.ErrUnsupported, kind == mover.ErrPermission && !errors.Is(err, mover.ErrTransient):
		p.tagsHidden.add(e.Name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("tags: %w", err)
	}
	e.Known |= mover.FactTags
	if tags != "" {
		e.Object = append(slices.Clone(e.Object), mover.Attribute{Name: mover.AttributeTags, Value: tags})
		mover.SortAttributes(e.Object)
	}
	return nil
}

// beside gives what is put what e knows that it has as an object. What e does not know stays as w has it.
func (p *Backend) beside(w *s3api.Put, e *mover.Entry) {
	if e.Kind != mover.File && e.Kind != mover.Dir {
		return
	}
	if e.Known.Has(mover.FactHeaders) {
		if e.Kind == mover.File && !slices.Contains(typeNone, w.ContentType) {
			w.ContentType = ""
		}
		for _, name := range keptHeaders {
			if name != headerClass {
				delete(w.Headers, name)
			}
		}
	}
	w.ReplaceTags = w.ReplaceTags || e.Known.Has(mover.FactTags)
	for _, a := range e.ObjectOf(mover.FactsOfObject) {
		p.attribute(w, a, e)
	}
}

func (p *Backend) attribute(w *s3api.Put, a mover.Attribute, e *mover.Entry) {
	if w.Headers == nil {
		w.Headers = map[string]string{}
	}
	header := attributeHeaders[a.Name]
	switch a.Fact() {
	case mover.FactTags:
		if p.profile.keepsObject().Has(mover.FactTags) {
			w.Tags = a.Value
		}
	case mover.FactMetadata:
		name := strings.TrimPrefix(a.Name, mover.MetadataPrefix)
		if _, ours := w.Metadata[name]; !ours && validMeta(name, a.Value) && !outdated(name, a.Value, e) {
			w.Metadata[name] = a.Value
		}
	case mover.FactClass:
		if e.Kind == mover.File && p.profile.keepsObject().Has(mover.FactClass) && slices.Contains(classesAsked, a.Value) {
			w.Headers[header] = a.Value
		}
	default:
		switch {
		case header == "" || !validValue(a.Value) || header == headerType && e.Kind == mover.Dir:
		case header == headerType:
			w.ContentType = a.Value
		default:
			w.Headers[header] = a.Value
		}
	}
}

// outdated reports whether metadata is the time of rclone, and another one than that of the entry.
func outdated(name, value string, e *mover.Entry) bool {
	t, ok := decodeFraction(value)
	return name == metaRclone && ok && e.Known.Has(mover.FactMtime) && t != e.Mtime
}

// validMeta refuses what is no header: an attribute of a file can be written by its owner.
func validMeta(name, value string) bool {
	return name != "" && !ownMetadata(name) && validValue(value) && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

func validValue(value string) bool {
	return !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// same reports whether two objects have the same beside their contents.
func same(w, v *s3api.Put) bool {
	return w.MediaType() == v.MediaType() && w.Tags == v.Tags && maps.Equal(w.Headers, v.Headers) && maps.Equal(w.Metadata, v.Metadata)
}

// retagged gives w the tags of an object that is put anew, or copied in parts: what copies an object in one call copies its tags.
func (p *Backend) retagged(ctx context.Context, key string, w *s3api.Put) (err error) {
	if w.ReplaceTags || !p.profile.keepsObject().Has(mover.FactTags) {
		return nil
	}
	w.Tags, err = p.store.Tags(ctx, key)
	if s3api.KindOf(err) == mover.ErrUnsupported || s3api.KindOf(err) == mover.ErrNotExist {
		err = nil
	}
	w.ReplaceTags = true
	return err
}

// changes reports whether a copy of the object onto itself would change something.
func (p *Backend) changes(ctx context.Context, o *s3api.Object, w *s3api.Put) (bool, error) {
	now := p.again(o, w.Key, o.Metadata())
	if w.MediaType() != now.MediaType() || !maps.Equal(w.Headers, now.Headers) || !maps.Equal(w.Metadata, now.Metadata) {
		return true, nil
	}
	if !w.ReplaceTags || !p.tagged(o) {
		return w.Tags != "", nil
	}
	tags, err := p.store.Tags(ctx, w.Key)
	return err == nil && tags != w.Tags, err
}

// keepsObject is which facts of objects the server keeps. One that was not probed is not written to, and tells what it has.
func (f *Profile) keepsObject() mover.Facts {
	if f.Probed.IsZero() {
		return mover.FactsOfObject
	}
	kept := mover.FactMetadata
	if f.KeepsHeaders {
		kept |= mover.FactHeaders
	}
	if f.KeepsTags {
		kept |= mover.FactTags
	}
	if f.KeepsClass {
		kept |= mover.FactClass
	}
	return kept
}

// retag gives an object its tags where the call that made it did not: Ceph RGW 16 takes tags with PutObject alone.
func (p *Backend) retag(ctx context.Context, w *s3api.Put) error {
	if w.Tags == "" || p.profile.TagsCopies {
		return nil
	}
	if err := p.store.SetTags(ctx, w.Key, w.Tags); err != nil {
		return fmt.Errorf("tags: %w", err)
	}
	return nil
}

// again is what a copy of the object has to say to be as it is, but for its metadata.
func (p *Backend) again(o *s3api.Object, key string, meta map[string]string) s3api.Put {
	w := s3api.Put{Key: key, Metadata: meta, ContentType: o.Header.Get("Content-Type"), Headers: map[string]string{}}
	if o.HasCRC {
		w.CRC = s3api.EncodeCRC(o.CRC)
	}
	for _, name := range keptHeaders {
		if value := o.Header.Get(name); value != "" {
			w.Headers[name] = value
		}
	}
	if w.Headers[headerClass] == "STANDARD" { // which some servers say, and all take for granted
		delete(w.Headers, headerClass)
	}
	if coding := contentEncoding(w.Headers[headerEncoding]); coding == "" {
		delete(w.Headers, headerEncoding)
	}
	if strings.Contains(p.profile.Server, "MinIO") {
		delete(w.Headers, headerClass) // there it may be the name of a tier, which can not be asked for
	}
	if as := s3api.EncryptionOf(o.Header); p.client.Amazon() && as.Key != "" {
		w.Encryption = as // else it gets that of its bucket
	}
	return w
}

// keptHeaders are what an object has beside user metadata: a copy that does not say them is without them, in class STANDARD (Amazon S3
// user guide, "System-defined object metadata"; API reference, CopyObject). The content type is told apart.
var keptHeaders = [...]string{"Cache-Control", "Content-Disposition", headerEncoding, "Content-Language", "Expires", headerRedirect, headerClass}

const (
	headerEncoding = "Content-Encoding"
	headerRedirect = "X-Amz-Website-Redirect-Location"
	headerClass    = "X-Amz-Storage-Class"
)
