package s3api

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"datamove.dev/mover"
)

// notification is a line that MinIO sends to listeners of a bucket (ListenBucketNotification). Its records are those of the event notifications of S3,
// but with keys as they are, not escaped as in a query (MinIO of February 2026, test/e2e TestEvents). A line without records is a sign of life.
type notification struct {
	Records []struct {
		S3 struct {
			Object struct {
				Key string `json:"key"`
			} `json:"object"`
		} `json:"s3"`
	}
}

const (
	listenLine = 4 << 20 // bytes of one line, at most
	listenPing = "10"    // seconds between two lines at most, as it is asked for
)

// listenSilence is how long nothing may come: lines that say that the server is there come more often. One of February 2026 sends nothing, not even its answer,
// until 4 KiB of events have come together. A listener that trusted it would know nothing for hours.
const listenSilence = 25 * time.Second

// ErrSilent is why a listening ends in which nothing has come for Options.Silence.
var ErrSilent = errors.New("the server holds back what it has to tell")

// Listen tells of keys below a prefix that something was put to, or removed from, until ctx or the connection ends: what happens between two of them is not told.
// begun is called when it is heard what happens. mover.ErrUnsupported is the answer of a server that has no such thing; MinIO has it.
func (c *Client) Listen(ctx context.Context, prefix string, begun func(), tell func(key string)) error {
	s, ok := c.plain.(*onprem)
	if !ok {
		return fmt.Errorf("%w: AWS tells of changes by queues only", mover.ErrUnsupported)
	}
	return s.listen(ctx, prefix, cmp.Or(c.opts.Silence, listenSilence), begun, tell)
}

func (s *onprem) listen(ctx context.Context, prefix string, quiet time.Duration, begun func(), tell func(key string)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(quiet, func() { cancel(ErrSilent) })
	defer alarm.Stop()
	silent := func(kind error) error {
		return fmt.Errorf("%w: %w: nothing has come for %s", kind, ErrSilent, quiet)
	}
	ctx, r := withReply(ctx)
	q := url.Values{"ping": {listenPing}, "prefix": {prefix}, "suffix": {""}, "events": {"s3:ObjectCreated:*", "s3:ObjectRemoved:*"}}
	resp, err := s.transport.RoundTrip(s.request(ctx, http.MethodGet, "", q, http.Header{}))
	if errors.Is(context.Cause(ctx), ErrSilent) {
		return silent(mover.ErrUnsupported)
	}
	if err != nil {
		return understand(ctx, r, sent(err))
	}
	defer resp.Body.Close()
	denied := resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusUnauthorized
	foreign := r.code == "SignatureDoesNotMatch" // Ceph signs what it does not know in another way; a wrong key fails earlier calls
	if resp.StatusCode/100 == 4 && !denied || foreign || resp.StatusCode == http.StatusNotImplemented {
		return fmt.Errorf("%w: the server tells of no changes (%s)", mover.ErrUnsupported, resp.Status)
	}
	if resp.StatusCode != http.StatusOK {
		return understand(ctx, r, sent(fmt.Errorf("%s", resp.Status)))
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, listenLine)
	first := true
	for lines.Scan() {
		alarm.Reset(quiet)
		line := strings.TrimSpace(lines.Text())
		if first && strings.HasPrefix(line, "<") { // a listing: it knows nothing of events
			return fmt.Errorf("%w: the server tells of no changes", mover.ErrUnsupported)
		}
		if first {
			first = false
			begun()
		}
		if line == "" {
			continue
		}
		var n notification
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			return fmt.Errorf("%w: an event that is none: %w", mover.ErrCorrupt, err)
		}
		for _, record := range n.Records {
			tell(record.S3.Object.Key)
		}
	}
	switch {
	case errors.Is(context.Cause(ctx), ErrSilent) && first:
		return silent(mover.ErrUnsupported)
	case errors.Is(context.Cause(ctx), ErrSilent):
		return silent(mover.ErrTransient)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if err := lines.Err(); err != nil {
		return BodyError(ctx, err)
	}
	return fmt.Errorf("%w: the server has ended the conversation", mover.ErrTransient)
}
