package s3api

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

func (s *amazon) Head(ctx context.Context, key, version string) (Object, error) {
	ctx, r := withReply(ctx)
	_, err := s.client.HeadObject(ctx, &sdk.HeadObjectInput{Bucket: &s.bucket, Key: &key, VersionId: optional(version)}, tellChecksum)
	if err := understand(ctx, r, err); err != nil {
		return Object{}, err
	}
	return objectOf(key, r.header), nil
}

func (s *amazon) Get(ctx context.Context, g Get) (io.ReadCloser, Object, error) {
	ctx, r := withReply(ctx)
	in := &sdk.GetObjectInput{Bucket: &s.bucket, Key: &g.Key, VersionId: optional(g.version), IfMatch: quoted(g.IfMatch)}
	var options []func(*sdk.Options)
	if g.N >= 0 {
		in.Range = aws.String(rangeHeader(g.Off, g.N))
	} else {
		options = append(options, tellChecksum)
	}
	out, err := s.client.GetObject(ctx, in, options...)
	if err := understand(ctx, r, err); err != nil {
		return nil, Object{}, err
	}
	return out.Body, objectOf(g.Key, r.header), nil
}

// apart is an error of a call for what the store tells apart.
func apart(err error) error {
	if wrong := (*xml.SyntaxError)(nil); errors.As(err, &wrong) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return otherAnswer(err)
	}
	return err
}

func (s *amazon) Tags(ctx context.Context, key string) (string, error) {
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

func (s *amazon) SetTags(ctx context.Context, key, tags string) error {
	ctx, r := withReply(ctx)
	in := &sdk.PutObjectTaggingInput{Bucket: &s.bucket, Key: &key, Tagging: &types.Tagging{}}
	for name, value := range decodeTags(tags) {
		in.Tagging.TagSet = append(in.Tagging.TagSet, types.Tag{Key: &name, Value: &value})
	}
	_, err := s.client.PutObjectTagging(ctx, in)
	return understand(ctx, r, err)
}

func (s *amazon) ACL(ctx context.Context, key string) (list AccessList, err error) {
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
			who := Grantee{ID: aws.ToString(to.ID), URI: aws.ToString(to.URI), EmailAddress: aws.ToString(to.EmailAddress)}
			list.Grants = append(list.Grants, grant{who, string(g.Permission)})
		}
	}
	return list, nil
}

func (s *amazon) Retention(ctx context.Context, key string) (mode, until string, err error) {
	ctx, r := withReply(ctx)
	out, err := s.client.GetObjectRetention(ctx, &sdk.GetObjectRetentionInput{Bucket: &s.bucket, Key: &key})
	if err := apart(understand(ctx, r, err)); err != nil || out.Retention == nil || out.Retention.RetainUntilDate == nil {
		return "", "", err
	}
	return string(out.Retention.Mode), out.Retention.RetainUntilDate.UTC().Format(time.RFC3339Nano), nil
}

func (s *amazon) LegalHold(ctx context.Context, key string) (string, error) {
	ctx, r := withReply(ctx)
	out, err := s.client.GetObjectLegalHold(ctx, &sdk.GetObjectLegalHoldInput{Bucket: &s.bucket, Key: &key})
	if err := apart(understand(ctx, r, err)); err != nil || out.LegalHold == nil {
		return "", err
	}
	return string(out.LegalHold.Status), nil
}

func (s *amazon) Ownership(ctx context.Context) (string, error) {
	ctx, r := withReply(ctx)
	out, err := s.client.GetBucketOwnershipControls(ctx, &sdk.GetBucketOwnershipControlsInput{Bucket: &s.bucket})
	if err := apart(understand(ctx, r, err)); err != nil || out.OwnershipControls == nil || len(out.OwnershipControls.Rules) == 0 {
		return "", err
	}
	return string(out.OwnershipControls.Rules[0].ObjectOwnership), nil
}

func (s *amazon) HasObjectLock(ctx context.Context) (bool, error) {
	ctx, r := withReply(ctx)
	out, err := s.client.GetObjectLockConfiguration(ctx, &sdk.GetObjectLockConfigurationInput{Bucket: &s.bucket})
	if err := apart(understand(ctx, r, err)); err != nil || out.ObjectLockConfiguration == nil {
		return false, err
	}
	return out.ObjectLockConfiguration.ObjectLockEnabled == types.ObjectLockEnabledEnabled, nil
}

