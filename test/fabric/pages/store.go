package main

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// modified is when every object was made.
var modified = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// store answers the calls of S3 that read.
type store struct {
	bucket bucket
	sums   sync.Map // of string, in base64, by key: what was asked for before
}

func newStore(b bucket) *store { return &store{bucket: b} }

// ServeHTTP implements http.Handler.
func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "pages")
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		refuse(w, r, http.StatusMethodNotAllowed, "MethodNotAllowed")
	case name != s.bucket.name:
		refuse(w, r, http.StatusNotFound, "NoSuchBucket")
	case key == "":
		s.serveBucket(w, r)
	case !s.bucket.has(key):
		refuse(w, r, http.StatusNotFound, "NoSuchKey")
	default:
		s.serveObject(w, r, key)
	}
}

// refuse sends an error document as S3 does.
func refuse(w http.ResponseWriter, r *http.Request, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		fmt.Fprintf(w, "%s<Error><Code>%s</Code><Message>%s</Message></Error>", xml.Header, code, http.StatusText(status))
	}
}

func (s *store) serveObject(w http.ResponseWriter, r *http.Request, key string) {
	o := newObject(key, s.bucket.size)
	if match := r.Header.Get("If-Match"); match != "" && match != "*" && strings.Trim(match, `"`) != o.etag {
		refuse(w, r, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	off, n, ok := span(r.Header.Get("Range"), o.size)
	if !ok {
		refuse(w, r, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
		return
	}
	h := w.Header()
	h.Set("ETag", `"`+o.etag+`"`)
	h.Set("Last-Modified", modified.Format(http.TimeFormat))
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(n, 10))
	status := http.StatusOK
	if r.Header.Get("Range") != "" {
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", off, off+n-1, o.size))
		status = http.StatusPartialContent
	} else if r.Header.Get("X-Amz-Checksum-Mode") != "" {
		h.Set("X-Amz-Checksum-Crc64nvme", s.sum(&o))
		h.Set("X-Amz-Checksum-Type", "FULL_OBJECT")
	}
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_ = o.write(w, off, n) // who does not read to the end knows why
	}
}

// sum is the checksum of an object as S3 writes it.
func (s *store) sum(o *object) string {
	if known, ok := s.sums.Load(o.key); ok {
		return known.(string)
	}
	text := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, o.crc()))
	s.sums.Store(o.key, text)
	return text
}

// span reads a Range header of one range (RFC 9110, section 14.1.2).
func span(header string, size int64) (off, n int64, ok bool) {
	if header == "" {
		return 0, size, true
	}
	text, ok := strings.CutPrefix(header, "bytes=")
	first, last, dash := strings.Cut(text, "-")
	if !ok || !dash {
		return 0, 0, false
	}
	if first == "" { // the last bytes
		n, err := strconv.ParseInt(last, 10, 64)
		n = min(n, size)
		return size - n, n, err == nil && n > 0
	}
	off, err := strconv.ParseInt(first, 10, 64)
	end := size - 1
	if last != "" && err == nil {
		end, err = strconv.ParseInt(last, 10, 64)
		end = min(end, size-1)
	}
	return off, end - off + 1, err == nil && off >= 0 && off < size && end >= off
}

// listing is an answer to ListObjectsV2.
type listing struct {
	XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name                  string
	Prefix                string
	Delimiter             string `xml:",omitempty"`
	EncodingType          string `xml:",omitempty"`
	MaxKeys               int
	KeyCount              int
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listed
	CommonPrefixes        []common
}

type listed struct {
	Key          string
	LastModified string
	ETag         string
	Size         int64
	StorageClass string
}

type common struct{ Prefix string }

func (s *store) serveBucket(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodHead:
	case q.Has("location"):
		s.send(w, struct {
			XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ LocationConstraint"`
		}{})
	case q.Get("list-type") == "2":
		s.send(w, s.list(q))
	default:
		refuse(w, r, http.StatusNotImplemented, "NotImplemented")
	}
}

func (s *store) send(w http.ResponseWriter, answer any) {
	text, err := xml.Marshal(answer)
	if err != nil {
		panic(err) // types of ours
	}
	w.Header().Set("Content-Type", "application/xml")
	_, _ = w.Write(append([]byte(xml.Header), text...)) //nolint:gosec // G705: it is XML, and escaped by the encoder
}

// list is one page of the keys that are asked for.
func (s *store) list(q url.Values) *listing {
	const most = 1000
	l := &listing{Name: s.bucket.name, Prefix: q.Get("prefix"), Delimiter: q.Get("delimiter"), EncodingType: q.Get("encoding-type"), MaxKeys: most}
	if n, err := strconv.Atoi(q.Get("max-keys")); err == nil && n >= 0 {
		l.MaxKeys = min(n, most)
	}
	last := max(q.Get("start-after"), q.Get("continuation-token"))
	for i := s.bucket.from(max(l.Prefix, last)); i < s.bucket.count(); i = s.bucket.from(last + "\x00") {
		key := s.bucket.key(i)
		if key == last { // the next one is behind it
			continue
		}
		if !strings.HasPrefix(key, l.Prefix) {
			break
		}
		if l.KeyCount == l.MaxKeys {
			l.IsTruncated, l.NextContinuationToken = l.MaxKeys > 0, last
			break
		}
		l.KeyCount++
		if last = key; l.Delimiter != "" {
			if cut := strings.Index(key[len(l.Prefix):], l.Delimiter); cut >= 0 {
				prefix := key[:len(l.Prefix)+cut+len(l.Delimiter)]
				l.CommonPrefixes = append(l.CommonPrefixes, common{prefix})
				last = prefix + "~" // behind all that it holds
				continue
			}
		}
		o := newObject(key, s.bucket.size)
		l.Contents = append(l.Contents, listed{key, modified.Format(time.RFC3339), `"` + o.etag + `"`, o.size, "STANDARD"})
	}
	return l
}
