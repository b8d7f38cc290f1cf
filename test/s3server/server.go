// Package s3server is an S3 server in memory, for tests in virtual time: it is an http.Handler, starts no goroutine, and waits for
// nothing but what its faults say.
//
// It is a fake. It does what the API reference of Amazon S3 says of the calls that mover/backend/s3 makes: objects with metadata, headers and tags,
// multipart uploads, conditions, CRC-64/NVME, copies, listings by pages. Any bucket exists; signatures are not looked at, and there are no versions.
// A call that it does not know is NotImplemented. TestContract holds it to the contract of backends.
//
// What has reached the server is done though its client has gone. So a part that was given in full is stored when its turn comes, and where its upload was
// aborted meanwhile it brings the upload back (AbortMultipartUpload in the API reference).
//
// The state is guarded by one lock, which is not held while a call waits.
package s3server

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover/checksum"
)

// Server is an S3 server. Its fields are set before it serves; methods may be called at any time.
type Server struct {
	Fate   func(Call) Fate // of each call, by any goroutine; nil is none but success
	Salted bool            // the same bytes have another ETag each time that they are put, as where KMS encrypts

	mu      sync.Mutex // guards all below
	objects map[string]*object
	uploads map[string]*upload
	serial  int
	log     []Event
}

// Call is a call that is about to be done.
type Call struct {
	From string // the address of the client, as its connection has it
	Op   string // as in the API reference: "PutObject"
	Key  string // with the bucket before it
}

// Fate is what happens to a call.
type Fate struct {
	Late    time.Duration // before its body is read
	Slow    time.Duration // when the body has been read, and before the work is done
	Refused string        // the code of an error: InternalError, ServiceUnavailable or SlowDown; nothing is done
	Cut     bool          // the connection ends within the body of the request, or, of a call without one, before anything is done
	Lost    bool          // the work is done, and the connection ends before the answer, or within its body
}

// Event is a change of an object.
type Event struct {
	At   time.Time
	From string
	Key  string // with the bucket before it
	CRC  uint64 // CRC-64/NVME of what is there now
	Gone bool   // nothing is
}

// Object is an object as a test sees it.
type Object struct {
	Key  string // with the bucket before it
	Size int64
	CRC  uint64
}

// Upload is an open multipart upload.
type Upload struct {
	Key, ID string
	From    []string // the addresses that began it and gave it parts
}

// Objects are the objects with keys, after the bucket and a slash, that begin with a prefix; sorted.
func (s *Server) Objects(prefix string) (all []Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.keys(prefix) {
		o := s.objects[key]
		all = append(all, Object{key, o.size, o.crc})
	}
	return all
}

// Uploads are the open uploads of keys with a prefix.
func (s *Server) Uploads(prefix string) (all []Upload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.uploads)) {
		if u := s.uploads[id]; strings.HasPrefix(u.key, prefix) && u.open {
			all = append(all, Upload{u.key, id, slices.Clone(u.from)})
		}
	}
	return all
}

// Log returns the events from one on.
func (s *Server) Log(from int) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log[from:])
}

