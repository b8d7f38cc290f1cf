package s3_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// others are other programs that use the bucket.
func others(s *s3test.Server) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: &s.Endpoint, UsePathStyle: true, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider(s.Access, s.Secret, ""),
		HTTPClient:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, // a server that is there already closes none
	})
}

// TestUpdateOfReplaced: an object that another writer replaces between the look and the copy of it is not
// brought back by an update, in buckets that keep the old version, too.
func TestUpdateOfReplaced(t *testing.T) {
	for _, row := range []struct {
		name, client string
		server       func(t testing.TB) *s3test.Server
	}{
		{"versions minio", s3api.ClientMinio, s3test.StartVersioned},
		{"versions aws", s3api.ClientAWS, s3test.StartVersioned},
		{"no versions", s3api.ClientAWS, func(t testing.TB) *s3test.Server { return s3test.Start(t, false) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := newLiarOf(t, row.server(t), row.client)
			if !l.Profile().MatchesCopy {
				if row.client == s3api.ClientAWS && os.Getenv("DATAMOVE_E2E_S3") != "" {
					t.Skip("this server minds no condition of a copy")
				}
				t.Fatal("the probe has not found that the conditions of copies hold")
			}
			backendtest.Put(t, l.Backend, fileEntry("f", []byte("old content")), []byte("old content"))
			e := must.Get(l.Stat(t.Context(), "f"))(t)
			e.Known, e.Mode = mover.FactMode, 0o600
			faster := s3test.Open(t, l.options)
			l.lie(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
				if r.Header.Get("X-Amz-Copy-Source") == "" {
					return false
				}
				l.honest()
				backendtest.Put(t, faster, fileEntry("f", []byte("newer")), []byte("newer"))
				return false
			})
			if err := l.Update(t.Context(), e); !errors.Is(err, mover.ErrChanged) {
				t.Errorf("update: %v", err)
			}
			if got := backendtest.Read(t, l.Backend, "f"); string(got) != "newer" {
				t.Errorf("it has %q", got)
			}
		})
	}
}

// TestProfileOfKMS: where the same bytes have another ETag each time, the probes find what they find elsewhere.
func TestProfileOfKMS(t *testing.T) {
	if s3test.Start(t, false).Dir == "" {
		t.Skip("what another server makes of ETags is its own business")
	}
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		var found [2]s3.Profile
		for i, server := range []*s3test.Server{s3test.Start(t, false), s3test.StartVersioned(t)} {
			o := server.Options(t)
			o.Client = client
			found[i] = s3test.Open(t, o).Profile()
			found[i].Address, found[i].Probed = "", time.Time{}
		}
		if found[0] != found[1] {
			t.Errorf("%s: found\n%+v, with KMS\n%+v", client, found[0], found[1])
		}
	}
}

// TestUpdateKeeps: an object that gets other facts keeps its class, its tags, and what else it says of itself, also where the store copies it in parts.
func TestUpdateKeeps(t *testing.T) {
	server := s3test.Start(t, false)
	if server.Dir == "" {
		t.Skip("another server may know no storage classes")
	}
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		for _, size := range []int{1, 5<<20 + 1} {
			t.Run(fmt.Sprintf("%s %d", client, size), func(t *testing.T) {
				o := server.Options(t)
				o.Client, o.Backup = client, "backup/"
				p := s3test.Open(t, o)
				s3.CopyInParts(p)
				content := bytes.Repeat([]byte("x"), size)
				head := func(key string) (said map[string]string) {
					h, err := others(server).HeadObject(t.Context(), &sdk.HeadObjectInput{Bucket: &o.Bucket, Key: &key})
					must.Do(t, err)
					said = map[string]string{
						"class": string(h.StorageClass), "type": aws.ToString(h.ContentType), "encoding": aws.ToString(h.ContentEncoding), "language": aws.ToString(h.ContentLanguage),
						"disposition": aws.ToString(h.ContentDisposition), "cache": aws.ToString(h.CacheControl), "expires": aws.ToString(h.ExpiresString), "redirect": aws.ToString(h.WebsiteRedirectLocation), "tags": fmt.Sprint(aws.ToInt32(h.TagCount)),
					}
					for name, value := range h.Metadata {
						if !strings.HasPrefix(name, "file-") {
							said["meta "+name] = value
						}
					}
					return said
				}
				key := strings.Trim(o.Prefix, "/") + "/f"
				_, err := others(server).PutObject(t.Context(), &sdk.PutObjectInput{
					Bucket: &o.Bucket, Key: &key, Body: bytes.NewReader(content), StorageClass: types.StorageClassStandardIa, ContentType: aws.String("text/csv"), ContentEncoding: aws.String("gzip"), ContentLanguage: aws.String("de"),
					ContentDisposition: aws.String("attachment"), CacheControl: aws.String("max-age=1"), WebsiteRedirectLocation: aws.String("/g"), Tagging: aws.String("a=1&b=2"), Metadata: map[string]string{"theirs": "1", "cache-control": "2"},
				})
				must.Do(t, err)
				before := head(key)
				e := must.Get(p.Stat(t.Context(), "f"))(t)
				e.Known, e.Mode = mover.FactMode, 0o600
				must.Do(t, p.Update(t.Context(), e))
				if after := head(key); !maps.Equal(after, before) {
					t.Errorf("it was\n%q\nand is\n%q", before, after)
				}
				if e, err := p.Stat(t.Context(), "f"); err != nil || e.Mode != 0o600 {
					t.Errorf("%+v, %v", e, err)
				}
				if !bytes.Equal(backendtest.Read(t, p, "f"), content) {
					t.Error("its content has changed")
				}
				must.Do(t, p.Remove(t.Context(), must.Get(p.Stat(t.Context(), "f"))(t), mover.WriterID{Task: "t"}))
				if saved := head("backup/f"); !maps.Equal(saved, before) {
					t.Errorf("it was\n%q\nand its backup is\n%q", before, saved)
				}
			})
		}
	}
}

