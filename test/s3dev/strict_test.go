package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// asker asks the store with the client of AWS.
type asker struct {
	*s3.Client
	t *testing.T
}

var bucket = aws.String("test")

func ask(t *testing.T, flags ...string) asker {
	t.Helper()
	out, in := io.Pipe()
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		ended <- run(ctx, append([]string{"--dir", filepath.Join(t.TempDir(), "store")}, flags...), os.Stdin, in)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal(<-ended)
	}
	_, endpoint, _ := strings.Cut(lines.Text(), " ")
	lines.Scan() // it is ready
	return asker{s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("datamove", "datamove-secret", ""),
	}), t}
}

func (a asker) put(key string, change ...func(*s3.PutObjectInput)) error {
	in := &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: strings.NewReader("x")}
	for _, c := range change {
		c(in)
	}
	_, err := a.PutObject(a.t.Context(), in)
	return err
}

// upload sends parts of sizes, and completes with those of the numbers.
func (a asker) upload(key string, sizes []int, numbers ...int32) (id *string, err error) {
	u, err := a.CreateMultipartUpload(a.t.Context(), &s3.CreateMultipartUploadInput{Bucket: bucket, Key: &key})
	if err != nil {
		return nil, err
	}
	etags := map[int32]*string{}
	for i, size := range sizes {
		number := int32(i + 1)
		p, err := a.UploadPart(a.t.Context(), &s3.UploadPartInput{Bucket: bucket, Key: &key, UploadId: u.UploadId, PartNumber: &number, Body: bytes.NewReader(make([]byte, size))})
		if err != nil {
			return u.UploadId, err
		}
		etags[number] = p.ETag
	}
	return u.UploadId, a.complete(key, u.UploadId, etags, numbers...)
}

func (a asker) complete(key string, id *string, etags map[int32]*string, numbers ...int32) error {
	var parts []types.CompletedPart
	for _, number := range numbers {
		etag := etags[number]
		if etag == nil {
			etag = aws.String(`"00000000000000000000000000000000"`)
		}
		parts = append(parts, types.CompletedPart{PartNumber: aws.Int32(number), ETag: etag})
	}
	_, err := a.CompleteMultipartUpload(a.t.Context(), &s3.CompleteMultipartUploadInput{Bucket: bucket, Key: &key, UploadId: id, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}})
	return err
}

func (a asker) remove(count int) error {
	var all []types.ObjectIdentifier
	for i := range count {
		all = append(all, types.ObjectIdentifier{Key: aws.String(strconv.Itoa(i))})
	}
	_, err := a.DeleteObjects(a.t.Context(), &s3.DeleteObjectsInput{Bucket: bucket, Delete: &types.Delete{Objects: all}})
	return err
}

