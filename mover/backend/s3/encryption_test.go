package s3_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
)

var clients = []string{s3api.ClientMinio, s3api.ClientAWS}

// TestEncryptionIgnored: a real store that does not know what it is asked for is found
// out with an object of our own, and nothing else is sent to it.
func TestEncryptionIgnored(t *testing.T) {
	server := s3test.Start(t, false)
	for _, client := range clients {
		for _, o := range []s3.Options{{Encryption: s3api.EncryptStore}, {Encryption: s3api.EncryptKMS, KMSKey: "alias/train"}, {Encryption: s3api.EncryptKMSDual}} {
			t.Run(client+" "+o.Encryption, func(t *testing.T) {
				options := server.Options(t)
				if server.Dir == "" {
					t.Skip("this server may be one that encrypts: see TestContractEncrypted")
				}
				options.Client, options.Encryption, options.KMSKey = client, o.Encryption, o.KMSKey
				p, err := s3.Open(t.Context(), options)
				if err == nil {
					_ = p.Close()
				}
				if !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), "asked to encrypt by "+o.Encryption) || !strings.Contains(err.Error(), "the store says no encryption") {
					t.Errorf("it opens: %v", err)
				}
				noFiles(t, server.Dir)
				options.Writable = false // what is there already can be read
				if p, err = s3.Open(t.Context(), options); err != nil {
					t.Fatal(err)
				}
				_ = p.Close()
			})
		}
	}
}

// noFiles reports what is left of objects in the folder of a bucket.
func noFiles(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("left %s", path)
		}
		return err
	})
	must.Tell(t, err)
}

const (
	kmsKey   = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	otherKey = "arn:aws:kms:us-east-1:111122223333:key/99999999-12ab-34cd-56ef-1234567890ab"
)

// cipher stands before a real store that does not encrypt, and says of it what one would
// that does, as the API reference of S3 documents it. It keeps what it was asked.
type cipher struct {
	mu      sync.Mutex
	asked   map[string]http.Header // of the first request of each call
	without map[string]bool        // calls whose answers say nothing
	other   map[string]bool        // calls whose answers name another key
	weak    map[string]bool        // calls whose answers name another algorithm
	parts   int                    // that were sent
}

// call names a request as the API reference does; "" is one that says nothing of encryption.
func call(r *http.Request) string {
	query := r.URL.Query()
	switch {
	case isCreate(r):
		return "CreateMultipartUpload"
	case isComplete(r):
		return "CompleteMultipartUpload"
	case r.Method == http.MethodPut && query.Has("partNumber"):
		return "UploadPart"
	case r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "":
		return "CopyObject"
	case r.Method == http.MethodPut:
		return "PutObject"
	case r.Method == http.MethodHead:
		return "HeadObject"
	}
	return ""
}

func (c *cipher) serve(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
	name := call(r)
	if name == "" {
		return false
	}
	c.mu.Lock()
	if c.asked[name] == nil {
		c.asked[name] = r.Header.Clone()
	}
	if name == "UploadPart" && strings.HasSuffix(r.URL.Path, "/f") {
		c.parts++
	}
	said := http.Header{}
	if !c.without[name] {
		said.Set("x-amz-server-side-encryption", "aws:kms")
		said.Set("x-amz-server-side-encryption-aws-kms-key-id", kmsKey)
	}
	if c.other[name] {
		said.Set("x-amz-server-side-encryption-aws-kms-key-id", otherKey)
	}
	if c.weak[name] {
		said.Set("x-amz-server-side-encryption", "AES256")
		said.Del("x-amz-server-side-encryption-aws-kms-key-id")
	}
	c.mu.Unlock()
	for k, v := range said {
		w.Header()[k] = v
	}
	forward.ServeHTTP(w, r)
	return true
}

// newCipher opens a place on such a store.
func newCipher(t *testing.T, of *s3test.Server, client, key string) (*liar, *cipher) {
	t.Helper()
	if os.Getenv("DATAMOVE_E2E_S3") != "" {
		t.Skip("takes a server that ignores what it is asked for")
	}
	l := newLiarOf(t, of, client)
	if !l.Profile().KeepsMarkers {
		t.Skip("this server takes the marker of a directory for a file")
	}
	c := &cipher{asked: map[string]http.Header{}}
	l.lie(c.serve)
	l.options.Encryption, l.options.KMSKey = s3api.EncryptKMS, key
	l.Backend = s3test.Open(t, l.options)
	return l, c
}

