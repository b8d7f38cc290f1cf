package s3

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"datamove.dev/mover"
)

// store is the part of S3 that we use: single calls on one bucket, tried once,
// over our own transport. onprem (minio-go) and amazon (aws-sdk-go-v2) are the two.
// Errors have a kind of mover. No call hashes a payload.
type store interface {
	head(ctx context.Context, key, version string) (object, error)
	get(ctx context.Context, r get) (io.ReadCloser, object, error)
	tags(ctx context.Context, key string) (string, error) // of an object, as x-amz-tagging has them; "" is none
	tag(ctx context.Context, key, tags string) error      // gives an object tags, instead of those that it has
	acl(ctx context.Context, key string) (accessList, error)
	retention(ctx context.Context, key string) (mode, until string, err error)
	legalHold(ctx context.Context, key string) (string, error)
	ownership(ctx context.Context) (string, error) // of objects in the bucket (ObjectOwnership)
	locks(ctx context.Context) (bool, error)       // whether the bucket has Object Lock
	// list yields pages of keys, all in order. With a delimiter, a prefix has size -1.
	list(ctx context.Context, l listing) iter.Seq2[[]object, error]

	put(ctx context.Context, w put) (stored, error)
	copy(ctx context.Context, from source, to put) (stored, error)
	remove(ctx context.Context, key, version, ifMatch string) error

	create(ctx context.Context, w put) (begun, error)
	part(ctx context.Context, u upload, number int, w put) (stored, error)
	copyPart(ctx context.Context, u upload, number int, from source, off, n int64) (stored, error)
	complete(ctx context.Context, u upload, parts []stored, w put) (stored, error)
	abort(ctx context.Context, u upload) error
	parts(ctx context.Context, u upload) iter.Seq2[stored, error]
	uploads(ctx context.Context, prefix string) iter.Seq2[upload, error]

	region(ctx context.Context) (string, error) // of the bucket; "" when the store does not say
}

// get asks for an object or a range of it.
type get struct {
	key, version string
	ifMatch      string // an ETag; "" takes any
	off, n       int64  // n < 0 is the whole object
}

// listing asks for the keys below a prefix.
type listing struct {
	prefix, delimiter string
	after             string // only keys behind this one
	max               int    // keys per page; 0 is pageKeys
}

// pageKeys is how many keys S3 lists at most in one answer.
const pageKeys = 1000

// put is an object to store, or what belongs to one that is being stored.
type put struct {
	key         string
	data        []byte            // the content
	body        io.Reader         // the content, where it is not in memory
	size        int64             // of body
	meta        map[string]string // user metadata, without prefix
	mime        string            // "" is application/octet-stream
	kept        map[string]string // other headers that it is to have, and its class
	tags        string            // as x-amz-tagging has them
	tagged      bool              // a copy has those tags, and not those of its source
	guarded     bool              // kept has what guards the object
	crc         string            // encodeCRC of the content; "" is not sent
	parts       bool              // it is put together of parts
	fullObject  bool              // ask for a full-object CRC-64/NVME of a multipart upload
	ifMatch     string            // replace only this ETag
	bareMatch   bool              // write it without quotes
	ifNoneMatch bool              // only if there is none
	encryption  encryption        // of an object or upload that is made
}

// source is what a server-side copy copies, if it has that ETag still. It names no version: then it would.
type source struct{ bucket, key, ifMatch string }

// upload is an open multipart upload.
type upload struct {
	key, id string
	since   time.Time // when it began; listed uploads only
}

// begun is what the server says of an upload that it has begun.
type begun struct {
	id         string
	encryption encryption
}

// sortPage puts the prefixes of a page between its keys.
func sortPage(page []object) []object {
	less := func(a, b object) int { return strings.Compare(a.key, b.key) }
	if !slices.IsSortedFunc(page, less) {
		slices.SortFunc(page, less)
	}
	return page
}

// stored is what the server says of what it has stored.
type stored struct {
	number        int // of a part, from 1
	size          int64
	etag, version string
	crc           string // the server's CRC-64/NVME; "" when it did not say
	encryption    encryption
}

// object is what the server says of an object in a listing, or in an answer.
type object struct {
	key           string
	size          int64
	etag, version string
	modified      time.Time
	crc           uint64 // of the full object, when hasCRC
	hasCRC        bool
	header        http.Header // nil in listings
}

const (
	headerCRC     = "X-Amz-Checksum-Crc64nvme"
	headerCRCType = "X-Amz-Checksum-Type"
	fullObject    = "FULL_OBJECT"
	algorithm     = "CRC64NVME"
	metaPrefix    = "X-Amz-Meta-"
)

