package s3

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"time"

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
	root      url.URL       // of the bucket, with '/' at its end
	silence   time.Duration // in a listening; 0 is listenSilence
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

func (s *onprem) list(ctx context.Context, l listing) iter.Seq2[[]object, error] {
	return func(yield func([]object, error) bool) {
		ctx, r := withReply(ctx)
		owner, limit := false, cmp.Or(l.max, pageKeys)
		opts := minio.ListObjectsOptions{
			Prefix: l.prefix, Recursive: l.delimiter == "", StartAfter: l.after, MaxKeys: limit, FetchOwner: &owner,
		}
		var page []object
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
			page = append(page, listed(&o, l.delimiter))
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

func listed(o *minio.ObjectInfo, delimiter string) object {
	size := o.Size
	if delimiter != "" && o.ETag == "" && o.LastModified.IsZero() {
		size = -1
	}
	return object{key: o.Key, size: size, etag: trimETag(o.ETag), modified: o.LastModified}
}

// options turns a put into what minio-go sends as headers.
func (w *put) options() minio.PutObjectOptions {
	opts := minio.PutObjectOptions{ContentType: w.mimeType(), DisableContentSha256: true, UserMetadata: make(map[string]string, len(w.meta)+2)}
	for k, v := range w.meta {
		opts.UserMetadata[metaPrefix+k] = v // else one that is named as a header would be that
	}
	if w.crc != "" {
		opts.UserMetadata[headerCRC] = w.crc
	}
	if w.ifMatch != "" {
		opts.SetMatchETag(w.ifMatch)
	}
	if w.ifNoneMatch {
		opts.SetMatchETagExcept("*")
	}
	if w.encryption.algorithm != "" {
		opts.ServerSideEncryption = w.encryption
	}
	return opts
}

func (s *onprem) create(ctx context.Context, w put) (begun, error) {
	ctx, r := withReply(withHeaders(ctx, w.headers()))
	opts := w.options()
	if w.fullObject {
		opts.UserMetadata["X-Amz-Checksum-Algorithm"] = algorithm
		opts.UserMetadata[headerCRCType] = fullObject
	}
	id, err := s.core.NewMultipartUpload(ctx, s.bucket, w.key, opts)
	if err := understand(ctx, r, err); err != nil {
		return begun{}, err
	}
	return begun{id, encryptionOf(r.header)}, nil
}

func (s *onprem) complete(ctx context.Context, u upload, parts []stored, w put) (stored, error) {
	ctx, r := withReply(ctx)
	list := make([]minio.CompletePart, len(parts))
	for i, p := range parts {
		list[i] = minio.CompletePart{PartNumber: p.number, ETag: p.etag}
		if w.fullObject {
			list[i].ChecksumCRC64NVME = p.crc
		}
	}
	opts := w.options()
	if w.fullObject && w.crc != "" {
		opts.UserMetadata[headerCRCType] = fullObject
	}
	info, err := s.core.CompleteMultipartUpload(ctx, s.bucket, u.key, u.id, list, opts)
	if err := understand(ctx, r, err); err != nil {
		return stored{}, err
	}
	return stored{etag: info.ETag, version: r.header.Get("X-Amz-Version-Id"), crc: info.ChecksumCRC64NVME, encryption: encryptionOf(r.header)}, nil
}

func (s *onprem) abort(ctx context.Context, u upload) error {
	ctx, r := withReply(ctx)
	return understand(ctx, r, s.core.AbortMultipartUpload(ctx, s.bucket, u.key, u.id))
}

func (s *onprem) parts(ctx context.Context, u upload) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		for marker := 0; ; {
			ctx, r := withReply(ctx)
			page, err := s.core.ListObjectParts(ctx, s.bucket, u.key, u.id, marker, 1000)
			if err := understand(ctx, r, err); err != nil {
				yield(stored{}, err)
				return
			}
			for _, p := range page.ObjectParts {
				if !yield(stored{number: p.PartNumber, size: p.Size, etag: trimETag(p.ETag), crc: p.ChecksumCRC64NVME}, nil) {
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

func (s *onprem) uploads(ctx context.Context, prefix string) iter.Seq2[upload, error] {
	return func(yield func(upload, error) bool) {
		for keyMarker, idMarker := "", ""; ; {
			ctx, r := withReply(ctx)
			page, err := s.core.ListMultipartUploads(ctx, s.bucket, prefix, keyMarker, idMarker, "", 1000)
			if err := understand(ctx, r, err); noUploads(err) {
				return
			} else if err != nil {
				yield(upload{}, err)
				return
			}
			for _, u := range page.Uploads {
				if !yield(upload{u.Key, u.UploadID, u.Initiated}, nil) {
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
func copyHeaders(from source, to put) map[string]string {
	h := make(map[string]string, len(to.meta)+4)
	if from.ifMatch != "" {
		h["X-Amz-Copy-Source-If-Match"] = `"` + from.ifMatch + `"`
	}
	if to.key != "" {
		h["X-Amz-Metadata-Directive"] = "REPLACE"
		h["Content-Type"] = to.mimeType()
	}
	for k, v := range to.meta {
		h[metaPrefix+k] = v
	}
	maps.Copy(h, to.copyHeaders())
	encrypting := http.Header{}
	to.encryption.Marshal(encrypting)
	for k := range encrypting {
		h[k] = encrypting.Get(k)
	}
	return h
}

func (s *onprem) copy(ctx context.Context, from source, to put) (stored, error) {
	ctx, r := withReply(ctx)
	info, err := s.core.CopyObject(ctx, from.bucket, from.key, s.bucket, to.key, copyHeaders(from, to),
		minio.CopySrcOptions{}, minio.PutObjectOptions{})
	if err := understand(ctx, r, err); err != nil {
		return stored{}, err
	}
	return stored{etag: trimETag(info.ETag), version: r.header.Get("X-Amz-Version-Id"), encryption: encryptionOf(r.header)}, nil
}

func (s *onprem) tag(ctx context.Context, key, all string) error {
	ctx, r := withReply(ctx)
	set, err := tags.MapToObjectTags(maps.Collect(decodeTags(all)))
	if err != nil {
		return fmt.Errorf("tags: %w: %v", mover.ErrUsage, err) //nolint:errorlint // it is of one kind
	}
	return understand(ctx, r, s.core.PutObjectTagging(ctx, s.bucket, key, set, minio.PutObjectTaggingOptions{}))
}

func (s *onprem) copyPart(ctx context.Context, u upload, number int, from source, off, n int64) (stored, error) {
	ctx, r := withReply(ctx)
	info, err := s.core.CopyObjectPart(ctx, from.bucket, from.key, s.bucket, u.key, u.id, number, off, n, copyHeaders(from, put{}))
	if err := understand(ctx, r, err); err != nil {
		return stored{}, err
	}
	return stored{number: number, size: n, etag: trimETag(info.ETag), crc: info.ChecksumCRC64NVME}, nil
}

func (s *onprem) remove(ctx context.Context, key, version, etag string) error {
	ctx, r := withReply(withHeaders(ctx, ifMatch(etag))) // minio-go has no option for it
	return understand(ctx, r, s.core.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{VersionID: version}))
}