// copiesParts asks a server to make an object of a part of another one, and reads it.
func copiesParts(t *testing.T) bool {
	server := s3test.Start(t, false)
	client, from, to := others(server), aws.String("copies-parts/from"), aws.String("copies-parts/to")
	must.Get(client.PutObject(t.Context(), &sdk.PutObjectInput{Bucket: &server.Bucket, Key: from, Body: strings.NewReader("a part")}))(t)
	u := must.Get(client.CreateMultipartUpload(t.Context(), &sdk.CreateMultipartUploadInput{Bucket: &server.Bucket, Key: to}))(t)
	part, err := client.UploadPartCopy(t.Context(), &sdk.UploadPartCopyInput{
		Bucket: &server.Bucket, Key: to, UploadId: u.UploadId, PartNumber: aws.Int32(1), CopySource: aws.String(server.Bucket + "/" + *from),
	})
	if err != nil || part.CopyPartResult == nil {
		return false
	}
	parts := []types.CompletedPart{{PartNumber: aws.Int32(1), ETag: part.CopyPartResult.ETag}}
	_, err = client.CompleteMultipartUpload(t.Context(), &sdk.CompleteMultipartUploadInput{
		Bucket: &server.Bucket, Key: to, UploadId: u.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	if err != nil {
		return false
	}
	made := must.Get(client.GetObject(t.Context(), &sdk.GetObjectInput{Bucket: &server.Bucket, Key: to}))(t)
	defer made.Body.Close()
	return string(must.Get(io.ReadAll(made.Body))(t)) == "a part"
}

// TestCopyInParts: an object that is too large for one call is copied by the store in parts, to another name and onto itself, also by a store that
// tells no checksums of such parts (MinIO), or those of the whole (versitygw).
func TestCopyInParts(t *testing.T) {
	embedded := os.Getenv("DATAMOVE_E2E_S3") == "" // others copy as they do
	if !copiesParts(t) {
		t.Skip("this server copies no parts")
	}
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		for _, sums := range []string{"right", "none", "wrong"} {
			t.Run(client+" "+sums, func(t *testing.T) {
				l := newLiar(t, client)
				s3.CopyInParts(l.Backend)
				content := bytes.Repeat([]byte("0123456789abcdef"), 17<<16)
				backendtest.Put(t, l.Backend, fileEntry("f", content), content)
				e := must.Get(l.Stat(t.Context(), "f"))(t)
				if sums != "right" {
					told := map[string]string{"wrong": "<ChecksumCRC64NVME>" + base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, e.CRC)) + "</ChecksumCRC64NVME>"}[sums]
					l.lie(func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
						if r.Header.Get("X-Amz-Copy-Source") == "" {
							return false
						}
						said := httptest.NewRecorder()
						forward.ServeHTTP(said, r)
						w.WriteHeader(said.Code)
						_, _ = w.Write(sumTold.ReplaceAllLiteral(said.Body.Bytes(), []byte(told)))
						return true
					})
				}
				c := must.Get(l.Backend.Open(t.Context(), e))(t)
				defer c.Close()
				e.Name = "g"
				d := must.Get(l.Draft(t.Context(), e, mover.Hints{By: mover.WriterID{Task: "t"}}))(t)
				defer d.Close()
				cloned, err := d.(mover.Cloner).Clone(t.Context(), c)
				if must.Do(t, err); embedded && cloned == (sums != "right" && l.Profile().ChecksWhole) {
					t.Errorf("cloned: %v", cloned)
				}
				if cloned {
					must.Do(t, d.Finish(t.Context(), e, nil))
					must.Do(t, l.Publish(t.Context(), []mover.Draft{d})[0].Err)
				}
				crc := e.CRC
				e.Name, e.Known, e.Mode = "f", mover.FactMode, 0o600
				must.Do(t, l.Update(t.Context(), e))
				for name, want := range map[string]bool{"f": true, "g": cloned} {
					if want && !bytes.Equal(backendtest.Read(t, l.Backend, name), content) {
						t.Errorf("%s has another content", name)
					}
				}
				if is := must.Get(l.Stat(t.Context(), "f"))(t); is.Mode != 0o600 || is.Known.Has(mover.FactCRC) && is.CRC != crc || embedded && sums == "right" && l.Profile().TellsCRC && !is.Known.Has(mover.FactCRC) {
					t.Errorf("it is %+v", is)
				}
			})
		}
	}
}

