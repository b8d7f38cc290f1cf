package fsworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"

	"datamove.dev/mover"
)

// Method answers one call. It may be called many times at once.
type Method func(ctx context.Context, args json.RawMessage) (reply any, err error)

// Typed makes a Method of a function with arguments of its own type.
func Typed[A, R any](do func(context.Context, A) (R, error)) Method {
	return func(ctx context.Context, args json.RawMessage) (any, error) {
		var a A
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, fmt.Errorf("%w: %w", mover.ErrUsage, err)
		}
		return do(ctx, a)
	}
}

// socket is where a hand finds the one it was started with.
const socket = 3

// Serve answers calls in a process that a Pool has started, until that ends. It returns nil then.
func Serve(ctx context.Context, methods map[string]Method) error {
	conn, err := net.FileConn(os.NewFile(socket, "socket"))
	if err != nil {
		return fmt.Errorf("this is started by the driver, and by nobody else: %w", err)
	}
	var calls sync.WaitGroup // not waited for at the end: one may hang, and the process ends
	return serve(ctx, conn, methods, &calls)
}

func serve(ctx context.Context, conn net.Conn, methods map[string]Method, calls *sync.WaitGroup) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	var mu sync.Mutex
	out := json.NewEncoder(conn)
	in := json.NewDecoder(conn)
	for {
		var q asked
		switch err := in.Decode(&q); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		calls.Go(func() {
			reply, err := call(ctx, methods, q)
			mu.Lock()
			defer mu.Unlock()
			// A failed write means that the driver has given up the call.
			_ = out.Encode(answer(q.Number, reply, err))
		})
	}
}

// call makes one. A mistake in it costs one call, and not all that this process has under way.
func call(ctx context.Context, methods map[string]Method, q asked) (reply any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s broke: %v\n%s", q.Method, r, debug.Stack())
		}
	}()
	do := methods[q.Method]
	if do == nil {
		return nil, fmt.Errorf("%w: there is no call %s", mover.ErrUnsupported, mover.Printable(q.Method))
	}
	return do(ctx, q.Args)
}
