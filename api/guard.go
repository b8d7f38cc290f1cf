package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
)

const (
	maxBody   = 1 << 20
	stallTime = 30 * time.Second // for a peer to send a body, or to take what we write
)

// guard is what every request passes before it reaches a route.
type guard struct {
	next    http.Handler
	host    func(name string) bool
	foreign *http.CrossOriginProtection
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := &reply{ResponseWriter: w, control: http.NewResponseController(w)}
	if r.ContentLength != 0 {
		// Also net/http reads a body, when we refuse it. At its end the deadline goes.
		_ = out.control.SetReadDeadline(time.Now().Add(stallTime)) // where there is a connection
	}
	h := out.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if refused := g.check(r); refused != nil {
		refused.answer(out)
		return
	}
	if r.URL.Path == "/openapi.json" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		h.Set("Content-Type", jsonType)
		_, _ = out.Write(openAPI) // an error means that the client is gone
		return
	}
	r = r.Clone(context.WithValue(r.Context(), replyKey{}, out))
	prepareHeader(r.Header)
	if refused := takeBody(out, r); refused != nil {
		refused.answer(out)
		return
	}
	g.next.ServeHTTP(out, r)
}

// refusal is an answer that no service gave.
type refusal struct {
	code int // HTTP status
	kind error
	why  string
}

func (n *refusal) answer(w http.ResponseWriter) { answer(w, n.code, n.kind, n.why) }

func (g *guard) check(r *http.Request) *refusal {
	switch known := g.host; {
	case known == nil && !local(hostName(r.Host)), known != nil && !known(hostName(r.Host)):
		return &refusal{http.StatusMisdirectedRequest, mover.ErrPermission, "this is not " + mover.Printable(hostName(r.Host))}
	case g.foreign.Check(r) != nil:
		return &refusal{http.StatusForbidden, mover.ErrPermission, "a page of another site may not do this"}
	case !clean(r.URL.EscapedPath()):
		return &refusal{http.StatusNotFound, mover.ErrNotExist, "no such route: names have letters, digits, '.', '-' and '_'"}
	}
	return nil
}

// hostName is a Host header without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

func local(name string) bool {
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.IsLoopback()
}

// plainPath has nothing that one reader of a path could take for something else
// than the next: no escapes, no empty segments.
var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9._~:-]+)+$`)

func clean(path string) bool {
	return plainPath.MatchString(path) &&
		!slices.ContainsFunc(strings.Split(path, "/"), func(s string) bool { return s == "." || s == ".." })
}

// prepareHeader leaves to the library what it decides by, in the one form that it
// looks for.
func prepareHeader(h http.Header) {
	accept := strings.Join(h.Values("Accept"), ",")
	for _, name := range []string{"Accept", "X-Forwarded-For", "X-Forwarded-Host"} {
		h.Del(name)
	}
	for part := range strings.SplitSeq(accept, ",") {
		if kind, _, err := mime.ParseMediaType(part); err == nil && kind == eventStream {
			h.Set("Accept", eventStream)
		}
	}
}

// takeBody reads the body of a POST, which holds all parameters beside those in the
// path; other methods have theirs in the query. What stands in the wrong one is
// refused: without its digest, the removal of a version would be that of a dataset.
func takeBody(w http.ResponseWriter, r *http.Request) *refusal {
	if r.Method != http.MethodPost {
		if r.ContentLength != 0 {
			return &refusal{http.StatusBadRequest, mover.ErrUsage, "only a POST has a body; the query is the place for " + r.Method}
		}
		return nil
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil || kind != jsonType:
		return &refusal{http.StatusUnsupportedMediaType, mover.ErrUsage, "a POST has the Content-Type " + jsonType}
	case r.URL.RawQuery != "":
		return &refusal{http.StatusBadRequest, mover.ErrUsage, "a POST has a body and no query"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return unread(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

func unread(err error) *refusal {
	var tooLarge *http.MaxBytesError
	var late net.Error
	switch {
	case errors.As(err, &tooLarge):
		return &refusal{http.StatusRequestEntityTooLarge, mover.ErrUsage, fmt.Sprintf("a body has at most %d bytes", tooLarge.Limit)}
	case errors.As(err, &late) && late.Timeout():
		return &refusal{http.StatusRequestTimeout, mover.ErrTimeout, "the body did not come"}
	}
	return &refusal{http.StatusBadRequest, mover.ErrUsage, "the body broke off"}
}