// TestCopiesNoParts: where a store copies no parts (rclone serve s3 takes such a call for a part without content), that is found out before anything is
// written: an object that is too large for one call is written anew, and what can only copy it fails with the reason, and leaves it as it is.
func TestCopiesNoParts(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		l := newLiar(t, client)
		l.lie(func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
			if r.Header.Get("X-Amz-Copy-Source") == "" || !r.URL.Query().Has("uploadId") {
				return false
			}
			w.Header().Set("Etag", `"d41d8cd98f00b204e9800998ecf8427e"`)
			_, _ = io.WriteString(w, "<CopyPartResult><ETag>&#34;d41d8cd98f00b204e9800998ecf8427e&#34;</ETag></CopyPartResult>")
			return true
		})
		o := l.options
		o.StateDir = t.TempDir() // it is probed anew
		opened := func(o s3.Options) *s3.Backend {
			p := s3test.Open(t, o)
			s3.CopyInParts(p)
			return p
		}
		p := opened(o)
		if p.Profile().CopiesParts || p.Capabilities().UpdateBytes == 0 {
			t.Fatalf("%s: the profile is %+v", client, p.Profile())
		}
		content := bytes.Repeat([]byte("0123456789abcdef"), 17<<16)
		backendtest.Put(t, p, fileEntry("to/f", content), content)
		e := must.Get(p.Stat(t.Context(), "to/f"))(t)
		changed := e
		changed.Known, changed.Mode = mover.FactMode, 0o600
		if err := p.Update(t.Context(), changed); !errors.Is(err, mover.ErrUnsupported) || !strings.Contains(err.Error(), "UploadPartCopy") {
			t.Errorf("%s: update: %v", client, err)
		}
		if now := must.Get(p.Stat(t.Context(), "to/f"))(t); now.ETag != e.ETag {
			t.Errorf("%s: it was %s and is %s", client, e.ETag, now.ETag)
		}

		dir := t.TempDir()
		file := filepath.Join(dir, "f")
		must.Do(t, os.WriteFile(file, content, 0o640))
		must.Do(t, os.Chtimes(file, time.Time{}, e.Mtime.Std()))
		r := engine.Request{Work: engine.Sync, Source: must.Get(location.Parse(dir + "/"))(t), Target: must.Get(location.Parse("s3://bucket/to"))(t), StateDir: t.TempDir()}
		task := must.Get(engine.Start(t.Context(), r, func(_ context.Context, at location.Location, w engine.OpenOptions) (mover.Backend, error) {
			if at.Scheme == location.POSIX {
				return posix.Open(at.Path, posix.Options{Create: w.Write})
			}
			as := o
			as.Prefix += "/to"
			return opened(as), nil
		}))(t)
		report, err := task.Wait()
		if err != nil || report.Files != 1 || report.Updated != 0 {
			t.Errorf("%s: %d files were copied, and %d updated: %v", client, report.Files, report.Updated, err)
		}
		now := must.Get(p.Stat(t.Context(), "to/f"))(t)
		if now.Mode != 0o640 || !bytes.Equal(backendtest.Read(t, p, "to/f"), content) {
			t.Errorf("%s: it is %+v", client, now)
		}
	}
}

var sumTold = regexp.MustCompile(`<ChecksumCRC64NVME>.*?</ChecksumCRC64NVME>`)

