package s3api

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/tags"

	"datamove.dev/mover"
)

// onprem is the store of S3-compatible servers, over minio-go's single calls; but
// the four that each object needs go straight to the transport (see direct.go).
// Payloads are not signed and carry an explicit checksum header: no trailers, which
// versitygw refuses over plain http, and no chunk signatures, which cost a SHA-256.
type onprem struct {
	core      *minio.Core
	bucket    string
	transport *transport
	root      url.URL // of the bucket, with '/' at its end
}

func newOnprem(o *Options, endpoint *url.URL, keys aws.CredentialsProvider, t *transport) (*onprem, error) {
	lookup := minio.BucketLookupPath
	if o.virtualHost {
		lookup = minio.BucketLookupDNS
	}
	core, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds:        credentials.NewStatic("", "", "", credentials.SignatureAnonymous), // see signer
		Secure:       endpoint.Scheme == "https",
		Transport:    t,
		Region:       o.Region, // set, so that the client does not ask for the bucket's location
		BucketLookup: lookup,
		MaxRetries:   1,
	})
	if err != nil {
		return nil, err
	}
	core.SetAppInfo("datamove", "1")
	core.SetS3EnableDualstack(false) // or it would ask another host of AWS than root
	if _, nobody := keys.(anonymous); !nobody {
		t.sign = signer(keys, o.Region)
	}
	root := url.URL{Scheme: endpoint.Scheme, Host: endpoint.Host, Path: "/" + o.Bucket + "/"}
	if o.virtualHost {
		root.Host, root.Path = o.Bucket+"."+endpoint.Host, "/"
	}
	return &onprem{core: core, bucket: o.Bucket, transport: t, root: root}, nil
}

func (s *onprem) List(ctx context.Context, l Listing) iter.Seq2[[]Object, error] {
	return func(yield func([]Object, error) bool) {
		ctx, r := withReply(ctx)
		owner, limit := false, cmp.Or(l.Max, PageKeys)
		opts := minio.ListObjectsOptions{
			Prefix: l.Prefix, Recursive: l.Delimiter == "", StartAfter: l.After, MaxKeys: limit, FetchOwner: &owner,
		}
		var page []Object
		calls := 0 // that page is of
		for o := range s.core.ListObjectsIter(ctx, s.bucket, opts) {
			if o.Err != nil {
				yield(nil, noListing(understand(ctx, r, o.Err)))
				return
			}
			if len(page) > 0 && r.calls != calls {
				if !yield(sortPage(page), nil) {
					return
				}
				page = nil
			}
			calls = r.calls
			page = append(page, listed(&o, l.Delimiter))
			if len(page) == limit { // before the next page is asked for
				if !yield(sortPage(page), nil) {
					return
				}
				page = nil
			}
		}
		if ctx.Err() != nil { // minio-go ends silently then
			yield(nil, context.Cause(ctx))
		} else if len(page) > 0 {
			yield(sortPage(page), nil)
		}
	}
}

func listed(o *minio.ObjectInfo, delimiter string) Object {
	size := o.Size
	if delimiter != "" && o.ETag == "" && o.LastModified.IsZero() {
		size = -1
	}
	return Object{Key: o.Key, Size: size, ETag: trimETag(o.ETag), Modified: o.LastModified}
}

// options turns a put into what minio-go sends as headers.
func (w *Put) options() minio.PutObjectOptions {
	opts := minio.PutObjectOptions{ContentType: w.MediaType(), DisableContentSha256: true, UserMetadata: make(map[string]string, len(w.Metadata)+2)}
	for k, v := range w.Metadata {
		opts.UserMetadata[metaPrefix+k] = v // else one that is named as a header would be that
	}
	if w.CRC != "" {
		opts.UserMetadata[headerCRC] = w.CRC
	}
	if w.IfMatch != "" {
		opts.SetMatchETag(w.IfMatch)
	}
	if w.IfNoneMatch {
		opts.SetMatchETagExcept("*")
	}
	if w.Encryption.Algorithm != "" {
		opts.ServerSideEncryption = w.Encryption
	}
	return opts
}

func (s *onprem) CreateUpload(ctx context.Context, w Put) (Begun, error) {
	ctx, r := withReply(withHeaders(ctx, w.AllHeaders()))
	opts := w.options()
	if w.FullObject {
		opts.UserMetadata["X-Amz-Checksum-Algorithm"] = algorithm
		opts.UserMetadata[headerCRCType] = fullObject
	}
	id, err := s.core.NewMultipartUpload(ctx, s.bucket, w.Key, opts)
	if err := understand(ctx, r, err); err != nil {
		return Begun{}, err
	}
	return Begun{id, EncryptionOf(r.header)}, nil
}

