package s3api_test

import (
	"context"
	"testing"

	"datamove.dev/mover/backend/s3/s3api"
)

// TestSession: who asks other services of AWS has the keys of the bucket's options, also those that are renewed.
func TestSession(t *testing.T) {
	for what, o := range map[string]s3api.Options{
		"lines":   {KeyText: "AWS_ACCESS_KEY_ID=abc\nAWS_SECRET_ACCESS_KEY=def\n", Region: "eu-central-1"},
		"renewed": {Renew: func(context.Context) (s3api.Keys, error) { return s3api.Keys{AccessKey: "abc", SecretKey: "def"}, nil }, Region: "eu-central-1"},
	} {
		s, err := s3api.NewSession(t.Context(), o)
		if err != nil || s.Region != "eu-central-1" {
			t.Fatalf("%s: %v in %q", what, err, s.Region)
		}
		if keys, err := s.Keys.Retrieve(t.Context()); err != nil || keys.AccessKeyID != "abc" || keys.SecretAccessKey != "def" {
			t.Errorf("%s: %v", what, err)
		}
	}
}
