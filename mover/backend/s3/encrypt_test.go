package s3

import (
	"errors"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/test/must"
)

// TestHold: what an alias stands for is what the first answer says.
func TestHold(t *testing.T) {
	key := func(id string) s3api.Encryption {
		return s3api.Encryption{Algorithm: s3api.EncryptKMS, Key: "arn:aws:kms:us-east-1:111122223333:key/" + id}
	}
	s := &encrypted{asked: s3api.Encryption{Algorithm: s3api.EncryptKMS, Key: "alias/train"}, where: "us-east-1"}
	if err := s.hold(s3api.Encryption{}); !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), "alias/train, the store says no encryption") {
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
