package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// shop is a server with its options, and what others do there.
type shop struct {
	*testing.T
	server *s3test.Server
	o      s3.Options
}

func openShop(t *testing.T, client string) shop {
	server := s3test.Start(t, false)
	if server.Dir == "" {
		t.Skip("another server may know no storage classes")
	}
	o := server.Options(t)
	o.Client = client
	return shop{t, server, o}
}

// put puts an object that has everything.
func (s shop) put(key string, body []byte) {
	s.Helper()
	_, err := others(s.server).PutObject(s.Context(), &sdk.PutObjectInput{
		Bucket: &s.o.Bucket, Key: &key, Body: bytes.NewReader(body), StorageClass: types.StorageClassStandardIa, ContentType: aws.String("text/csv"), ContentEncoding: aws.String("gzip"),
		ContentLanguage: aws.String("de"), ContentDisposition: aws.String("attachment"), CacheControl: aws.String("max-age=1"), Tagging: aws.String("team=red&cost=a%20b"),
		Metadata: map[string]string{"theirs": "1", "cache-control": "2", "file-owner": "0"},
	})
	must.Do(s, err)
}

// of is all that a server says of an object, but its facts as a file.
func (s shop) of(key string) map[string]string {
	s.Helper()
	h, err := others(s.server).HeadObject(s.Context(), &sdk.HeadObjectInput{Bucket: &s.o.Bucket, Key: &key})
	must.Do(s, err)
	said := map[string]string{
		"class": string(h.StorageClass), "type": aws.ToString(h.ContentType), "encoding": aws.ToString(h.ContentEncoding), "language": aws.ToString(h.ContentLanguage),
		"disposition": aws.ToString(h.ContentDisposition), "cache": aws.ToString(h.CacheControl),
	}
	for name, value := range h.Metadata {
		if !strings.HasPrefix(name, "file-") {
			said["meta "+name] = value
		}
	}
	if tags, err := others(s.server).GetObjectTagging(s.Context(), &sdk.GetObjectTaggingInput{Bucket: &s.o.Bucket, Key: &key}); err == nil {
		for _, tag := range tags.TagSet {
			said["tag "+aws.ToString(tag.Key)] = aws.ToString(tag.Value)
		}
	}
	return said
}

// run does a task between locations: bucket names are those of shops.
func run(t *testing.T, r engine.Request, from, to string, shops map[string]shop) (engine.Report, error) {
	t.Helper()
	r.Source, r.Target = must.Get(location.Parse(from))(t), must.Get(location.Parse(to))(t)
	r.StateDir = t.TempDir()
	task, err := engine.Start(t.Context(), r, func(ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
		if l.Scheme == location.POSIX {
			return posix.Open(l.Path, posix.Options{Create: o.Write})
		}
		as := shops[l.Bucket].o
		as.Prefix, as.Writable = l.Prefix, o.Write
		return s3.Open(ctx, as)
	})
	must.Do(t, err)
	return task.Wait()
}

