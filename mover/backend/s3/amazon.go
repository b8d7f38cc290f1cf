package s3

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// amazon is the store of AWS, over the single calls of its SDK. The SDK's own
// checksums are off, because they hash each payload again and send it in a form
// that some servers refuse; ours are explicit headers.
type amazon struct {
	client *sdk.Client
	bucket string
}

func newAmazon(o *Options, endpoint *url.URL, provider aws.CredentialsProvider, t *transport) *amazon {
	keys := provider
	if a, ok := keys.(anonymous); ok {
		keys = a.AnonymousCredentials // which it knows by its type
	}
	options := sdk.Options{
		Region:                     o.Region,
		Credentials:                keys,
		HTTPClient:                 &http.Client{Transport: t, CheckRedirect: stay},
		Retryer:                    aws.NopRetryer{},
		UsePathStyle:               !o.virtualHost,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
		AppID:                      "datamove",
		EndpointOptions:            o.resolver,
	}
	if endpoint != nil {
		options.BaseEndpoint = aws.String(endpoint.String())
	}
	return &amazon{client: sdk.New(options), bucket: o.Bucket}
}

// stay keeps a redirect from being followed with a signature for another host.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// optional is a pointer to s, or nil for "".
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func quoted(etag string) *string {
	if etag == "" {
		return nil
	}
	return aws.String(`"` + etag + `"`)
}

// unsigned leaves the payload out of the signature: the checksum header covers it.
func unsigned(o *sdk.Options) {
	o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
}

// tellChecksum asks for the stored checksum without making the SDK compute it.
func tellChecksum(o *sdk.Options) {
	o.APIOptions = append(o.APIOptions, smithyhttp.SetHeaderValue("X-Amz-Checksum-Mode", "ENABLED"))
}

func (s *amazon) head(ctx context.Context, key, version string) (object, error) {
	ctx, r := withReply(ctx)
	_, err := s.client.HeadObject(ctx, &sdk.HeadObjectInput{Bucket: &s.bucket, Key: &key, VersionId: optional(version)}, tellChecksum)
	if err := understand(ctx, r, err); err != nil {
		return object{}, err
	}
	return objectOf(key, r.header), nil
}

func (s *amazon) get(ctx context.Context, g get) (io.ReadCloser, object, error) {
	ctx, r := withReply(ctx)
	in := &sdk.GetObjectInput{Bucket: &s.bucket, Key: &g.key, VersionId: optional(g.version), IfMatch: quoted(g.ifMatch)}
	var options []func(*sdk.Options)
	if g.n >= 0 {
		in.Range = aws.String(rangeHeader(g.off, g.n))
	} else {
		options = append(options, tellChecksum)
	}
	out, err := s.client.GetObject(ctx, in, options...)
	if err := understand(ctx, r, err); err != nil {
		return nil, object{}, err
	}
	return out.Body, objectOf(g.key, r.header), nil
}

// apart is an error of a call for what the store tells apart.
func apart(err error) error {
	if wrong := (*xml.SyntaxError)(nil); errors.As(err, &wrong) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return otherAnswer(err)
	}
	return err
}

func (s *amazon) tags(ctx context.Context, key string) (string, error) {
	ctx, r := withReply(ctx)
	out, err := s.client.GetObjectTagging(ctx, &sdk.GetObjectTaggingInput{Bucket: &s.bucket, Key: &key})
	if err := apart(understand(ctx, r, err)); err != nil {
		return "", untagged(err)
	}
	tags := url.Values{}
	for _, t := range out.TagSet {
		tags.Set(aws.ToString(t.Key), aws.ToString(t.Value))
	}
	return encodeTags(tags), nil
}

func (s *amazon) tag(ctx context.Context, key, tags string) error {
	ctx, r := withReply(ctx)
	in := &sdk.PutObjectTaggingInput{Bucket: &s.bucket, Key: &key, Tagging: &types.Tagging{}}
	for name, value := range decodeTags(tags) {
		in.Tagging.TagSet = append(in.Tagging.TagSet, types.Tag{Key: &name, Value: &value})
	}
	_, err := s.client.PutObjectTagging(ctx, in)
	return understand(ctx, r, err)
}

func (s *amazon) acl(ctx context.Context, key string) (list accessList, err error) {
	ctx, r := withReply(ctx)
	out, err := s.client.GetObjectAcl(ctx, &sdk.GetObjectAclInput{Bucket: &s.bucket, Key: &key})
	if err := apart(understand(ctx, r, err)); err != nil {
		return list, err
	}
	if out.Owner != nil {
		list.Owner.ID = aws.ToString(out.Owner.ID)
	}
	for _, g := range out.Grants {
		if to := g.Grantee; to != nil {
			who := grantee{ID: aws.ToString(to.ID), URI: aws.ToString(to.URI), EmailAddress: aws.ToString(to.EmailAddress)}
			list.Grants = append(list.Grants, grant{who, string(g.Permission)})
		}
	}
	return list, nil
}

