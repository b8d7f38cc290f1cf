package s3_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
)

// TestAmazon: without an endpoint, both clients ask AWS, by names that a dialer leads to a real server here: buckets are host names, and the server's
// certificate is for them.
func TestAmazon(t *testing.T) {
	amazon := s3test.StartAmazon(t)
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	for _, client := range []string{s3api.ClientAuto, s3api.ClientAWS, s3api.ClientMinio} {
		t.Run(client, func(t *testing.T) {
			o := amazon.Options(t)
			o.Endpoint, o.Client = "", client
			var asked []string
			p, err := s3.OpenBy(t.Context(), o, func(name string) string { asked = append(asked, name); return amazon.Address(name) })
			if err != nil {
				t.Fatalf("%v; asked for %q", err, asked)
			}
			defer p.Close()
			data := bytes.Repeat([]byte("x"), 100)
			out := p.Publish(t.Context(), []mover.Draft{drafted(t, p, "a b/ü", data)})[0]
			if out.Err != nil || out.Level != mover.Server {
				t.Fatalf("%+v", out)
			}
			if e, err := p.Stat(t.Context(), "a b/ü"); err != nil || e.Size != 100 {
				t.Errorf("%+v, %v", e, err)
			}
			for _, name := range asked {
				if name != amazon.Bucket+".s3.us-east-1.amazonaws.com:443" {
					t.Errorf("asked for %q", asked)
					break
				}
			}
		})
	}
	o := amazon.Options(t)
	o.Endpoint, o.Region = "", "eu-west-1"
	if p, err := s3.OpenBy(t.Context(), o, amazon.Address); err == nil {
		_ = p.Close()
		t.Error("a bucket of another region opens")
	}
}