// TestEncryptionWire: every call that makes an object or begins an upload asks, by both
// clients, and by the names that are documented; a part does not.
func TestEncryptionWire(t *testing.T) {
	server := s3test.Start(t, false)
	for _, client := range clients {
		t.Run(client, func(t *testing.T) {
			l, c := newCipher(t, server, client, "alias/train")
			if algorithm, key := l.Encryption(); algorithm != s3api.EncryptKMS || key != kmsKey {
				t.Errorf("it opens with %s, %s", algorithm, key)
			}
			small, large := backendtest.Pattern(1000), backendtest.Pattern(l.Capabilities().PartMin+1)
			publish(t, l.Backend, drafted(t, l.Backend, "small", small), "small", small)
			publish(t, l.Backend, begun(t, l.Backend, "large", large), "large", large)
			e := must.Get(l.Stat(t.Context(), "small"))(t)
			e.Mode, e.Known = 0o600, e.Known|mover.FactMode
			must.Tell(t, l.Update(t.Context(), e))
			for name, want := range map[string]bool{"PutObject": true, "CreateMultipartUpload": true, "CopyObject": true, "UploadPart": false, "CompleteMultipartUpload": false} {
				got := c.asked[name]
				if got == nil {
					t.Errorf("there was no %s", name)
					continue
				}
				for header, value := range map[string]string{
					"x-amz-server-side-encryption":                    "aws:kms",
					"x-amz-server-side-encryption-aws-kms-key-id":     "alias/train",
					"x-amz-server-side-encryption-bucket-key-enabled": "true",
				} {
					if !want {
						value = ""
					}
					if got.Get(header) != value {
						t.Errorf("%s: %s is %q, want %q", name, header, got.Get(header), value)
					}
				}
			}
			if got := backendtest.Read(t, l.Backend, "large"); string(got) != string(large) {
				t.Error("large differs")
			}
		})
	}
}

// TestEncryptionLost: a store that stops to encrypt, or takes another key, is found out by
// its answers: what it keeps so is removed, an upload is aborted before a part is sent.
func TestEncryptionLost(t *testing.T) {
	server := s3test.Start(t, false)
	for _, client := range clients {
		for _, row := range []struct {
			what string
			lies func(c *cipher)
			size func(p *s3.Backend) int64
			says string
		}{
			{"PutObject says nothing", func(c *cipher) { c.without = calls("PutObject") }, tiny, "the store says no encryption; it was removed"},
			{"PutObject takes another key", func(c *cipher) { c.other = calls("PutObject") }, tiny, "and now aws:kms with key " + otherKey + "; it was removed"},
			{"PutObject is weaker", func(c *cipher) { c.weak = calls("PutObject") }, tiny, "the store says AES256; it was removed"},
			{"CreateMultipartUpload says nothing, what becomes of it does", func(c *cipher) { c.without = calls("CreateMultipartUpload") }, parted, ""},
			{"CreateMultipartUpload says nothing, what becomes of it neither", func(c *cipher) {
				c.without = calls("CreateMultipartUpload", "CompleteMultipartUpload", "HeadObject")
			}, parted, "an upload of our own: refused by a limit: asked to encrypt by aws:kms with key alias/train, the store says no encryption; it was removed; no data was sent"},
			{"CreateMultipartUpload says nothing, what becomes of it is weaker", func(c *cipher) {
				c.without, c.weak = calls("CreateMultipartUpload", "CompleteMultipartUpload"), calls("HeadObject")
			}, parted, "the store says AES256; it was removed; no data was sent"},
			{"CreateMultipartUpload takes another key", func(c *cipher) { c.other = calls("CreateMultipartUpload") }, parted, "key " + otherKey + "; no data was sent"},
			{"CompleteMultipartUpload takes another key", func(c *cipher) { c.other = calls("CompleteMultipartUpload") }, parted, "key " + otherKey + "; it was removed"},
			{"CompleteMultipartUpload and HeadObject say nothing", func(c *cipher) { c.without = calls("CompleteMultipartUpload", "HeadObject") }, parted, "the store says no encryption; it was removed"},
			{"CompleteMultipartUpload says nothing, HeadObject does", func(c *cipher) { c.without = calls("CompleteMultipartUpload") }, parted, ""},
		} {
			t.Run(client+" "+row.what, func(t *testing.T) {
				l, c := newCipher(t, server, client, "alias/train")
				row.lies(c)
				data := backendtest.Pattern(row.size(l.Backend))
				sent, err := try(t, l.Backend, "f", data)
				if (err == nil) != (row.says == "") || err != nil && (!errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), row.says)) {
					t.Errorf("%v, want %q", err, row.says)
				}
				if !sent && c.parts > 0 {
					t.Errorf("%d parts were sent", c.parts)
				}
				c.without, c.weak = nil, nil
				_, gone := l.Stat(t.Context(), "f")
				if errors.Is(gone, mover.ErrNotExist) != (row.says != "") {
					t.Errorf("afterwards: %v", gone)
				}
				l.options.Encryption, l.options.KMSKey = "", "" // who looks asks for nothing
				noUploads(t, l)
			})
		}
	}
}

