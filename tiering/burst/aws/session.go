package aws

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"datamove.dev/mover/backend/s3/s3api"
)

const (
	sessionLasts = time.Hour
	sessionEarly = 5 * time.Minute // that a session is renewed before its end
)

// session has the keys of a role, which end and are asked for again.
type session struct {
	account            *Account
	role, policy, name string
}

// Retrieve implements aws.CredentialsProvider.
func (s *session) Retrieve(ctx context.Context) (aws.Credentials, error) {
	in := &sts.AssumeRoleInput{RoleArn: &s.role, RoleSessionName: &s.name, DurationSeconds: aws.Int32(int32(sessionLasts / time.Second))}
	if s.policy != "" {
		in.Policy = &s.policy
	}
	out, err := s.account.sts.AssumeRole(ctx, in)
	if err != nil {
		return aws.Credentials{}, s.account.failed("assume", s.role, err)
	}
	c := out.Credentials
	if c == nil || aws.ToString(c.AccessKeyId) == "" || aws.ToString(c.SecretAccessKey) == "" || aws.ToString(c.SessionToken) == "" || c.Expiration == nil {
		return aws.Credentials{}, s.account.failed("assume", s.role, odd("it has no keys that end"))
	}
	return aws.Credentials{AccessKeyID: aws.ToString(c.AccessKeyId), SecretAccessKey: aws.ToString(c.SecretAccessKey), SessionToken: aws.ToString(c.SessionToken), Source: "role",
		CanExpire: true, Expires: aws.ToTime(c.Expiration)}, nil
}

// Renew gives the keys of now, for a bucket of the same account: what s3.Options.Renew asks for. They are those of the session where there is a role.
func (a *Account) Renew(ctx context.Context) (s3api.Keys, error) {
	c, err := a.keys.Retrieve(ctx)
	if err != nil {
		return s3api.Keys{}, a.failed("ask", "for keys", err)
	}
	keys := s3api.Keys{AccessKey: c.AccessKeyID, SecretKey: s3api.Secret(c.SecretAccessKey), SessionToken: s3api.Secret(c.SessionToken)}
	if c.CanExpire {
		keys.Expires = c.Expires
	}
	return keys, nil
}
