package s3api

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"datamove.dev/mover"
	"datamove.dev/mover/remedy"
)

// The variables that errors name.
const (
	accessVariable  = "AWS_ACCESS_KEY_ID"
	secretVariable  = "AWS_SECRET_ACCESS_KEY" //nolint:gosec // its name
	profileVariable = "AWS_PROFILE"
)

// ambient is what the AWS environment of this process says: its variables, and the shared configuration files
// ("Shared config and credentials files" in the AWS SDKs and Tools Reference Guide), read as the AWS SDK reads them.
type ambient struct {
	endpoint string // URL; "" is AWS
	source   string // what names it
	region   string // "" is not said
	bundle   string // file of authorities that a profile names; not where AWS_CA_BUNDLE does
	resolver sdk.EndpointResolverOptions

	loaded aws.Config                                // zero where no file had to be read
	load   func(context.Context) (aws.Config, error) // reads everything again
}

// ambient asks the variables, and reads the files where they can say something that neither the options nor the variables do.
func (o *Options) ambient(ctx context.Context, roots *x509.CertPool) (ambient, error) {
	env := ambient{region: cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))}
	if ignored, _ := strconv.ParseBool(os.Getenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")); !ignored {
		for _, env.source = range []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"} {
			if env.endpoint = os.Getenv(env.source); env.endpoint != "" {
				break
			}
		}
	}
	if !o.asksFiles(env) {
		return env, nil
	}
	if err := checkFiles(); err != nil {
		return env, err
	}
	profile, _ := strings.CutPrefix(o.Credentials, "profile:")
	if profile == o.Credentials {
		profile = "" // of $AWS_PROFILE, or default
	}
	// The SDK's own calls (STS, SSO) go over a client that merges AWS_CA_BUNDLE: it refuses any other one while that is set.
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.TLSClientConfig.RootCAs = roots })
	env.load = func(ctx context.Context) (aws.Config, error) {
		return config.LoadDefaultConfig(ctx, config.WithHTTPClient(client), config.WithSharedConfigProfile(profile), config.WithLogger(logging.LoggerFunc(o.tellSDK)))
	}
	var err error
	if env.loaded, err = env.load(ctx); err != nil {
		return env, o.badConfiguration(err)
	}
	resolved := sdk.NewFromConfig(env.loaded).Options()
	env.region, env.bundle = cmp.Or(env.region, env.loaded.Region), bundleOf(env.loaded)
	if env.endpoint == "" {
		env.endpoint, env.source = aws.ToString(resolved.BaseEndpoint), "endpoint_url of profile "+cmp.Or(o.profile(), "default")
	}
	env.resolver = resolved.EndpointOptions
	return env, nil
}

// tellSDK writes to our log what the SDK tries, as another version of a metadata service. The log of the SDK itself is stderr, at every level.
func (o *Options) tellSDK(_ logging.Classification, format string, args ...any) {
	if o.Logger != nil {
		o.Logger.Debug(mover.Printable(fmt.Sprintf(format, args...)))
	}
}

// says is what names the endpoint; "" are the options.
func (env *ambient) says(o *Options) string {
	if o.Endpoint != "" {
		return ""
	}
	return env.source
}

// badConfiguration says what is wrong with the shared configuration files.
func (o *Options) badConfiguration(err error) error {
	var none config.SharedConfigProfileNotExistError
	if !errors.As(err, &none) {
		return fmt.Errorf("AWS configuration: %w: %w", mover.ErrUsage, bared(err))
	}
	by := profileVariable
	if strings.HasPrefix(o.Credentials, "profile:") {
		by = "credentials: " + o.Credentials
	}
	return &caused{fmt.Errorf("%w: there is no profile %s (%s) in %s", mover.ErrUsage, mover.Printable(none.Profile), mover.Printable(by), strings.Join(sharedFiles(), " or ")), remedy.NoProfile}
}

// sharedFiles are the paths of the shared configuration files.
func sharedFiles() []string {
	return []string{cmp.Or(os.Getenv("AWS_CONFIG_FILE"), config.DefaultSharedConfigFilename()), cmp.Or(os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), config.DefaultSharedCredentialsFilename())}
}