func (s *amazon) retention(ctx context.Context, key string) (mode, until string, err error) {
	ctx, r := withReply(ctx)
	out, err := s.client.GetObjectRetention(ctx, &sdk.GetObjectRetentionInput{Bucket: &s.bucket, Key: &key})
	if err := apart(understand(ctx, r, err)); err != nil || out.Retention == nil || out.Retention.RetainUntilDate == nil {
		return "", "", err
	}
	return string(out.Retention.Mode), out.Retention.RetainUntilDate.UTC().Format(time.RFC3339Nano), nil
}

func (s *amazon) legalHold(ctx context.Context, key string) (string, error) {
	ctx, r := withReply(ctx)
	out, err := s.client.GetObjectLegalHold(ctx, &sdk.GetObjectLegalHoldInput{Bucket: &s.bucket, Key: &key})
	if err := apart(understand(ctx, r, err)); err != nil || out.LegalHold == nil {
		return "", err
	}
	return string(out.LegalHold.Status), nil
}

func (s *amazon) ownership(ctx context.Context) (string, error) {
	ctx, r := withReply(ctx)
	out, err := s.client.GetBucketOwnershipControls(ctx, &sdk.GetBucketOwnershipControlsInput{Bucket: &s.bucket})
	if err := apart(understand(ctx, r, err)); err != nil || out.OwnershipControls == nil || len(out.OwnershipControls.Rules) == 0 {
		return "", err
	}
	return string(out.OwnershipControls.Rules[0].ObjectOwnership), nil
}

func (s *amazon) locks(ctx context.Context) (bool, error) {
	ctx, r := withReply(ctx)
	out, err := s.client.GetObjectLockConfiguration(ctx, &sdk.GetObjectLockConfigurationInput{Bucket: &s.bucket})
	if err := apart(understand(ctx, r, err)); err != nil || out.ObjectLockConfiguration == nil {
		return false, err
	}
	return out.ObjectLockConfiguration.ObjectLockEnabled == types.ObjectLockEnabledEnabled, nil
}

func (s *amazon) list(ctx context.Context, l listing) iter.Seq2[[]object, error] {
	return func(yield func([]object, error) bool) {
		in := &sdk.ListObjectsV2Input{
			Bucket: &s.bucket, Prefix: &l.prefix, Delimiter: optional(l.delimiter), StartAfter: optional(l.after),
			EncodingType: types.EncodingTypeUrl, MaxKeys: aws.Int32(int32(cmp.Or(l.max, pageKeys))),
		}
		for {
			ctx, r := withReply(ctx)
			out, err := s.client.ListObjectsV2(ctx, in)
			if err := understand(ctx, r, err); err != nil {
				yield(nil, noListing(err))
				return
			}
			page, err := pageOf(out)
			if (len(page) > 0 || err != nil) && !yield(sortPage(page), err) || err != nil {
				return
			}
			if !aws.ToBool(out.IsTruncated) {
				return
			}
			if aws.ToString(out.NextContinuationToken) == "" {
				yield(nil, noListing(errCutListing))
				return
			}
			in.ContinuationToken = out.NextContinuationToken
		}
	}
}

func pageOf(out *sdk.ListObjectsV2Output) ([]object, error) {
	encoded := out.EncodingType == types.EncodingTypeUrl // some servers ignore that we asked
	page := make([]object, 0, len(out.Contents)+len(out.CommonPrefixes))
	for _, o := range out.Contents {
		key, err := decodeListed(aws.ToString(o.Key), encoded)
		if err != nil {
			return nil, err
		}
		page = append(page, object{key: key, size: aws.ToInt64(o.Size), etag: trimETag(aws.ToString(o.ETag)), modified: aws.ToTime(o.LastModified)})
	}
	for _, p := range out.CommonPrefixes {
		key, err := decodeListed(aws.ToString(p.Prefix), encoded)
		if err != nil {
			return nil, err
		}
		page = append(page, object{key: key, size: -1})
	}
	return page, nil
}

func decodeListed(key string, encoded bool) (string, error) {
	if !encoded {
		return key, nil
	}
	return url.QueryUnescape(key)
}

