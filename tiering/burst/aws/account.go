package aws

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	watchschemas "github.com/aws/aws-sdk-go-v2/service/cloudwatch/schemas"
	"github.com/aws/aws-sdk-go-v2/service/costexplorer"
	"github.com/aws/aws-sdk-go-v2/service/fsx"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/transport/http/protocol/awsquery"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
)

// Options say which account. Region has no default.
type Options struct {
	Region string
	Keys   s3api.Session // the identity of the caller
	Role   string        // ARN of the role to work under; "" is that of the caller
	Policy string        // that its session is held to (burst.SessionPolicy)
	Name   string        // of the session, in the trail of AWS; "" is datamove

	Attempts int                                                                  // of each call; 0 means 8
	Backoff  time.Duration                                                        // the longest pause between two attempts; 0 means 20 s
	Dial     func(ctx context.Context, network, address string) (net.Conn, error) // connects to AWS; nil uses the network
	Logger   *slog.Logger                                                         // nil means no log
}

// Account is AWS in one region.
type Account struct {
	region string
	log    *slog.Logger
	keys   aws.CredentialsProvider
	fsx    *fsx.Client
	ec2    *ec2Client
	watch  *cloudwatch.Client
	costs  *costexplorer.Client
	sts    *sts.Client
}

const (
	attempts = 8
	backoff  = 20 * time.Second
	answer   = 60 * time.Second // that one may take
)

// Open makes the clients. Nothing is asked of AWS, but by the first call that needs keys.
func Open(o Options) *Account {
	return open(o, awshttp.NewBuildableClient().WithTimeout(answer).WithTransportOptions(func(t *http.Transport) {
		if o.Keys.Roots != nil {
			t.TLSClientConfig.RootCAs = o.Keys.Roots
		}
		if o.Dial != nil {
			t.DialContext = o.Dial
		}
	}))
}

// bounded is a client with bounded answers.
type bounded struct{ aws.HTTPClient }

// answerMost is how many bytes an answer may have: a page of CloudWatch has some.
const answerMost = 64 << 20

// Do implements aws.HTTPClient.
func (b bounded) Do(r *http.Request) (*http.Response, error) {
	answer, err := b.HTTPClient.Do(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, answerMost)
	}
	return answer, err
}

func open(o Options, client aws.HTTPClient) *Account {
	client = bounded{client}
	a := &Account{region: o.Region, log: o.Logger}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	retryer := func() aws.Retryer {
		return retry.NewStandard(func(s *retry.StandardOptions) {
			s.MaxAttempts, s.MaxBackoff = cmp.Or(o.Attempts, attempts), cmp.Or(o.Backoff, backoff)
			s.RateLimiter = noLimit{} // what we ask is little, and has to come through
		})
	}
	logs := sdkLog{a.log}
	a.sts = sts.New(sts.Options{Region: o.Region, Credentials: o.Keys.Keys, HTTPClient: client, Retryer: retryer(), BaseEndpoint: endpoint("STS"), AppID: appID, Logger: logs, ClientLogMode: aws.LogRetries})
	a.keys = o.Keys.Keys
	if o.Role != "" {
		a.keys = aws.NewCredentialsCache(&session{account: a, role: o.Role, policy: o.Policy, name: cmp.Or(o.Name, "datamove")}, func(c *aws.CredentialsCacheOptions) {
			c.ExpiryWindow, c.ExpiryWindowJitterFrac = sessionEarly, 0.5
		})
	}
	a.fsx = fsx.New(fsx.Options{Region: o.Region, Credentials: a.keys, HTTPClient: client, Retryer: retryer(), BaseEndpoint: endpoint("FSX"), AppID: appID, Logger: logs, ClientLogMode: aws.LogRetries})
	a.ec2 = &ec2Client{region: o.Region, keys: a.keys, client: client, retryer: retryer(), endpoint: endpoint("EC2"), log: logs, signer: v4.NewSigner()}
	a.costs = costexplorer.New(costexplorer.Options{Region: o.Region, Credentials: a.keys, HTTPClient: client, Retryer: retryer(), BaseEndpoint: endpoint("COST_EXPLORER"), AppID: appID, Logger: logs, ClientLogMode: aws.LogRetries})
	a.watch = cloudwatch.New(cloudwatch.Options{Region: o.Region, Credentials: a.keys, HTTPClient: client, Retryer: retryer(), BaseEndpoint: endpoint("CLOUDWATCH"), AppID: appID, Logger: logs, ClientLogMode: aws.LogRetries},
		func(w *cloudwatch.Options) { w.Protocol = awsquery.New(watchschemas.GraniteServiceVersion20100801) }) // the protocol that other clients speak, too
	return a
}

// sdkLog tells what the SDK tries again, in our log. It tells no keys and no bodies: those are other modes of it.
type sdkLog struct{ log *slog.Logger }

// Logf implements logging.Logger.
func (l sdkLog) Logf(_ logging.Classification, format string, args ...any) {
	l.log.Debug(mover.Printable(fmt.Sprintf(format, args...)))
}

const appID = "datamove"

// endpoint is what the environment says of a service, in the words of the AWS SDKs; nil is that of AWS.
func endpoint(service string) *string {
	if url := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_"+service), os.Getenv("AWS_ENDPOINT_URL")); url != "" {
		return &url
	}
	return nil
}

// noLimit has a retry cost nothing.
type noLimit struct{}

func (noLimit) GetToken(context.Context, uint) (func() error, error) {
	return func() error { return nil }, nil
}
func (noLimit) AddTokens(uint) error { return nil }