// keys are the keys with a prefix; mu is held.
func (s *Server) keys(prefix string) (all []string) {
	for key := range s.objects {
		if strings.HasPrefix(key, prefix) {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all
}

// refusal is an error document.
type refusal struct {
	code   string
	status int
}

func (r *refusal) Error() string { return r.code }

var statuses = map[string]int{
	"NoSuchKey": 404, "NoSuchUpload": 404, "NoSuchBucket": 404, "ObjectLockConfigurationNotFoundError": 404, "NoSuchTagSet": 404, "NoSuchObjectLockConfiguration": 404,
	"PreconditionFailed": 412, "NotModified": 304, "InvalidRange": 416, "NotImplemented": 501, "InternalError": 500, "ServiceUnavailable": 503, "SlowDown": 503,
}

// refuse is an error of S3; one that is not in statuses is a bad request.
func refuse(code string) error {
	status := statuses[code]
	if status == 0 {
		status = http.StatusBadRequest
	}
	return &refusal{code, status}
}

// answer is what a call has come to.
type answer struct {
	status int // 0 is 200
	header http.Header
	body   [][]byte
	length int64 // of a body that is not sent; of HEAD
}

// document is an answer of XML.
func document(of any) (*answer, error) {
	text, err := xml.Marshal(of)
	if err != nil {
		return nil, err
	}
	return &answer{header: http.Header{"Content-Type": {"application/xml"}}, body: [][]byte{[]byte(xml.Header), text}}, nil
}

// call is a request on its way through the server.
type call struct {
	Call
	*http.Request
	query  url.Values
	bucket string
	data   []byte // the body
	crc    uint64 // of data
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	bucket, key, _ := strings.Cut(path, "/")
	c := &call{Request: r, query: r.URL.Query(), bucket: bucket}
	name, do := c.operation(key)
	c.Call = Call{From: r.RemoteAddr, Op: name, Key: path}
	var fate Fate
	if s.Fate != nil {
		fate = s.Fate(c.Call)
	}
	time.Sleep(fate.Late)
	if fate.Cut {
		_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
		panic(http.ErrAbortHandler)
	}
	var a *answer
	err := c.begin(s)
	if err == nil {
		err = c.read()
	}
	time.Sleep(fate.Slow)
	if err == nil && fate.Refused != "" {
		err = refuse(fate.Refused)
	}
	if err == nil {
		s.mu.Lock()
		a, err = do(s, c)
		s.mu.Unlock()
	}
	if err != nil {
		a = c.refused(err)
	}
	a.send(w, r, fate.Lost)
}

// begin looks at what has to be there before a body is worth reading.
func (c *call) begin(s *Server) error {
	if c.Op != "UploadPart" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.upload(c)
	return err
}

// read reads the body, which has to be as long as the header says, and of its checksum.
func (c *call) read() (err error) {
	if c.Header.Get("X-Amz-Decoded-Content-Length") != "" { // in chunks with signatures or trailers
		return refuse("NotImplemented")
	}
	if c.ContentLength > 0 {
		c.data = make([]byte, c.ContentLength)
		_, err = io.ReadFull(c.Body, c.data)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client has gone within it
	}
	c.crc = checksum.Update(0, c.data)
	if c.Method == http.MethodPost { // there it is the checksum of the object
		return nil
	}
	if said := c.Header.Get(headerCRC); said != "" && said != encodeCRC(c.crc) {
		return refuse("BadDigest")
	}
	return nil
}

// refused is the answer to a call that is refused.
func (c *call) refused(err error) *answer {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{"InternalError", http.StatusInternalServerError}
	}
	a, err := document(struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
		Resource      string
	}{Code: r.code, Message: "refused by s3server", Resource: c.URL.Path})
	if err != nil {
		panic(err) // of a type of ours
	}
	a.status = r.status
	return a
}