// TestArchiveClass: what S3 has in an archive class is listed and looked at, and its content is away until it is restored.
func TestArchiveClass(t *testing.T) {
	server := s3test.Start(t, false)
	if server.Dir == "" {
		t.Skip("another server may know no storage classes")
	}
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		for _, class := range []types.StorageClass{types.StorageClassGlacier, types.StorageClassDeepArchive} {
			t.Run(client+" "+string(class), func(t *testing.T) {
				o := server.Options(t)
				o.Client = client
				p := s3test.Open(t, o)
				key := strings.Trim(o.Prefix, "/") + "/f"
				_, err := others(server).PutObject(t.Context(), &sdk.PutObjectInput{Bucket: &o.Bucket, Key: &key, Body: strings.NewReader("cold"), StorageClass: class})
				must.Do(t, err)
				var e mover.Entry
				for walked, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
					must.Do(t, err)
					e = walked
				}
				away := func(what string, err error, kind error) {
					t.Helper()
					if !errors.Is(err, kind) || !strings.Contains(err.Error(), "archive class") {
						t.Errorf("%s: %v", what, err)
					}
				}
				_, err = p.Open(t.Context(), e)
				away("open", err, mover.ErrReleased)
				c := must.Get(p.Open(mover.Ranged(t.Context()), e))(t)
				defer c.Close()
				_, err = c.Range(t.Context(), 1, 2)
				away("read a range", err, mover.ErrReleased)
				d := must.Get(p.Draft(t.Context(), mover.Entry{Name: "copy", Kind: mover.File, Size: e.Size}, mover.Hints{By: mover.WriterID{Task: "t"}}))(t)
				defer d.Close()
				if cloned, err := d.(mover.Cloner).Clone(t.Context(), c); err != nil || !cloned {
					t.Fatalf("clone: %v, %v", cloned, err)
				}
				must.Do(t, d.Finish(t.Context(), mover.Entry{Name: "copy", Kind: mover.File, Size: e.Size}, nil))
				away("copy", p.Publish(t.Context(), []mover.Draft{d})[0].Err, mover.ErrReleased)
				e.Known, e.Mode = mover.FactMode, 0o600
				away("update", p.Update(t.Context(), e), mover.ErrPermission)
				_, err = others(server).RestoreObject(t.Context(), &sdk.RestoreObjectInput{Bucket: &o.Bucket, Key: &key, RestoreRequest: &types.RestoreRequest{Days: aws.Int32(1)}})
				must.Do(t, err)
				r := must.Get(c.Range(t.Context(), 0, e.Size))(t)
				defer r.Close()
				if text, err := io.ReadAll(r); string(text) != "cold" || err != nil {
					t.Errorf("restored: %q, %v", text, err)
				}
			})
		}
	}
}

// lockUnanswered: a lock and a refresh that the store has, and whose answers are lost, are ours; a bucket that keeps all versions keeps one.
func lockUnanswered(t *testing.T) {
	server := s3test.StartVersioned(t)
	l := newLiarOf(t, server, s3api.ClientAWS)
	lose := func() {
		l.lie(func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
			if r.Method != http.MethodPut {
				return false
			}
			l.honest()
			forward.ServeHTTP(httptest.NewRecorder(), r)
			reset(w, r)
			return true
		})
	}
	me, other := mover.WriterID{Task: "me", Epoch: 1}, mover.WriterID{Task: "other", Epoch: 1}
	lose()
	if _, _, err := l.Lock(t.Context(), "", me); !errors.Is(err, mover.ErrTransient) {
		t.Fatalf("a lock without an answer: %v", err)
	}
	_, unlock, err := l.Lock(t.Context(), "", me)
	must.Do(t, err)
	if _, _, err := s3test.Open(t, l.options).Lock(t.Context(), "", other); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("the lock of another: %v", err)
	}
	if _, _, err := l.Lock(t.Context(), "", other); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("another lock of the same place: %v", err)
	}
	must.Do(t, unlock())
	_, unlock, err = s3test.Open(t, l.options).Lock(t.Context(), "", other)
	must.Do(t, err)
	must.Do(t, unlock())
	kept := func() int {
		key := strings.Trim(l.options.Prefix, "/") + "/.datamove/lock"
		all, err := others(server).ListObjectVersions(t.Context(), &sdk.ListObjectVersionsInput{Bucket: &l.options.Bucket, Prefix: &key})
		must.Do(t, err)
		return len(all.Versions)
	}
	before := kept()
	s3.LockUnanswered(t, l.Backend, lose, 1)
	s3.LockUnanswered(t, l.Backend, func() {}, 10)
	if n := kept() - before; n > 2+2 { // one of each, and those that were not answered
		t.Errorf("%d versions of the lock stay", n)
	}
}
