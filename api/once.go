package api

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// keyed is a request with an idempotency key.
type keyed interface {
	proto.Message
	GetIdempotencyKey() string
}

// Submit submits a task, once: see Once.
func (c *Client) Submit(ctx context.Context, req *datamovev1.SubmitTaskRequest) (*datamovev1.Task, error) {
	return Once(ctx, c, c.SubmitTask, req)
}

// Once makes a call that has an idempotency key, as c.SubmitTask, c.AddDataset,
// c.Stage, c.Release, c.Purge, c.ApplyBurst or c.AcquireLease, until there is an answer or the client's patience is over. It gives a
// request without a key one, so that it is done once even when an answer is lost.
func Once[Q keyed, A any](ctx context.Context, c *Client, call func(context.Context, Q, ...grpc.CallOption) (A, error), req Q) (A, error) {
	req = withKey(req)
	p := pauses{until: time.Now().Add(c.patience)}
	for {
		answer, err := call(ctx, req)
		if err == nil {
			return answer, nil
		}
		if err := p.again(ctx, err); err != nil {
			return answer, err
		}
	}
}

// gives reports whether a request to a method is given a key when it has none. To
// cancel, a key says what is meant.
func gives(method string) bool { return method != datamovev1.TaskService_CancelTask_FullMethodName }

func withKey[Q keyed](req Q) Q {
	if req.GetIdempotencyKey() != "" {
		return req
	}
	req = proto.CloneOf(req)
	m := req.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("idempotency_key"), protoreflect.ValueOfString(rand.Text()))
	return req
}

// unanswered reports whether no service was there to answer.
func unanswered(err error) bool {
	code := status.Code(err)
	return !answered(err) && (code == codes.Unavailable || code == codes.DeadlineExceeded)
}

// pauses grow from one try to the next, and end.
type pauses struct {
	until time.Time // no new try after this time
	last  time.Duration
}

// again waits until a call that failed with err may be made once more, as long as
// err asks for. It returns an error when it is not to be.
func (p *pauses) again(ctx context.Context, err error) error {
	if over(ctx) {
		return context.Cause(ctx)
	}
	if worth := unanswered(err) || errors.Is(err, mover.ErrTransient); !worth || errors.Is(err, mover.ErrPermission) {
		return err
	}
	p.last = min(max(2*p.last, 100*time.Millisecond), longestPause)
	pause := max(time.Duration(float64(p.last)*(0.8+0.4*mathrand.Float64())), afterOf(err))
	if time.Until(p.until) < pause {
		return err
	}
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// over reports whether ctx has ended, also when its time is up and its timer comes
// late: the service has a timer of its own, and its answer can be here before that.
func over(ctx context.Context) bool {
	if end, has := ctx.Deadline(); has && !time.Now().Before(end) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}