func (s *amazon) List(ctx context.Context, l Listing) iter.Seq2[[]Object, error] {
	return func(yield func([]Object, error) bool) {
		in := &sdk.ListObjectsV2Input{
			Bucket: &s.bucket, Prefix: &l.Prefix, Delimiter: optional(l.Delimiter), StartAfter: optional(l.After),
			EncodingType: types.EncodingTypeUrl, MaxKeys: aws.Int32(int32(cmp.Or(l.Max, PageKeys))),
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

func pageOf(out *sdk.ListObjectsV2Output) ([]Object, error) {
	encoded := out.EncodingType == types.EncodingTypeUrl // some servers ignore that we asked
	page := make([]Object, 0, len(out.Contents)+len(out.CommonPrefixes))
	for _, o := range out.Contents {
		key, err := decodeListed(aws.ToString(o.Key), encoded)
		if err != nil {
			return nil, err
		}
		page = append(page, Object{Key: key, Size: aws.ToInt64(o.Size), ETag: trimETag(aws.ToString(o.ETag)), Modified: aws.ToTime(o.LastModified)})
	}
	for _, p := range out.CommonPrefixes {
		key, err := decodeListed(aws.ToString(p.Prefix), encoded)
		if err != nil {
			return nil, err
		}
		page = append(page, Object{Key: key, Size: -1})
	}
	return page, nil
}

func decodeListed(key string, encoded bool) (string, error) {
	if !encoded {
		return key, nil
	}
	return url.QueryUnescape(key)
}

func (s *amazon) Put(ctx context.Context, w Put) (Stored, error) {
	ctx, r := withReply(ctx)
	r.data = w.Data
	in := &sdk.PutObjectInput{
		Bucket: &s.bucket, Key: &w.Key, Body: w.reader(), ContentLength: aws.Int64(w.length()), ContentType: aws.String(w.MediaType()),
		Metadata: w.Metadata, ChecksumCRC64NVME: optional(w.checksum()), IfMatch: optional(w.condition()),
	}
	if w.IfNoneMatch {
		in.IfNoneMatch = aws.String("*")
	}
	in.ServerSideEncryption, in.SSEKMSKeyId, in.BucketKeyEnabled = w.Encryption.sdk()
	_, err := s.client.PutObject(ctx, in, unsigned, saying(w.AllHeaders()))
	if err := understand(ctx, r, err); err != nil {
		return Stored{}, err
	}
	return storedBy(r), nil
}

func (s *amazon) Copy(ctx context.Context, from Source, to Put) (Stored, error) {
	ctx, r := withReply(ctx)
	in := &sdk.CopyObjectInput{
		Bucket: &s.bucket, Key: &to.Key, CopySource: aws.String(from.path()), CopySourceIfMatch: quoted(from.IfMatch),
		MetadataDirective: types.MetadataDirectiveReplace, Metadata: to.Metadata, ContentType: aws.String(to.MediaType()),
	}
	in.ServerSideEncryption, in.SSEKMSKeyId, in.BucketKeyEnabled = to.Encryption.sdk()
	out, err := s.client.CopyObject(ctx, in, saying(to.copyHeaders()))
	if err := understand(ctx, r, err); err != nil {
		return Stored{}, err
	}
	got := Stored{Version: aws.ToString(out.VersionId), Encryption: EncryptionOf(r.header)}
	if out.CopyObjectResult != nil {
		got.ETag = trimETag(aws.ToString(out.CopyObjectResult.ETag))
		got.CRC = aws.ToString(out.CopyObjectResult.ChecksumCRC64NVME)
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
func (f Source) path() string {
	return (&url.URL{Path: f.Bucket + "/" + f.Key}).EscapedPath()
}

func (s *amazon) Remove(ctx context.Context, key, version, ifMatch string) error {
	ctx, r := withReply(ctx)
	_, err := s.client.DeleteObject(ctx, &sdk.DeleteObjectInput{Bucket: &s.bucket, Key: &key, VersionId: optional(version), IfMatch: quoted(ifMatch)})
	return understand(ctx, r, err)
}

// sdk is the encryption in the words of the SDK.
func (e Encryption) sdk() (algorithm types.ServerSideEncryption, key *string, bucketKey *bool) {
	if e.bucketKey() {
		bucketKey = aws.Bool(true)
	}
	return types.ServerSideEncryption(e.Algorithm), optional(e.Key), bucketKey
}

func (s *amazon) CreateUpload(ctx context.Context, w Put) (Begun, error) {
	ctx, r := withReply(ctx)
	in := &sdk.CreateMultipartUploadInput{Bucket: &s.bucket, Key: &w.Key, ContentType: aws.String(w.MediaType()), Metadata: w.Metadata}
	if w.FullObject {
		in.ChecksumAlgorithm, in.ChecksumType = types.ChecksumAlgorithmCrc64nvme, types.ChecksumTypeFullObject
	}
	in.ServerSideEncryption, in.SSEKMSKeyId, in.BucketKeyEnabled = w.Encryption.sdk()
	out, err := s.client.CreateMultipartUpload(ctx, in, saying(w.AllHeaders()))
	if err := understand(ctx, r, err); err != nil {
		return Begun{}, err
	}
	return Begun{aws.ToString(out.UploadId), EncryptionOf(r.header)}, nil
}

func (s *amazon) UploadPart(ctx context.Context, u Upload, number int, w Put) (Stored, error) {
	ctx, r := withReply(ctx)
	r.data = w.Data
	_, err := s.client.UploadPart(ctx, &sdk.UploadPartInput{
		Bucket: &s.bucket, Key: &u.Key, UploadId: &u.ID, PartNumber: aws.Int32(int32(number)),
		Body: w.reader(), ContentLength: aws.Int64(w.length()), ChecksumCRC64NVME: optional(w.CRC),
	}, unsigned)
	if err := understand(ctx, r, err); err != nil {
		return Stored{}, err
	}
	got := storedBy(r)
	got.Number, got.size = number, w.length()
	return got, nil
}

func (s *amazon) CopyPart(ctx context.Context, u Upload, number int, from Source, off, n int64) (Stored, error) {
	ctx, r := withReply(ctx)
	out, err := s.client.UploadPartCopy(ctx, &sdk.UploadPartCopyInput{
		Bucket: &s.bucket, Key: &u.Key, UploadId: &u.ID, PartNumber: aws.Int32(int32(number)),
		CopySource: aws.String(from.path()), CopySourceIfMatch: quoted(from.IfMatch), CopySourceRange: aws.String(rangeHeader(off, n)),
	})
	if err := understand(ctx, r, err); err != nil {
		return Stored{}, err
	}
	got := Stored{Number: number, size: n}
	if out.CopyPartResult != nil {
		got.ETag = trimETag(aws.ToString(out.CopyPartResult.ETag))
		got.CRC = aws.ToString(out.CopyPartResult.ChecksumCRC64NVME)
	}
	return got, nil
}

func (s *amazon) CompleteUpload(ctx context.Context, u Upload, parts []Stored, w Put) (Stored, error) {
	ctx, r := withReply(ctx)
	list := make([]types.CompletedPart, len(parts))
	for i, p := range parts {
		list[i] = types.CompletedPart{PartNumber: aws.Int32(int32(p.Number)), ETag: quoted(p.ETag)}
		if w.FullObject {
			list[i].ChecksumCRC64NVME = optional(p.CRC)
		}
	}
	in := &sdk.CompleteMultipartUploadInput{
		Bucket: &s.bucket, Key: &u.Key, UploadId: &u.ID, MultipartUpload: &types.CompletedMultipartUpload{Parts: list}, IfMatch: optional(w.condition()),
	}
	if w.IfNoneMatch {
		in.IfNoneMatch = aws.String("*")
	}
	if w.FullObject && w.CRC != "" {
		in.ChecksumCRC64NVME, in.ChecksumType = &w.CRC, types.ChecksumTypeFullObject
	}
	out, err := s.client.CompleteMultipartUpload(ctx, in)
	if err := understand(ctx, r, err); err != nil {
		return Stored{}, err
	}
	return Stored{
		ETag: trimETag(aws.ToString(out.ETag)), Version: aws.ToString(out.VersionId), CRC: aws.ToString(out.ChecksumCRC64NVME),
		Encryption: EncryptionOf(r.header),
	}, nil
}

func (s *amazon) AbortUpload(ctx context.Context, u Upload) error {
	ctx, r := withReply(ctx)
	_, err := s.client.AbortMultipartUpload(ctx, &sdk.AbortMultipartUploadInput{Bucket: &s.bucket, Key: &u.Key, UploadId: &u.ID})
	return understand(ctx, r, err)
}

func (s *amazon) ListParts(ctx context.Context, u Upload) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		in := &sdk.ListPartsInput{Bucket: &s.bucket, Key: &u.Key, UploadId: &u.ID}
		for marker := 0; ; {
			ctx, r := withReply(ctx)
			page, err := s.client.ListParts(ctx, in)
			if err := understand(ctx, r, err); err != nil {
				yield(Stored{}, err)
				return
			}
			for _, p := range page.Parts {
				got := Stored{Number: int(aws.ToInt32(p.PartNumber)), size: aws.ToInt64(p.Size), ETag: trimETag(aws.ToString(p.ETag)), CRC: aws.ToString(p.ChecksumCRC64NVME)}
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

func (s *amazon) ListUploads(ctx context.Context, prefix string) iter.Seq2[Upload, error] {
	return func(yield func(Upload, error) bool) {
		in := &sdk.ListMultipartUploadsInput{Bucket: &s.bucket, Prefix: &prefix, EncodingType: types.EncodingTypeUrl}
		for {
			ctx, r := withReply(ctx)
			page, err := s.client.ListMultipartUploads(ctx, in)
			if err := understand(ctx, r, err); noUploads(err) {
				return
			} else if err != nil {
				yield(Upload{}, err)
				return
			}
			encoded := page.EncodingType == types.EncodingTypeUrl
			for _, u := range page.Uploads {
				key, err := decodeListed(aws.ToString(u.Key), encoded)
				if !yield(Upload{key, aws.ToString(u.UploadId), aws.ToTime(u.Initiated)}, err) {
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
