package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
)

// retained is until when objects are: long after all tests.
var retained = time.Date(2096, 12, 21, 0, 0, 0, 0, time.UTC)

// startLocking starts a server with a bucket that has Object Lock.
func startLocking(t *testing.T) *s3test.Server {
	server := s3test.Start(t, false)
	if server.Dir != "" {
		server = s3test.StartVersioned(t)
	}
	server.Bucket = fmt.Sprintf("locks-%d", os.Getpid())
	_, err := others(server).CreateBucket(t.Context(), &sdk.CreateBucketInput{Bucket: &server.Bucket, ObjectLockEnabledForBucket: aws.Bool(true)})
	owned, exists := (*types.BucketAlreadyOwnedByYou)(nil), (*types.BucketAlreadyExists)(nil)
	if errors.As(err, &owned) || errors.As(err, &exists) { // of the test before
		err = nil
	}
	must.Do(t, err)
	if has, err := others(server).GetObjectLockConfiguration(t.Context(), &sdk.GetObjectLockConfigurationInput{Bucket: &server.Bucket}); err != nil || has.ObjectLockConfiguration == nil || has.ObjectLockConfiguration.ObjectLockEnabled != types.ObjectLockEnabledEnabled {
		t.Skipf("this server knows no locks of objects: %v", err)
	}
	return server
}

// TestUpdateKeepsLocks: an object that gets other facts is retained and held as it was, also where an answer to HEAD does not say so; where that
// may not be read it is left as it is.
func TestUpdateKeepsLocks(t *testing.T) {
	server := startLocking(t)
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		for _, row := range []struct {
			name  string
			mode  types.ObjectLockMode
			hold  types.ObjectLockLegalHoldStatus
			quiet bool // HEAD says nothing of locks
			right string
			size  int // more than a byte
		}{
			{name: "none"},
			{name: "retained", mode: types.ObjectLockModeGovernance},
			{name: "held", hold: types.ObjectLockLegalHoldStatusOn},
			{name: "both", mode: types.ObjectLockModeGovernance, hold: types.ObjectLockLegalHoldStatusOn},
			{name: "both, in parts", mode: types.ObjectLockModeGovernance, hold: types.ObjectLockLegalHoldStatusOn, size: 5 << 20},
			{name: "both, of which HEAD says nothing", mode: types.ObjectLockModeGovernance, hold: types.ObjectLockLegalHoldStatusOn, quiet: true},
			{name: "a retention that may not be read", mode: types.ObjectLockModeGovernance, quiet: true, right: "s3:GetObjectRetention"},
			{name: "a hold that may not be read", hold: types.ObjectLockLegalHoldStatusOn, quiet: true, right: "s3:GetObjectLegalHold"},
			{name: "a retention that may not be set", mode: types.ObjectLockModeGovernance, right: "s3:PutObjectRetention"},
			{name: "a hold that may not be set", hold: types.ObjectLockLegalHoldStatusOn, right: "s3:PutObjectLegalHold"},
		} {
			t.Run(client+" "+row.name, func(t *testing.T) {
				l := newLiarOf(t, server, client)
				s3.CopyInParts(l.Backend)
				key := strings.Trim(l.options.Prefix, "/") + "/f"
				in := &sdk.PutObjectInput{
					Bucket: &server.Bucket, Key: &key, Body: bytes.NewReader(make([]byte, 1+row.size)), ObjectLockMode: row.mode, ObjectLockLegalHoldStatus: row.hold,
					ChecksumAlgorithm: types.ChecksumAlgorithmCrc32,
				}
				if row.mode != "" {
					in.ObjectLockRetainUntilDate = &retained
				}
				must.Get(others(server).PutObject(t.Context(), in))(t)
				locks := func() (said [3]string) {
					h := must.Get(others(server).HeadObject(t.Context(), &sdk.HeadObjectInput{Bucket: &server.Bucket, Key: &key}))(t)
					if said = [3]string{string(h.ObjectLockMode), "", string(h.ObjectLockLegalHoldStatus)}; h.ObjectLockRetainUntilDate != nil {
						said[1] = h.ObjectLockRetainUntilDate.UTC().Format(time.RFC3339)
					}
					return said
				}
				before := locks()
				l.lie(func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
					denied := map[string]bool{
						"s3:GetObjectRetention": r.URL.Query().Has("retention"), "s3:GetObjectLegalHold": r.URL.Query().Has("legal-hold"),
						"s3:PutObjectRetention": r.Header.Get("X-Amz-Object-Lock-Mode") != "", "s3:PutObjectLegalHold": r.Header.Get("X-Amz-Object-Lock-Legal-Hold") != "",
					}[row.right]
					switch {
					case denied:
						errorDocument(w, http.StatusForbidden, "AccessDenied")
					case row.quiet && r.Method == http.MethodHead:
						forward.ServeHTTP(quiet{w}, r)
					default:
						return false
					}
					return true
				})
				e := must.Get(l.Stat(t.Context(), "f"))(t)
				e.Known, e.Mode = mover.FactMode, 0o600
				err := l.Update(t.Context(), e)
				if errors.Is(err, mover.ErrUnsupported) && row.right == "" && server.Dir == "" { // Ceph: then it is as it was
					t.Log(err)
				} else if row.right != "" {
					if !errors.Is(err, mover.ErrPermission) || !strings.Contains(err.Error(), row.right) {
						t.Errorf("update: %v", err)
					}
				} else if e, again := l.Stat(t.Context(), "f"); err != nil || again != nil || e.Mode != 0o600 {
					t.Errorf("update: %v; it is %+v, %v", err, e, again)
				}
				if after := locks(); after != before {
					t.Errorf("its locks were %q, and are %q", before, after)
				}
			})
		}
	}
}

