package s3api

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"datamove.dev/mover"
)

// TestAnswers: what a store says is compared with what it was asked for as far as names go.
func TestAnswers(t *testing.T) {
	const (
		id    = "1234abcd-12ab-34cd-56ef-1234567890ab"
		key   = "arn:aws:kms:eu-central-1:111122223333:key/" + id
		other = "arn:aws:kms:eu-central-1:111122223333:key/99999999-12ab-34cd-56ef-1234567890ab"
		alias = "arn:aws:kms:eu-central-1:111122223333:alias/train"
	)
	for _, row := range []struct {
		what        string
		asked, said Encryption
		want        bool
	}{
		{"by the store's own key", Encryption{EncryptStore, ""}, Encryption{EncryptStore, ""}, true},
		{"not at all", Encryption{EncryptStore, ""}, Encryption{}, false},
		{"a weaker algorithm", Encryption{EncryptKMS, key}, Encryption{EncryptStore, ""}, false},
		{"once instead of twice", Encryption{EncryptKMSDual, key}, Encryption{EncryptKMS, key}, false},
		{"twice", Encryption{EncryptKMSDual, key}, Encryption{EncryptKMSDual, key}, true},
		{"small letters are another word", Encryption{EncryptStore, ""}, Encryption{"aes256", ""}, false},
		{"the usual key", Encryption{EncryptKMS, ""}, Encryption{EncryptKMS, key}, true},
		{"a key that is not said", Encryption{EncryptKMS, ""}, Encryption{EncryptKMS, ""}, false},
		{"the key", Encryption{EncryptKMS, key}, Encryption{EncryptKMS, key}, true},
		{"another key", Encryption{EncryptKMS, key}, Encryption{EncryptKMS, other}, false},
		{"an ARN, said by its id: a key of that id may be in every region", Encryption{EncryptKMS, key}, Encryption{EncryptKMS, id}, false},
		{"an id", Encryption{EncryptKMS, id}, Encryption{EncryptKMS, key}, true},
		{"an id, said as it is", Encryption{EncryptKMS, id}, Encryption{EncryptKMS, id}, true},
		{"another id", Encryption{EncryptKMS, id}, Encryption{EncryptKMS, other}, false},
		{"an id that ends another", Encryption{EncryptKMS, id[1:]}, Encryption{EncryptKMS, key}, false},
		{"a name, as MinIO says it", Encryption{EncryptKMS, "train"}, Encryption{EncryptKMS, "arn:aws:kms:train"}, true},
		{"another name", Encryption{EncryptKMS, "train"}, Encryption{EncryptKMS, "arn:aws:kms:test"}, false},
		{"an alias", Encryption{EncryptKMS, "alias/train"}, Encryption{EncryptKMS, key}, true},
		{"an alias, of another region", Encryption{EncryptKMS, "alias/train"}, Encryption{EncryptKMS, strings.Replace(key, "eu-central-1", "us-east-1", 1)}, false},
		{"an alias, said as what is no key of AWS", Encryption{EncryptKMS, "alias/train"}, Encryption{EncryptKMS, "something"}, false},
		{"the ARN of an alias", Encryption{EncryptKMS, alias}, Encryption{EncryptKMS, key}, true},
		{"the ARN of an alias, of another account", Encryption{EncryptKMS, alias}, Encryption{EncryptKMS, strings.Replace(key, "1111", "2222", 1)}, false},
		{"the ARN of an alias, of another partition", Encryption{EncryptKMS, alias}, Encryption{EncryptKMS, strings.Replace(key, "arn:aws:", "arn:aws-cn:", 1)}, false},
	} {
		if got := row.asked.Answers(row.said, "eu-central-1"); got != row.want {
			t.Errorf("%s: asked for %v, said %v: %v", row.what, row.asked, row.said, got)
		}
	}
}

// TestEncryptionHeaders has what is sent, as the API reference of S3 spells it.
func TestEncryptionHeaders(t *testing.T) {
	for _, row := range []struct {
		asked Encryption
		want  map[string]string
	}{
		{Encryption{}, nil},
		{Encryption{EncryptStore, ""}, map[string]string{"x-amz-server-side-encryption": "AES256"}},
		{Encryption{EncryptKMS, ""}, map[string]string{"x-amz-server-side-encryption": "aws:kms", "x-amz-server-side-encryption-bucket-key-enabled": "true"}},
		{Encryption{EncryptKMS, "k"}, map[string]string{"x-amz-server-side-encryption": "aws:kms", "x-amz-server-side-encryption-bucket-key-enabled": "true", "x-amz-server-side-encryption-aws-kms-key-id": "k"}},
		{Encryption{EncryptKMSDual, "k"}, map[string]string{"x-amz-server-side-encryption": "aws:kms:dsse", "x-amz-server-side-encryption-aws-kms-key-id": "k"}},
	} {
		h := http.Header{}
		row.asked.Marshal(h)
		for name, value := range row.want {
			if h.Get(name) != value {
				t.Errorf("%v: %s is %q, want %q", row.asked, name, h.Get(name), value)
			}
		}
		if len(h) != len(row.want) {
			t.Errorf("%v: %v", row.asked, h)
		}
	}
}

func TestCheckEncryption(t *testing.T) {
	for _, row := range []struct {
		encryption, key, why string
	}{
		{"", "", ""}, {EncryptKMS, "alias/a", ""}, {EncryptKMSDual, "", ""}, {EncryptStore, "", ""},
		{"aes256", "", "none of aws:kms"}, {EncryptStore, "k", "a key is for"}, {"", "k", "a key is for"},
		{EncryptKMS, "a\nb", "no ARN"}, {EncryptKMS, strings.Repeat("k", kmsKeyBytes+1), "no ARN"},
	} {
		err := Encryption{row.encryption, row.key}.Check()
		if (err == nil) != (row.why == "") || err != nil && (!errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.why)) {
			t.Errorf("%q %.9q: %v", row.encryption, row.key, err)
		}
	}
}