// TestObjectsAreWhole: what an object has beside its bytes comes along, whichever way it goes; a verify names what differs, and a sync mends it.
func TestObjectsAreWhole(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		here, there := openShop(t, client), openShop(t, client)
		shops := map[string]shop{"here": here, "there": there}
		small, large := []byte("small"), bytes.Repeat([]byte("0123456789abcdef"), 17<<16)
		here.put("from/d/small", small)
		here.put("from/large", large)
		want := here.of("from/large")
		whole := func(t *testing.T, s shop, keys ...string) {
			t.Helper()
			for _, key := range keys {
				if got := s.of(key); !maps.Equal(got, want) {
					t.Errorf("%s is\n%q\nwant\n%q", key, got, want)
				}
			}
		}
		dir := t.TempDir()
		if keeps := must.Get(posix.Open(dir, posix.Options{}))(t).Capabilities().Keeps; !keeps.Has(mover.FactsOfObject) {
			t.Skip("the file system of temporary files has no extended attributes of users")
		}
		dir = filepath.Join(dir, "files")
		for _, row := range []struct {
			from, to string
			of       shop
			keys     []string
			clones   bool
		}{
			{"s3://here/from/", "s3://here/to", here, []string{"to/d/small", "to/large"}, true},
			{"s3://here/from/", "s3://there/to", there, []string{"to/d/small", "to/large"}, false},
			{"s3://here/from/large", "s3://there/one/", there, []string{"one/large"}, false},
			{"s3://here/from/d/small", "s3://here/one", here, []string{"one"}, true},
			{"s3://here/from/", dir, here, nil, false},
			{dir + "/", "s3://there/back", there, []string{"back/d/small", "back/large"}, false},
		} {
			t.Run(client+" "+row.from+" "+filepath.Base(row.to), func(t *testing.T) {
				r := must.Get(run(t, engine.Request{Work: engine.Copy}, row.from, row.to, shops))(t)
				whole(t, row.of, row.keys...)
				if cloned := r.Levels[mover.Cloned]; (cloned > 0) != row.clones {
					t.Errorf("%d were copied by the server", cloned)
				}
				if r, err := run(t, engine.Request{Work: engine.Sync}, row.from, row.to, shops); err != nil || r.Files+r.Updated != 0 {
					t.Errorf("once more: %+v, %v", r, err)
				}
				r, err := run(t, engine.Request{Work: engine.Verify}, row.from, row.to, shops)
				if err != nil || len(r.Failures) != 0 {
					t.Errorf("verify: %+v, %v", r.Failures, err)
				}
			})
		}
	}
}

// TestObjectDiffers: each attribute counts, by its name, and is mended alone; a class is told of, and left.
func TestObjectDiffers(t *testing.T) {
	s := openShop(t, s3api.ClientAWS)
	shops := map[string]shop{"here": s}
	s.put("from/f", []byte("x"))
	want := s.of("from/f")
	must.Get(run(t, engine.Request{Work: engine.Copy}, "s3://here/from/", "s3://here/to", shops))(t)
	for _, row := range []struct {
		what   string
		change func(*sdk.CopyObjectInput)
		says   string
		stays  bool
	}{
		{"type", func(in *sdk.CopyObjectInput) { in.ContentType = aws.String("text/plain") }, "content-type differs", false},
		{"encoding", func(in *sdk.CopyObjectInput) { in.ContentEncoding = nil }, "content-encoding differs", false},
		{"metadata", func(in *sdk.CopyObjectInput) { in.Metadata["theirs"] = "2" }, "metadata theirs differs", false},
		{"more metadata", func(in *sdk.CopyObjectInput) { in.Metadata["ours"] = "2" }, "metadata ours differs", false},
		{"tags", func(in *sdk.CopyObjectInput) {
			in.Tagging, in.TaggingDirective = aws.String("team=blue"), types.TaggingDirectiveReplace
		}, "tags differ", false},
		{"class", func(in *sdk.CopyObjectInput) { in.StorageClass = types.StorageClassOnezoneIa }, "storage-class differs", true},
	} {
		key := "to/f"
		h := must.Get(others(s.server).HeadObject(t.Context(), &sdk.HeadObjectInput{Bucket: &s.o.Bucket, Key: &key}))(t)
		in := &sdk.CopyObjectInput{
			Bucket: &s.o.Bucket, Key: &key, CopySource: aws.String(s.o.Bucket + "/" + key), MetadataDirective: types.MetadataDirectiveReplace, StorageClass: h.StorageClass, Metadata: h.Metadata,
			ContentType: h.ContentType, ContentEncoding: h.ContentEncoding, ContentLanguage: h.ContentLanguage, ContentDisposition: h.ContentDisposition, CacheControl: h.CacheControl,
		}
		row.change(in)
		must.Get(others(s.server).CopyObject(t.Context(), in))(t)
		r, err := run(t, engine.Request{Work: engine.Verify}, "s3://here/from/", "s3://here/to", shops)
		if !errors.Is(err, mover.ErrCorrupt) || len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Err.Error(), row.says) {
			t.Errorf("%s: verify says %+v, %v", row.what, r.Failures, err)
		}
		r, err = run(t, engine.Request{Work: engine.Sync}, "s3://here/from/", "s3://here/to", shops)
		if err != nil || r.Files != 0 || (r.Updated == 0) != row.stays {
			t.Errorf("%s: sync: %+v, %v", row.what, r, err)
		}
		if got := s.of(key); maps.Equal(got, want) == row.stays {
			t.Errorf("%s: it is\n%q\nand was\n%q", row.what, got, want)
		}
	}
}