// quiet says nothing of locks.
type quiet struct{ http.ResponseWriter }

func (q quiet) WriteHeader(status int) {
	maps.DeleteFunc(q.Header(), func(name string, _ []string) bool { return strings.HasPrefix(name, "X-Amz-Object-Lock-") })
	q.ResponseWriter.WriteHeader(status)
}

// theACL is an answer to GetObjectAcl, in the form of the API reference, of an object that others may read.
const theACL = `<?xml version="1.0" encoding="UTF-8"?>
<AccessControlPolicy xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Owner><ID>me</ID></Owner><AccessControlList>
<Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser"><ID>me</ID></Grantee><Permission>FULL_CONTROL</Permission></Grant>%s
</AccessControlList></AccessControlPolicy>`

const theGrants = `
<Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="Group"><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee><Permission>READ</Permission></Grant>
<Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser"><ID>you</ID></Grantee><Permission>READ</Permission></Grant>
<Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser"><ID>you</ID></Grantee><Permission>READ_ACP</Permission></Grant>`

// TestUpdateKeepsGrants: the grants of an object are said anew with its other facts, where its bucket has ACLs; where it has none, no object is asked for
// them. The embedded store has no ACLs: what it is asked and told is looked at. TestGrantsStay has them of a store.
func TestUpdateKeepsGrants(t *testing.T) {
	ownership := func(value string) string {
		return `<OwnershipControls xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Rule><ObjectOwnership>` + value + `</ObjectOwnership></Rule></OwnershipControls>`
	}
	kept := map[string]string{
		"X-Amz-Grant-Full-Control": `id="me"`, "X-Amz-Grant-Read": `uri="http://acs.amazonaws.com/groups/global/AllUsers", id="you"`, "X-Amz-Grant-Read-Acp": `id="you"`,
	}
	if s3test.Start(t, false).Dir == "" {
		t.Skip("another server has none of these grantees: see TestGrantsStay")
	}
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		for _, row := range []struct {
			name, owned, grants string // an answer, or the code of an error
			refuses             bool   // a copy with grants
			asks                int    // for the ACLs of two objects
			says                map[string]string
			notes               int
			err                 string
		}{
			{name: "enforced", owned: ownership("BucketOwnerEnforced"), grants: theGrants},
			{name: "preferred", owned: ownership("BucketOwnerPreferred"), grants: theGrants, asks: 2, says: kept},
			{name: "none set", owned: "OwnershipControlsNotFoundError", grants: theGrants, asks: 2, says: kept},
			{name: "a store that answers something else", owned: `<ListBucketResult/>`, grants: theGrants, asks: 2, says: kept},
			{name: "a store that lists the bucket, at length", owned: "<ListBucketResult>" + strings.Repeat("<Contents></Contents>", 8<<10) + "</ListBucketResult>", grants: theGrants, asks: 2, says: kept},
			{name: "a store that gives out something", owned: "<\xff", grants: theGrants, asks: 2, says: kept},
			{name: "private objects", owned: ownership("ObjectWriter"), asks: 2},
			{name: "ownership may not be read", owned: "AccessDenied", grants: theGrants, asks: 2, says: kept},
			{name: "nothing may be read", owned: "AccessDenied", grants: "AccessDenied", asks: 2, notes: 1},
			{name: "no ACLs in this store", owned: "NotImplemented", grants: theGrants},
			{name: "grants may not be set", owned: ownership("ObjectWriter"), grants: theGrants, refuses: true, asks: 2, says: kept, err: "s3:PutObjectAcl"},
		} {
			t.Run(client+" "+row.name, func(t *testing.T) {
				l := newLiar(t, client)
				var mu sync.Mutex
				said, asked, buckets := map[string]string{}, 0, 0
				l.lie(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
					mu.Lock()
					defer mu.Unlock()
					var answer string
					switch q := r.URL.Query(); {
					case q.Has("acl"):
						if asked++; row.grants != "AccessDenied" {
							row.grants, answer = strings.TrimSpace(row.grants), fmt.Sprintf(theACL, row.grants)
						} else {
							answer = row.grants
						}
					case q.Has("ownershipControls"):
						buckets++
						answer = row.owned
					default:
						if r.Header.Get("X-Amz-Copy-Source") == "" {
							return false
						}
						for name := range r.Header {
							if strings.HasPrefix(name, "X-Amz-Grant-") {
								said[name] = r.Header.Get(name)
							}
						}
						if answer = "AccessDenied"; !row.refuses || len(said) == 0 {
							return false
						}
					}
					switch {
					case strings.HasPrefix(answer, "<"):
						_, _ = io.WriteString(w, answer)
					case answer == "AccessDenied":
						errorDocument(w, http.StatusForbidden, answer)
					case answer == "NotImplemented":
						errorDocument(w, http.StatusNotImplemented, answer)
					default:
						errorDocument(w, http.StatusNotFound, answer)
					}
					return true
				})
				for _, name := range []string{"f", "g"} {
					backendtest.Put(t, l.Backend, fileEntry(name, []byte("x")), []byte("x"))
					e := must.Get(l.Stat(t.Context(), name))(t)
					e.Known, e.Mode = mover.FactMode, 0o600
					switch err := l.Update(t.Context(), e); {
					case row.err == "" && err != nil:
						t.Errorf("update: %v", err)
					case row.err != "" && (!errors.Is(err, mover.ErrPermission) || !strings.Contains(err.Error(), row.err)):
						t.Errorf("update: %v", err)
					}
				}
				if !maps.Equal(said, row.says) || asked != row.asks || buckets != 1 {
					t.Errorf("said %q after asking %d objects and %d times the bucket", said, asked, buckets)
				}
				if notes := l.Notes(); len(notes) != row.notes || row.notes > 0 && !strings.Contains(notes[0], "2, of which one is f; grant s3:GetBucketOwnershipControls") {
					t.Errorf("notes: %q", notes)
				}
			})
		}
	}
}

