package s3_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3test"
)

// says answers what asks for the region of a bucket, and counts all else.
type says struct {
	header, body string // of HeadBucket and GetBucketLocation; "" is nothing
	status       int    // of HeadBucket; 0 is 200
	others       atomic.Int64
}

func (s *says) serve(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
	switch {
	case r.Method == http.MethodHead && strings.Count(strings.Trim(r.URL.Path, "/"), "/") == 0:
		if s.header != "" {
			w.Header().Set("x-amz-bucket-region", s.header)
		}
		w.WriteHeader(max(s.status, 200))
	case r.Method == http.MethodGet && r.URL.Query().Has("location"):
		if s.body == "" {
			errorDocument(w, http.StatusNotImplemented, "NotImplemented")
			return true
		}
		_, _ = io.WriteString(w, s.body)
	default:
		s.others.Add(1)
		return false
	}
	return true
}

func constraint(region string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/">` + region + `</LocationConstraint>`
}

// TestRegion: the bucket is where it has to be, as its store says by one of two ways, or
// nothing but that is asked.
//
//safety:aws with tiering/burst/lifecycle TestRegion
func TestRegion(t *testing.T) {
	for _, client := range clients {
		l := newLiar(t, client)
		for _, row := range []struct {
			what       string
			says       *says
			want       string
			kind, open error  // of Region, and of Open with the region required
			why        string // what Open says
		}{
			{"there", &says{header: "us-east-1"}, "us-east-1", nil, nil, ""},
			{"elsewhere", &says{header: "eu-central-1"}, "eu-central-1", nil, mover.ErrRefused, "is in region eu-central-1 and has to be in us-east-1"},
			{"elsewhere, and moved", &says{header: "eu-central-1", status: 301}, "eu-central-1", nil, mover.ErrRefused, "is in region eu-central-1 and has"},
			{"elsewhere, and not for us", &says{header: "eu-central-1", status: 403}, "eu-central-1", nil, mover.ErrRefused, "is in region eu-central-1 and has"},
			{"by the other way", &says{body: constraint("us-east-1")}, "us-east-1", nil, nil, ""},
			{"elsewhere, by the other way", &says{body: constraint("EU")}, "eu-west-1", nil, mover.ErrRefused, "is in region eu-west-1 and has"},
			{"not said", &says{body: constraint("")}, "", mover.ErrUnsupported, mover.ErrRefused, "the store does not say"},
			{"not known how to say", &says{}, "", mover.ErrUnsupported, mover.ErrRefused, "has to be in region us-east-1"},
			{"said as what is none", &says{header: "us east"}, "", mover.ErrUnsupported, mover.ErrRefused, "which is no region"},
			{"not there", &says{status: 404}, "", mover.ErrNotExist, mover.ErrNotExist, ""},
			{"may not be asked", &says{status: 403, body: constraint("us-east-1")}, "us-east-1", nil, nil, ""},
			{"said as what is no answer", &says{body: "<Location"}, "", mover.ErrTransient, mover.ErrTransient, ""},
		} {
			t.Run(client+" "+row.what, func(t *testing.T) {
				l.lie(row.says.serve)
				got, err := s3.Region(t.Context(), l.options)
				if got != row.want || !errors.Is(err, row.kind) || (err == nil) != (row.kind == nil) || row.says.others.Load() > 0 {
					t.Errorf("%q, %v, and %d other calls", got, err, row.says.others.Load())
				}
				o := l.options
				o.RequireRegion = "us-east-1"
				p, err := s3.Open(t.Context(), o)
				if err == nil {
					_ = p.Close()
				} else if row.says.others.Load() > 0 {
					t.Errorf("%d other calls", row.says.others.Load())
				}
				if !errors.Is(err, row.open) || (err == nil) != (row.open == nil) || err != nil && !strings.Contains(err.Error(), row.why) {
					t.Errorf("opened: %v, want %q", err, row.why)
				}
			})
		}
	}
}

// TestRegionOfAServer: a real server tells its region, and another one is refused.
func TestRegionOfAServer(t *testing.T) {
	for _, client := range clients {
		t.Run(client, func(t *testing.T) {
			o := s3test.Start(t, false).Options(t)
			o.Client = client
			region, err := s3.Region(t.Context(), o)
			if errors.Is(err, mover.ErrUnsupported) {
				region = "us-east-1"
				t.Logf("it does not tell: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
			o.RequireRegion = region
			p, opened := s3.Open(t.Context(), o)
			if opened == nil {
				_ = p.Close()
			}
			if (opened == nil) != (err == nil) || opened != nil && !errors.Is(opened, mover.ErrRefused) {
				t.Errorf("it is in %q, and opens: %v", region, opened)
			}
			o.RequireRegion = "eu-central-9"
			if _, err := s3.Open(t.Context(), o); err == nil {
				t.Error("a bucket elsewhere opens")
			}
			o.Region = region
			if _, err := s3.Open(t.Context(), o); !errors.Is(err, mover.ErrUsage) {
				t.Errorf("two regions: %v", err)
			}
		})
	}
}