// TestTagsUncounted: a server that does not say with an object how many tags it has is asked for them, whether it was probed or is only read.
func TestTagsUncounted(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		here, there := openShop(t, client), openShop(t, client)
		here.o.Endpoint, there.o.Endpoint = s3test.Uncounted(t, here.server), s3test.Uncounted(t, there.server)
		shops := map[string]shop{"here": here, "there": there}
		here.put("from/f", []byte("x"))
		want := here.of("from/f")
		must.Get(run(t, engine.Request{Work: engine.Copy}, "s3://here/from/", "s3://there/to", shops))(t)
		if got := there.of("to/f"); !maps.Equal(got, want) {
			t.Errorf("%s: it is\n%q\nwant\n%q", client, got, want)
		}
		_, err := others(there.server).DeleteObjectTagging(t.Context(), &sdk.DeleteObjectTaggingInput{Bucket: &there.o.Bucket, Key: aws.String("to/f")})
		must.Do(t, err)
		if r, err := run(t, engine.Request{Work: engine.Sync}, "s3://here/from/", "s3://there/to", shops); err != nil || r.Updated != 1 {
			t.Errorf("%s: without its tags: %+v, %v", client, r, err)
		}
		if got := there.of("to/f"); !maps.Equal(got, want) {
			t.Errorf("%s: mended it is\n%q\nwant\n%q", client, got, want)
		}
		if r, err := run(t, engine.Request{Work: engine.Verify}, "s3://here/from/", "s3://there/to", shops); err != nil || len(r.Failures) != 0 {
			t.Errorf("%s: verify: %+v, %v", client, r.Failures, err)
		}
		if r, err := run(t, engine.Request{Work: engine.Sync, CompareBy: plan.ByContent}, "s3://here/from/", "s3://there/to", shops); err != nil || r.Files+r.Updated != 0 {
			t.Errorf("%s: once more: %+v, %v", client, r, err)
		}
	}
}

// TestRestoredIsReadable: a copy of an object that was restored from an archive class is in none, whichever way it goes, and no file keeps that class; a
// verify takes the two for equal.
func TestRestoredIsReadable(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		here, there := openShop(t, client), openShop(t, client)
		shops := map[string]shop{"here": here, "there": there}
		for _, class := range []types.StorageClass{types.StorageClassGlacier, types.StorageClassDeepArchive} {
			key := aws.String("from/" + string(class))
			_, err := others(here.server).PutObject(t.Context(), &sdk.PutObjectInput{Bucket: &here.o.Bucket, Key: key, Body: strings.NewReader("cold"), StorageClass: class})
			must.Do(t, err)
			_, err = others(here.server).RestoreObject(t.Context(), &sdk.RestoreObjectInput{Bucket: &here.o.Bucket, Key: key, RestoreRequest: &types.RestoreRequest{Days: aws.Int32(1)}})
			must.Do(t, err)
		}
		dir := filepath.Join(t.TempDir(), "files")
		for _, row := range []struct {
			from, to string
			of       shop
		}{{"s3://here/from/", "s3://here/to", here}, {"s3://here/from/", "s3://there/to", there}, {"s3://here/from/", dir, here}, {dir + "/", "s3://there/back", there}} {
			must.Get(run(t, engine.Request{Work: engine.Copy}, row.from, row.to, shops))(t)
			if r, err := run(t, engine.Request{Work: engine.Verify}, row.from, row.to, shops); err != nil || len(r.Failures) != 0 {
				t.Errorf("%s: verify of %s: %+v, %v", client, row.to, r.Failures, err)
			}
			if _, key, _ := strings.Cut(strings.TrimPrefix(row.to, "s3://"), "/"); row.to != dir {
				for _, name := range []string{"/GLACIER", "/DEEP_ARCHIVE"} {
					if is := row.of.of(key + name); is["class"] != "" {
						t.Errorf("%s: %s%s is in class %s", client, row.to, name, is["class"])
					}
				}
			}
		}
	}
}

