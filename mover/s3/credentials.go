package s3

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"

	"datamove.dev/mover"
)

// keysCheckEvery is how often a file of keys is looked at.
const keysCheckEvery = 30 * time.Second

// keys returns the credentials that o names, and fills in the region.
func (o *Options) keys(ctx context.Context, roots *x509.CertPool) (aws.CredentialsProvider, error) {
	if o.KeyText != "" {
		o.Region = o.region("")
		v, err := parseKeys([]byte(o.KeyText))
		return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return v, nil }), err
	}
	if path, ok := strings.CutPrefix(o.Credentials, "file:"); ok {
		o.Region = o.region("")
		f := &keyFile{path: path}
		_, err := f.Retrieve(ctx)
		return f, err
	}
	switch {
	case o.Credentials == "anonymous":
		o.Region = o.region("")
		return aws.AnonymousCredentials{}, nil
	case o.Credentials == "", o.Credentials == "env", strings.HasPrefix(o.Credentials, "profile:"):
		return o.chain(ctx, roots)
	}
	return nil, fmt.Errorf("credentials %q are none of env, file:PATH, profile:NAME, anonymous: %w", o.Credentials, mover.ErrUsage)
}

func (o *Options) region(configured string) string {
	for _, region := range []string{o.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), configured} {
		if region != "" {
			return region
		}
	}
	return defaultRegion
}

// chain asks the AWS SDK. Its calls go over a client that merges AWS_CA_BUNDLE,
// because the SDK refuses any other one while that is set.
func (o *Options) chain(ctx context.Context, roots *x509.CertPool) (aws.CredentialsProvider, error) {
	if access := os.Getenv("AWS_ACCESS_KEY_ID"); access != "" && !strings.HasPrefix(o.Credentials, "profile:") && os.Getenv("AWS_PROFILE") == "" {
		o.Region = o.region("") // spares reading the configuration
		v := aws.Credentials{AccessKeyID: access, SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: os.Getenv("AWS_SESSION_TOKEN"), Source: "env"}
		return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return v, nil }), nil
	}
	if o.Credentials == "env" {
		return nil, fmt.Errorf("credentials from the environment, but AWS_ACCESS_KEY_ID is not set: %w", mover.ErrUsage)
	}
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.TLSClientConfig.RootCAs = roots })
	options := []func(*config.LoadOptions) error{config.WithHTTPClient(client), config.WithSharedConfigProfile(strings.TrimPrefix(o.Credentials, "profile:"))}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("AWS configuration: %w: %w", mover.ErrUsage, err)
	}
	o.Region = o.region(loaded.Region)
	return aws.NewCredentialsCache(loaded.Credentials), nil
}

// keyFile reads credentials from a file of lines like those of a shell or of
// systemd, and again when the file changes, so that keys can be rotated.
type keyFile struct {
	path string

	mu      sync.Mutex // guards all below
	checked time.Time
	written time.Time
	value   aws.Credentials
}

// Retrieve implements aws.CredentialsProvider.
func (f *keyFile) Retrieve(context.Context) (aws.Credentials, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.value.HasKeys() && time.Since(f.checked) < keysCheckEvery {
		return f.value, nil
	}
	info, err := os.Stat(f.path)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("credentials: %w", err)
	}
	f.checked = time.Now()
	if f.value.HasKeys() && info.ModTime().Equal(f.written) {
		return f.value, nil
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("credentials: %w", err)
	}
	v, err := parseKeys(text)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("credentials file %s: %w", mover.Printable(f.path), err)
	}
	f.value, f.written = v, info.ModTime()
	return v, nil
}

// parseKeys reads lines NAME=value; "export", quotes, comments and other names are
// allowed. It never repeats a value in an error.
func parseKeys(text []byte) (aws.Credentials, error) {
	v := aws.Credentials{Source: "file"}
	fields := map[string]*string{
		"AWS_ACCESS_KEY_ID": &v.AccessKeyID, "AWS_SECRET_ACCESS_KEY": &v.SecretAccessKey, "AWS_SESSION_TOKEN": &v.SessionToken,
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := strings.TrimPrefix(strings.TrimSpace(lines.Text()), "export ")
		name, value, ok := strings.Cut(line, "=")
		if field := fields[strings.TrimSpace(name)]; ok && field != nil {
			*field = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	if !v.HasKeys() {
		return v, fmt.Errorf("needs a line AWS_ACCESS_KEY_ID=... and a line AWS_SECRET_ACCESS_KEY=...: %w", mover.ErrUsage)
	}
	return v, lines.Err()
}
