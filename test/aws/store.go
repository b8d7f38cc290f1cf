package aws

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// Store is a real S3 server, where data repositories are.
type Store struct {
	Endpoint       string       // URL; with a Client of Through it may be any
	Access, Secret string       // a key that may read and write the buckets
	Client         *http.Client // nil means a usual one: Through(handler) for an S3 server of this process, or one that trusts a CA
	Region         string       // "" means us-east-1
}

func (s *Store) client() *s3.Client {
	o := s3.Options{
		BaseEndpoint: sdk.String(s.Endpoint), UsePathStyle: true, Region: or(s.Region, "us-east-1"), Credentials: Static(s.Access, s.Secret, ""),
	}
	if s.Client != nil {
		o.HTTPClient = s.Client
	}
	return s3.New(o)
}

// cutObject takes s3://bucket/key apart.
func cutObject(object string) (bucket, key string, ok bool) {
	rest, ok := strings.CutPrefix(object, "s3://")
	bucket, key, _ = strings.Cut(rest, "/")
	return bucket, key, ok
}

func (s *Store) put(ctx context.Context, object string, body []byte, metadata map[string]string) error {
	bucket, key, _ := cutObject(object)
	_, err := s.client().PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(body), Metadata: metadata})
	return err
}

func (s *Store) get(ctx context.Context, object string) ([]byte, error) {
	bucket, key, _ := cutObject(object)
	out, err := s.client().GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return nil, err
	}
	defer out.Body.Close()
	return io.ReadAll(out.Body)
}

func (s *Store) list(ctx context.Context, prefix string) (objects []string, err error) {
	bucket, key, _ := cutObject(prefix)
	pages := s3.NewListObjectsV2Paginator(s.client(), &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: &key})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, o := range page.Contents {
			objects = append(objects, "s3://"+bucket+"/"+sdk.ToString(o.Key))
		}
	}
	return objects, nil
}

// head is a file as FSx sees an object: its mode and owner are in the object's metadata, or are those that FSx gives to what has none.
func (s *Store) head(ctx context.Context, object string) (*File, error) {
	bucket, key, _ := cutObject(object)
	out, err := s.client().HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return nil, err
	}
	f := &File{Size: sdk.ToInt64(out.ContentLength), Mode: TypeRegular | 0o755, MTime: sdk.ToTime(out.LastModified), ATime: sdk.ToTime(out.LastModified)}
	if strings.HasSuffix(key, "/") {
		f.Mode = TypeDir | 0o755
	}
	if c := out.StorageClass; c == types.StorageClassGlacier || c == types.StorageClassDeepArchive {
		return nil, importError("S3ObjectInUnsupportedTier")
	}
	if err := f.read(out.Metadata); err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	if f.Mode&TypeMask == TypeSymlink {
		f.Body, err = s.get(ctx, object)
	}
	return f, err
}

// Metadata of objects, of https://docs.aws.amazon.com/fsx/latest/LustreGuide/posix-metadata-support.html.
const (
	metaMode, metaUID, metaGID = "file-permissions", "file-owner", "file-group"
	metaATime, metaMTime       = "file-atime", "file-mtime"
)

func (f *File) metadata() map[string]string {
	return map[string]string{
		metaMode: fmt.Sprintf("%#o", f.Mode), metaUID: strconv.Itoa(int(f.UID)), metaGID: strconv.Itoa(int(f.GID)),
		metaATime: fmt.Sprintf("%dns", f.ATime.UnixNano()), metaMTime: fmt.Sprintf("%dns", f.MTime.UnixNano()), "user-agent": "aws-fsx-lustre",
	}
}

func (f *File) read(metadata map[string]string) error {
	number := func(name string, base int, to *uint32) error {
		text, ok := metadata[name]
		if !ok {
			return nil
		}
		n, err := strconv.ParseUint(text, base, 32)
		if err == nil {
			*to = uint32(n)
		}
		return err
	}
	moment := func(name string, to *time.Time) error {
		text, ok := metadata[name]
		if !ok {
			return nil
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(text, "ns"), 10, 64)
		if err == nil {
			*to = time.Unix(0, n)
		}
		return err
	}
	kind := f.Mode & TypeMask
	err := errors.Join(number(metaMode, 8, &f.Mode), number(metaUID, 10, &f.UID), number(metaGID, 10, &f.GID), moment(metaATime, &f.ATime), moment(metaMTime, &f.MTime))
	if f.Mode&TypeMask == 0 {
		f.Mode |= kind
	}
	return err
}

// importError is an ErrorCode of a completion report.
type importError string

func (e importError) Error() string { return string(e) }

// errorCode is what a completion report calls an error of S3.
func errorCode(err error) string {
	var code importError
	var e smithy.APIError
	switch {
	case errors.As(err, &code):
		return string(code)
	case !errors.As(err, &e):
		return "S3Error"
	case e.ErrorCode() == "NoSuchKey" || e.ErrorCode() == "NotFound":
		return "S3FileDeleted"
	case e.ErrorCode() == "AccessDenied":
		return "S3AccessDenied"
	case e.ErrorCode() == "EntityTooLarge":
		return "FileSizeTooLarge"
	}
	return "S3Error"
}
