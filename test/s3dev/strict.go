package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/backend/meta"
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
//
// More lenient than Amazon S3 it is where our client does not look: a listing says no storage
// class, markers of directories have one version, and a removal of what is not there leaves no
// marker of a deletion.
type strict struct {
	backend.Backend
	meta    meta.XattrMeta
	kms     bool        // ETags are no MD5s
	classes *sync.Map   // of open uploads, by their id
	first   *sync.Mutex // held while an object is made that must not be there; nil where versions are not kept
}

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
	defer s.condition(ctx, &in)()
	return s.put(ctx, in, asked(ctx))
}

// condition takes a marker of a deletion for nothing, as S3 does (User Guide, "How to prevent object overwrites with
// conditional writes"); versitygw takes it for an object. What it returns ends the call: of two that make an object one is first.
func (s strict) condition(ctx context.Context, in *s3response.PutObjectInput) (end func()) {
	if s.first == nil || in.IfNoneMatch == nil {
		return func() {}
	}
	s.first.Lock()
	if _, err := s.Backend.HeadObject(ctx, &s3.HeadObjectInput{Bucket: in.Bucket, Key: in.Key}); errors.Is(err, s3err.GetAPIError(s3err.ErrNoSuchKey)) {
		in.IfNoneMatch = nil
	}
	return s.first.Unlock
}

func (s strict) CreateMultipartUpload(ctx context.Context, in s3response.CreateMultipartUploadInput) (out s3response.InitiateMultipartUploadResult, err error) {
	if err := first(key(in.Key), tagged(in.Tagging), known(in.StorageClass), known(asked(ctx))); err != nil {
		return out, err
	}
	if out, err = s.Backend.CreateMultipartUpload(ctx, in); err == nil {
		s.classes.Store(out.UploadId, cmp.Or(in.StorageClass, asked(ctx)))
	}
	return out, err
}

func (s strict) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (out s3response.CopyObjectOutput, err error) {
	if err := first(key(in.Key), tagged(in.Tagging), known(in.StorageClass), s.copyable(in.CopySource)); err != nil {
		return out, err
	}
	bucket, source, _, err := backend.ParseCopySource(*in.CopySource)
	if err != nil {
		return out, err
	}
	if bucket == *in.Bucket && source == *in.Key && in.MetadataDirective == types.MetadataDirectiveReplace && !strings.HasSuffix(source, "/") {
		return s.onto(ctx, in)
	}
	if out, err = s.Backend.CopyObject(ctx, in); err != nil {
		return out, err
	}
	return out, s.classify(*in.Bucket, *in.Key, in.StorageClass)
}

// GetBucketOwnershipControls says of a bucket for which nothing was set what S3 says of all that were made since April 2023: its objects have no
// ACLs (User Guide, "Controlling ownership of objects").
func (s strict) GetBucketOwnershipControls(ctx context.Context, bucket string) (types.ObjectOwnership, error) {
	owned, err := s.Backend.GetBucketOwnershipControls(ctx, bucket)
	if errors.Is(err, s3err.GetAPIError(s3err.ErrOwnershipControlsNotFound)) {
		return types.ObjectOwnershipBucketOwnerEnforced, nil
	}
	return owned, err
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
	if out, version, err = s.Backend.CompleteMultipartUpload(ctx, in); err != nil {
		return out, version, err
	}
	etag, err := s.etag(ctx, in.Bucket, in.Key, version, *out.ETag)
	if err != nil {
		return out, version, err
	}
	out.ETag = &etag
	c, _ := s.classes.LoadAndDelete(*in.UploadId)
	class, _ := c.(types.StorageClass)
	return out, version, s.classify(*in.Bucket, *in.Key, class)
}

func (s strict) String() string { return fmt.Sprintf("strict %v", s.Backend) }
