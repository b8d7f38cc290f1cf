package spotnotice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"datamove.dev/mover"
)

// Patience is how long one question to the metadata service, with the token for it, may take.
const Patience = time.Second

// replyMost is how long a reply may be, in bytes.
const replyMost = 64 << 10

// service is a metadata service, asked by its second version.
type service struct {
	http   *http.Client
	client *imds.Client
}

// newService is that of an endpoint; "" is what AWS_EC2_METADATA_SERVICE_ENDPOINT says, or the one of EC2. The SDK asks for tokens, and knows AWS_EC2_METADATA_DISABLED.
func newService(endpoint string, through http.RoundTripper) *service {
	if through == nil {
		through = &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: replyMost} // and no proxy
	}
	client := &http.Client{
		Transport:     bounded{through},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &service{client, imds.New(imds.Options{
		Endpoint:                 endpoint,
		EnableFallback:           aws.FalseTernary, // never the first version, which needs no token
		Retryer:                  again(),
		DisableDefaultMaxBackoff: true, // it would make again wait
		HTTPClient:               client,
	})}
}

// again asks once more, and at once: a token may have ended before its time, and then the SDK gets another one. The next question comes soon anyway.
func again() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.RateLimiter = 2, ratelimit.None
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
	})
}

// errNone is the answer that there is no such item: no notice.
var errNone = errors.New("there is none")

// get returns an item. errNone: there is none; mover.ErrUnreachable: no answer.
func (s *service) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	text, status, err := s.ask(ctx, path)
	switch {
	case err == nil:
		return text, nil
	case status == http.StatusNotFound:
		return nil, errNone
	case status >= http.StatusInternalServerError:
		return nil, fmt.Errorf("the metadata service answers %s with status %d: %w", path, status, mover.ErrTransient)
	case status != 0:
		return nil, fmt.Errorf("the metadata service answers %s with status %d", path, status)
	}
	return nil, fmt.Errorf("the metadata service: %w: %w", mover.ErrUnreachable, err)
}

// ask asks once. status is that of the reply of an error, to the token for it, too, where the SDK does not tell it; 0 is none.
func (s *service) ask(ctx context.Context, path string) (text []byte, status int, err error) {
	out, err := s.client.GetMetadata(context.WithValue(ctx, refusal{}, &status), &imds.GetMetadataInput{Path: path})
	if err != nil {
		return nil, status, err
	}
	defer out.Content.Close()
	text, err = io.ReadAll(out.Content) // bounded has seen to its size
	return text, 0, err
}

// bounded lets no reply be longer than replyMost: the SDK reads all of it. It notes the status of one that refuses.
type bounded struct{ http.RoundTripper }

// refusal is the key, in the context of a request, of where the status of its last reply goes; 0 is one that refuses nothing, or none.
type refusal struct{}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	reply, err := b.RoundTripper.RoundTrip(r)
	status := 0
	if err == nil {
		reply.Body = http.MaxBytesReader(nil, reply.Body, replyMost)
		if of := reply.StatusCode; of >= http.StatusInternalServerError || of >= http.StatusMultipleChoices && r.Method != http.MethodPut {
			status = of // a service that knows no tokens is none
		}
	}
	if to, ok := r.Context().Value(refusal{}).(*int); ok {
		*to = status
	}
	return reply, err
}

// CloseIdleConnections is what http.Client looks for.
func (b bounded) CloseIdleConnections() {
	if c, ok := b.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
