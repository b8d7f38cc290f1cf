package s3server

import (
	"encoding/xml"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const pageKeys = 1000

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

// encoder writes keys as a call wants them.
func (c *call) encoder() func(string) string {
	if c.query.Get("encoding-type") != "url" {
		return func(key string) string { return key }
	}
	return func(key string) string { return strings.ReplaceAll(url.QueryEscape(key), "%2F", "/") }
}

func (s *Server) list(c *call) (*answer, error) {
	q, encode := c.query, c.encoder()
	prefix, delimiter := q.Get("prefix"), q.Get("delimiter")
	l := &listing{Name: c.bucket, Prefix: encode(prefix), Delimiter: encode(delimiter), EncodingType: q.Get("encoding-type"), MaxKeys: pageKeys}
	if n, err := strconv.Atoi(q.Get("max-keys")); err == nil && n >= 0 {
		l.MaxKeys = min(n, pageKeys)
	}
	after, last := q.Get("start-after"), q.Get("continuation-token")
	for _, path := range s.keys(c.bucket + "/" + prefix) {
		key := path[len(c.bucket)+1:]
		shown := key
		if delimiter != "" {
			if head, _, cut := strings.Cut(key[len(prefix):], delimiter); cut {
				shown = prefix + head + delimiter
			}
		}
		if key <= after || shown <= last { // a common prefix is told once, also on another page
			continue
		}
		if l.KeyCount == l.MaxKeys {
			l.IsTruncated, l.NextContinuationToken = l.MaxKeys > 0, last
			break
		}
		l.KeyCount++
		if last = shown; shown != key {
			l.CommonPrefixes = append(l.CommonPrefixes, common{encode(shown)})
			continue
		}
		o := s.objects[path]
		class := o.header.Get(headerClass)
		if class == "" {
			class = "STANDARD"
		}
		l.Contents = append(l.Contents, listed{encode(key), o.modified.Format(xmlTime), quoted(o.etag)[0], o.size, class})
	}
	return document(l)
}

func (s *Server) listUploads(c *call) (*answer, error) {
	q, encode := c.query, c.encoder()
	type listed struct{ Key, UploadId, Initiated string } //nolint:staticcheck // as S3 writes it
	out := struct {
		XMLName            xml.Name `xml:"ListMultipartUploadsResult"`
		Bucket             string
		EncodingType       string `xml:",omitempty"`
		IsTruncated        bool
		NextKeyMarker      string   `xml:",omitempty"`
		NextUploadIdMarker string   `xml:",omitempty"` //nolint:staticcheck // as S3 writes it
		Uploads            []listed `xml:"Upload"`
	}{Bucket: c.bucket, EncodingType: q.Get("encoding-type")}
	ids := slices.SortedFunc(maps.Keys(s.uploads), func(a, b string) int {
		if order := strings.Compare(s.uploads[a].key, s.uploads[b].key); order != 0 {
			return order
		}
		return strings.Compare(a, b)
	})
	keyMarker, idMarker := q.Get("key-marker"), q.Get("upload-id-marker")
	for _, id := range ids {
		u := s.uploads[id]
		key, in := strings.CutPrefix(u.key, c.bucket+"/")
		switch {
		case !in || !u.open || !strings.HasPrefix(key, q.Get("prefix")):
			continue
		case key < keyMarker || key == keyMarker && (idMarker == "" || id <= idMarker):
			continue
		case len(out.Uploads) == pageKeys:
			out.IsTruncated = true
			return document(out)
		}
		out.Uploads = append(out.Uploads, listed{encode(key), id, u.since.Format(xmlTime)})
		out.NextKeyMarker, out.NextUploadIdMarker = encode(key), id
	}
	return document(out)
}