func (s *amazon) put(ctx context.Context, w put) (stored, error) {
	ctx, r := withReply(ctx)
	r.data = w.data
	in := &sdk.PutObjectInput{
		Bucket: &s.bucket, Key: &w.key, Body: w.reader(), ContentLength: aws.Int64(w.length()), ContentType: aws.String(w.mimeType()),
		Metadata: w.meta, ChecksumCRC64NVME: optional(w.checksum()), IfMatch: optional(w.condition()),
	}
	if w.ifNoneMatch {
		in.IfNoneMatch = aws.String("*")
	}
	in.ServerSideEncryption, in.SSEKMSKeyId, in.BucketKeyEnabled = w.encryption.sdk()
	_, err := s.client.PutObject(ctx, in, unsigned, saying(w.headers()))
	if err := understand(ctx, r, err); err != nil {
		return stored{}, err
	}
	return storedBy(r), nil
}

func (s *amazon) copy(ctx context.Context, from source, to put) (stored, error) {
	ctx, r := withReply(ctx)
	in := &sdk.CopyObjectInput{
		Bucket: &s.bucket, Key: &to.key, CopySource: aws.String(from.path()), CopySourceIfMatch: quoted(from.ifMatch),
		MetadataDirective: types.MetadataDirectiveReplace, Metadata: to.meta, ContentType: aws.String(to.mimeType()),
	}
	in.ServerSideEncryption, in.SSEKMSKeyId, in.BucketKeyEnabled = to.encryption.sdk()
	out, err := s.client.CopyObject(ctx, in, saying(to.copyHeaders()))
	if err := understand(ctx, r, err); err != nil {
		return stored{}, err
	}
	got := stored{version: aws.ToString(out.VersionId), encryption: encryptionOf(r.header)}
	if out.CopyObjectResult != nil {
		got.etag = trimETag(aws.ToString(out.CopyObjectResult.ETag))
		got.crc = aws.ToString(out.CopyObjectResult.ChecksumCRC64NVME)
	}
	return got, nil
}

// saying adds headers to a call.
func saying(headers map[string]string) func(*sdk.Options) {
	return func(o *sdk.Options) {
		for name, value := range headers {
			o.APIOptions = append(o.APIOptions, smithyhttp.SetHeaderValue(name, value))
		}
	}
}

// path is the value of x-amz-copy-source.
func (f source) path() string {
	return (&url.URL{Path: f.bucket + "/" + f.key}).EscapedPath()
}

func (s *amazon) remove(ctx context.Context, key, version, ifMatch string) error {
	ctx, r := withReply(ctx)
	_, err := s.client.DeleteObject(ctx, &sdk.DeleteObjectInput{Bucket: &s.bucket, Key: &key, VersionId: optional(version), IfMatch: quoted(ifMatch)})
	return understand(ctx, r, err)
}

// sdk is the encryption in the words of the SDK.
func (e encryption) sdk() (algorithm types.ServerSideEncryption, key *string, bucketKey *bool) {
	if e.bucketKey() {
		bucketKey = aws.Bool(true)
	}
	return types.ServerSideEncryption(e.algorithm), optional(e.key), bucketKey
}

func (s *amazon) create(ctx context.Context, w put) (begun, error) {
	ctx, r := withReply(ctx)
	in := &sdk.CreateMultipartUploadInput{Bucket: &s.bucket, Key: &w.key, ContentType: aws.String(w.mimeType()), Metadata: w.meta}
	if w.fullObject {
		in.ChecksumAlgorithm, in.ChecksumType = types.ChecksumAlgorithmCrc64nvme, types.ChecksumTypeFullObject
	}
	in.ServerSideEncryption, in.SSEKMSKeyId, in.BucketKeyEnabled = w.encryption.sdk()
	out, err := s.client.CreateMultipartUpload(ctx, in, saying(w.headers()))
	if err := understand(ctx, r, err); err != nil {
		return begun{}, err
	}
	return begun{aws.ToString(out.UploadId), encryptionOf(r.header)}, nil
}

func (s *amazon) part(ctx context.Context, u upload, number int, w put) (stored, error) {
	ctx, r := withReply(ctx)
	r.data = w.data
	_, err := s.client.UploadPart(ctx, &sdk.UploadPartInput{
		Bucket: &s.bucket, Key: &u.key, UploadId: &u.id, PartNumber: aws.Int32(int32(number)),
		Body: w.reader(), ContentLength: aws.Int64(w.length()), ChecksumCRC64NVME: optional(w.crc),
	}, unsigned)
	if err := understand(ctx, r, err); err != nil {
		return stored{}, err
	}
	got := storedBy(r)
	got.number, got.size = number, w.length()
	return got, nil
}

