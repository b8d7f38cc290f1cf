package s3

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
)

// Queue is a queue of SQS to which AWS sends what happens in the bucket of a place: by itself, through a topic of SNS, or through a rule of EventBridge. It is read by the protocol
// of AWS as it is documented, and has met no queue of AWS.
type Queue struct {
	place  *Backend
	client *sqs.Client
	url    string
}

const (
	queueMost   = 10               // messages in one answer, at most; SQS gives no more
	queueWait   = 20 * time.Second // SQS waits no longer
	queueAnswer = 10 * time.Second // that an answer may take beside that
)

// Queue opens a queue at its URL, with the keys of the place.
func (p *Backend) Queue(address string) (*Queue, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, p.wrap("listen to", "", fmt.Errorf("%w: %q is no URL of a queue", mover.ErrUsage, mover.Printable(address)))
	}
	region := p.opts.Region
	if labels := strings.Split(u.Hostname(), "."); len(labels) > 2 && labels[0] == "sqs" {
		region = labels[1]
	}
	client := sqs.New(sqs.Options{Region: cmp.Or(region, "us-east-1"), Credentials: p.client.Keys(), BaseEndpoint: aws.String(u.Scheme + "://" + u.Host),
		HTTPClient: p.client.HTTP(queueWait + queueAnswer), Retryer: aws.NopRetryer{}, AppID: "datamove"})
	return &Queue{p, client, address}, nil
}

// Receive waits for messages, for that long at most, and tells what they say: names that something happened to, and when, and why more may have happened than
// they say. When done is called they have been taken, and come no more; until then they come again after the visibility timeout of the queue. more says
// that there were some.
func (q *Queue) Receive(ctx context.Context, wait time.Duration, tell func(name string, at time.Time), lose func(why string)) (done func(context.Context) error, more bool, err error) {
	answer, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &q.url, MaxNumberOfMessages: queueMost, WaitTimeSeconds: int32(min(wait, queueWait) / time.Second)})
	if err != nil {
		return nil, false, q.failed(ctx, err)
	}
	var handles []types.DeleteMessageBatchRequestEntry
	for i, m := range answer.Messages {
		if err := q.understand(aws.ToString(m.Body), tell); err != nil {
			lose("a message of the queue says nothing that is known: " + err.Error())
		}
		handles = append(handles, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle})
	}
	return func(ctx context.Context) error { return q.drop(ctx, handles) }, len(handles) > 0, nil
}

// Kept is for how long the queue is sure to keep a message that no consumer deletes: its retention. With a dead-letter queue it is as long as the queue delivers a message again;
// then hidden is how long a delivered message stays hidden. Without one hidden is 0.
func (q *Queue) Kept(ctx context.Context) (kept, hidden time.Duration, err error) {
	const retention, visibility, redrive = types.QueueAttributeNameMessageRetentionPeriod, types.QueueAttributeNameVisibilityTimeout, types.QueueAttributeNameRedrivePolicy
	answer, err := q.client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &q.url, AttributeNames: []types.QueueAttributeName{retention, visibility, redrive}})
	if err != nil {
		return 0, 0, q.failed(ctx, err)
	}
	said := answer.Attributes
	kept, hidden, err = givenFor(said[string(retention)], said[string(visibility)], said[string(redrive)])
	if err != nil {
		return 0, 0, q.failed(ctx, fmt.Errorf("it does not say how long it keeps things: %w", err))
	}
	return kept, hidden, nil
}

// givenFor is for how long a message is sure to be given again: it is hidden between the receptions that the redrive policy allows, and is given up after the
// last one (Amazon SQS API reference, GetQueueAttributes, RedrivePolicy).
func givenFor(retention, visibility, redrive string) (kept, hidden time.Duration, err error) {
	most := int64(0)
	if kept, err = seconds(retention); err != nil || redrive == "" {
		return kept, 0, err
	}
	var policy struct {
		Most json.Number `json:"maxReceiveCount"`
	}
	if hidden, err = seconds(visibility); err == nil {
		err = json.Unmarshal([]byte(redrive), &policy) // the number may be a text
	}
	if err == nil {
		most, err = policy.Most.Int64()
	}
	const many = 1 << 20 // times hidden is longer than any retention, or 0
	return min(kept, time.Duration(min(most, many)-1)*hidden), max(hidden, 1), err
}

func seconds(text string) (time.Duration, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	return time.Duration(n) * time.Second, err
}

// drop takes messages from the queue. One that stays comes again, which does no harm.
func (q *Queue) drop(ctx context.Context, handles []types.DeleteMessageBatchRequestEntry) error {
	if len(handles) == 0 {
		return nil
	}
	_, err := q.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &q.url, Entries: handles})
	if err != nil {
		return q.failed(ctx, err)
	}
	return nil
}

// s3Event is what S3 sends to a queue (AWS, "Event message structure"): records with keys that are escaped as in a query, or a test when it begins.
type s3Event struct {
	Event   string `json:"Event"`
	Records []struct {
		Time time.Time `json:"eventTime"`
		S3   struct {
			Bucket struct {
				Name string `json:"name"`
			} `json:"bucket"`
			Object struct {
				Key string `json:"key"`
			} `json:"object"`
		} `json:"s3"`
	} `json:"Records"`
	// What SNS puts around it.
	Type    string `json:"Type"`
	Message string `json:"Message"`
	// What EventBridge sends instead, with keys as they are.
	Source string    `json:"source"`
	Time   time.Time `json:"time"`
	Detail struct {
		Bucket struct {
			Name string `json:"name"`
		} `json:"bucket"`
		Object struct {
			Key string `json:"key"`
		} `json:"object"`
	} `json:"detail"`
}

// understand tells what a message says of the place.
func (q *Queue) understand(text string, tell func(string, time.Time)) error {
	var e s3Event
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return fmt.Errorf("%w: %w", mover.ErrCorrupt, err)
	}
	switch {
	case e.Type == "Notification":
		return q.understand(e.Message, tell)
	case e.Source == "aws.s3":
		q.tells(e.Detail.Bucket.Name, e.Detail.Object.Key, e.Time, tell)
	case e.Event == "s3:TestEvent":
	case e.Records == nil:
		return fmt.Errorf("%w: it is none of S3", mover.ErrCorrupt)
	}
	for _, r := range e.Records {
		key, err := url.QueryUnescape(r.S3.Object.Key)
		if err != nil {
			return fmt.Errorf("%w: %w", mover.ErrCorrupt, err)
		}
		q.tells(r.S3.Bucket.Name, key, r.Time, tell)
	}
	return nil
}

func (q *Queue) tells(bucket, key string, at time.Time, tell func(string, time.Time)) {
	if name, ok := listened(q.place.prefix, key); ok && bucket == q.place.bucket {
		tell(name, at)
	}
}

func (q *Queue) failed(ctx context.Context, err error) error {
	kind := mover.ErrUnreachable
	var said smithy.APIError
	var answer *smithyhttp.ResponseError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &said) && strings.Contains(said.ErrorCode(), "NonExistentQueue"), errors.As(err, &said) && said.ErrorCode() == "QueueDoesNotExist":
		kind = mover.ErrUsage
	case errors.As(err, &answer) && (answer.HTTPStatusCode() == http.StatusForbidden || answer.HTTPStatusCode() == http.StatusUnauthorized):
		kind = mover.ErrPermission
	case errors.As(err, &answer) && answer.HTTPStatusCode() != 0:
		kind = mover.ErrTransient
	}
	return q.place.wrap("listen to", "", fmt.Errorf("%w: the queue %s: %w", kind, mover.Printable(q.url), s3api.SaidOf(err)))
}
