package gpfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// How often a job is asked for: 2 s, doubling to 16 s, as the GUI's own tools do.
const (
	firstPoll = 2 * time.Second
	maxPoll   = 16 * time.Second
)

// change sends what changes something and waits until its job has ended. An error that is
// ErrJobLost, or a deadline, leaves open whether it was done: it has to be looked at.
func (c *Client) change(ctx context.Context, q call) error {
	o, err := c.do(ctx, q)
	if err != nil {
		return err
	}
	job := theJob(o)
	if err := c.done(q, o); err != nil {
		// It was taken, and we do not know its number.
		return c.failed(q, 0, "", fmt.Errorf("%w: %w", ErrJobLost, o.r.err))
	}
	return c.await(ctx, q, job)
}

// job is one job of a reply.
type job struct {
	id     int64
	status string
	fields object
}

func theJob(o object) (j job) {
	jobs := o.objects("jobs")
	if o.r.err == nil && len(jobs) != 1 {
		o.fail("jobs", fmt.Sprintf("has %d entries, and not one", len(jobs)))
	}
	if o.r.err != nil {
		return j
	}
	j.fields = jobs[0]
	name := "jobId"
	if !j.fields.has(name) && j.fields.has("jobid") {
		name = "jobid" // both are seen
	}
	j.id, j.status = count(j.fields, name), j.fields.text("status")
	return j
}

// await waits for the end of a job. When the caller goes before, the job is cancelled, so
// that it does not make anything without a caller. If it has ended all the
// same, that is told.
func (c *Client) await(ctx context.Context, q call, j job) error {
	ended, err := c.follow(ctx, q, j)
	if ended || ctx.Err() == nil {
		return err
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(c.timeout, cancelTime))
	defer cancel()
	if _, refused := c.do(late, call{method: http.MethodDelete, path: j.path()}); refused != nil {
		return err
	}
	ended, how := c.follow(late, q, j)
	switch {
	case !ended:
		return err
	case how != nil:
		return fmt.Errorf("%w: %w", context.Cause(ctx), how)
	}
	return nil
}

// cancelTime is how long the end of a job is waited for that was cancelled.
const cancelTime = 15 * time.Second

// path is where a job is asked for.
func (j job) path() []string { return []string{"jobs", strconv.FormatInt(j.id, 10)} }

// follow polls a job until it has ended, and says how it went; or it says why that is not known.
func (c *Client) follow(ctx context.Context, q call, j job) (ended bool, err error) {
	poll := call{method: http.MethodGet, path: j.path(), query: url.Values{"fields": {":all:"}}}
	asked := false // what a first reply says of a job is not its whole result
	for wait := firstPoll; ; wait = min(2*wait, maxPoll) {
		if asked || j.status == "FAILED" && j.fields.has("result") {
			if ended, err := c.ended(q, j); ended {
				return true, err
			}
		}
		if j.status == "RUNNING" || asked {
			if err := c.pause(ctx, wait); err != nil {
				return false, c.lost(q, j, err)
			}
		}
		o, err := c.do(ctx, poll)
		if err != nil {
			return false, c.lost(q, j, err)
		}
		next := theJob(o)
		if err := c.done(poll, o); err != nil {
			return false, c.lost(q, j, err)
		}
		if next.id != j.id {
			return false, c.lost(q, j, fmt.Errorf("%w: it is about job %d", ErrReply, next.id))
		}
		j, asked = next, true
	}
}

// lost is the error when a job can not be followed any more. That the job is not there is
// not that what it works on is not there, so fs.ErrNotExist stays out of it.
func (c *Client) lost(q call, j job, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return c.failed(q, 0, "", fmt.Errorf("job %d is not there any more: %w", j.id, ErrJobLost))
	}
	return c.failed(q, 0, "", fmt.Errorf("job %d: %w: %w", j.id, ErrJobLost, err))
}

// ended reports whether a job is over, and how it went.
func (c *Client) ended(q call, j job) (bool, error) {
	switch j.status {
	case "RUNNING", "QUEUED", "SUBMITTED", "CANCELLING":
		return false, nil
	case "COMPLETED":
		return true, nil
	case "FAILED", "CANCELLED":
		text := j.status
		if result := j.fields.object("result"); result.has("stderr") {
			text = strings.Join(result.texts("stderr"), "\n")
		}
		return true, c.failed(q, 0, text, fmt.Errorf("job %d: %w", j.id, ErrRefused))
	}
	return true, c.failed(q, 0, j.status, fmt.Errorf("job %d: %w: its status is none that is known", j.id, ErrJobLost))
}
