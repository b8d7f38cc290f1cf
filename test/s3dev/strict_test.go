package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
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

func ask(t *testing.T) asker {
	t.Helper()
	out, in := io.Pipe()
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { ended <- run(ctx, []string{"--dir", t.TempDir()}, os.Stdin, in) }()
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