// TestGrantsStay: a store that has ACLs gives an object that was updated to the accounts that had it before.
func TestGrantsStay(t *testing.T) {
	server := s3test.Start(t, false)
	if server.Dir != "" {
		t.Skip("elsewhere: make e2e-s3: the embedded store has no ACLs")
	}
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		o := server.Options(t)
		o.Client = client
		p := s3test.Open(t, o)
		key := strings.Trim(o.Prefix, "/") + "/f"
		_, err := others(server).PutObject(t.Context(), &sdk.PutObjectInput{Bucket: &o.Bucket, Key: &key, Body: strings.NewReader("x"), ACL: types.ObjectCannedACLPublicRead})
		must.Do(t, err)
		grants := func() (said []string) {
			list := must.Get(others(server).GetObjectAcl(t.Context(), &sdk.GetObjectAclInput{Bucket: &o.Bucket, Key: &key}))(t)
			for _, g := range list.Grants {
				said = append(said, aws.ToString(g.Grantee.ID)+aws.ToString(g.Grantee.URI)+" "+string(g.Permission))
			}
			return said
		}
		before := grants()
		if len(before) < 2 {
			t.Skipf("this store keeps no ACLs: %q", before)
		}
		e := must.Get(p.Stat(t.Context(), "f"))(t)
		e.Known, e.Mode = mover.FactMode, 0o600
		must.Do(t, p.Update(t.Context(), e))
		if after := grants(); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: it was given to %q, and is to %q", client, before, after)
		}
	}
}

