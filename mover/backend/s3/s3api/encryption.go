package s3api

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7/pkg/encrypt"

	"datamove.dev/mover"
)

// How a store encrypts what it keeps; see "Protecting data with server-side
// encryption" in the Amazon S3 user guide. The words are those of the header.
const (
	EncryptKMS     = "aws:kms"      // SSE-KMS: by a key of a key management service
	EncryptKMSDual = "aws:kms:dsse" // DSSE-KMS: twice
	EncryptStore   = "AES256"       // SSE-S3: by a key of the store's own
)

const (
	headerEncryption = "X-Amz-Server-Side-Encryption"
	headerKMSKey     = "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"
	headerBucketKey  = "X-Amz-Server-Side-Encryption-Bucket-Key-Enabled"
)

// Encryption is how an object is encrypted where it lies: as we ask for it, or as the
// store says. Its zero value is none.
type Encryption struct{ Algorithm, Key string }

// EncryptionOf reads what the store says in the header of an answer.
func EncryptionOf(h http.Header) Encryption {
	return Encryption{h.Get(headerEncryption), h.Get(headerKMSKey)}
}

func (e Encryption) String() string {
	switch {
	case e.Algorithm == "":
		return "no encryption"
	case e.Key == "":
		return mover.Printable(e.Algorithm)
	}
	return mover.Printable(e.Algorithm) + " with key " + mover.Printable(e.Key)
}

// Marshal implements encrypt.ServerSide of minio-go, which itself has no DSSE-KMS and no
// bucket key.
func (e Encryption) Marshal(h http.Header) {
	if e.Algorithm == "" {
		return
	}
	h.Set(headerEncryption, e.Algorithm)
	if e.Key != "" {
		h.Set(headerKMSKey, e.Key)
	}
	if e.bucketKey() {
		h.Set(headerBucketKey, "true")
	}
}

// Type implements encrypt.ServerSide.
func (e Encryption) Type() encrypt.Type {
	if e.Algorithm == EncryptStore {
		return encrypt.S3
	}
	return encrypt.KMS
}

// bucketKey reports whether a key that S3 keeps for the bucket for a time may be used: a call to KMS, and
// its price, is then not for each object. DSSE-KMS has none.
func (e Encryption) bucketKey() bool { return e.Algorithm == EncryptKMS }

// Encryptions are the algorithms that a store can be asked for.
var Encryptions = []string{EncryptKMS, EncryptKMSDual, EncryptStore}

// kmsKeyBytes bounds the name of a key: that of an ARN in the API of KMS.
const kmsKeyBytes = 2048

// Check refuses what no store could be asked for.
func (e Encryption) Check() error {
	switch {
	case e.Algorithm != "" && !slices.Contains(Encryptions, e.Algorithm):
		return fmt.Errorf("encryption %q is none of %s: %w", e.Algorithm, strings.Join(Encryptions, ", "), mover.ErrUsage)
	case e.Key != "" && e.Algorithm != EncryptKMS && e.Algorithm != EncryptKMSDual:
		return fmt.Errorf("there is a KMS key, and encryption is %q; a key is for %s and %s: %w", e.Algorithm, EncryptKMS, EncryptKMSDual, mover.ErrUsage)
	case !ValidKMSKey(e.Key):
		return fmt.Errorf("KMS key %q is no ARN, id or alias/NAME: %w", e.Key, mover.ErrUsage)
	}
	return nil
}

// ValidKMSKey reports whether s can name a key in a header; "" is the store's usual one.
func ValidKMSKey(s string) bool {
	return len(s) <= kmsKeyBytes && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// arn is the name of a key in AWS: "arn:PARTITION:kms:REGION:ACCOUNT:key/ID" or
// ":alias/NAME". MinIO says "arn:aws:kms:NAME".
type arn struct{ partition, region, account, resource string }

func parseARN(s string) (a arn, ok bool) {
	f := strings.SplitN(s, ":", 6)
	if len(f) < 4 || f[0] != "arn" || f[2] != "kms" {
		return a, false
	}
	if len(f) < 6 {
		return arn{partition: f[1], resource: strings.Join(f[3:], ":")}, true
	}
	return arn{f[1], f[3], f[4], f[5]}, true
}

// Answers reports whether what a store says is what it was asked for, as far as one can
// tell from names. A key that is asked for by its id is said by its ARN; one that is
// asked for by an alias is said by the key that it stands for, of which only the
// region and the account can be compared. region is that of the bucket: a key is in it.
func (e Encryption) Answers(said Encryption, region string) bool {
	switch {
	case said.Algorithm != e.Algorithm:
		return false
	case e.Algorithm == EncryptStore:
		return true
	case said.Key == "":
		return false // it does not say by which
	case e.Key == "" || said.Key == e.Key:
		return true
	}
	of, ok := parseARN(said.Key)
	if !ok {
		return false
	}
	asked, full := parseARN(e.Key)
	alias := strings.HasPrefix(cmp.Or(asked.resource, e.Key), "alias/")
	switch {
	case full && alias:
		return asked.partition == of.partition && asked.region == of.region && asked.account == of.account
	case full:
		return false
	case alias:
		return of.region == region && of.account != ""
	}
	return of.resource == e.Key || of.resource == "key/"+e.Key
}
