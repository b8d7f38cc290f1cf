package s3api

import (
	"cmp"
	"context"
	"crypto/x509"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Session is the identity for calls of other AWS services than S3, with the credentials of a bucket's options.
type Session struct {
	Keys   aws.CredentialsProvider
	Region string         // that the options, the environment or the configuration of AWS say
	Roots  *x509.CertPool // the certificates to trust: the system, $AWS_CA_BUNDLE or ca_bundle of the profile, and APIOptions.CABundle
}

// NewSession finds the credentials that options name. Nothing is asked of AWS.
func NewSession(ctx context.Context, o Options) (Session, error) {
	if err := o.defaults(); err != nil {
		return Session{}, err
	}
	env, roots, err := o.trusting(ctx)
	if err != nil {
		return Session{}, err
	}
	keys, err := o.keys(ctx, env)
	return Session{Keys: keys, Region: cmp.Or(o.Region, env.region, DefaultRegion), Roots: roots}, err
}