// TestTagsLater: of a server that takes tags with PutObject alone, as Ceph RGW 16, copies and uploads in parts have their tags all the same.
func TestTagsLater(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		s := openShop(t, client)
		s.o.Endpoint = s3test.Around(t, s.server, func(store http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				whole := r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
				if copied := r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "" && !r.URL.Query().Has("uploadId"); !copied && !whole {
					store.ServeHTTP(w, r)
					return
				}
				answer := httptest.NewRecorder()
				store.ServeHTTP(answer, r)
				if key := strings.TrimPrefix(r.URL.Path, "/"+s.o.Bucket+"/"); answer.Code == http.StatusOK {
					if _, err := others(s.server).DeleteObjectTagging(r.Context(), &sdk.DeleteObjectTaggingInput{Bucket: &s.o.Bucket, Key: &key}); err != nil {
						t.Error(err)
					}
				}
				maps.Copy(w.Header(), answer.Header())
				w.WriteHeader(answer.Code)
				_, _ = w.Write(answer.Body.Bytes())
			})
		})
		shops := map[string]shop{"here": s, "there": openShop(t, client)}
		large := bytes.Repeat([]byte("0123456789abcdef"), 17<<16)
		for name, there := range shops {
			there.put("from/small", []byte("x"))
			there.put("from/large", large)
			want := there.of("from/large")
			from := "s3://" + name + "/from/"
			must.Get(run(t, engine.Request{Work: engine.Copy}, from, "s3://here/"+name, shops))(t)
			for _, key := range []string{name + "/small", name + "/large"} {
				if got := s.of(key); !maps.Equal(got, want) {
					t.Errorf("%s: %s is\n%q\nwant\n%q", client, key, got, want)
				}
			}
		}
		s.o.Prefix, s.o.Writable = "", true
		p := must.Get(s3.Open(t.Context(), s.o))(t)
		e := must.Get(p.Stat(t.Context(), "here/large"))(t)
		e.Known, e.Mode = mover.FactMode, 0o600
		must.Do(t, p.Update(t.Context(), e))
		must.Do(t, p.Close())
		if want, got := s.of("from/large"), s.of("here/large"); !maps.Equal(got, want) {
			t.Errorf("%s: with another mode it is\n%q\nwant\n%q", client, got, want)
		}
	}
}

