package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend/meta"
)

// etags gives objects ETags as Amazon S3 does that encrypts by KMS: no MD5s, and another one for each object, of the same bytes too (API
// Reference, Object, ETag). Those of parts stay MD5s, which our client compares with nothing.
type etags struct{ meta.XattrMeta }

// StoreAttribute implements meta.MetadataStorer. What has no file, or no object, is copied from where it was.
func (e etags) StoreAttribute(f *os.File, bucket, object, attribute string, value []byte) error {
	if attribute == "etag" && f != nil && object != "" && !strings.HasPrefix(object, ".sgwtmp/") {
		_, parts, _ := strings.Cut(strings.Trim(string(value), `"`), "-")
		if parts != "" {
			parts = "-" + parts
		}
		var sum [16]byte
		_, _ = rand.Read(sum[:]) // it fails never
		value = fmt.Appendf(nil, "\"%x%s\"", sum, parts)
	}
	return e.XattrMeta.StoreAttribute(f, bucket, object, attribute, value)
}

// etag is what the attribute says of the version that was stored; versitygw answers with the MD5.
func (s strict) etag(ctx context.Context, bucket, key *string, version, said string) (string, error) {
	if !s.kms {
		return said, nil
	}
	o, err := s.Backend.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: key, VersionId: some(version)})
	if err != nil {
		return "", err
	}
	return *o.ETag, nil
}
