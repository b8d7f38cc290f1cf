package s3events

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"datamove.dev/tiering/catalog/changefeed"
)

// spoken is a bucket that tells what it is given.
type spoken chan string

var errCut = errors.New("the connection is cut")

func (s spoken) Listen(ctx context.Context, begun func(), tell func(string)) error {
	begun()
	for {
		select {
		case name, more := <-s:
			if !more {
				return errCut
			}
			tell(name)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// TestFeed: it begins with everything, tells names, and ends with the connection.
func TestFeed(t *testing.T) {
	s, got := make(spoken), make(chan string, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- (&Feed{Bucket: s, Window: time.Millisecond}).Run(t.Context(), nil, func(_ context.Context, b changefeed.Batch) error {
			if got <- strings.Join(b.Names, " "); b.All {
				got <- "all"
			}
			return nil
		})
	}()
	if a, b := <-got, <-got; a != "" || b != "all" {
		t.Errorf("it begins with %q, %q", a, b)
	}
	s <- "a/b"
	if names := <-got; names != "a/b" {
		t.Errorf("%q", names)
	}
	close(s)
	if err := <-ended; !errors.Is(err, errCut) {
		t.Errorf("%v", err)
	}
}