// encodeCRC writes a CRC as S3 does: base64 of the big-endian bytes.
func encodeCRC(crc uint64) string {
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
func objectOf(key string, h http.Header) object {
	o := object{key: key, size: -1, etag: trimETag(h.Get("Etag")), version: h.Get("X-Amz-Version-Id"), header: h}
	if n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		o.size = n
	}
	if r, ok := parseContentRange(h.Get("Content-Range")); ok {
		o.size = r.total
	}
	o.modified, _ = http.ParseTime(h.Get("Last-Modified"))
	if h.Get(headerCRCType) == fullObject { // servers that only echo what they were told do not say so
		o.crc, o.hasCRC = decodeCRC(h.Get(headerCRC))
	}
	return o
}

// keptHeaders are what an object has beside user metadata: a copy that does not say them is without them, in class STANDARD (Amazon S3
// user guide, "System-defined object metadata"; API reference, CopyObject). The content type is told apart.
var keptHeaders = [...]string{"Cache-Control", "Content-Disposition", headerEncoding, "Content-Language", "Expires", headerRedirect, headerClass}

const (
	headerEncoding = "Content-Encoding"
	headerRedirect = "X-Amz-Website-Redirect-Location"
	headerClass    = "X-Amz-Storage-Class"
)

// again is what a copy of the object has to say to be as it is, but for its metadata.
func (p *Backend) again(o *object, key string, meta map[string]string) put {
	w := put{key: key, meta: meta, mime: o.header.Get("Content-Type"), kept: map[string]string{}}
	if o.hasCRC {
		w.crc = encodeCRC(o.crc)
	}
	for _, name := range keptHeaders {
		if value := o.header.Get(name); value != "" {
			w.kept[name] = value
		}
	}
	if w.kept[headerClass] == "STANDARD" { // which some servers say, and all take for granted
		delete(w.kept, headerClass)
	}
	if coding := contentEncoding(w.kept[headerEncoding]); coding == "" {
		delete(w.kept, headerEncoding)
	}
	if strings.Contains(p.profile.Server, "MinIO") {
		delete(w.kept, headerClass) // there it may be the name of a tier, which can not be asked for
	}
	if as := encryptionOf(o.header); p.amazon && as.key != "" {
		w.encryption = as // else it gets that of its bucket
	}
	return w
}

// headers are those of a call that makes an object, its metadata and conditions apart.
func (w *put) headers() map[string]string {
	if w.tags == "" {
		return w.kept
	}
	h := map[string]string{headerTagging: w.tags}
	maps.Copy(h, w.kept)
	return h
}

// copyHeaders are those of a call that copies one.
func (w *put) copyHeaders() map[string]string {
	if !w.tagged {
		return w.kept
	}
	h := map[string]string{headerTags: "REPLACE"}
	maps.Copy(h, w.headers())
	return h
}

func (o *object) meta(name string) string { return o.header.Get(metaPrefix + name) }

// storedBy reads the headers of an answer to PUT.
func storedBy(r *reply) stored {
	return stored{
		etag: trimETag(r.header.Get("Etag")), version: r.header.Get("X-Amz-Version-Id"), crc: r.header.Get(headerCRC),
		encryption: encryptionOf(r.header),
	}
}

func trimETag(s string) string { return strings.Trim(s, `"`) }

type contentRange struct{ first, last, total int64 }

// parseContentRange reads "bytes 0-4/10"; see RFC 9110, section 14.4.
func parseContentRange(s string) (r contentRange, ok bool) {
	rest, ok := strings.CutPrefix(s, "bytes ")
	span, total, ok2 := strings.Cut(rest, "/")
	first, last, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return r, false
	}
	var err1, err2, err3 error
	r.first, err1 = strconv.ParseInt(first, 10, 64)
	r.last, err2 = strconv.ParseInt(last, 10, 64)
	r.total, err3 = strconv.ParseInt(total, 10, 64)
	return r, err1 == nil && err2 == nil && err3 == nil && 0 <= r.first && r.first <= r.last && r.last < r.total
}

// rangeHeader is the value of a Range header for n bytes from off.
func rangeHeader(off, n int64) string {
	return "bytes=" + strconv.FormatInt(off, 10) + "-" + strconv.FormatInt(off+n-1, 10)
}

// reader is what a client is given to send.
func (w *put) reader() io.Reader {
	if w.body != nil {
		return w.body
	}
	return bytes.NewReader(w.data)
}

func (w *put) length() int64 {
	if w.body != nil {
		return w.size
	}
	return int64(len(w.data))
}

// checksum is that of the content. A bucket that retains its objects by default takes none without one (API reference, PutObject).
func (w *put) checksum() string {
	if w.crc == "" && w.body == nil {
		return encodeCRC(crcOf(w.data))
	}
	return w.crc
}

// condition is the value of the header If-Match; "" is none.
func (w *put) condition() string {
	if w.ifMatch == "" || w.bareMatch {
		return w.ifMatch
	}
	return `"` + w.ifMatch + `"`
}

func (w *put) mimeType() string { return cmp.Or(w.mime, "application/octet-stream") }

// rejected reports whether err says that the server compared and found a difference.
func rejected(err error) bool { return err != nil && kindOf(err) == mover.ErrCorrupt }
