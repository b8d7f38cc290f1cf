package main

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/valyala/fasthttp"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
)

// Storage classes, which versitygw does not know. An object keeps its class in an attribute; one of an
// archive class can be looked at, and neither read nor copied before it is restored (API Reference,
// GetObject, HeadObject and CopyObject, "Storage classes"). A restoration ends at once, where S3 takes
// minutes to hours: our client asks for none.
const (
	classAttribute    = "storage-class"
	restoredAttribute = "restored"
	restored          = `ongoing-request="false", expiry-date="Fri, 21 Dec 2096 00:00:00 GMT"` // API Reference, HeadObject, x-amz-restore
)

var (
	errClass = s3err.APIError{Code: "InvalidStorageClass", Description: "The storage class you specified is not valid", HTTPStatusCode: http.StatusBadRequest}
	archives = []types.StorageClass{types.StorageClassGlacier, types.StorageClassDeepArchive}
)

// asked is the class that a request asks for; "" is none, which makes it STANDARD.
func asked(ctx context.Context) types.StorageClass {
	if r, ok := ctx.(*fasthttp.RequestCtx); ok {
		return types.StorageClass(r.Request.Header.Peek("X-Amz-Storage-Class"))
	}
	return ""
}

func known(c types.StorageClass) error {
	if c != "" && !slices.Contains(c.Values(), c) {
		return errClass
	}
	return nil
}

// put stores an object in a class.
func (s strict) put(ctx context.Context, in s3response.PutObjectInput, c types.StorageClass) (out s3response.PutObjectOutput, err error) {
	if err := known(c); err != nil {
		return out, err
	}
	if out, err = s.Backend.PutObject(ctx, in); err != nil {
		return out, err
	}
	if out.ETag, err = s.etag(ctx, in.Bucket, in.Key, out.VersionID, out.ETag); err != nil {
		return out, err
	}
	return out, s.classify(*in.Bucket, *in.Key, c)
}

func (s strict) classify(bucket, key string, c types.StorageClass) error {
	if c == "" || c == types.StorageClassStandard {
		return nil // what was replaced has taken its attributes along
	}
	return s.meta.StoreAttribute(nil, bucket, key, classAttribute, []byte(c))
}

// class is that of an object, and how far its restoration is; "" is STANDARD, and none.
func (s strict) class(bucket, key string) (c types.StorageClass, restored string) {
	text, _ := s.meta.RetrieveAttribute(nil, bucket, key, classAttribute)
	is, _ := s.meta.RetrieveAttribute(nil, bucket, key, restoredAttribute)
	return types.StorageClass(text), string(is)
}

// away reports that the content of an object has to be restored first.
func (s strict) away(bucket, key string) error {
	if c, restored := s.class(bucket, key); slices.Contains(archives, c) && restored == "" {
		return s3err.GetAPIError(s3err.ErrInvalidObjectState)
	}
	return nil
}

func (s strict) copyable(from *string) error {
	bucket, key, _, err := backend.ParseCopySource(*from)
	return cmp.Or(err, s.away(bucket, key))
}

// HeadObject tells the class of all objects that are not STANDARD.
func (s strict) HeadObject(ctx context.Context, in *s3.HeadObjectInput) (*s3.HeadObjectOutput, error) {
	out, err := s.Backend.HeadObject(ctx, in)
	if err != nil {
		return out, err
	}
	c, restored := s.class(*in.Bucket, *in.Key)
	if out.StorageClass = c; restored != "" {
		out.Restore = &restored
	}
	return out, nil
}

// GetObject refuses what has to be restored.
func (s strict) GetObject(ctx context.Context, in *s3.GetObjectInput) (*s3.GetObjectOutput, error) {
	if err := s.away(*in.Bucket, *in.Key); err != nil {
		return nil, err
	}
	out, err := s.Backend.GetObject(ctx, in)
	if err == nil {
		out.StorageClass, _ = s.class(*in.Bucket, *in.Key)
	}
	return out, err
}

