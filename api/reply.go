package api

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// reply is where the answer to one request goes. A peer that does not take it in
// time loses its connection.
type reply struct {
	http.ResponseWriter
	control *http.ResponseController
	begun   bool // the status has been sent
	over    bool // nothing more goes out
}

// replyKey finds the reply in the context of a request.
type replyKey struct{}

// Unwrap is for http.ResponseController.
func (r *reply) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *reply) WriteHeader(code int) {
	if !r.over {
		r.begun = true
		r.ResponseWriter.WriteHeader(code)
	}
}

func (r *reply) Write(p []byte) (n int, err error) {
	if r.over {
		return len(p), nil
	}
	r.begun = true
	for chunk := range slices.Chunk(p, 64<<10) { // a large answer may take longer, when it goes on
		_ = r.control.SetWriteDeadline(time.Now().Add(stallTime)) // where there is a connection
		m, err := r.ResponseWriter.Write(chunk)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// fail answers with an error of the service.
func fail(w http.ResponseWriter, err error) {
	err = FromStatus(err)
	if after := afterOf(err); after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
	}
	write(w, errorOf(err))
}

// errorOf is err as JSON has it.
func errorOf(err error) *datamovev1.Error {
	code := meaningOf(err).http
	switch grpc := status.Code(err); {
	case grpc == codes.Unauthenticated:
		code = http.StatusUnauthorized
	case KindName(err) == other:
		code = runtime.HTTPStatusFromCode(grpc)
	}
	return &datamovev1.Error{Code: int32(code), Kind: KindName(err), Message: clip(err.Error())}
}

// answer sends an error that no service made.
func answer(w http.ResponseWriter, code int, kind error, why string) {
	write(w, &datamovev1.Error{Code: int32(code), Kind: KindName(kind), Message: why})
}

func write(w http.ResponseWriter, e *datamovev1.Error) {
	body, err := plainJSON.Marshal(e)
	if err != nil {
		body = nil // the status still tells
	}
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(int(e.Code))
	_, _ = w.Write(body) // an error means that the client is gone
}

// noRoute answers a request that the library has no route for.
func noRoute(w http.ResponseWriter, r *http.Request, code int) {
	kind, why := mover.ErrNotExist, "no such route: see /openapi.json"
	if code == http.StatusMethodNotAllowed {
		kind, why = errors.ErrUnsupported, "this route has no "+mover.Printable(r.Method)+": see /openapi.json"
	}
	answer(w, code, kind, why)
}
