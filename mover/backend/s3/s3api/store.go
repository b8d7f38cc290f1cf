package s3api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc64"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Store is the part of S3 that we use: single calls on one bucket, tried once,
// over our own transport. onprem (minio-go) and amazon (aws-sdk-go-v2) are the two; other packages make
// one by embedding it. Errors have a kind of mover. No call hashes a payload. A version of "" is the
// one that the key has now, and an ETag of "" is no condition.
type Store interface {
	Head(ctx context.Context, key, version string) (Object, error)
	Get(ctx context.Context, r Get) (io.ReadCloser, Object, error)
	Tags(ctx context.Context, key string) (string, error) // of an object, as x-amz-tagging has them; "" is none
	SetTags(ctx context.Context, key, tags string) error  // gives an object tags, instead of those that it has
	ACL(ctx context.Context, key string) (AccessList, error)
	Retention(ctx context.Context, key string) (mode, until string, err error) // until is a time of RFC 3339; "" is none
	LegalHold(ctx context.Context, key string) (string, error)                 // ON, OFF or ""
	Ownership(ctx context.Context) (string, error)                             // of objects in the bucket (ObjectOwnership)
	HasObjectLock(ctx context.Context) (bool, error)                           // whether the bucket has Object Lock
	// List yields pages of keys, all in order. With a delimiter, a prefix has size -1.
	List(ctx context.Context, l Listing) iter.Seq2[[]Object, error]

	Put(ctx context.Context, w Put) (Stored, error)
	Copy(ctx context.Context, from Source, to Put) (Stored, error)
	Remove(ctx context.Context, key, version, ifMatch string) error

	CreateUpload(ctx context.Context, w Put) (Begun, error)
	UploadPart(ctx context.Context, u Upload, number int, w Put) (Stored, error)
	CopyPart(ctx context.Context, u Upload, number int, from Source, off, n int64) (Stored, error)
	CompleteUpload(ctx context.Context, u Upload, parts []Stored, w Put) (Stored, error)
	AbortUpload(ctx context.Context, u Upload) error
	ListParts(ctx context.Context, u Upload) iter.Seq2[Stored, error]
	ListUploads(ctx context.Context, prefix string) iter.Seq2[Upload, error]

	region(ctx context.Context) (string, error) // of the bucket; "" when the store does not say
}

// Get asks for an object or a range of it.
type Get struct {
	Key, version string
	IfMatch      string // an ETag; "" takes any
	Off, N       int64  // N < 0 is the whole object
}

// Listing asks for the keys below a prefix.
type Listing struct {
	Prefix, Delimiter string
	After             string // only keys behind this one
	Max               int    // keys per page; 0 is PageKeys
}

// PageKeys is how many keys S3 lists at most in one answer.
const PageKeys = 1000

// Put is an object to store, or what belongs to one that is being stored.
type Put struct {
	Key         string
	Data        []byte            // the content
	Body        io.Reader         // the content, where it is not in memory
	Size        int64             // of Body
	Metadata    map[string]string // user metadata, without prefix
	ContentType string            // "" is application/octet-stream
	Headers     map[string]string // other headers that it is to have, and its class
	Tags        string            // as x-amz-tagging has them
	ReplaceTags bool              // a copy has those tags, and not those of its source
	Guarded     bool              // Headers has what guards the object
	CRC         string            // EncodeCRC of the content; "" is not sent
	Multipart   bool              // it is put together of parts
	FullObject  bool              // ask for a full-object CRC-64/NVME of a multipart upload
	IfMatch     string            // replace only this ETag
	BareMatch   bool              // write IfMatch without quotes (Ceph RGW)
	IfNoneMatch bool              // only if there is none
	Encryption  Encryption        // of an object or upload that is made
}

// Source is what a server-side copy copies, if it has that ETag still. It names no version: then it would.
type Source struct{ Bucket, Key, IfMatch string }

// Upload is an open multipart upload.
type Upload struct {
	Key, ID string
	Since   time.Time // when it began; listed uploads only
}

// Begun is what the server says of an upload that it has begun.
type Begun struct {
	ID         string
	Encryption Encryption
}

// sortPage puts the prefixes of a page between its keys.
func sortPage(page []Object) []Object {
	less := func(a, b Object) int { return strings.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(page, less) {
		slices.SortFunc(page, less)
	}
	return page
}

// Stored is what the server says of what it has stored.
type Stored struct {
	Number        int // of a part, from 1
	size          int64
	ETag, Version string
	CRC           string // the server's CRC-64/NVME; "" when it did not say
	Encryption    Encryption
}

// Object is what the server says of an object in a listing, or in an answer.
type Object struct {
	Key           string
	Size          int64
	ETag, Version string
	Modified      time.Time
	CRC           uint64 // of the full object, when HasCRC
	HasCRC        bool
	Header        http.Header // nil in listings
}

const (
	headerCRC     = "X-Amz-Checksum-Crc64nvme"
	headerCRCType = "X-Amz-Checksum-Type"
	fullObject    = "FULL_OBJECT"
	algorithm     = "CRC64NVME"
	metaPrefix    = "X-Amz-Meta-"
	headerTagging = "X-Amz-Tagging"
	headerTags    = "X-Amz-Tagging-Directive"
)

// EncodeCRC writes a CRC as S3 does: base64 of the big-endian bytes.
func EncodeCRC(crc uint64) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, crc))
}

