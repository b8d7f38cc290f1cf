package s3api

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"datamove.dev/mover"
)

// Client chooses the SDK that talks to the endpoint.
const (
	ClientAuto  = "auto"  // aws for AWS, minio for everything else
	ClientMinio = "minio" // minio-go
	ClientAWS   = "aws"   // aws-sdk-go-v2
)

// Options say where a bucket is, and how to reach it. Only Bucket has no default.
type Options struct {
	// Endpoint is a URL; "" is what the AWS environment says ($AWS_ENDPOINT_URL_S3, $AWS_ENDPOINT_URL, and endpoint_url of
	// the profile, also in its services section), or else AWS itself. With KeyText or Renew no configuration file is read.
	Endpoint string
	Region   string // "" is what the AWS environment says, or us-east-1
	// RequireRegion is the region that the bucket has to be in; "" is any. Another one, or a
	// store that does not say in which it is, is mover.ErrRefused (CheckRegion). Where Region is "", it is that one.
	RequireRegion string
	Bucket        string

	// PathStyle puts the bucket in the path instead of the host name. nil is path
	// style for everything but AWS.
	PathStyle *bool
	// Credentials is "env", "file:/path" (lines AWS_ACCESS_KEY_ID=, AWS_SECRET_ACCESS_KEY=
	// and AWS_SESSION_TOKEN=, read again when the file changes), "profile:NAME",
	// "anonymous", or "" for the chain of the AWS SDK.
	Credentials string
	// Tier is the tier that this is, for errors of its keys; "" is none.
	Tier string
	// KeyText is what a credentials file says, for a process that may not read it; it
	// goes before Credentials. "" is none.
	KeyText string
	// Renew gives keys that end, and is asked again before they do, or when the store says
	// that they have; one call at a time, from any goroutine. An error of it that is
	// mover.ErrPermission or ErrUsage is final. After any other one it is asked again, for as
	// long as the caller tries again. It goes before KeyText and Credentials.
	Renew func(ctx context.Context) (Keys, error)
	// CABundle is a file of certificates to trust beside the system's and those of
	// $AWS_CA_BUNDLE.
	CABundle string
	Client   string // ClientAuto and so on; "" is ClientAuto

	Parallel int           // calls in flight that connections are kept for; 0 is MaxParallel, which is the least
	Stall    time.Duration // how long a server may be silent; 0 means a minute
	Silence  time.Duration // how long nothing may come while Listen hears of changes; 0 means 25 s
	Logger   *slog.Logger  // nil means no log

	// Dial connects to the store; nil uses the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// ConnectTo is the host and port that connections to another one are made to; nil is that one itself.
	ConnectTo func(address string) (string, error)

	virtualHost bool                        // what PathStyle comes to
	resolver    sdk.EndpointResolverOptions // FIPS and dual-stack endpoints of AWS
}

// DefaultRegion is that of a bucket of which nothing says another one.
const DefaultRegion = "us-east-1"

// hostLabel is a bucket that the certificate *.s3.REGION.amazonaws.com covers.
var hostLabel = mover.Pattern(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`)

// complete checks the options and fills in what was left to us. An endpoint of nil is AWS, as its SDK finds it.
func (o *Options) complete(ambient ambient) (endpoint *url.URL, err error) {
	if !mover.ValidBucket(o.Bucket) {
		return nil, fmt.Errorf("%q is not the name of a bucket: %w", o.Bucket, mover.ErrUsage)
	}
	if err := o.completeRegion(); err != nil {
		return nil, err
	}
	if endpoint, err = parseEndpoint(cmp.Or(o.Endpoint, ambient.endpoint)); err != nil {
		return nil, fmt.Errorf("%s: %w", cmp.Or(ambient.says(o), "endpoint:"), err)
	}
	amazon := isAmazon(endpoint)
	o.Client = cmp.Or(o.Client, ClientAuto)
	switch {
	case o.Client == ClientAuto && amazon:
		o.Client = ClientAWS
	case o.Client == ClientAuto:
		o.Client = ClientMinio
	case o.Client != ClientAWS && o.Client != ClientMinio:
		return nil, fmt.Errorf("client %q is none of auto, minio, aws: %w", o.Client, mover.ErrUsage)
	}
	o.Region, o.resolver = cmp.Or(o.Region, ambient.region, DefaultRegion), ambient.resolver
	if o.Client == ClientMinio && endpoint == nil {
		endpoint = AmazonEndpoint(o.Region)
	}
	o.virtualHost = amazon && hostLabel().MatchString(o.Bucket)
	if o.PathStyle != nil {
		o.virtualHost = !*o.PathStyle
	}
	return endpoint, o.defaults()
}

// AmazonEndpoint is where S3 of a region is, for a client that does not know it by itself; see "Amazon S3 endpoints" in the AWS General Reference.
func AmazonEndpoint(region string) *url.URL {
	host := "s3." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		host += ".cn"
	}
	return &url.URL{Scheme: "https", Host: host}
}

// isAmazon reports whether an endpoint is one of AWS; nil is.
func isAmazon(endpoint *url.URL) bool {
	return endpoint == nil || strings.HasSuffix(endpoint.Hostname(), ".amazonaws.com") || strings.HasSuffix(endpoint.Hostname(), ".amazonaws.com.cn")
}

// completeRegion takes the region that the bucket has to be in for the one to sign for.
func (o *Options) completeRegion() error {
	switch {
	case o.RequireRegion == "":
		return nil
	case !validRegion(o.RequireRegion):
		return fmt.Errorf("required region %q is none: %w", o.RequireRegion, mover.ErrUsage)
	case o.Region != "" && o.Region != o.RequireRegion:
		return fmt.Errorf("region %s, and the bucket has to be in %s: %w", o.Region, o.RequireRegion, mover.ErrUsage)
	}
	o.Region = o.RequireRegion
	return nil
}

func (o *Options) defaults() error {
	if o.Parallel < 0 {
		return fmt.Errorf("%d calls in parallel: %w", o.Parallel, mover.ErrUsage)
	}
	o.Stall = cmp.Or(max(0, o.Stall), stallDefault)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

func parseEndpoint(s string) (*url.URL, error) {
	if s == "" {
		return nil, nil
	}
	u, err := url.Parse(s)
	if err == nil && strings.Trim(u.Path, "/") != "" && u.Host != "" && u.User == nil {
		return nil, fmt.Errorf("endpoint %q has a path: the bucket goes into s3://bucket/prefix, and the endpoint is like https://s3.example.org:9000: %w", s, mover.ErrUsage)
	}
	if host, err := url.Parse("https://" + s); err == nil && !strings.Contains(s, "://") && host.Host != "" && host.User == nil && host.RawQuery == "" && strings.Trim(host.Path, "/") == "" {
		return nil, fmt.Errorf("endpoint %q has no scheme: did you mean https://%s, or http:// where the store has no TLS: %w", s, host.Host, mover.ErrUsage)
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("endpoint %q is not like https://s3.example.org:9000: %w", s, mover.ErrUsage)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}
