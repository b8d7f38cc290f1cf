package s3_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/placetest"
	"datamove.dev/mover/s3"
	"datamove.dev/mover/s3/s3test"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// way is one of the ways to talk to a server.
type way struct {
	client string
	tls    bool
}

var ways = []way{{s3.ClientMinio, false}, {s3.ClientMinio, true}, {s3.ClientAWS, false}, {s3.ClientAWS, true}}

func (w way) String() string {
	if w.tls {
		return w.client + " https"
	}
	return w.client + " http"
}

// TestContract: the place keeps the promises of package mover on a real server.
func TestContract(t *testing.T) {
	for _, w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			server := s3test.Start(t, w.tls)
			options := server.Options(t)
			options.Client = w.client
			n := 0
			placetest.Run(t, func(t *testing.T) func() mover.Place {
				o := options
				n++
				o.Prefix = fmt.Sprintf("%s/%d", options.Prefix, n)
				return func() mover.Place {
					p, err := s3.Open(t.Context(), o)
					if err != nil {
						t.Fatal(err)
					}
					return p
				}
			})
		})
	}
}