// TestTypesOfNames: a file without stored headers is served as what its name says; back in a file system nothing of that is kept, and all of what is more.
func TestTypesOfNames(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		s := openShop(t, client)
		shops := map[string]shop{"here": s}
		root := t.TempDir()
		if keeps := must.Get(posix.Open(root, posix.Options{}))(t).Capabilities().Keeps; !keeps.Has(mover.FactsOfObject) {
			t.Skip("the file system of temporary files has no extended attributes of users")
		}
		files := filepath.Join(root, "files")
		large := bytes.Repeat([]byte("0123456789abcdef"), 17<<16)
		for name, content := range map[string][]byte{"index.html": []byte("<p>"), "data.json": []byte("{}"), "weights": nil, "large.csv": large, "kept.html": []byte("<p>"), "cached.html": []byte("<p>")} {
			must.Do(t, os.MkdirAll(files, 0o755))
			must.Do(t, os.WriteFile(filepath.Join(files, name), content, 0o644))
		}
		must.Do(t, unix.Setxattr(filepath.Join(files, "kept.html"), mover.XattrObject+"content-type", []byte("text/x-theirs"), 0))
		must.Do(t, unix.Setxattr(filepath.Join(files, "cached.html"), mover.XattrObject+"cache-control", []byte("no-store"), 0))
		stored := func(path string) (said string) {
			for _, name := range []string{"cache-control", "content-type"} {
				value := make([]byte, 100)
				if n, err := unix.Getxattr(path, mover.XattrObject+name, value); err == nil {
					said += name + "=" + string(value[:n]) + " "
				}
			}
			return said
		}
		equal := func(from, to string) {
			t.Helper()
			for _, work := range []engine.Work{engine.Verify, engine.Sync} {
				if r, err := run(t, engine.Request{Work: work}, from, to, shops); err != nil || len(r.Failures) != 0 || r.Updated+r.Files != 0 && work == engine.Sync {
					t.Errorf("%s: %v from %s to %s: %+v, %v", client, work, from, to, r, err)
				}
			}
		}
		back := filepath.Join(root, "back")
		for _, row := range [][2]string{{files + "/", "s3://here/up"}, {"s3://here/up/", "s3://here/again"}, {"s3://here/again/", back}, {back + "/", "s3://here/last"}} {
			must.Get(run(t, engine.Request{Work: engine.Copy}, row[0], row[1], shops))(t)
			equal(row[0], row[1])
		}
		equal(files+"/", back)
		equal("s3://here/up/", "s3://here/last")
		for name, want := range map[string][2]string{
			"index.html": {"text/html"}, "data.json": {"application/json"}, "weights": {"application/octet-stream"}, "large.csv": {"text/csv"},
			"kept.html": {"text/x-theirs", "content-type=text/x-theirs "}, "cached.html": {"application/octet-stream", "cache-control=no-store "},
		} {
			for _, folder := range []string{"up/", "again/", "last/"} {
				if got := s.of(folder + name)["type"]; got != want[0] {
					t.Errorf("%s: %s%s has type %q, want %q", client, folder, name, got, want[0])
				}
			}
			for _, folder := range []string{files, back} {
				if got := stored(filepath.Join(folder, name)); got != want[1] {
					t.Errorf("%s: %s in %s keeps %q, want %q", client, name, filepath.Base(folder), got, want[1])
				}
			}
		}
		single := filepath.Join(root, "page")
		must.Get(run(t, engine.Request{Work: engine.Copy}, "s3://here/up/index.html", single, shops))(t)
		must.Get(run(t, engine.Request{Work: engine.Copy}, "s3://here/up/index.html", "s3://here/page", shops))(t)
		if kept, is := stored(single), s.of("page")["type"]; kept != "content-type=text/html " || is != "text/html" {
			t.Errorf("%s: under another name the file keeps %q, and the object is %q", client, kept, is)
		}
	}
}

// TestTagsUnknown: a server that gives out the object where it is asked for tags knows none, and that loses nothing.
func TestTagsUnknown(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		s := openShop(t, client)
		s.o.Endpoint = s3test.Around(t, s.server, func(store http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !r.URL.Query().Has("tagging") {
					store.ServeHTTP(w, r)
					return
				}
				_, _ = w.Write([]byte{'x', 0xff})
			})
		})
		s.o.Endpoint = s3test.Uncounted(t, &s3test.Server{Endpoint: s.o.Endpoint})
		s.o.Prefix, s.o.Writable = "", false
		s.put("f", []byte("x"))
		p := must.Get(s3.Open(t.Context(), s.o))(t)
		e, err := p.Stat(t.Context(), "f")
		if err != nil || !e.Known.Has(mover.FactTags) || len(p.Notes()) != 0 {
			t.Errorf("%s: %+v, %v, told %q", client, e, err, p.Notes())
		}
		must.Do(t, p.Close())
	}
}

// TestTagsHidden: where the tags of an object may not be read, it is brought along without them, and that is told.
func TestTagsHidden(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		l := newLiar(t, client)
		if !l.Profile().KeepsTags {
			t.Skip("this server keeps no tags")
		}
		e := fileEntry("f", []byte("x"))
		e.Known, e.Object = e.Known|mover.FactTags, []mover.Attribute{{Name: mover.AttributeTags, Value: "a=1"}}
		backendtest.Put(t, l.Backend, e, []byte("x"))
		l.lie(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if !r.URL.Query().Has("tagging") {
				return false
			}
			errorDocument(w, http.StatusForbidden, "AccessDenied")
			return true
		})
		got := must.Get(l.Stat(t.Context(), "f"))(t)
		if got.Known.Has(mover.FactTags) || len(got.Object) != 0 {
			t.Errorf("%s: it has %q (%b)", client, got.Object, got.Known)
		}
		if notes := l.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "1, of which one is f; grant s3:GetObjectTagging") {
			t.Errorf("%s: told %q", client, notes)
		}
	}
}