func (s *amazon) copyPart(ctx context.Context, u upload, number int, from source, off, n int64) (stored, error) {
	ctx, r := withReply(ctx)
	out, err := s.client.UploadPartCopy(ctx, &sdk.UploadPartCopyInput{
		Bucket: &s.bucket, Key: &u.key, UploadId: &u.id, PartNumber: aws.Int32(int32(number)),
		CopySource: aws.String(from.path()), CopySourceIfMatch: quoted(from.ifMatch), CopySourceRange: aws.String(rangeHeader(off, n)),
	})
	if err := understand(ctx, r, err); err != nil {
		return stored{}, err
	}
	got := stored{number: number, size: n}
	if out.CopyPartResult != nil {
		got.etag = trimETag(aws.ToString(out.CopyPartResult.ETag))
		got.crc = aws.ToString(out.CopyPartResult.ChecksumCRC64NVME)
	}
	return got, nil
}

func (s *amazon) complete(ctx context.Context, u upload, parts []stored, w put) (stored, error) {
	ctx, r := withReply(ctx)
	list := make([]types.CompletedPart, len(parts))
	for i, p := range parts {
		list[i] = types.CompletedPart{PartNumber: aws.Int32(int32(p.number)), ETag: quoted(p.etag)}
		if w.fullObject {
			list[i].ChecksumCRC64NVME = optional(p.crc)
		}
	}
	in := &sdk.CompleteMultipartUploadInput{
		Bucket: &s.bucket, Key: &u.key, UploadId: &u.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: list}, IfMatch: optional(w.condition()),
	}
	if w.ifNoneMatch {
		in.IfNoneMatch = aws.String("*")
	}
	if w.fullObject && w.crc != "" {
		in.ChecksumCRC64NVME, in.ChecksumType = &w.crc, types.ChecksumTypeFullObject
	}
	out, err := s.client.CompleteMultipartUpload(ctx, in)
	if err := understand(ctx, r, err); err != nil {
		return stored{}, err
	}
	return stored{
		etag: trimETag(aws.ToString(out.ETag)), version: aws.ToString(out.VersionId), crc: aws.ToString(out.ChecksumCRC64NVME),
		encryption: encryptionOf(r.header),
	}, nil
}

func (s *amazon) abort(ctx context.Context, u upload) error {
	ctx, r := withReply(ctx)
	_, err := s.client.AbortMultipartUpload(ctx, &sdk.AbortMultipartUploadInput{Bucket: &s.bucket, Key: &u.key, UploadId: &u.id})
	return understand(ctx, r, err)
}

func (s *amazon) parts(ctx context.Context, u upload) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		in := &sdk.ListPartsInput{Bucket: &s.bucket, Key: &u.key, UploadId: &u.id}
		for marker := 0; ; {
			ctx, r := withReply(ctx)
			page, err := s.client.ListParts(ctx, in)
			if err := understand(ctx, r, err); err != nil {
				yield(stored{}, err)
				return
			}
			for _, p := range page.Parts {
				got := stored{number: int(aws.ToInt32(p.PartNumber)), size: aws.ToInt64(p.Size), etag: trimETag(aws.ToString(p.ETag)), crc: aws.ToString(p.ChecksumCRC64NVME)}
				if !yield(got, nil) {
					return
				}
			}
			next, err := strconv.Atoi(aws.ToString(page.NextPartNumberMarker))
			if !aws.ToBool(page.IsTruncated) || err != nil || next <= marker {
				return
			}
			marker, in.PartNumberMarker = next, page.NextPartNumberMarker
		}
	}
}

func (s *amazon) uploads(ctx context.Context, prefix string) iter.Seq2[upload, error] {
	return func(yield func(upload, error) bool) {
		in := &sdk.ListMultipartUploadsInput{Bucket: &s.bucket, Prefix: &prefix, EncodingType: types.EncodingTypeUrl}
		for {
			ctx, r := withReply(ctx)
			page, err := s.client.ListMultipartUploads(ctx, in)
			if err := understand(ctx, r, err); noUploads(err) {
				return
			} else if err != nil {
				yield(upload{}, err)
				return
			}
			encoded := page.EncodingType == types.EncodingTypeUrl
			for _, u := range page.Uploads {
				key, err := decodeListed(aws.ToString(u.Key), encoded)
				if !yield(upload{key, aws.ToString(u.UploadId), aws.ToTime(u.Initiated)}, err) {
					return
				}
			}
			marker, err := decodeListed(aws.ToString(page.NextKeyMarker), encoded)
			if err != nil || !aws.ToBool(page.IsTruncated) || marker == aws.ToString(in.KeyMarker) && aws.ToString(page.NextUploadIdMarker) == aws.ToString(in.UploadIdMarker) {
				return
			}
			in.KeyMarker, in.UploadIdMarker = &marker, page.NextUploadIdMarker
		}
	}
}