func decodeCRC(s string) (uint64, bool) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(b), true
}

// objectOf reads the headers of an answer to HEAD or GET. The size of a range is
// that of the whole object; -1 is not known.
func objectOf(key string, h http.Header) Object {
	o := Object{Key: key, Size: -1, ETag: trimETag(h.Get("Etag")), Version: h.Get("X-Amz-Version-Id"), Header: h}
	if n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		o.Size = n
	}
	if r, ok := ParseContentRange(h.Get("Content-Range")); ok {
		o.Size = r.total
	}
	o.Modified, _ = http.ParseTime(h.Get("Last-Modified"))
	if h.Get(headerCRCType) == fullObject { // servers that only echo what they were told do not say so
		o.CRC, o.HasCRC = decodeCRC(h.Get(headerCRC))
	}
	return o
}

// AllHeaders are those of a call that makes an object, its metadata and conditions apart.
func (w *Put) AllHeaders() map[string]string {
	if w.Tags == "" {
		return w.Headers
	}
	h := map[string]string{headerTagging: w.Tags}
	maps.Copy(h, w.Headers)
	return h
}

// copyHeaders are those of a call that copies one.
func (w *Put) copyHeaders() map[string]string {
	if !w.ReplaceTags {
		return w.Headers
	}
	h := map[string]string{headerTags: "REPLACE"}
	maps.Copy(h, w.AllHeaders())
	return h
}

// Meta is the user metadata of one name, which is without the prefix; "" is none.
func (o *Object) Meta(name string) string { return o.Header.Get(metaPrefix + name) }

// storedBy reads the headers of an answer to PUT.
func storedBy(r *reply) Stored {
	return Stored{
		ETag: trimETag(r.header.Get("Etag")), Version: r.header.Get("X-Amz-Version-Id"), CRC: r.header.Get(headerCRC),
		Encryption: EncryptionOf(r.header),
	}
}

func trimETag(s string) string { return strings.Trim(s, `"`) }

// ContentRange is the range of bytes that an answer has, both ends included.
type ContentRange struct{ First, Last, total int64 }

// ParseContentRange reads "bytes 0-4/10"; see RFC 9110, section 14.4.
func ParseContentRange(s string) (r ContentRange, ok bool) {
	rest, ok := strings.CutPrefix(s, "bytes ")
	span, total, ok2 := strings.Cut(rest, "/")
	first, last, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return r, false
	}
	var err1, err2, err3 error
	r.First, err1 = strconv.ParseInt(first, 10, 64)
	r.Last, err2 = strconv.ParseInt(last, 10, 64)
	r.total, err3 = strconv.ParseInt(total, 10, 64)
	return r, err1 == nil && err2 == nil && err3 == nil && 0 <= r.First && r.First <= r.Last && r.Last < r.total
}

// rangeHeader is the value of a Range header for n bytes from off.
func rangeHeader(off, n int64) string {
	return "bytes=" + strconv.FormatInt(off, 10) + "-" + strconv.FormatInt(off+n-1, 10)
}

// reader is what a client is given to send.
func (w *Put) reader() io.Reader {
	if w.Body != nil {
		return w.Body
	}
	return bytes.NewReader(w.Data)
}

func (w *Put) length() int64 {
	if w.Body != nil {
		return w.Size
	}
	return int64(len(w.Data))
}

// checksum is that of the content. A bucket that retains its objects by default takes none without one (API reference, PutObject).
func (w *Put) checksum() string {
	if w.CRC == "" && w.Body == nil {
		return EncodeCRC(Checksum(w.Data))
	}
	return w.CRC
}

// condition is the value of the header If-Match; "" is none.
func (w *Put) condition() string {
	if w.IfMatch == "" || w.BareMatch {
		return w.IfMatch
	}
	return `"` + w.IfMatch + `"`
}

// MediaType is the content type that is sent.
func (w *Put) MediaType() string { return cmp.Or(w.ContentType, "application/octet-stream") }

// Metadata is the user metadata of an object, with small names.
func (o *Object) Metadata() map[string]string {
	m := map[string]string{}
	for name, values := range o.Header {
		if rest, ok := strings.CutPrefix(name, metaPrefix); ok && len(values) > 0 {
			m[strings.ToLower(rest)] = values[0]
		}
	}
	return m
}

// ChecksumTable is CRC-64/NVME (Amazon S3 user guide, "Checking object integrity"), for the few small objects of our own.
var ChecksumTable = crc64.MakeTable(0x9a6c9329ac4bc9b5)

// Checksum is the CRC-64/NVME of bytes.
func Checksum(b []byte) uint64 { return crc64.Checksum(b, ChecksumTable) }
