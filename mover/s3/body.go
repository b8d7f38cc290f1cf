package s3

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

// watchdog cancels a request that is silent.
type watchdog struct {
	timer  *time.Timer
	limit  time.Duration
	cancel context.CancelCauseFunc
}

func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(nil)
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
	watch  *watchdog
	after  time.Duration // how long the server may work once it has all
	once   sync.Once
	closed chan struct{} // when nobody reads it any more

	first, last time.Time // of passes
}

func (b *sentBody) Read(p []byte) (n int, err error) {
	if b.data == nil {
		n, err = b.from.Read(p)
	} else {
		n, err = b.next(p)
	}
	if err == nil {
		b.watch.timer.Reset(b.watch.limit)
	} else {
		b.watch.timer.Reset(b.after)
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
	b.data = b.data[n:]
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
	return b.from.Close()
}

// letGo returns when nobody reads the request's body any more: net/http may go on
// reading it in the background when the answer comes early, but its memory is
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