func calls(names ...string) map[string]bool {
	m := map[string]bool{}
	for _, name := range names {
		m[name] = true
	}
	return m
}

func tiny(*s3.Backend) int64     { return 1000 }
func parted(p *s3.Backend) int64 { return p.Capabilities().PartMin + 1 }

// try publishes a file, and reports whether its draft could be begun.
func try(t *testing.T, p *s3.Backend, name string, data []byte) (sent bool, err error) {
	t.Helper()
	d, err := p.Draft(t.Context(), fileEntry(name, data), mover.Hints{PartBytes: p.Capabilities().PartMin})
	if err != nil {
		return false, err
	}
	fill(t, p, d, name, data)
	return true, p.Publish(t.Context(), []mover.Draft{d})[0].Err
}

// TestEncryptionOfCopies: a copy that the store makes is held to the same; one onto itself
// stays, because there is no other.
func TestEncryptionOfCopies(t *testing.T) {
	server := s3test.Start(t, false)
	for _, client := range clients {
		t.Run(client, func(t *testing.T) {
			l, c := newCipher(t, server, client, kmsKey)
			data := backendtest.Pattern(1000)
			publish(t, l.Backend, drafted(t, l.Backend, "f", data), "f", data)
			c.without = calls("CopyObject", "HeadObject")
			link, err := l.Draft(t.Context(), fileEntry("copy", data), mover.Hints{Link: "f"})
			if err == nil {
				err = link.Finish(t.Context(), fileEntry("copy", data), nil)
			}
			must.Do(t, err)
			if err := l.Publish(t.Context(), []mover.Draft{link})[0].Err; !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), "it was removed") {
				t.Error(err)
			}
			e := fileEntry("f", data)
			e.Mode, e.Known = 0o600, e.Known|mover.FactMode
			if err := l.Update(t.Context(), e); !errors.Is(err, mover.ErrRefused) {
				t.Errorf("update: %v", err)
			}
			c.without = nil
			if _, err := l.Stat(t.Context(), "copy"); !errors.Is(err, mover.ErrNotExist) {
				t.Errorf("the copy: %v", err)
			}
			if got := backendtest.Read(t, l.Backend, "f"); string(got) != string(data) {
				t.Error("what was copied onto itself is lost")
			}
		})
	}
}

// TestAdoptOtherEncryption: an upload that was begun without the encryption that is asked
// for now is not gone on with.
func TestAdoptOtherEncryption(t *testing.T) {
	l, c := newCipher(t, s3test.Start(t, false), s3api.ClientMinio, kmsKey)
	with, o := l.options, l.options
	o.Encryption, o.KMSKey = "", ""
	data := backendtest.Pattern(l.Capabilities().PartMin + 1)
	before := begun(t, s3test.Open(t, o), "f", data).Token()
	if _, err := l.Adopt(t.Context(), before); !errors.Is(err, mover.ErrNotExist) || !strings.Contains(err.Error(), "without the encryption") {
		t.Error(err)
	}
	l.options = o
	noUploads(t, l)
	l.lie(c.serve)
	d, err := s3test.Open(t, o).Adopt(t.Context(), begun(t, s3test.Open(t, with), "f", data).Token())
	if err != nil {
		t.Fatalf("one that has more than is asked for: %v", err)
	}
	must.Tell(t, d.Close())
}

// TestContractEncrypted: with encryption the place keeps all promises, on a server that
// encrypts. DATAMOVE_E2E_KMS names a key that it has.
func TestContractEncrypted(t *testing.T) {
	for _, w := range ways {
		for _, as := range []s3.Options{{Encryption: s3api.EncryptStore}, {Encryption: s3api.EncryptKMS, KMSKey: os.Getenv("DATAMOVE_E2E_KMS")}} {
			t.Run(w.String()+" "+as.Encryption, func(t *testing.T) {
				options := s3test.Start(t, w.tls).Options(t)
				options.Client, options.Encryption, options.KMSKey = w.client, as.Encryption, as.KMSKey
				p, err := s3.Open(t.Context(), options)
				if err != nil && os.Getenv("DATAMOVE_E2E_KMS") == "" {
					t.Skip("elsewhere: make e2e-s3: needs a store that encrypts:", err)
				}
				must.Do(t, err)
				algorithm, key := p.Encryption()
				t.Logf("it says %s %s", algorithm, key)
				if err := p.Close(); err != nil || !p.Profile().KeepsMarkers {
					t.Skip("not applicable: this server takes the marker of a directory for a file", err)
				}
				n := 0
				backendtest.Run(t, func(t *testing.T) func() mover.Backend {
					o := options
					n++
					o.Prefix = fmt.Sprintf("%s/%d", options.Prefix, n)
					return func() mover.Backend { return s3test.Open(t, o) }
				})
			})
		}
	}
}
