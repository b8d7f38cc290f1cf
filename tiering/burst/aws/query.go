package aws

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/ec2query"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/fsx"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"datamove.dev/mover"
)

const (
	ec2Service = "EC2" // for the log and for errors
	ec2Signing = "ec2" // in the scope of a signature
	ec2Version = "2016-11-15"
)

// ec2Client speaks the EC2 Query protocol (https://smithy.io/2.0/aws/protocols/aws-ec2-query-protocol.html): the request is a form, the reply XML. The SDK's package for EC2 has about 700
// operations, of which two are needed, and compiling it takes a minute. The retries, the signer and the transport are those of the SDK, in the order in which its clients have them.
type ec2Client struct {
	region   string
	keys     aws.CredentialsProvider
	client   aws.HTTPClient
	retryer  aws.Retryer
	endpoint *string // nil is that of AWS
	log      logging.Logger

	signer *v4.Signer
	skew   atomic.Int64 // nanoseconds by which the clock of AWS is ahead of this one, as its last reply said
}

// call runs one operation, again while the retryer allows it, and decodes its reply into reply. An answer of 300 or more is a smithy.APIError, and one that can not be read a
// smithy.DeserializationError.
func (c *ec2Client) call(ctx context.Context, operation string, parameters url.Values, reply any) error {
	address, err := c.address(ctx)
	if err != nil {
		return &smithy.OperationError{ServiceID: ec2Service, OperationName: operation, Err: fmt.Errorf("failed to resolve service endpoint, %w", err)}
	}
	form := maps.Clone(parameters)
	form.Set("Action", operation)
	form.Set("Version", ec2Version)
	ctx = middleware.SetLogger(awsmiddleware.SetOperationName(awsmiddleware.SetServiceID(ctx, ec2Service), operation), c.log)

	stack := middleware.NewStack(operation, smithyhttp.NewStackRequest)
	err = errors.Join(
		stack.Serialize.Add(middleware.SerializeMiddlewareFunc("Form", request(address, form)), middleware.After),
		stack.Build.Add(&awsmiddleware.ClientRequestID{}, middleware.After),
		stack.Finalize.Add(retry.NewAttemptMiddleware(c.retryer, smithyhttp.RequestCloner, func(a *retry.Attempt) { a.LogAttempts, a.ClientSkew = true, &c.skew }), middleware.After),
		stack.Finalize.Add(&v4.ComputePayloadSHA256{}, middleware.After),
		stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("Sign", c.sign), middleware.After),
		stack.Deserialize.Add(&awshttp.ResponseErrorWrapper{}, middleware.After),
		stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("Reply", decode(reply)), middleware.After),
		stack.Deserialize.Add(&awsmiddleware.RecordResponseTiming{}, middleware.After),
	)
	if err == nil {
		_, _, err = middleware.DecorateHandler(smithyhttp.NewClientHandlerWithOptions(c.client), stack).Handle(ctx, nil)
	}
	if err != nil {
		return &smithy.OperationError{ServiceID: ec2Service, OperationName: operation, Err: err}
	}
	return nil
}

// address is where EC2 of the region listens. FSx of the same region has the same domain, which the SDK knows for each partition of AWS.
func (c *ec2Client) address(ctx context.Context) (*url.URL, error) {
	if !smithyhttp.ValidHostLabel(c.region) { // it is a part of the host
		return nil, fmt.Errorf("%w: %q is no region", mover.ErrUsage, c.region)
	}
	if c.endpoint != nil {
		return url.Parse(*c.endpoint)
	}
	sibling, err := fsx.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, fsx.EndpointParameters{Region: &c.region})
	if err != nil {
		return nil, err
	}
	domain, is := strings.CutPrefix(sibling.URI.Host, "fsx.")
	if !is {
		return nil, fmt.Errorf("the domain of %q is not known", sibling.URI.Host)
	}
	return &url.URL{Scheme: sibling.URI.Scheme, Host: "ec2." + domain}, nil
}

type serialize = func(context.Context, middleware.SerializeInput, middleware.SerializeHandler) (middleware.SerializeOutput, middleware.Metadata, error)

// request makes the request of a form.
func request(address *url.URL, form url.Values) serialize {
	return func(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (out middleware.SerializeOutput, metadata middleware.Metadata, err error) {
		r, is := in.Request.(*smithyhttp.Request)
		if !is {
			return out, metadata, &smithy.SerializationError{Err: fmt.Errorf("a request of type %T", in.Request)}
		}
		r.Method = http.MethodPost
		r.URL.Scheme, r.URL.Host, r.URL.Path = address.Scheme, address.Host, smithyhttp.JoinPath(address.Path, "/")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("User-Agent", aws.SDKName+"/"+aws.SDKVersion+" app/"+appID)
		if in.Request, err = r.SetStream(strings.NewReader(form.Encode())); err != nil {
			return out, metadata, &smithy.SerializationError{Err: err}
		}
		return next.HandleSerialize(ctx, in)
	}
}

// sign signs one attempt, by the clock of AWS as far as it is known.
func (c *ec2Client) sign(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (out middleware.FinalizeOutput, metadata middleware.Metadata, err error) {
	r, is := in.Request.(*smithyhttp.Request)
	if !is {
		return out, metadata, &v4.SigningError{Err: fmt.Errorf("a request of type %T", in.Request)}
	}
	keys, err := c.keys.Retrieve(ctx)
	if err != nil {
		return out, metadata, fmt.Errorf("get identity: get credentials: %w", err)
	}
	if err := c.signer.SignHTTP(ctx, keys, r.Request, v4.GetPayloadHash(ctx), ec2Signing, c.region, time.Now().Add(time.Duration(c.skew.Load()))); err != nil {
		return out, metadata, &v4.SigningError{Err: err}
	}
	out, metadata, err = next.HandleFinalize(ctx, in)
	if skew, is := awsmiddleware.GetAttemptSkew(metadata); is {
		c.skew.Store(int64(skew)) // for the next attempt
	}
	return out, metadata, err
}

type deserialize = func(context.Context, middleware.DeserializeInput, middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error)

// decode reads a reply, or the error that is there instead.
func decode(reply any) deserialize {
	return func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (out middleware.DeserializeOutput, metadata middleware.Metadata, err error) {
		out, metadata, err = next.HandleDeserialize(ctx, in)
		r, is := out.RawResponse.(*smithyhttp.Response)
		if !is {
			return out, metadata, errors.Join(err, &smithy.DeserializationError{Err: fmt.Errorf("a reply of type %T", out.RawResponse)})
		}
		defer func() { smithyhttp.CloseResponseBody(ctx, r, false, err) }()
		if err != nil {
			return out, metadata, err
		}
		if body, err := io.ReadAll(r.Body); err != nil {
			return out, metadata, &smithy.DeserializationError{Err: fmt.Errorf("failed to read response body, %w", err)}
		} else if r.StatusCode < 200 || r.StatusCode >= 300 {
			return out, metadata, refused(body, &metadata)
		} else if err := xml.Unmarshal(body, reply); err != nil {
			return out, metadata, &smithy.DeserializationError{Err: fmt.Errorf("failed to decode response body, %w", err)}
		}
		return out, metadata, nil
	}
}

// refused is the error that an answer tells of.
func refused(body []byte, metadata *middleware.Metadata) error {
	said, err := ec2query.GetErrorResponseComponents(bytes.NewReader(body))
	if err != nil {
		return err
	}
	awsmiddleware.SetRequestIDMetadata(metadata, said.RequestID)
	if said.Code == "" {
		said.Code = "UnknownError"
	}
	return &smithy.GenericAPIError{Code: said.Code, Message: said.Message}
}