func (s *onprem) CompleteUpload(ctx context.Context, u Upload, parts []Stored, w Put) (Stored, error) {
	ctx, r := withReply(ctx)
	list := make([]minio.CompletePart, len(parts))
	for i, p := range parts {
		list[i] = minio.CompletePart{PartNumber: p.Number, ETag: p.ETag}
		if w.FullObject {
			list[i].ChecksumCRC64NVME = p.CRC
		}
	}
	opts := w.options()
	if w.FullObject && w.CRC != "" {
		opts.UserMetadata[headerCRCType] = fullObject
	}
	info, err := s.core.CompleteMultipartUpload(ctx, s.bucket, u.Key, u.ID, list, opts)
	if err := understand(ctx, r, err); err != nil {
		return Stored{}, err
	}
	return Stored{ETag: info.ETag, Version: r.header.Get("X-Amz-Version-Id"), CRC: info.ChecksumCRC64NVME, Encryption: EncryptionOf(r.header)}, nil
}

func (s *onprem) AbortUpload(ctx context.Context, u Upload) error {
	ctx, r := withReply(ctx)
	return understand(ctx, r, s.core.AbortMultipartUpload(ctx, s.bucket, u.Key, u.ID))
}

func (s *onprem) ListParts(ctx context.Context, u Upload) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		for marker := 0; ; {
			ctx, r := withReply(ctx)
			page, err := s.core.ListObjectParts(ctx, s.bucket, u.Key, u.ID, marker, 1000)
			if err := understand(ctx, r, err); err != nil {
				yield(Stored{}, err)
				return
			}
			for _, p := range page.ObjectParts {
				if !yield(Stored{Number: p.PartNumber, size: p.Size, ETag: trimETag(p.ETag), CRC: p.ChecksumCRC64NVME}, nil) {
					return
				}
			}
			if !page.IsTruncated || page.NextPartNumberMarker <= marker {
				return
			}
			marker = page.NextPartNumberMarker
		}
	}
}

func (s *onprem) ListUploads(ctx context.Context, prefix string) iter.Seq2[Upload, error] {
	return func(yield func(Upload, error) bool) {
		for keyMarker, idMarker := "", ""; ; {
			ctx, r := withReply(ctx)
			page, err := s.core.ListMultipartUploads(ctx, s.bucket, prefix, keyMarker, idMarker, "", 1000)
			if err := understand(ctx, r, err); noUploads(err) {
				return
			} else if err != nil {
				yield(Upload{}, err)
				return
			}
			for _, u := range page.Uploads {
				if !yield(Upload{u.Key, u.UploadID, u.Initiated}, nil) {
					return
				}
			}
			if !page.IsTruncated || page.NextKeyMarker == keyMarker && page.NextUploadIDMarker == idMarker {
				return
			}
			keyMarker, idMarker = page.NextKeyMarker, page.NextUploadIDMarker
		}
	}
}

// copyHeaders are the headers of a copy that minio-go takes as they are.
func copyHeaders(from Source, to Put) map[string]string {
	h := make(map[string]string, len(to.Metadata)+4)
	if from.IfMatch != "" {
		h["X-Amz-Copy-Source-If-Match"] = `"` + from.IfMatch + `"`
	}
	if to.Key != "" {
		h["X-Amz-Metadata-Directive"] = "REPLACE"
		h["Content-Type"] = to.MediaType()
	}
	for k, v := range to.Metadata {
		h[metaPrefix+k] = v
	}
	maps.Copy(h, to.copyHeaders())
	encrypting := http.Header{}
	to.Encryption.Marshal(encrypting)
	for k := range encrypting {
		h[k] = encrypting.Get(k)
	}
	return h
}

func (s *onprem) Copy(ctx context.Context, from Source, to Put) (Stored, error) {
	ctx, r := withReply(ctx)
	info, err := s.core.CopyObject(ctx, from.Bucket, from.Key, s.bucket, to.Key, copyHeaders(from, to),
		minio.CopySrcOptions{}, minio.PutObjectOptions{})
	if err := understand(ctx, r, err); err != nil {
		return Stored{}, err
	}
	return Stored{ETag: trimETag(info.ETag), Version: r.header.Get("X-Amz-Version-Id"), Encryption: EncryptionOf(r.header)}, nil
}

func (s *onprem) SetTags(ctx context.Context, key, all string) error {
	ctx, r := withReply(ctx)
	set, err := tags.MapToObjectTags(maps.Collect(decodeTags(all)))
	if err != nil {
		return fmt.Errorf("tags: %w: %v", mover.ErrUsage, err) //nolint:errorlint // it is of one kind
	}
	return understand(ctx, r, s.core.PutObjectTagging(ctx, s.bucket, key, set, minio.PutObjectTaggingOptions{}))
}

func (s *onprem) CopyPart(ctx context.Context, u Upload, number int, from Source, off, n int64) (Stored, error) {
	ctx, r := withReply(ctx)
	info, err := s.core.CopyObjectPart(ctx, from.Bucket, from.Key, s.bucket, u.Key, u.ID, number, off, n, copyHeaders(from, Put{}))
	if err := understand(ctx, r, err); err != nil {
		return Stored{}, err
	}
	return Stored{Number: number, size: n, ETag: trimETag(info.ETag), CRC: info.ChecksumCRC64NVME}, nil
}

func (s *onprem) Remove(ctx context.Context, key, version, etag string) error {
	ctx, r := withReply(withHeaders(ctx, ifMatch(etag))) // minio-go has no option for it
	return understand(ctx, r, s.core.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{VersionID: version}))
}
