package gpfs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// What a call may cost.
const (
	maxReply   = 16 << 20 // bytes of one reply
	tries      = 4        // of a call that may be repeated
	firstPause = time.Second
	maxPause   = 30 * time.Second // also of what the server asks for
)

// call is one request. Its path has segments that are escaped one by one, so that a name
// can not reach another resource.
type call struct {
	method string
	path   []string // below scalemgmt/v2
	query  url.Values
	body   any // nil for none
}

func (q call) String() string { return q.method + " " + strings.Join(q.path, "/") }

// do sends a call and returns the reply. What only asks is repeated when the GUI is busy or
// silent; what changes something only where the GUI said that it did not begin (429).
func (c *Client) do(ctx context.Context, q call) (object, error) {
	wait := firstPause
	for try := 1; ; try++ {
		o, again, err := c.once(ctx, q)
		if err == nil || !again.may || try == tries || ctx.Err() != nil {
			return o, err
		}
		if err := c.pause(ctx, min(max(wait, again.after), maxPause)); err != nil {
			return o, c.failed(q, 0, "", err)
		}
		wait *= 2
	}
}

// again says whether a call may be repeated, and that not before a time.
type again struct {
	may   bool
	after time.Duration
}

func (c *Client) failed(q call, status int, text string, kind error) *Error {
	code, kind := meaning(text, kind)
	return &Error{Op: q.String(), Where: c.base.Host, Status: status, Code: code, Text: text, Err: kind}
}

func (c *Client) once(ctx context.Context, q call) (object, again, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	asks := q.method == http.MethodGet
	request, err := c.request(ctx, q)
	if err != nil {
		return object{}, again{}, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return object{}, again{may: asks}, c.failed(q, 0, "", unreached(ctx, err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	switch {
	case ctx.Err() != nil:
		// Even a body that ended well: a server that notices our leaving can end it, cut off.
		return object{}, again{may: asks}, c.failed(q, response.StatusCode, "", context.Cause(ctx))
	case err != nil:
		return object{}, again{may: asks}, c.failed(q, response.StatusCode, "", fmt.Errorf("%w: it ended early: %w", ErrReply, err))
	case len(body) > maxReply:
		return object{}, again{}, c.failed(q, response.StatusCode, "", fmt.Errorf("%w: it is larger than %d bytes", ErrReply, maxReply))
	}
	o, err := c.reply(q, response, body)
	switch status := response.StatusCode; status {
	case http.StatusTooManyRequests:
		return o, again{true, retryAfter(response)}, err
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		return o, again{asks, retryAfter(response)}, err
	default:
		return o, again{}, err
	}
}

// unreached is why there was no reply: the deadline of the call or of the caller, or the network.
func unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the address is in our own error
	}
	return fmt.Errorf("%w: %w", ErrBusy, err)
}

func (c *Client) request(ctx context.Context, q call) (*http.Request, error) {
	secret, err := ReadCredentials(c.credentials)
	if err != nil {
		return nil, err
	}
	address := "https://" + c.base.Host + "/scalemgmt/v2"
	for _, segment := range q.path {
		address += "/" + url.PathEscape(segment)
	}
	if len(q.query) > 0 {
		address += "?" + q.query.Encode()
	}
	var body io.Reader
	if q.body != nil {
		encoded, err := json.Marshal(q.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, q.method, address, body)
	if err != nil {
		return nil, err
	}
	request.SetBasicAuth(secret.user, secret.password)
	request.Header.Set("Accept", "application/json")
	if q.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// reply makes sense of what came. The GUI says how it went twice: by the status of HTTP and
// by status.code in the body; the worse one counts.
func (c *Client) reply(q call, response *http.Response, body []byte) (object, error) {
	status := response.StatusCode
	o, err := parseReply(body)
	if status < 200 || status > 299 {
		text := ""
		if err == nil && o.has("status") {
			text = (object{r: &reading{}, fields: o.fields}).object("status").text("message")
		}
		if location := response.Header.Get("Location"); status >= 300 && status < 400 {
			return o, c.failed(q, status, location, fmt.Errorf("%w: it sends us elsewhere, which is not followed", ErrReply))
		}
		kind := kindOf(status)
		if status == http.StatusUnauthorized {
			kind = fmt.Errorf("%w: it does not take the user and the password of %s", kind, c.credentials)
		}
		return o, c.failed(q, status, text, kind)
	}
	if err != nil {
		return o, c.failed(q, 0, "", err)
	}
	said := o.object("status")
	code, message := count(said, "code"), said.text("message")
	if o.r.err != nil {
		return o, c.failed(q, 0, "", o.r.err)
	}
	if code < 200 || code > 299 {
		return o, c.failed(q, int(min(code, 999)), message, kindOf(int(min(code, 999))))
	}
	return o, nil
}

func retryAfter(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 3600)) * time.Second
}

// done is the error of a reply after all its fields were taken out.
func (c *Client) done(q call, o object) error {
	if o.r.err != nil {
		return c.failed(q, 0, "", o.r.err)
	}
	return nil
}