// UploadPartCopy refuses to read what has to be restored. A part has the checksum of its bytes; versitygw takes that of the whole source for it.
func (s strict) UploadPartCopy(ctx context.Context, in *s3.UploadPartCopyInput) (out s3response.CopyPartResult, err error) {
	if err := s.copyable(in.CopySource); err != nil {
		return out, err
	}
	out, err = s.Backend.UploadPartCopy(ctx, in)
	if err != nil || out.ChecksumCRC64NVME == nil {
		return out, err
	}
	bucket, key, version, err := backend.ParseCopySource(*in.CopySource)
	if err != nil {
		return out, err
	}
	from, err := s.Backend.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key, VersionId: some(version), Range: in.CopySourceRange})
	if err != nil {
		return out, err
	}
	defer from.Body.Close()
	part, err := s.Backend.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: in.Bucket, Key: in.Key, UploadId: in.UploadId, PartNumber: in.PartNumber, Body: from.Body, ContentLength: from.ContentLength,
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc64nvme,
	})
	if err == nil {
		out.ETag, out.ChecksumCRC64NVME = part.ETag, part.ChecksumCRC64NVME
	}
	return out, err
}

// RestoreObject implements backend.Backend.
func (s strict) RestoreObject(_ context.Context, in *s3.RestoreObjectInput) error {
	switch c, _ := s.class(*in.Bucket, *in.Key); {
	case slices.Contains(archives, c):
		return s.meta.StoreAttribute(nil, *in.Bucket, *in.Key, restoredAttribute, []byte(restored))
	default:
		return s3err.GetAPIError(s3err.ErrInvalidObjectState)
	}
}

// onto copies an object onto itself, which for Amazon S3 is a new object: with an ETag, a time and a version of its own, in the class
// that is asked for, and with those system-defined metadata alone that are said. versitygw changes the old one.
func (s strict) onto(ctx context.Context, in s3response.CopyObjectInput) (out s3response.CopyObjectOutput, err error) {
	_, _, version, err := backend.ParseCopySource(*in.CopySource)
	if err != nil {
		return out, err
	}
	from, err := s.Backend.GetObject(ctx, &s3.GetObjectInput{Bucket: in.Bucket, Key: in.Key, VersionId: some(version), IfMatch: in.CopySourceIfMatch, ChecksumMode: types.ChecksumModeEnabled})
	if err != nil {
		return out, err
	}
	defer from.Body.Close()
	tags, err := s.Backend.GetObjectTagging(ctx, *in.Bucket, *in.Key, "")
	if err != nil {
		tags = nil // it has none
	}
	etag := strings.Trim(*from.ETag, `"`)
	w := s3response.PutObjectInput{
		Bucket: in.Bucket, Key: in.Key, Body: io.Reader(from.Body), ContentLength: from.ContentLength, IfMatch: &etag, ExpectedBucketOwner: in.ExpectedBucketOwner, Metadata: in.Metadata,
		ContentType: in.ContentType, ContentEncoding: in.ContentEncoding, ContentDisposition: in.ContentDisposition, ContentLanguage: in.ContentLanguage,
		CacheControl: in.CacheControl, Expires: in.Expires, WebsiteRedirectLocation: in.WebsiteRedirectLocation,
		ObjectLockMode: in.ObjectLockMode, ObjectLockRetainUntilDate: in.ObjectLockRetainUntilDate, ObjectLockLegalHoldStatus: in.ObjectLockLegalHoldStatus,
	}
	if in.TaggingDirective == types.TaggingDirectiveReplace {
		w.Tagging = in.Tagging
	}
	if version != "" {
		w.IfMatch = nil // an old version comes back, whatever there is now
	}
	if from.ChecksumCRC64NVME != nil {
		w.ChecksumAlgorithm = types.ChecksumAlgorithmCrc64nvme
	}
	put, err := s.put(ctx, w, in.StorageClass)
	if err != nil {
		return out, err
	}
	if in.TaggingDirective != types.TaggingDirectiveReplace && len(tags) > 0 {
		if err := s.Backend.PutObjectTagging(ctx, *in.Bucket, *in.Key, "", tags); err != nil {
			return out, err
		}
	}
	is, err := s.Backend.HeadObject(ctx, &s3.HeadObjectInput{Bucket: in.Bucket, Key: in.Key})
	if err != nil {
		return out, err
	}
	return s3response.CopyObjectOutput{
		CopyObjectResult: &s3response.CopyObjectResult{ETag: &put.ETag, LastModified: is.LastModified, ChecksumCRC64NVME: put.ChecksumCRC64NVME, ChecksumType: put.ChecksumType},
		VersionId:        some(put.VersionID),
	}, nil
}

func some(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