// TestPreserveOfObjects: what --preserve leaves out stays away, and what the target does not keep is told.
func TestPreserveOfObjects(t *testing.T) {
	s := openShop(t, s3api.ClientMinio)
	shops := map[string]shop{"here": s}
	s.put("from/f", []byte("x"))
	for _, row := range []struct {
		preserve mover.Facts
		has      []string
	}{
		{mover.FactHeaders, []string{"cache", "disposition", "encoding", "language", "type"}},
		{mover.FactMetadata, []string{"meta cache-control", "meta theirs"}},
		{mover.FactTags, []string{"tag cost", "tag team"}},
		{mover.FactClass, []string{"class"}},
		{mover.FactCRC, nil},
	} {
		to := fmt.Sprintf("s3://here/to%d", row.preserve)
		must.Get(run(t, engine.Request{Work: engine.Copy, Preserve: row.preserve}, "s3://here/from/", to, shops))(t)
		var has []string
		for what, value := range s.of(fmt.Sprintf("to%d/f", row.preserve)) {
			if value != "" && value != "application/octet-stream" {
				has = append(has, what)
			}
		}
		if slices.Sort(has); !slices.Equal(has, row.has) {
			t.Errorf("%b: has %q, want %q", row.preserve, has, row.has)
		}
	}
}

// TestObjectsStripped: what is taken off objects is taken off their copies, by way of a file system too, and a verify of those says so before. A file that never was an object takes nothing off.
func TestObjectsStripped(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		s := openShop(t, client)
		shops := map[string]shop{"here": s}
		root := t.TempDir()
		if keeps := must.Get(posix.Open(root, posix.Options{}))(t).Capabilities().Keeps; !keeps.Has(mover.FactsOfObject) {
			t.Skip("the file system of temporary files has no extended attributes of users")
		}
		files, other := filepath.Join(root, "files"), filepath.Join(root, "other")
		put := func(key, body, tags string, metadata map[string]string) {
			t.Helper()
			in := &sdk.PutObjectInput{Bucket: &s.o.Bucket, Key: &key, Body: strings.NewReader(body), Metadata: metadata}
			if tags != "" {
				in.Tagging = &tags
			}
			must.Get(others(s.server).PutObject(t.Context(), in))(t)
		}
		put("from/tagged", "1", "team=red", nil)
		put("from/both.json", "2", "team=red", map[string]string{"theirs": "1"})
		put("from/told", "3", "", map[string]string{"theirs": "1"})
		put("from/rewritten", "4", "team=red", nil)
		put("from/none.json", "5", "", nil) // the server gives it a type that says nothing
		put("from/plain", "6", "", nil)
		ways := [][2]string{{"s3://here/from/", files}, {files + "/", other}, {other + "/", "s3://here/back"}, {"s3://here/from/", "s3://here/again"}}
		bring := func() {
			t.Helper()
			for _, way := range ways {
				must.Get(run(t, engine.Request{Work: engine.Copy}, way[0], way[1], shops))(t)
				if r, err := run(t, engine.Request{Work: engine.Verify}, way[0], way[1], shops); err != nil {
					t.Errorf("%s: verify of %s: %+v, %v", client, way[1], r.Failures, err)
				}
				if r, err := run(t, engine.Request{Work: engine.Sync}, way[0], way[1], shops); err != nil || r.Files+r.Updated != 0 {
					t.Errorf("%s: once more to %s: %+v, %v", client, way[1], r, err)
				}
			}
			if r, err := run(t, engine.Request{Work: engine.Verify}, "s3://here/from/", "s3://here/back", shops); err != nil {
				t.Errorf("%s: verify of what came back: %+v, %v", client, r.Failures, err)
			}
		}
		equal := func() {
			t.Helper()
			for _, name := range []string{"tagged", "both.json", "told", "rewritten", "none.json", "plain"} {
				for _, folder := range []string{"back/", "again/"} {
					if got, want := s.of(folder+name), s.of("from/"+name); !maps.Equal(got, want) {
						t.Errorf("%s: %s%s is\n%q\nwant\n%q", client, folder, name, got, want)
					}
				}
			}
		}
		bring()
		equal()

		put("from/tagged", "1", "", nil)
		put("from/both.json", "2", "", map[string]string{"theirs": "1"})
		put("from/told", "3", "", nil)
		put("from/rewritten", "five", "", nil)
		must.Get(run(t, engine.Request{Work: engine.Copy, CopyAll: client == s3api.ClientMinio}, ways[0][0], ways[0][1], shops))(t) // by an update, and by a new file
		must.Get(run(t, engine.Request{Work: engine.Copy}, ways[1][0], ways[1][1], shops))(t)
		r, err := run(t, engine.Request{Work: engine.Verify}, other+"/", "s3://here/back", shops)
		for _, name := range []string{"both.json", "rewritten", "tagged", "told"} {
			if !errors.Is(err, mover.ErrCorrupt) || !slices.ContainsFunc(r.Failures, func(it engine.Item) bool { return it.Name == name }) {
				t.Errorf("%s: of what is there from before a verify does not name %s: %+v, %v", client, name, r.Failures, err)
			}
		}
		for _, name := range []string{"tagged", "told", "rewritten"} {
			if _, err := unix.Getxattr(filepath.Join(other, name), mover.XattrKnown, nil); err != nil {
				t.Errorf("%s: that the file %s has nothing any more is not stated: %v", client, name, err)
			}
		}
		bring()
		equal()

		put("back/plain", "6", "team=blue", nil)
		must.Get(run(t, engine.Request{Work: engine.Copy}, other+"/", "s3://here/back", shops))(t)
		if got := s.of("back/plain")["tag team"]; got != "blue" {
			t.Errorf("%s: a file that states nothing leaves the tag %q", client, got)
		}
	}
}

