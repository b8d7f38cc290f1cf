package s3api

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/ssocreds"
	"github.com/aws/smithy-go"

	"datamove.dev/mover"
	"datamove.dev/mover/remedy"
)

// keysCheckEvery is how often a file of keys is looked at.
const keysCheckEvery = 30 * time.Second

// keys returns the credentials that o names.
func (o *Options) keys(ctx context.Context, env ambient) (renewer, error) {
	if o.Renew != nil {
		return o.renewal(), nil
	}
	if o.KeyText != "" {
		v, err := parseKeys([]byte(o.KeyText))
		return static{v}, err
	}
	if path, ok := strings.CutPrefix(o.Credentials, "file:"); ok {
		f := &keyFile{path: path}
		_, err := f.Retrieve(ctx)
		return f, err
	}
	switch {
	case o.Credentials == "anonymous":
		return anonymous{}, nil
	case o.Credentials == "", o.Credentials == "env", strings.HasPrefix(o.Credentials, "profile:"):
		return o.chain(env)
	}
	return nil, fmt.Errorf("credentials %q are none of env, file:PATH, profile:NAME, anonymous: %w", o.Credentials, mover.ErrUsage)
}

// anonymous are credentials without keys. The SDK does not sign with them.
type anonymous struct {
	aws.AnonymousCredentials
	static
}

func (a anonymous) Retrieve(ctx context.Context) (aws.Credentials, error) {
	return a.AnonymousCredentials.Retrieve(ctx)
}

// chain gives the keys of the environment, or else what the chain of the AWS SDK finds.
func (o *Options) chain(env ambient) (renewer, error) {
	if o.ofEnvironment() {
		v := aws.Credentials{AccessKeyID: os.Getenv(accessVariable), SecretAccessKey: os.Getenv(secretVariable), SessionToken: os.Getenv("AWS_SESSION_TOKEN"), Source: "env"}
		if v.SecretAccessKey == "" {
			return nil, fmt.Errorf("%s is set, and %s is not: %w", accessVariable, secretVariable, mover.ErrUsage)
		}
		return static{v}, nil
	}
	if o.Credentials == "env" {
		return nil, fmt.Errorf("credentials from the environment, but %s is not set: %w", accessVariable, mover.ErrUsage)
	}
	loaded := env.loaded
	return newRing(o, func(ctx context.Context) (aws.Credentials, error) {
		found := loaded // what was read first, and once more whenever others are wanted: its files may have changed
		loaded = aws.Config{}
		if found.Credentials == nil {
			var err error
			if found, err = env.load(ctx); err != nil {
				return aws.Credentials{}, err
			}
		}
		v, err := found.Credentials.Retrieve(ctx)
		return v, o.notFound(err)
	}), nil
}

// unfound says why the chain of the AWS SDK has found no keys. Another try finds none either, unless there were some before.
type unfound struct {
	error
	cause string
}

func (u *unfound) Cause() string   { return u.cause }
func (u *unfound) Unwrap() []error { return []error{u.error, mover.ErrPermission} }

// notFound says why the chain finds no keys, in our words; what may pass stays as it is.
func (o *Options) notFound(err error) error {
	var call *smithy.OperationError
	var api smithy.APIError
	var token *ssocreds.InvalidTokenError
	var process *processcreds.ProviderError
	profile := cmp.Or(o.profile(), "default")
	switch {
	case err == nil:
		return nil
	case errors.As(err, &call) && call.Service() == "ec2imds":
		unset, verb := "", "is"
		if o.Tier != "" && o.Credentials == "" {
			unset, verb = "credentials: of tier "+mover.Printable(o.Tier)+" and ", "are"
		}
		return &unfound{fmt.Errorf("%w: no credentials: %s%s %s not set, profile %s has no keys, and this machine gives out none", mover.ErrPermission, unset, accessVariable, verb, profile), remedy.NoKeys}
	case errors.As(err, &api):
		return &unfound{fmt.Errorf("%w: no credentials: %w for profile %s", mover.ErrPermission, SaidOf(err), profile), remedy.NoKeys}
	case errors.As(err, &token):
		return &unfound{fmt.Errorf("%w: no credentials: the SSO session of profile %s has ended", mover.ErrPermission, profile), "ExpiredToken"}
	case errors.As(err, &process):
		return &unfound{fmt.Errorf("%w: no credentials: credential_process of profile %s: %w", mover.ErrPermission, profile, process.Err), remedy.NoKeys}
	}
	return err
}

// SaidOf is what an API of AWS said, without the identity of the request; err as it is where it said nothing.
func SaidOf(err error) error {
	var call *smithy.OperationError
	var api smithy.APIError
	if !errors.As(err, &call) || !errors.As(err, &api) {
		return bared(err)
	}
	return fmt.Errorf("%s %s: %s (%s)", call.Service(), call.Operation(), mover.Printable(strings.TrimRight(api.ErrorMessage(), ". ")), mover.Printable(api.ErrorCode()))
}