// send sends an answer, or cuts it off.
func (a *answer) send(w http.ResponseWriter, r *http.Request, lost bool) {
	h := w.Header()
	for k, v := range a.header {
		h[k] = v
	}
	h.Set("Server", "s3server")
	var n int64
	for _, b := range a.body {
		n += int64(len(b))
	}
	if r.Method == http.MethodHead && a.body == nil {
		n = a.length
	}
	if a.status != http.StatusNoContent {
		h.Set("Content-Length", strconv.FormatInt(n, 10))
	}
	if lost && (r.Method != http.MethodGet || n < 2) {
		panic(http.ErrAbortHandler)
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	if r.Method == http.MethodHead {
		return
	}
	left := n
	if lost {
		left = n / 2
	}
	for _, b := range a.body {
		b = b[:min(int64(len(b)), left)]
		left -= int64(len(b))
		if _, err := w.Write(b); err != nil {
			return
		}
	}
	if lost {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// operation is what a request asks for.
func (c *call) operation(key string) (name string, do func(*Server, *call) (*answer, error)) {
	has := c.query.Has
	switch {
	case key == "" && c.Method == http.MethodHead:
		return "HeadBucket", (*Server).headBucket
	case key == "" && c.Method == http.MethodGet && c.query.Get("list-type") == "2":
		return "ListObjectsV2", (*Server).list
	case key == "" && c.Method == http.MethodGet && has("uploads"):
		return "ListMultipartUploads", (*Server).listUploads
	case key == "" && c.Method == http.MethodGet && has("location"):
		return "GetBucketLocation", (*Server).location
	case key == "" && c.Method == http.MethodGet && has("ownershipControls"):
		return "GetBucketOwnershipControls", (*Server).ownership
	case key == "" && c.Method == http.MethodGet && has("object-lock"):
		return "GetObjectLockConfiguration", refuses("ObjectLockConfigurationNotFoundError")
	case key == "":
	case c.Method == http.MethodHead:
		return "HeadObject", (*Server).get
	case c.Method == http.MethodGet && has("tagging"):
		return "GetObjectTagging", (*Server).tags
	case c.Method == http.MethodPut && has("tagging"):
		return "PutObjectTagging", (*Server).setTags
	case c.Method == http.MethodGet && has("uploadId"):
		return "ListParts", (*Server).listParts
	case c.Method == http.MethodGet && (has("retention") || has("legal-hold")):
		return "GetObjectRetention", refuses("NoSuchObjectLockConfiguration")
	case c.Method == http.MethodGet && !has("acl"):
		return "GetObject", (*Server).get
	case c.Method == http.MethodPut && has("uploadId") && c.Header.Get(headerSource) != "":
		return "UploadPartCopy", (*Server).copyPart
	case c.Method == http.MethodPut && has("uploadId"):
		return "UploadPart", (*Server).uploadPart
	case c.Method == http.MethodPut && c.Header.Get(headerSource) != "":
		return "CopyObject", (*Server).copy
	case c.Method == http.MethodPut && len(c.query) == 0 || c.query.Get("x-id") == "PutObject":
		return "PutObject", (*Server).put
	case c.Method == http.MethodPost && has("uploads"):
		return "CreateMultipartUpload", (*Server).create
	case c.Method == http.MethodPost && has("uploadId"):
		return "CompleteMultipartUpload", (*Server).complete
	case c.Method == http.MethodDelete && has("uploadId"):
		return "AbortMultipartUpload", (*Server).abort
	case c.Method == http.MethodDelete:
		return "DeleteObject", (*Server).remove
	}
	return "Unknown", refuses("NotImplemented")
}

func refuses(code string) func(*Server, *call) (*answer, error) {
	return func(*Server, *call) (*answer, error) { return nil, refuse(code) }
}

func (s *Server) headBucket(*call) (*answer, error) {
	return &answer{header: http.Header{"X-Amz-Bucket-Region": {region}}}, nil
}

const region = "us-east-1"

func (s *Server) location(*call) (*answer, error) {
	return document(struct {
		XMLName xml.Name `xml:"LocationConstraint"`
	}{})
}

func (s *Server) ownership(*call) (*answer, error) {
	return document(struct {
		XMLName   xml.Name `xml:"OwnershipControls"`
		Ownership string   `xml:"Rule>ObjectOwnership"`
	}{Ownership: "BucketOwnerEnforced"})
}

func encodeCRC(crc uint64) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, crc))
}

// etag is that of content with a checksum. It has the form of an MD5.
func (s *Server) etag(crc uint64, size int64) string {
	salt := 0
	if s.Salted {
		s.serial++
		salt = s.serial
	}
	return fmt.Sprintf("%016x%08x%08x", crc, uint32(size), salt)
}