// TestAsStrictAsS3: what Amazon S3 refuses, this store refuses with the same code; the codes are those of the API Reference, "Error responses".
func TestAsStrictAsS3(t *testing.T) {
	a := ask(t)
	long, tags := strings.Repeat("abcdefg/", 128), "a=&b=&c=&d=&e=&f=&g=&h=&i=&j="
	tagged := func(tags string) func(*s3.PutObjectInput) {
		return func(in *s3.PutObjectInput) { in.Tagging = &tags }
	}
	noted := func(bytes int) func(*s3.PutObjectInput) {
		return func(in *s3.PutObjectInput) { in.Metadata = map[string]string{"k": strings.Repeat("v", bytes-1)} }
	}
	in := func(class types.StorageClass) func(*s3.PutObjectInput) {
		return func(in *s3.PutObjectInput) { in.StorageClass = class }
	}
	from := func(key string) error {
		return second(a.CopyObject(t.Context(), &s3.CopyObjectInput{Bucket: bucket, Key: aws.String("copy"), CopySource: aws.String("test/" + key)}))
	}
	get := func(key string) error {
		return second(a.GetObject(t.Context(), &s3.GetObjectInput{Bucket: bucket, Key: &key}))
	}
	restore := func(key string) error {
		return second(a.RestoreObject(t.Context(), &s3.RestoreObjectInput{Bucket: bucket, Key: &key, RestoreRequest: &types.RestoreRequest{Days: aws.Int32(1)}}))
	}
	const part = 5 << 20
	for _, row := range []struct {
		name string
		err  error
		code string // "" is taken
	}{
		{"a key of 1,024 bytes", a.put(long[:1023] + "x"), ""},
		{"a key of 1,025 bytes", a.put(long + "x"), "KeyTooLongError"},
		{"a key that is no UTF-8", a.put("a\xff"), "InvalidURI"},
		{"2 KB of metadata", a.put("m", noted(2048)), ""},
		{"more than 2 KB", a.put("m", noted(2049)), "MetadataTooLarge"},
		{"10 tags", a.put("m", tagged(tags)), ""},
		{"11 tags", a.put("m", tagged(tags+"&k=")), "BadRequest"},
		{"a condition that does not hold", a.put("m", func(in *s3.PutObjectInput) { in.IfNoneMatch = aws.String("*") }), "PreconditionFailed"},
		{"another checksum", a.put("m", func(in *s3.PutObjectInput) { in.ChecksumCRC32 = aws.String("AAAAAA==") }), "BadDigest"},
		{"1,000 keys to remove", a.remove(1000), ""},
		{"1,001 keys to remove", a.remove(1001), "MalformedXML"},
		{"parts", second(a.upload("p", []int{part, 1}, 1, 2)), ""},
		{"a small part that is not the last", second(a.upload("p", []int{1, 1}, 1, 2)), "EntityTooSmall"},
		{"parts in another order", second(a.upload("p", []int{part, part}, 2, 1)), "InvalidPartOrder"},
		{"a part that is not there", second(a.upload("p", []int{part}, 1, 2)), "InvalidPart"},
		{"the upload of another store", a.complete("p", aws.String("none"), nil, 1), "NoSuchUpload"},
		{"a condition on what is not there", a.put("none", func(in *s3.PutObjectInput) { in.IfMatch = aws.String(`"x"`) }), "NoSuchKey"},
		{"a class that there is not", a.put("cold", in("FROZEN")), "InvalidStorageClass"},
		{"a class", a.put("rare", in(types.StorageClassStandardIa)), ""},
		{"to read what is rarely asked for", get("rare"), ""},
		{"an archive class", a.put("cold", in(types.StorageClassDeepArchive)), ""},
		{"to read what is archived", get("cold"), "InvalidObjectState"},
		{"to copy what is archived", from("cold"), "InvalidObjectState"},
		{"to restore what is not archived", restore("rare"), "InvalidObjectState"},
		{"to restore what is", restore("cold"), ""},
		{"to read what is restored", get("cold"), ""},
		{"a clock that is 16 minutes late", a.late(), "RequestTimeTooSkewed"},
		{"a part of number 10,001", a.part("p", 10_001), "InvalidArgument"},
		{"a copy onto itself that changes nothing", second(a.CopyObject(t.Context(), &s3.CopyObjectInput{Bucket: bucket, Key: aws.String("m"), CopySource: aws.String("test/m")})), "InvalidRequest"},
	} {
		var said smithy.APIError
		if errors.As(row.err, &said) && said.ErrorCode() == row.code || row.err == nil && row.code == "" {
			continue
		}
		t.Errorf("%s: %v, want %q", row.name, row.err, row.code)
	}
	id, err := a.upload("twice", []int{1}, 1)
	if again := a.complete("twice", id, nil, 1); err != nil || again == nil || !strings.Contains(again.Error(), "NoSuchUpload") {
		t.Errorf("completed %v, and once more %v", err, again)
	}
}

// late asks for the bucket as a clock does that is 16 minutes late: Amazon S3 bears 15 (API Reference, "Error responses", RequestTimeTooSkewed).
func (a asker) late() error {
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, *a.Options().BaseEndpoint+"/"+*bucket, nil)
	if err != nil {
		return err
	}
	keys, _ := a.Options().Credentials.Retrieve(a.t.Context())
	r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	if err := v4.NewSigner().SignHTTP(a.t.Context(), keys, r, "UNSIGNED-PAYLOAD", "s3", "us-east-1", time.Now().Add(-16*time.Minute)); err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var said struct{ Code string }
	if err := xml.NewDecoder(answer.Body).Decode(&said); err != nil {
		return err
	}
	return &smithy.GenericAPIError{Code: said.Code}
}

// part sends a part of an upload.
func (a asker) part(key string, number int32) error {
	u, err := a.CreateMultipartUpload(a.t.Context(), &s3.CreateMultipartUploadInput{Bucket: bucket, Key: &key})
	if err != nil {
		return err
	}
	return second(a.UploadPart(a.t.Context(), &s3.UploadPartInput{Bucket: bucket, Key: &key, UploadId: u.UploadId, PartNumber: &number, Body: strings.NewReader("x")}))
}

