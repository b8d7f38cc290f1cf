package s3server

import (
	"crypto/md5" //nolint:gosec // of ETags, because that is what the ETag of an upload is
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"datamove.dev/mover/checksum"
)

// upload is a multipart upload. One that was completed or aborted stays known, because a part may be on its way to it.
type upload struct {
	key      string
	open     bool
	complete bool
	header   http.Header
	since    time.Time
	parts    map[int]*uploaded
	from     []string
}

// uploaded is a part.
type uploaded struct {
	data [][]byte
	size int64
	crc  uint64
	etag string
}

const partMin = 5 << 20 // of all parts but the last one

// upload is the open one that a call is about. mu is held.
func (s *Server) upload(c *call) (*upload, error) {
	if u := s.uploads[c.query.Get("uploadId")]; u != nil && u.key == c.Key && u.open {
		return u, nil
	}
	return nil, refuse("NoSuchUpload")
}

func (s *Server) create(c *call) (*answer, error) {
	s.serial++
	id := fmt.Sprintf("upload-%06d", s.serial)
	if s.uploads == nil {
		s.uploads = map[string]*upload{}
	}
	s.uploads[id] = &upload{key: c.Key, open: true, header: c.Header.Clone(), since: time.Now().UTC(), parts: map[int]*uploaded{}, from: []string{c.From}}
	_, key, _ := strings.Cut(c.Key, "/")
	return document(struct {
		XMLName               xml.Name `xml:"InitiateMultipartUploadResult"`
		Bucket, Key, UploadId string   //nolint:staticcheck // as S3 writes it
	}{Bucket: c.bucket, Key: key, UploadId: id})
}

// uploadPart stores a part. Its upload was open when the call came; where it was aborted meanwhile, it is open again.
func (s *Server) uploadPart(c *call) (*answer, error) {
	number, err := strconv.Atoi(c.query.Get("partNumber"))
	if err != nil || number < 1 || number > 10_000 {
		return nil, refuse("InvalidArgument")
	}
	u := s.uploads[c.query.Get("uploadId")]
	if u.complete {
		return nil, refuse("NoSuchUpload")
	}
	p := &uploaded{data: [][]byte{c.data}, size: int64(len(c.data)), crc: c.crc, etag: s.etag(c.crc, int64(len(c.data)))}
	u.open = true
	u.parts[number] = p
	u.from = append(u.from, c.From)
	return &answer{header: http.Header{"Etag": quoted(p.etag), headerCRC: {encodeCRC(p.crc)}}}, nil
}

func (s *Server) copyPart(c *call) (*answer, error) {
	u, err := s.upload(c)
	if err != nil {
		return nil, err
	}
	from, err := s.source(c)
	if err != nil {
		return nil, err
	}
	off, n, ok := span(c.Header.Get(headerSource+"-Range"), from.size)
	number, err := strconv.Atoi(c.query.Get("partNumber"))
	if !ok || err != nil {
		return nil, refuse("InvalidArgument")
	}
	p := &uploaded{data: part(from.data, off, n), size: n}
	for _, b := range p.data {
		p.crc = checksum.Update(p.crc, b)
	}
	p.etag = s.etag(p.crc, n)
	u.parts[number] = p
	u.from = append(u.from, c.From)
	return document(struct {
		XMLName           xml.Name `xml:"CopyPartResult"`
		LastModified      string
		ETag              string
		ChecksumCRC64NVME string
	}{LastModified: time.Now().UTC().Format(xmlTime), ETag: quoted(p.etag)[0], ChecksumCRC64NVME: encodeCRC(p.crc)})
}

func (s *Server) complete(c *call) (*answer, error) {
	u, err := s.upload(c)
	if err != nil {
		return nil, err
	}
	var want struct {
		Parts []struct {
			PartNumber        int
			ETag              string
			ChecksumCRC64NVME string
		} `xml:"Part"`
	}
	if xml.Unmarshal(c.data, &want) != nil || len(want.Parts) == 0 {
		return nil, refuse("MalformedXML")
	}
	if err := s.allowed(c); err != nil {
		return nil, err
	}
	var data [][]byte
	sum := md5.New() //nolint:gosec // see the import
	before := 0
	for i, w := range want.Parts {
		p := u.parts[w.PartNumber]
		switch {
		case w.PartNumber <= before:
			return nil, refuse("InvalidPartOrder")
		case p == nil || p.etag != strings.Trim(w.ETag, `"`) || w.ChecksumCRC64NVME != "" && w.ChecksumCRC64NVME != encodeCRC(p.crc):
			return nil, refuse("InvalidPart")
		case i < len(want.Parts)-1 && p.size < partMin:
			return nil, refuse("EntityTooSmall")
		}
		before = w.PartNumber
		data = append(data, p.data...)
		b, _ := hex.DecodeString(p.etag) // it is one of ours
		sum.Write(b)
	}
	o := s.newObject(data, u.header)
	if said := c.Header.Get(headerCRC); said != "" && said != encodeCRC(o.crc) {
		return nil, refuse("BadDigest")
	}
	o.etag = fmt.Sprintf("%x-%d", sum.Sum(nil), len(want.Parts))
	u.open, u.complete, u.parts = false, true, nil
	s.store(c, o)
	_, key, _ := strings.Cut(c.Key, "/")
	return document(struct {
		XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
		Bucket, Key, ETag string
		ChecksumCRC64NVME string
		ChecksumType      string
	}{Bucket: c.bucket, Key: key, ETag: quoted(o.etag)[0], ChecksumCRC64NVME: encodeCRC(o.crc), ChecksumType: "FULL_OBJECT"})
}

func (s *Server) abort(c *call) (*answer, error) {
	u, err := s.upload(c)
	if err != nil {
		return nil, err
	}
	u.open = false
	clear(u.parts)
	return &answer{status: http.StatusNoContent}, nil
}

func (s *Server) listParts(c *call) (*answer, error) {
	u, err := s.upload(c)
	if err != nil {
		return nil, err
	}
	type listed struct {
		PartNumber        int
		LastModified      string
		ETag              string
		Size              int64
		ChecksumCRC64NVME string
	}
	out := struct {
		XMLName               xml.Name `xml:"ListPartsResult"`
		Bucket, Key, UploadId string   //nolint:staticcheck // as S3 writes it
		IsTruncated           bool
		Parts                 []listed `xml:"Part"`
	}{Bucket: c.bucket, Key: c.Key[len(c.bucket)+1:], UploadId: c.query.Get("uploadId")}
	after, _ := strconv.Atoi(c.query.Get("part-number-marker")) // none is 0
	for _, n := range slices.Sorted(maps.Keys(u.parts)) {
		if p := u.parts[n]; n > after {
			out.Parts = append(out.Parts, listed{n, u.since.Format(xmlTime), quoted(p.etag)[0], p.size, encodeCRC(p.crc)})
		}
	}
	return document(out)
}