// checkFiles refuses shared configuration files with lines that the SDK would pass over without a word.
func checkFiles() error {
	for _, path := range sharedFiles() {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the SDK says so, where it matters
		}
		if line := malformed(string(text)); line > 0 {
			return fmt.Errorf("AWS configuration: %w: line %d of %s is neither [section] nor name = value", mover.ErrUsage, line, mover.Printable(path))
		}
	}
	return nil
}

// malformed is the number of the first line that is neither empty, a comment, a [section], an entry, nor, being indented, one that goes on with what is
// above it; 0 is none.
func malformed(text string) int {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, " \t\r\n")
		switch {
		case line == "", strings.ContainsAny(line[:1], "#; \t"):
		case line[0] == '[':
			if !strings.Contains(line, "]") {
				return number
			}
		case !strings.ContainsAny(line, "=:"):
			return number
		}
	}
	return 0
}

// trusting is what the environment says, and the certificates to trust: nil is those of the system.
func (o *Options) trusting(ctx context.Context) (env ambient, roots *x509.CertPool, err error) {
	if roots, err = trustedRoots(os.Getenv("AWS_CA_BUNDLE"), o.CABundle); err != nil {
		return env, nil, err
	}
	if env, err = o.ambient(ctx, roots); err == nil && env.bundle != "" {
		roots, err = trustedRoots(env.bundle, o.CABundle)
	}
	return env, roots, err
}

// bundleOf is what ca_bundle of the profile says.
func bundleOf(loaded aws.Config) string {
	if os.Getenv("AWS_CA_BUNDLE") != "" {
		return ""
	}
	for _, source := range loaded.ConfigSources {
		if shared, ok := source.(config.SharedConfig); ok {
			return shared.CustomCABundle
		}
	}
	return ""
}

// asksFiles reports whether the shared configuration files count. They do not for a process that was given its keys.
// It may run with the UID of a user, and that user's files must not lead those keys elsewhere.
func (o *Options) asksFiles(env ambient) bool {
	switch {
	case o.KeyText != "" || o.Renew != nil:
		return false
	case o.Endpoint == "" && env.endpoint == "":
		return true
	case o.Credentials == "" || o.Credentials == "env":
		return !o.ofEnvironment()
	}
	return strings.HasPrefix(o.Credentials, "profile:")
}

// ofEnvironment reports whether the keys are those of the environment.
func (o *Options) ofEnvironment() bool {
	return os.Getenv(accessVariable) != "" && (o.Credentials == "env" || o.Credentials == "" && os.Getenv("AWS_PROFILE") == "")
}

// Resolved is o with what the AWS environment of this process says in places that o leaves open: endpoint, region, authorities, and the keys of a
// profile as they are now. It is for a process that has another environment. Nothing is asked of S3; the keys of a profile may come from STS or SSO.
func (o Options) Resolved(ctx context.Context) (Options, error) {
	ofProfile := strings.HasPrefix(o.Credentials, "profile:") && o.KeyText == ""
	var roots *x509.CertPool // of the calls for keys
	if ofProfile {
		var err error
		if roots, err = trustedRoots(os.Getenv("AWS_CA_BUNDLE"), o.CABundle); err != nil {
			return o, err
		}
	}
	env, err := o.ambient(ctx, roots)
	if err != nil {
		return o, err
	}
	o.Endpoint, o.Region, o.CABundle = cmp.Or(o.Endpoint, env.endpoint), cmp.Or(o.Region, env.region), cmp.Or(o.CABundle, env.bundle)
	if !ofProfile {
		return o, nil
	}
	v, err := env.loaded.Credentials.Retrieve(ctx)
	if err != nil {
		return o, fmt.Errorf("keys of %s: %w: %w", o.Credentials, mover.ErrPermission, o.notFound(err))
	}
	o.KeyText = fmt.Sprintf("AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s\n", v.AccessKeyID, v.SecretAccessKey)
	if v.SessionToken != "" {
		o.KeyText += "AWS_SESSION_TOKEN=" + v.SessionToken + "\n"
	}
	return o, nil
}
