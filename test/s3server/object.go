package s3server

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"datamove.dev/mover/checksum"
)

// Headers of S3.
const (
	headerCRC       = "X-Amz-Checksum-Crc64nvme"
	headerCRCType   = "X-Amz-Checksum-Type"
	headerSource    = "X-Amz-Copy-Source"
	headerTagging   = "X-Amz-Tagging"
	headerTagCount  = "X-Amz-Tagging-Count"
	headerDirective = "X-Amz-Metadata-Directive"
	headerClass     = "X-Amz-Storage-Class"
	metaPrefix      = "X-Amz-Meta-"
)

// object is an object. It does not change.
type object struct {
	data     [][]byte
	size     int64
	crc      uint64
	etag     string
	header   http.Header // those that are kept
	tags     string      // as a header says them
	modified time.Time
}

// kept are the headers of a request that its object keeps.
func kept(of http.Header) http.Header {
	h := http.Header{}
	for k, v := range of {
		switch k {
		case "Content-Type", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Expires", headerClass:
			h[k] = v
		default:
			if strings.HasPrefix(k, metaPrefix) {
				h[k] = v
			}
		}
	}
	return h
}

// newObject makes an object of content.
func (s *Server) newObject(data [][]byte, from http.Header) *object {
	o := &object{data: data, header: kept(from), tags: from.Get(headerTagging), modified: time.Now().UTC()}
	for _, b := range data {
		o.size += int64(len(b))
		o.crc = checksum.Update(o.crc, b)
	}
	o.etag = s.etag(o.crc, o.size)
	return o
}

// store makes an object visible; mu is held.
func (s *Server) store(c *call, o *object) {
	if s.objects == nil {
		s.objects = map[string]*object{}
	}
	s.objects[c.Key] = o
	s.log = append(s.log, Event{At: time.Now(), From: c.From, Key: c.Key, CRC: o.crc})
}

// allowed looks at the conditions of a call that replaces an object. mu is held.
func (s *Server) allowed(c *call) error {
	o := s.objects[c.Key]
	none, match := c.Header.Get("If-None-Match"), c.Header.Get("If-Match")
	switch {
	case none == "*" && o != nil:
		return refuse("PreconditionFailed")
	case match != "" && o == nil:
		return refuse("NoSuchKey")
	case match != "" && !matches(match, o):
		return refuse("PreconditionFailed")
	}
	return nil
}

func matches(condition string, o *object) bool {
	return condition == "*" || strings.Trim(condition, `"`) == o.etag
}

func quoted(etag string) []string { return []string{`"` + etag + `"`} }

func (s *Server) put(c *call) (*answer, error) {
	if err := s.allowed(c); err != nil {
		return nil, err
	}
	o := s.newObject([][]byte{c.data}, c.Header)
	s.store(c, o)
	return &answer{header: http.Header{"Etag": quoted(o.etag), headerCRC: {encodeCRC(o.crc)}, headerCRCType: {"FULL_OBJECT"}}}, nil
}

// get answers GetObject and HeadObject.
func (s *Server) get(c *call) (*answer, error) {
	o := s.objects[c.Key]
	if o == nil {
		return nil, refuse("NoSuchKey")
	}
	if match := c.Header.Get("If-Match"); match != "" && !matches(match, o) {
		return nil, refuse("PreconditionFailed")
	}
	if match := c.Header.Get("If-None-Match"); match != "" && matches(match, o) {
		return nil, refuse("NotModified")
	}
	a := &answer{header: o.header.Clone(), length: o.size}
	h := a.header
	h["Etag"], h["Accept-Ranges"] = quoted(o.etag), []string{"bytes"}
	h.Set("Last-Modified", o.modified.Format(http.TimeFormat))
	if n := len(splitTags(o.tags)); n > 0 {
		h.Set(headerTagCount, strconv.Itoa(n))
	}
	off, n, ok := span(c.Header.Get("Range"), o.size)
	switch {
	case !ok:
		return nil, refuse("InvalidRange")
	case c.Header.Get("Range") != "":
		a.status, a.length = http.StatusPartialContent, n
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", off, off+n-1, o.size))
	case c.Header.Get("X-Amz-Checksum-Mode") != "":
		h.Set(headerCRC, encodeCRC(o.crc))
		h.Set(headerCRCType, "FULL_OBJECT")
	}
	if c.Method == http.MethodGet {
		a.body = part(o.data, off, n)
	}
	return a, nil
}

