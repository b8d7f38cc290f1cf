package s3server_test

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/test/must"
	"datamove.dev/test/s3server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options are those of a place on a server.
func options(t *testing.T, server *s3server.Server) s3.Options {
	t.Helper()
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	return s3.Options{Endpoint: listening.URL, Bucket: "test", KeyText: "AWS_ACCESS_KEY_ID=test\nAWS_SECRET_ACCESS_KEY=test\n", StateDir: t.TempDir(), Writable: true}
}

// TestContract: backends on this server keep the promises of package mover, whether equal bytes have equal ETags or not, and what they
// find out of the server is that it does all that they use.
func TestContract(t *testing.T) {
	for _, salted := range []bool{false, true} {
		t.Run(fmt.Sprint(salted), func(t *testing.T) {
			server := &s3server.Server{Salted: salted}
			o := options(t, server)
			p := must.Get(s3.Open(t.Context(), o))(t)
			f := p.Profile()
			must.Do(t, p.Close())
			want := f
			want.ChecksPut, want.ChecksPart, want.ChecksWhole, want.TellsCRC, want.CreatesOnce, want.MatchesPut, want.GuardsWhole = true, true, true, true, true, true, true
			want.MatchesGet, want.MatchesDrop, want.MatchesCopy, want.CopiesParts, want.KeepsMarkers, want.Twins, want.ListsUploads = true, true, true, true, true, true, true
			want.KeepsHeaders, want.KeepsTags, want.TagsCopies, want.CountsTags, want.KeepsClass, want.BareMatch, want.SegmentBytes = true, true, true, true, true, false, 0
			if f != want {
				t.Errorf("it does %+v", f)
			}
			if left := server.Objects(""); len(left) != 0 || len(server.Uploads("")) != 0 {
				t.Errorf("the probes left %v, %v", left, server.Uploads(""))
			}
			n := 0
			backendtest.Run(t, func(t *testing.T) func() mover.Backend {
				o := o
				n++
				o.Prefix = fmt.Sprint("place-", n)
				return func() mover.Backend {
					p := must.Get(s3.Open(t.Context(), o))(t)
					return p
				}
			})
		})
	}
}
