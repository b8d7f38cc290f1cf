package s3_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// way is one of the ways to talk to a server.
type way struct {
	client string
	tls    bool
}

var ways = []way{{s3api.ClientMinio, false}, {s3api.ClientMinio, true}, {s3api.ClientAWS, false}, {s3api.ClientAWS, true}}

// contracts are the ways that the contract goes: each client once, and each protocol; with -short, one of them. How bytes are signed and checked on each of the four is TestTraps' matter.
func contracts() []way {
	if seed.Soak() || os.Getenv("DATAMOVE_E2E_S3") != "" {
		return ways
	}
	if testing.Short() {
		return ways[3:]
	}
	return []way{{s3api.ClientMinio, false}, {s3api.ClientAWS, true}}
}

func (w way) String() string {
	if w.tls {
		return w.client + " https"
	}
	return w.client + " http"
}

// TestContract: the place keeps the promises of package mover on a real server.
func TestContract(t *testing.T) {
	for _, w := range contracts() {
		t.Run(w.String(), func(t *testing.T) {
			server := s3test.Start(t, w.tls)
			options := server.Options(t)
			options.Client = w.client
			if !s3test.Open(t, options).Profile().KeepsMarkers {
				t.Skip("this server takes the marker of a directory for a file: see TestLoose")
			}
			n := 0
			backendtest.Run(t, func(t *testing.T) func() mover.Backend {
				o := options
				n++
				o.Prefix = fmt.Sprintf("%s/%d", options.Prefix, n)
				return func() mover.Backend {
					p := must.Get(s3.Open(t.Context(), o))(t)
					return p
				}
			})
		})
	}
}

// TestContractOfVersions: in a bucket that keeps all versions the promises are the same.
func TestContractOfVersions(t *testing.T) {
	if s3test.Start(t, false).Dir == "" {
		t.Skip("it is of the embedded store, and one part of it of that without versions")
	}
	tried := contracts()
	if !seed.Soak() {
		tried = tried[len(tried)-1:] // what a version changes is the store's, and TestUpdateOfReplaced and the rest of versions_test.go have each client
	}
	for _, w := range tried {
		t.Run(w.client, func(t *testing.T) {
			options, plain := s3test.StartVersioned(t).Options(t), s3test.Start(t, false).Options(t)
			n := 0
			backendtest.Run(t, func(t *testing.T) func() mover.Backend {
				o := options
				if strings.HasSuffix(t.Name(), "A_directory_takes_the_place_of_a_file,_and_a_file_that_of_a_directory") {
					o = plain // versitygw keeps a file where an object was removed
				}
				o.Client = w.client
				n++
				o.Prefix = fmt.Sprintf("%s/%d", options.Prefix, n)
				return func() mover.Backend { return must.Get(s3.Open(t.Context(), o))(t) }
			})
		})
	}
}

// TestLoose: on a server that minds no checksum and no condition, files are still
// whole, and nobody says that they were compared.
//
//safety:1 a server that minds neither checksums nor conditions
//safety:2 with TestProfile
func TestLoose(t *testing.T) {
	for _, w := range contracts() {
		t.Run(w.String(), func(t *testing.T) {
			o := s3test.Start(t, w.tls).Options(t)
			o.Client = w.client
			p := s3test.Open(t, o)
			s3.Distrust(p)
			var names []string
			for i, size := range []int64{0, 1, 100_000, 2*p.Capabilities().PartMin + 1} {
				name := fmt.Sprintf("dir/f%d", i)
				data := backendtest.Pattern(size)
				out := p.Publish(t.Context(), []mover.Draft{drafted(t, p, name, data)})[0]
				if out.Err != nil || out.Level != mover.Written {
					t.Fatalf("%s: %+v", name, out)
				}
				if e, err := p.Stat(t.Context(), name); err != nil || e.ETag != out.ETag || e.Mode != 0o640 {
					t.Errorf("published as %+v, and is %+v, %v", out, e, err)
				}
				if got := backendtest.Read(t, p, name); string(got) != string(data) {
					t.Errorf("%s differs", name)
				}
				names = append(names, name)
			}
			for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
				must.Do(t, err)
				if e.Kind == mover.Dir {
					continue
				}
				if e.Name != names[0] {
					t.Errorf("walk yields %q, want %q", e.Name, names[0])
				}
				names = names[1:]
				must.Tell(t, p.Remove(t.Context(), e, mover.WriterID{Task: "t"}))
			}
			if len(names) > 0 {
				t.Errorf("walk does not yield %q", names)
			}
		})
	}
}
