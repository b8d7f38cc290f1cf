package s3api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"datamove.dev/mover"
)

// watchdog cancels a request that is silent, or that its caller has given up.
type watchdog struct {
	timer  *time.Timer
	limit  time.Duration
	cancel context.CancelCauseFunc
	forget func() bool // ends follow

	all   sync.Once
	given chan struct{} // when the connection has been given the whole request, or wants no more of it
}

// newWatchdog watches a request that cancel ends.
func newWatchdog(limit time.Duration, cancel context.CancelCauseFunc) *watchdog {
	return &watchdog{limit: limit, cancel: cancel, given: make(chan struct{}), timer: time.AfterFunc(limit, func() { cancel(errStalled) })}
}

func (w *watchdog) stop() {
	w.forget()
	w.timer.Stop()
	w.cancel(nil)
}

// givenAll notes that the connection has been given the whole request.
func (w *watchdog) givenAll() { w.all.Do(func() { close(w.given) }) }

// answerGrace is how long the transport waits for the answer to a request that its caller has given up.
const answerGrace = 2 * time.Second

// follow ends a request, with the context ctx, when its caller's context ends. It does so at once, or after a
// grace when the request changes something and is all given to the connection. The caller's cleanup needs
// that answer: it aborts an upload that the server has begun, after the last part has come.
func (w *watchdog) follow(caller, ctx context.Context, changes bool) {
	w.forget = context.AfterFunc(caller, func() {
		select {
		case <-w.given:
			if changes {
				timer := time.NewTimer(answerGrace)
				defer timer.Stop()
				select {
				case <-ctx.Done():
				case <-timer.C:
				}
			}
		default:
		}
		w.cancel(context.Cause(caller))
	})
}

// explain says that the request was given up, where that is why it failed.
func (w *watchdog) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		return cause
	}
	return err
}

// sentBody is the body of a request. Each byte is a sign of life.
type sentBody struct {
	from   io.ReadCloser // what the client gave us
	data   []byte        // what is left of the same bytes in memory; nil is from
	left   int64         // bytes of from that have not been read; below 0 is not known
	watch  *watchdog
	after  time.Duration // how long the server may work once it has all
	once   sync.Once
	closed chan struct{} // when the last reader is done

	first, last time.Time // of passes
}

func (b *sentBody) Read(p []byte) (n int, err error) {
	if b.data == nil {
		n, err = b.from.Read(p)
		if b.left -= int64(n); n > 0 && b.left == 0 { // the end is read later, and the server may have answered by then
			b.watch.givenAll()
		}
	} else {
		n, err = b.next(p)
	}
	if err == nil {
		b.watch.timer.Reset(b.watch.limit)
	} else {
		b.watch.timer.Reset(b.after)
		b.watch.givenAll()
	}
	return n, err
}

// next reads what is in memory.
func (b *sentBody) next(p []byte) (n int, err error) {
	b.passes()
	if len(b.data) == 0 {
		return 0, io.EOF
	}
	n = copy(p, b.data)
	if b.data = b.data[n:]; len(b.data) == 0 {
		b.watch.givenAll()
	}
	return n, nil
}

// passes notes that the connection has taken what it was given of data, or is given the first.
func (b *sentBody) passes() {
	if b.last = time.Now(); b.first.IsZero() {
		b.first = b.last
	}
}

func (b *sentBody) Close() error {
	defer b.once.Do(func() { close(b.closed) })
	b.watch.givenAll()
	return b.from.Close()
}

// letGo returns when the request's body has no reader any more. When the answer comes early,
// net/http may go on reading it in the background, but its memory is
// about to be used for something else.
func letGo(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response, sent <-chan struct{}) {
	patience := time.Hour // the watchdog is faster
	if resp.StatusCode >= 300 {
		patience = time.Second // the server has refused it: what is still on its way is of no use
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-sent:
		return
	case <-ctx.Done():
	case <-timer.C:
		cancel(fmt.Errorf("the server answered before it had all: %w", mover.ErrTransient))
	}
	<-sent
}

// watchedBody is the body of an answer. Each byte is a sign of life.
type watchedBody struct {
	io.ReadCloser
	watch *watchdog
	ctx   context.Context
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		b.watch.timer.Reset(b.watch.limit)
		return n, nil
	}
	b.watch.timer.Stop()
	if err != io.EOF {
		err = b.watch.explain(b.ctx, err)
	}
	return n, err
}

func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.watch.stop()
	return err
}