// TestDirObjectsAreWhole: what the object of a directory has comes along where directories are objects, by way of a file system too, and a removal as well.
func TestDirObjectsAreWhole(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		s := openShop(t, client)
		shops := map[string]shop{"here": s}
		root := t.TempDir()
		if keeps := must.Get(posix.Open(root, posix.Options{}))(t).Capabilities().Keeps; !keeps.Has(mover.FactsOfObject) {
			t.Skip("the file system of temporary files has no extended attributes of users")
		}
		if p := s3test.Open(t, s.o); p.Capabilities().DirsByContent {
			t.Skip("this server keeps no objects of directories")
		}
		s.put("from/dir/", nil)
		s.put("from/full/", nil)
		s.put("from/full/f", []byte("x"))
		files := filepath.Join(root, "files")
		ways := [][2]string{{"s3://here/from/", "s3://here/to"}, {"s3://here/from/", files}, {files + "/", "s3://here/back"}}
		bring := func() {
			t.Helper()
			for _, way := range ways {
				must.Get(run(t, engine.Request{Work: engine.Copy}, way[0], way[1], shops))(t)
				if r, err := run(t, engine.Request{Work: engine.Verify}, way[0], way[1], shops); err != nil {
					t.Errorf("%s: verify of %s: %+v, %v", client, way[1], r.Failures, err)
				}
				if r, err := run(t, engine.Request{Work: engine.Sync}, way[0], way[1], shops); err != nil || r.Files+r.Updated != 0 {
					t.Errorf("%s: once more to %s: %+v, %v", client, way[1], r, err)
				}
			}
			for _, name := range []string{"dir/", "full/"} {
				want := s.of("from/" + name)
				want["type"], want["class"] = "application/x-directory", "" // of nothing
				for _, folder := range []string{"to/", "back/"} {
					if got := s.of(folder + name); !maps.Equal(got, want) {
						t.Errorf("%s: %s%s is\n%q\nwant\n%q", client, folder, name, got, want)
					}
				}
			}
		}
		bring()
		_, err := others(s.server).PutObject(t.Context(), &sdk.PutObjectInput{Bucket: &s.o.Bucket, Key: aws.String("from/dir/"), StorageClass: types.StorageClassStandardIa, Metadata: map[string]string{"theirs": "2"}})
		must.Do(t, err)
		bring()
	}
}
