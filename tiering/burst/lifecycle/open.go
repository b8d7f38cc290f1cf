package lifecycle

import (
	"context"
	"log/slog"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/aws"
	"datamove.dev/tiering/burst/link"
)

// Setting is where a leg works. Site and Request have to be given.
type Setting struct {
	Site    backend.Resolver                  // Adapt is set by Open
	Request engine.Request                    // what its copies have in common
	Around  func(engine.Opener) engine.Opener // around what opens places; nil is nothing
	Log     *slog.Logger                      // nil means no log
}

// Open makes a leg that reaches AWS with the credentials of the tier of a burst, or under its role with no more rights than the burst needs, and moves bytes as the setting says. Nothing is asked of AWS. The caller
// adds records, money, prices and rules, and what finds locations.
func Open(ctx context.Context, s Setting, b *burst.Burst) (*Manager, error) {
	root := location.OfTier(b.Spec.Cloud.Tier, "")
	at, ok := s.Site.Resolve(root)
	if !ok || !at.InStore() {
		return nil, &mover.Error{Op: "open", Location: root.String(), Err: mover.ErrUsage}
	}
	options, err := s.Site.Bucket(at)
	if err != nil {
		return nil, err
	}
	options.StateDir = s.Request.StateDir
	account, err := accountOf(ctx, b, options, s.Log)
	if err != nil {
		return nil, err
	}
	s.Site.Adapt = adapting(b, account)
	opener := engine.Opener(s.Site.Open)
	if s.Around != nil {
		opener = s.Around(opener)
	}
	return &Manager{Cloud: account, Bucket: options.Bucket, Below: at.Prefix, Log: s.Log, Way: &link.Link{Open: opener, Request: s.Request, Log: s.Log},
		Where: func(ctx context.Context) (string, error) { return s3.Region(ctx, options) }}, nil
}

// adapting has the bucket of a burst be in its region, take the keys of its role, and encrypt as it says: by KMS in AWS by default.
func adapting(b *burst.Burst, account *aws.Account) func(location.Location, *s3.Options) {
	cloud := b.Spec.Cloud
	return func(l location.Location, o *s3.Options) {
		if l.Tier != cloud.Tier {
			return
		}
		o.RequireRegion, o.Region = cloud.Region, cloud.Region
		if cloud.Role != "" {
			o.Renew = account.Renew
		}
		if o.Encryption == "" && (o.Endpoint == "" || cloud.KMSKey != "") {
			o.Encryption, o.KMSKey = "aws:kms", cloud.KMSKey
		}
	}
}

// accountOf is AWS, asked with the credentials of a bucket, or under a role.
func accountOf(ctx context.Context, b *burst.Burst, options s3.Options, log *slog.Logger) (*aws.Account, error) {
	cloud := b.Spec.Cloud
	options.Region = cloud.Region
	session, err := s3api.NewSession(ctx, options.API())
	if err != nil {
		return nil, err
	}
	o := aws.Options{Region: cloud.Region, Keys: session, Role: cloud.Role, Name: "datamove-" + string(b.Metadata.Name), Logger: log, Dial: options.Dial}
	if cloud.Role != "" {
		if o.Policy, err = cloud.SessionPolicy(options.Bucket, mover.Join(strings.Trim(options.Prefix, "/"), b.Prefix())); err != nil {
			return nil, err
		}
	}
	return aws.Open(o), nil
}