// part is a range of content.
func part(data [][]byte, off, n int64) (all [][]byte) {
	for _, b := range data {
		size := int64(len(b))
		if off < size && n > 0 {
			piece := b[off:min(size, off+n)]
			all = append(all, piece)
			n -= int64(len(piece))
			off = 0
			continue
		}
		off -= min(off, size)
	}
	return all
}

// span reads a Range header of one range (RFC 9110, section 14.1.2).
func span(header string, size int64) (off, n int64, ok bool) {
	if header == "" {
		return 0, size, true
	}
	first, last, _ := strings.Cut(strings.TrimPrefix(header, "bytes="), "-")
	off, err := strconv.ParseInt(first, 10, 64)
	end := size - 1
	if last != "" && err == nil {
		end, err = strconv.ParseInt(last, 10, 64)
		end = min(end, size-1)
	}
	return off, end - off + 1, err == nil && off >= 0 && off < size && end >= off
}

func (s *Server) remove(c *call) (*answer, error) {
	o := s.objects[c.Key]
	match := c.Header.Get("If-Match")
	switch {
	case o == nil && match != "":
		return nil, refuse("NoSuchKey")
	case o != nil && match != "" && !matches(match, o):
		return nil, refuse("PreconditionFailed")
	case o != nil:
		delete(s.objects, c.Key)
		s.log = append(s.log, Event{At: time.Now(), From: c.From, Key: c.Key, Gone: true})
	}
	return &answer{status: http.StatusNoContent}, nil
}

// source is the object that a call copies.
func (s *Server) source(c *call) (*object, error) {
	path, err := url.PathUnescape(strings.TrimPrefix(c.Header.Get(headerSource), "/"))
	if err != nil {
		return nil, refuse("InvalidArgument")
	}
	o := s.objects[path]
	if o == nil {
		return nil, refuse("NoSuchKey")
	}
	if match := c.Header.Get(headerSource + "-If-Match"); match != "" && !matches(match, o) {
		return nil, refuse("PreconditionFailed")
	}
	return o, nil
}

func (s *Server) copy(c *call) (*answer, error) {
	from, err := s.source(c)
	if err == nil {
		err = s.allowed(c)
	}
	if err != nil {
		return nil, err
	}
	o := *from
	o.modified, o.etag = time.Now().UTC(), s.etag(from.crc, from.size)
	if c.Header.Get(headerDirective) == "REPLACE" {
		o.header = kept(c.Header)
	}
	if c.Header.Get("X-Amz-Tagging-Directive") == "REPLACE" {
		o.tags = c.Header.Get(headerTagging)
	}
	s.store(c, &o)
	return document(struct {
		XMLName           xml.Name `xml:"CopyObjectResult"`
		LastModified      string
		ETag              string
		ChecksumCRC64NVME string
	}{LastModified: o.modified.Format(xmlTime), ETag: quoted(o.etag)[0], ChecksumCRC64NVME: encodeCRC(o.crc)})
}

// xmlTime is how S3 writes a time in a document.
const xmlTime = "2006-01-02T15:04:05.000Z"

type tag struct{ Key, Value string }

// splitTags are tags as a header says them.
func splitTags(text string) (all []tag) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil
	}
	for k, v := range values {
		all = append(all, tag{k, v[0]})
	}
	return all
}

type tagging struct {
	XMLName xml.Name `xml:"Tagging"`
	Tags    []tag    `xml:"TagSet>Tag"`
}

func (s *Server) tags(c *call) (*answer, error) {
	o := s.objects[c.Key]
	if o == nil {
		return nil, refuse("NoSuchKey")
	}
	return document(tagging{Tags: splitTags(o.tags)})
}

func (s *Server) setTags(c *call) (*answer, error) {
	o := s.objects[c.Key]
	if o == nil {
		return nil, refuse("NoSuchKey")
	}
	var t tagging
	if xml.Unmarshal(c.data, &t) != nil {
		return nil, refuse("MalformedXML")
	}
	values := url.Values{}
	for _, one := range t.Tags {
		values.Set(one.Key, one.Value)
	}
	changed := *o
	changed.tags = values.Encode()
	s.objects[c.Key] = &changed
	return &answer{}, nil
}
