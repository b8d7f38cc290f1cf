package s3_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover/backend/s3"
	"datamove.dev/test/memnet"
	"datamove.dev/test/must"
	"datamove.dev/test/s3server"
)

// inMemory are the options of a place on a server of this process, for a test in a bubble.
func inMemory(t *testing.T, server *s3server.Server) s3.Options {
	t.Helper()
	const address = "127.0.0.1:9"
	network := memnet.New(t)
	network.Serve(address, server)
	return s3.Options{
		Endpoint: "http://" + address, Bucket: "test", KeyText: "AWS_ACCESS_KEY_ID=test\nAWS_SECRET_ACCESS_KEY=test\n", Client: "minio", StateDir: t.TempDir(), Writable: true,
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			return network.Dial(ctx, address, "test")
		},
	}
}

// TestProbesWithoutAnswers: whichever answer to a probe is lost, and how often, nothing of the probes stays in the bucket.
func TestProbesWithoutAnswers(t *testing.T) {
	for _, op := range []string{"PutObject", "CopyObject", "CreateMultipartUpload", "UploadPart", "UploadPartCopy", "CompleteMultipartUpload"} {
		for _, after := range []int{0, 1, 2, 6} {
			for _, times := range []int{1, 4} {
				synctest.Test(t, func(t *testing.T) {
					server := &s3server.Server{}
					o := inMemory(t, server)
					calls := 0
					server.Fate = func(c s3server.Call) s3server.Fate { // of one call at a time
						if c.Op != op {
							return s3server.Fate{}
						}
						calls++
						return s3server.Fate{Lost: calls > after && calls <= after+times}
					}
					if p, err := s3.Open(t.Context(), o); err == nil { // else it has no answer to its first question
						must.Do(t, p.Close())
					}
					if objects, uploads := server.Objects(""), server.Uploads(""); len(objects)+len(uploads) > 0 || calls == 0 {
						t.Errorf("%s of which %d are lost after %d: %v and %v are left", op, times, after, objects, uploads)
					}
				})
			}
		}
	}
}

// TestProbesOfKilled: what a killed run has left of its probes is removed by one that probes later, and those of a run at work are not.
func TestProbesOfKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &s3server.Server{}
		o := inMemory(t, server)
		o.Prefix = "below"
		killed := false
		server.Fate = func(c s3server.Call) s3server.Fate {
			return s3server.Fate{Cut: killed && c.Op == "DeleteObject"} // the run removes nothing
		}
		probe := func() (left int) {
			t.Helper()
			o.StateDir = t.TempDir()
			must.Do(t, must.Get(s3.Open(t.Context(), o))(t).Close())
			return len(server.Objects(""))
		}
		killed = true
		left := probe()
		killed = false
		if left == 0 {
			t.Fatal("nothing is left")
		}
		time.Sleep(10 * time.Minute)
		if n := probe(); n != left {
			t.Errorf("%d probes are there after ten minutes, of %d", n, left)
		}
		time.Sleep(time.Hour)
		if n := probe(); n != 0 {
			t.Errorf("%d probes are there after an hour: %v", n, fmt.Sprint(server.Objects("")))
		}
	})
}
