package s3

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/test/must"
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
		asked, said encryption
		want        bool
	}{
		{"by the store's own key", encryption{EncryptStore, ""}, encryption{EncryptStore, ""}, true},
		{"not at all", encryption{EncryptStore, ""}, encryption{}, false},
		{"a weaker algorithm", encryption{EncryptKMS, key}, encryption{EncryptStore, ""}, false},
		{"once instead of twice", encryption{EncryptKMSDual, key}, encryption{EncryptKMS, key}, false},
		{"twice", encryption{EncryptKMSDual, key}, encryption{EncryptKMSDual, key}, true},
		{"small letters are another word", encryption{EncryptStore, ""}, encryption{"aes256", ""}, false},
		{"the usual key", encryption{EncryptKMS, ""}, encryption{EncryptKMS, key}, true},
		{"a key that is not said", encryption{EncryptKMS, ""}, encryption{EncryptKMS, ""}, false},
		{"the key", encryption{EncryptKMS, key}, encryption{EncryptKMS, key}, true},
		{"another key", encryption{EncryptKMS, key}, encryption{EncryptKMS, other}, false},
		{"an ARN, said by its id: a key of that id may be in every region", encryption{EncryptKMS, key}, encryption{EncryptKMS, id}, false},
		{"an id", encryption{EncryptKMS, id}, encryption{EncryptKMS, key}, true},
		{"an id, said as it is", encryption{EncryptKMS, id}, encryption{EncryptKMS, id}, true},
		{"another id", encryption{EncryptKMS, id}, encryption{EncryptKMS, other}, false},
		{"an id that ends another", encryption{EncryptKMS, id[1:]}, encryption{EncryptKMS, key}, false},
		{"a name, as MinIO says it", encryption{EncryptKMS, "train"}, encryption{EncryptKMS, "arn:aws:kms:train"}, true},
		{"another name", encryption{EncryptKMS, "train"}, encryption{EncryptKMS, "arn:aws:kms:test"}, false},
		{"an alias", encryption{EncryptKMS, "alias/train"}, encryption{EncryptKMS, key}, true},
		{"an alias, of another region", encryption{EncryptKMS, "alias/train"}, encryption{EncryptKMS, strings.Replace(key, "eu-central-1", "us-east-1", 1)}, false},
		{"an alias, said as what is no key of AWS", encryption{EncryptKMS, "alias/train"}, encryption{EncryptKMS, "something"}, false},
		{"the ARN of an alias", encryption{EncryptKMS, alias}, encryption{EncryptKMS, key}, true},
		{"the ARN of an alias, of another account", encryption{EncryptKMS, alias}, encryption{EncryptKMS, strings.Replace(key, "1111", "2222", 1)}, false},
		{"the ARN of an alias, of another partition", encryption{EncryptKMS, alias}, encryption{EncryptKMS, strings.Replace(key, "arn:aws:", "arn:aws-cn:", 1)}, false},
	} {
		if got := row.asked.answers(row.said, "eu-central-1"); got != row.want {
			t.Errorf("%s: asked for %v, said %v: %v", row.what, row.asked, row.said, got)
		}
	}
}

// TestHold: what an alias stands for is what the first answer says.
func TestHold(t *testing.T) {
	key := func(id string) encryption {
		return encryption{EncryptKMS, "arn:aws:kms:us-east-1:111122223333:key/" + id}
	}
	s := &encrypted{asked: encryption{EncryptKMS, "alias/train"}, where: "us-east-1"}
	if err := s.hold(encryption{}); !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), "alias/train, the store says no encryption") {
		t.Error(err)
	}
	if err := s.hold(key("one")); err != nil {
		t.Errorf("what was refused before counts: %v", err)
	}
	if err := s.hold(key("two")); !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), "key/one at first, and now aws:kms with key") {
		t.Error(err)
	}
	must.Tell(t, s.hold(key("one")))
}

// TestEncryptionHeaders has what is sent, as the API reference of S3 spells it.
func TestEncryptionHeaders(t *testing.T) {
	for _, row := range []struct {
		asked encryption
		want  map[string]string
	}{
		{encryption{}, nil},
		{encryption{EncryptStore, ""}, map[string]string{"x-amz-server-side-encryption": "AES256"}},
		{encryption{EncryptKMS, ""}, map[string]string{"x-amz-server-side-encryption": "aws:kms", "x-amz-server-side-encryption-bucket-key-enabled": "true"}},
		{encryption{EncryptKMS, "k"}, map[string]string{"x-amz-server-side-encryption": "aws:kms", "x-amz-server-side-encryption-bucket-key-enabled": "true", "x-amz-server-side-encryption-aws-kms-key-id": "k"}},
		{encryption{EncryptKMSDual, "k"}, map[string]string{"x-amz-server-side-encryption": "aws:kms:dsse", "x-amz-server-side-encryption-aws-kms-key-id": "k"}},
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
		err := (&Options{Encryption: row.encryption, KMSKey: row.key}).checkEncryption()
		if (err == nil) != (row.why == "") || err != nil && (!errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.why)) {
			t.Errorf("%q %.9q: %v", row.encryption, row.key, err)
		}
	}
}