// profile is the name of the profile with the keys; "" is that of the SDK.
func (o *Options) profile() string {
	if named, ok := strings.CutPrefix(o.Credentials, "profile:"); ok {
		return named
	}
	return os.Getenv(profileVariable)
}

// origin is where the keys are from, for people, with what they are for.
func (o *Options) origin(v aws.Credentials) string {
	if o.Credentials == "anonymous" {
		return "without keys" + o.purpose() + ": credentials: anonymous"
	}
	return "with the keys of " + o.giver(v) + o.purpose()
}

// purpose is what the keys are for; "" is nothing in particular.
func (o *Options) purpose() string {
	if o.Tier == "" {
		return ""
	}
	return " for tier " + mover.Printable(o.Tier)
}

// giver is what has the keys. Those that Renew gives are the agent's.
func (o *Options) giver(v aws.Credentials) string {
	given := ""
	if o.Renew != nil {
		given = " of the agent"
	}
	path, ofFile := strings.CutPrefix(o.Credentials, "file:")
	switch {
	case ofFile:
		return mover.Printable(path)
	case given != "" && o.Credentials == "env", given == "" && o.ofEnvironment():
		return accessVariable + given
	case given != "" && !strings.HasPrefix(o.Credentials, "profile:"):
		return strings.TrimPrefix(given, " of ")
	case o.profile() != "":
		return "profile " + mover.Printable(o.profile()) + given
	}
	kind, _, _ := strings.Cut(v.Source, ":") // "SharedConfigCredentials: /home/…"
	return cmp.Or(givers[kind], kind, "profile default")
}

// givers are the sources of the AWS SDK, as its documents call them.
var givers = map[string]string{ //nolint:gosec // names of sources, and no secrets
	"EC2RoleProvider":             "the role of this instance",
	"CredentialsEndpointProvider": "the role of this container",
	"WebIdentityCredentials":      "the role of AWS_ROLE_ARN",
	"AssumeRoleProvider":          "the role of profile default",
	"SSOProvider":                 "the SSO session of profile default",
	"ProcessProvider":             "credential_process of profile default",
	"LoginProvider":               "the login session of profile default",
	"SharedConfigCredentials":     "profile default",
}

// keyFile reads credentials from a file of lines like those of a shell or of
// systemd, and again when the file changes, so that keys can be rotated.
type keyFile struct {
	path string

	mu      sync.Mutex // guards all below
	checked time.Time
	written time.Time
	value   aws.Credentials
	refused string // the identity of keys that the store does not take any more
}

// Retrieve implements aws.CredentialsProvider. While the file is being written, what it
// said before counts, unless the store does not take that any more.
func (f *keyFile) Retrieve(context.Context) (aws.Credentials, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ended := f.value.HasKeys() && identity(f.value) == f.refused
	if f.value.HasKeys() && !ended && time.Since(f.checked) < keysCheckEvery {
		return f.value, nil
	}
	err := f.look(ended)
	switch {
	case !f.value.HasKeys():
		return aws.Credentials{}, err
	case identity(f.value) != f.refused:
		return f.value, nil
	case err != nil:
		return aws.Credentials{}, waiting("the store says that the credentials of %s have ended, and it has no others: %v", mover.Printable(f.path), err)
	}
	return aws.Credentials{}, waiting("the store says that the credentials of %s have ended, and it has no others yet", mover.Printable(f.path))
}

// look reads the file when it has changed, or in any case; mu is held.
func (f *keyFile) look(anyway bool) error {
	info, err := os.Stat(f.path)
	if err != nil {
		return &caused{fmt.Errorf("credentials: %w", err), remedy.NoKeyFile}
	}
	if f.value.HasKeys() && info.ModTime().Equal(f.written) && !anyway {
		f.checked = time.Now()
		return nil
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return &caused{fmt.Errorf("credentials: %w", err), remedy.NoKeyFile}
	}
	v, err := parseKeys(text)
	if err != nil {
		return fmt.Errorf("credentials file %s: %w", mover.Printable(f.path), err)
	}
	f.checked, f.value, f.written = time.Now(), v, info.ModTime()
	return nil
}

func (f *keyFile) over(used string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if identity(f.value) == used {
		f.refused = used
	}
	return true
}

func (f *keyFile) doubt(used string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if identity(f.value) == used {
		_ = f.look(true) // then it has no others
	}
	return identity(f.value) != used
}

// ParseKeys reads the lines of a credentials file.
func ParseKeys(text string) (Keys, error) {
	v, err := parseKeys([]byte(text))
	return Keys{AccessKey: v.AccessKeyID, SecretKey: Secret(v.SecretAccessKey), SessionToken: Secret(v.SessionToken)}, err
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
