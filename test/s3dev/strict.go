package main

import (
	"context"
	"fmt"
	"net/url"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
)

// The limits of Amazon S3 (User Guide, "Naming Amazon S3 objects" and "Categorizing your
// objects using tags"; API Reference, DeleteObjects).
const (
	keyMost    = 1024 // bytes of UTF-8
	tagsMost   = 10
	deleteMost = 1000
)

// strict refuses what Amazon S3 refuses and versitygw takes: what passes here has to pass
// there. Of keys it is the other way, too: versitygw keeps no x beside x/y, nor a segment
// above 255 bytes.
type strict struct{ backend.Backend }

func key(k *string) error {
	switch {
	case k == nil:
		return nil
	case len(*k) > keyMost:
		return s3err.GetKeyTooLongErr(int64(len(*k)), keyMost)
	case !utf8.ValidString(*k):
		return s3err.GetAPIError(s3err.ErrInvalidURI)
	}
	return nil
}

// tagged is of the header x-amz-tagging.
func tagged(header *string) error {
	if header == nil {
		return nil
	}
	tags, err := url.ParseQuery(*header)
	if err != nil {
		return nil // versitygw says so
	}
	return few(len(tags))
}

func few(tags int) error {
	if tags > tagsMost {
		return s3err.GetAPIError(s3err.ErrObjectTaggingLimited)
	}
	return nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s strict) PutObject(ctx context.Context, in s3response.PutObjectInput) (out s3response.PutObjectOutput, err error) {
	if err := first(key(in.Key), tagged(in.Tagging)); err != nil {
		return out, err
	}
	return s.Backend.PutObject(ctx, in)
}

func (s strict) CreateMultipartUpload(ctx context.Context, in s3response.CreateMultipartUploadInput) (out s3response.InitiateMultipartUploadResult, err error) {
	if err := first(key(in.Key), tagged(in.Tagging)); err != nil {
		return out, err
	}
	return s.Backend.CreateMultipartUpload(ctx, in)
}

func (s strict) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (out s3response.CopyObjectOutput, err error) {
	if err := first(key(in.Key), tagged(in.Tagging)); err != nil {
		return out, err
	}
	return s.Backend.CopyObject(ctx, in)
}

func (s strict) PutObjectTagging(ctx context.Context, bucket, object, version string, tags map[string]string) error {
	if err := few(len(tags)); err != nil {
		return err
	}
	return s.Backend.PutObjectTagging(ctx, bucket, object, version, tags)
}

func (s strict) DeleteObjects(ctx context.Context, in *s3.DeleteObjectsInput) (out s3response.DeleteResult, err error) {
	if in.Delete != nil && len(in.Delete.Objects) > deleteMost {
		return out, s3err.GetAPIError(s3err.ErrMalformedXML)
	}
	return s.Backend.DeleteObjects(ctx, in)
}

// CompleteMultipartUpload knows of an upload that has been completed no more, whatever its object is.
func (s strict) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput) (out s3response.CompleteMultipartUploadResult, version string, err error) {
	none, one := "", int32(1)
	if _, err := s.Backend.ListParts(ctx, &s3.ListPartsInput{Bucket: in.Bucket, Key: in.Key, UploadId: in.UploadId, PartNumberMarker: &none, MaxParts: &one}); err != nil {
		return out, "", err
	}
	return s.Backend.CompleteMultipartUpload(ctx, in)
}

func (s strict) String() string { return fmt.Sprintf("strict %v", s.Backend) }