// TestOntoItself: a copy of an object onto itself is a new object (API Reference, CopyObject): in the class that is asked for, with
// the metadata that are said and no others; in a bucket with versions the old one stays what it was.
func TestOntoItself(t *testing.T) {
	a := ask(t, "--versions")
	_, err := a.upload("k", []int{5 << 20, 1}, 1, 2)
	put := a.put("z", func(in *s3.PutObjectInput) {
		in.StorageClass, in.ContentEncoding, in.CacheControl, in.Tagging = types.StorageClassStandardIa, aws.String("gzip"), aws.String("no-cache"), aws.String("a=b")
	})
	if err := errors.Join(err, put); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"k", "z"} {
		head := func(version *string) *s3.HeadObjectOutput {
			o, err := a.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: bucket, Key: &key, VersionId: version})
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		before := head(nil)
		out, err := a.CopyObject(t.Context(), &s3.CopyObjectInput{
			Bucket: bucket, Key: &key, CopySource: aws.String("test/" + key), CopySourceIfMatch: before.ETag,
			MetadataDirective: types.MetadataDirectiveReplace, Metadata: map[string]string{"m": "1"}, CacheControl: aws.String("private"),
		})
		if err != nil {
			t.Fatal(err)
		}
		after := head(nil)
		if *out.CopyObjectResult.ETag != *after.ETag || strings.Contains(*after.ETag, "-") || *out.VersionId != *after.VersionId || *after.VersionId == *before.VersionId {
			t.Errorf("%s: %v of version %v became %v of %v", key, *before.ETag, *before.VersionId, *after.ETag, *after.VersionId)
		}
		if after.StorageClass != "" || aws.ToString(after.ContentEncoding) != "" || aws.ToString(after.CacheControl) != "private" || after.Metadata["m"] != "1" || aws.ToInt32(after.TagCount) != aws.ToInt32(before.TagCount) {
			t.Errorf("%s: %+v", key, after)
		}
		if _, err := a.CopyObject(t.Context(), &s3.CopyObjectInput{
			Bucket: bucket, Key: &key, CopySource: aws.String("test/" + key + "?versionId=" + *before.VersionId), CopySourceIfMatch: before.ETag, MetadataDirective: types.MetadataDirectiveReplace,
		}); err != nil || len(head(nil).Metadata) > 0 {
			t.Errorf("%s: an old version is not brought back: %v", key, err)
		}
		if old := head(before.VersionId); *old.ETag != *before.ETag || len(old.Metadata) > 0 {
			t.Errorf("%s: the old version is %+v", key, old)
		}
	}
}

// TestETagsOfKMS: the same bytes have another ETag each time, and no call says another one.
func TestETagsOfKMS(t *testing.T) {
	a := ask(t, "--versions", "--kms")
	seen := map[string]bool{}
	for range 2 {
		put, err := a.PutObject(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: aws.String("k"), Body: strings.NewReader("x")})
		if err != nil {
			t.Fatal(err)
		}
		is, err := a.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: bucket, Key: aws.String("k"), IfMatch: put.ETag})
		if err != nil || *is.ETag != *put.ETag || seen[*is.ETag] {
			t.Errorf("stored with %v, and is %v, %v", *put.ETag, *is.ETag, err)
		}
		seen[*is.ETag] = true
	}
	if _, err := a.upload("p", []int{5 << 20, 1}, 1, 2); err != nil {
		t.Error(err)
	}
}

// TestVersions: what was removed is a version that a marker of a deletion hides (User Guide, "Working with delete markers").
func TestVersions(t *testing.T) {
	a := ask(t, "--versions")
	if err := errors.Join(a.put("k"), a.put("k"), second(a.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: bucket, Key: aws.String("k")}))); err != nil {
		t.Fatal(err)
	}
	all, err := a.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: bucket})
	if err != nil || len(all.Versions) != 2 || len(all.DeleteMarkers) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	now, err := a.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: bucket})
	if err != nil || len(now.Contents) != 0 {
		t.Errorf("%+v, %v", now, err)
	}
	for _, row := range []struct {
		name    string
		version *string
		code    string
	}{
		{"the current version", nil, "NotFound"},
		{"the marker", all.DeleteMarkers[0].VersionId, "MethodNotAllowed"},
		{"an old version", all.Versions[1].VersionId, ""},
	} {
		_, err := a.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: bucket, Key: aws.String("k"), VersionId: row.version})
		var said smithy.APIError
		if errors.As(err, &said) && said.ErrorCode() != row.code || err == nil && row.code != "" {
			t.Errorf("%s: %v, want %q", row.name, err, row.code)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestListsAsS3: keys come in the order of their bytes, at most 1,000 at a time.
func TestListsAsS3(t *testing.T) {
	a := ask(t)
	keys := []string{"o/a", "o/a-b", "o/a.b", "o/Z", "o/\u00e4", "o/\uffee", "o/\U0001F600", "o/b c+d%&", "o/dir/x"}
	for _, key := range keys {
		if err := a.put(key); err != nil {
			t.Fatal(err)
		}
	}
	page, err := a.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: bucket, Prefix: aws.String("o/"), MaxKeys: aws.Int32(5000)})
	if err != nil || *page.MaxKeys != 1000 {
		t.Fatalf("%v, %v", page, err)
	}
	var got []string
	for _, o := range page.Contents {
		got = append(got, *o.Key)
	}
	slices.Sort(keys)
	if !slices.Equal(got, keys) {
		t.Errorf("listed %q, want %q", got, keys)
	}
}