// TestUpdateWithoutLocks: where a store ignores what a copy says of locks, the object is left as it was, with the reason.
func TestUpdateWithoutLocks(t *testing.T) {
	server := startLocking(t)
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		l := newLiarOf(t, server, client)
		key := strings.Trim(l.options.Prefix, "/") + "/f"
		must.Get(others(server).PutObject(t.Context(), &sdk.PutObjectInput{
			Bucket: &server.Bucket, Key: &key, Body: strings.NewReader("x"), ObjectLockLegalHoldStatus: types.ObjectLockLegalHoldStatusOn, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32,
		}))(t)
		before := must.Get(l.Stat(t.Context(), "f"))(t)
		l.lie(func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
			if r.Header.Get("X-Amz-Copy-Source") == "" {
				return false
			}
			copied, err := others(server).CopyObject(r.Context(), &sdk.CopyObjectInput{
				Bucket: &server.Bucket, Key: &key, CopySource: aws.String(server.Bucket + "/" + key), MetadataDirective: types.MetadataDirectiveReplace,
			})
			if err != nil {
				t.Error(err)
				return false
			}
			w.Header().Set("X-Amz-Version-Id", aws.ToString(copied.VersionId))
			_, _ = fmt.Fprintf(w, `<CopyObjectResult><ETag>%s</ETag></CopyObjectResult>`, aws.ToString(copied.CopyObjectResult.ETag))
			return true
		})
		e := before
		e.Known, e.Mode = mover.FactMode, 0o600
		if err := l.Update(t.Context(), e); !errors.Is(err, mover.ErrUnsupported) || !strings.Contains(err.Error(), "it is left as it was") {
			t.Errorf("%s: update: %v", client, err)
		}
		if after := must.Get(l.Stat(t.Context(), "f"))(t); after.Version != before.Version {
			t.Errorf("%s: it was version %s, and is %s", client, before.Version, after.Version)
		}
	}
}

// TestPutsHaveChecksums: a bucket that retains its objects by default takes no put without a checksum (Amazon S3 API reference, PutObject), so every
// one has it: markers of directories, locks and manifests, too.
func TestPutsHaveChecksums(t *testing.T) {
	server := startLocking(t)
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		l := newLiarOf(t, server, client)
		var puts atomic.Int64
		l.lie(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if r.Method != http.MethodPut || r.Header.Get("X-Amz-Copy-Source") != "" || r.URL.Query().Has("uploadId") {
				return false
			}
			puts.Add(1)
			if r.Header.Get("X-Amz-Checksum-Crc64nvme") != "" || r.Header.Get("Content-Md5") != "" {
				return false
			}
			t.Errorf("%s: %s has no checksum", client, r.URL.Path)
			errorDocument(w, http.StatusBadRequest, "InvalidRequest")
			return true
		})
		o := l.options
		o.StateDir = t.TempDir() // it is probed anew
		p := s3test.Open(t, o)
		_, unlock, err := p.Lock(t.Context(), "", mover.WriterID{Task: "at work"})
		must.Do(t, err)
		dir := mover.Entry{Name: "dir", Kind: mover.Dir, Known: mover.FactMode, Mode: 0o755}
		must.Do(t, p.Mkdir(t.Context(), dir))
		drafted := dir
		drafted.Name = "drafted"
		d := must.Get(p.Draft(t.Context(), drafted, mover.Hints{}))(t)
		must.Do(t, d.Finish(t.Context(), drafted, nil))
		must.Do(t, p.Publish(t.Context(), []mover.Draft{d})[0].Err)
		dir.Mode = 0o700
		must.Do(t, p.Update(t.Context(), dir))
		must.Do(t, p.PutManifest(t.Context(), func(w io.Writer) error { _, err := io.WriteString(w, "what there is"); return err }))
		must.Do(t, unlock())
		if n := puts.Load(); n < 5 {
			t.Errorf("%s: there were %d puts", client, n)
		}
	}
}
