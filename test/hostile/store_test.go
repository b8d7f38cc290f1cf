package hostile

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

const s3Part = 16 << 20

// dice are rolled by many goroutines.
type dice struct {
	mu     sync.Mutex
	random *rand.Rand
	faults map[string]int // how often each call was spoilt
}

// spoils reports whether to spoil a call: with a chance in percent, and at most a
// number of times for each kind.
func (d *dice) spoils(call string, percent, most int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faults[call] >= most || d.random.IntN(100) >= percent {
		return false
	}
	d.faults[call]++
	return true
}

func (d *dice) count(call string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.faults[call]
}

const any = 1 << 30

// busy answers 503 to 20 % of all calls. To find a directory takes three calls in a row, and a try is all of
// them: half of these tries fail, and one directory in 5,000 all twelve. (At 30 % it was one in 150.)
func busy(d *dice) rig.Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !d.spoils(rig.Call(r), 20, any) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
	}
}

// resets cuts the connection in the middle of a body, of either direction.
func resets(d *dice) rig.Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		call := rig.Call(r)
		switch {
		case (call == "UploadPart" || call == "PutObject") && d.spoils(call, 40, 5):
			_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2) // it is cut anyway
			panic(http.ErrAbortHandler)
		case call == "GetObject" && d.spoils(call, 40, 5):
			w = &bodyFault{ResponseWriter: w, cutAt: 10_000}
		}
		next.ServeHTTP(w, r)
	}
}

// lies answers 200 to the completion of an upload, with an error in the body.
func lies(d *dice) rig.Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if rig.Call(r) != "CompleteMultipartUpload" || !d.spoils("CompleteMultipartUpload", 100, 2) {
			next.ServeHTTP(w, r)
			return
		}
		fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>InternalError</Code><Message>We encountered an internal error. Please try again.</Message></Error>`)
	}
}

// flips changes one bit of what is fetched of user data, now and then.
func flips(d *dice) rig.Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if rig.Call(r) == "GetObject" && !strings.Contains(r.URL.Path, ".datamove") && d.spoils("GetObject", 30, 2) {
			w = &bodyFault{ResponseWriter: w, flipAt: 100}
		}
		next.ServeHTTP(w, r)
	}
}

// silent never answers the first few calls that carry data.
func silent(d *dice) rig.Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		call := rig.Call(r)
		if (call == "UploadPart" || call == "GetObject") && d.spoils(call, 100, 1) {
			_, _ = io.Copy(io.Discard, r.Body) // a server that reads on and says nothing
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	}
}

// forgets does what it is asked for when uploads begin and are put together, and
// then cuts the connection.
func forgets(d *dice) rig.Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		call := rig.Call(r)
		if (call == "CreateMultipartUpload" || call == "CompleteMultipartUpload") && d.spoils(call, 100, 2) {
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	}
}

// bodyFault spoils a body that is answered.
type bodyFault struct {
	http.ResponseWriter
	cutAt, flipAt, at int // 0 is not at all
}

func (b *bodyFault) Write(p []byte) (int, error) {
	if b.cutAt > 0 && b.at+len(p) > b.cutAt {
		_, _ = b.ResponseWriter.Write(p[:max(0, b.cutAt-b.at)]) // it is cut anyway
		panic(http.ErrAbortHandler)
	}
	if i := b.flipAt - b.at; b.flipAt > 0 && i >= 0 && i < len(p) {
		p = slices.Clone(p)
		p[i] ^= 0x10
	}
	n, err := b.ResponseWriter.Write(p)
	b.at += n
	return n, err
}

// Unwrap lets the proxy flush.
func (b *bodyFault) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// A store that fails in any of these ways costs tries, and no more: what is there in
// the end is right, and only the spoilt parts were sent again.
//
//safety:3 an upload with a lost answer, one that the store begins late or for a process that stops meanwhile, and one that a part in flight would bring back are aborted, and no others
func TestFailingStore(t *testing.T) {
	type row struct {
		name  string
		fault func(*dice) rig.Fault
	}
	rows := []row{{"resets", resets}, {"lies", lies}, {"flips", flips}, {"forgets", forgets}}
	if seed.Soak() {
		rows = append(rows, row{"busy", busy}, row{"silent", silent})
	}
	source := rig.Memory(t)
	sizes(t, source)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			p := rig.New(t)
			store := rig.NewStore(t, p)
			d := &dice{random: kill.Random(t), faults: map[string]int{}}
			if row.name != "busy" { // that one is from the beginning
				p.Do(t, 0, "copy", "-q", filepath.Join(source, "small"), store.At("first")) // probes the bucket
			}
			store.Calls("UploadPart")
			store.Set(row.fault(d))
			p.Do(t, 0, "copy", "-q", source, store.At(row.name))
			sent, _ := store.Calls("UploadPart")
			if want := 2 + 3; sent != want && row.name != "busy" { // of the files of more than one part
				t.Errorf("%d parts were stored, want %d", sent, want)
			}
			store.Calls("GetObject")
			back := rig.Memory(t)
			p.Do(t, 0, "copy", "-q", store.At(row.name), back)
			rig.SameTrees(t, source, back, true)
			if n := store.Uploads(t); n > 0 {
				t.Errorf("%d uploads are open", n)
			}
			t.Logf("spoilt: %v", d.faults)
			if d.count("GetObject")+d.count("CompleteMultipartUpload") == 0 {
				t.Error("nothing was spoilt")
			}
		})
	}
}

// sizes makes files of the sizes around one part, of two and a byte, and small ones.
func sizes(t *testing.T, dir string) {
	random := rand.NewChaCha8([32]byte{3})
	for _, size := range []int{0, 1, 4096, s3Part - 1, s3Part, s3Part + 1, 2*s3Part + 1} {
		b := make([]byte, size)
		_, _ = random.Read(b) // never fails
		write(t, dir, fmt.Sprint("size-", size), string(b))
	}
	for i := range 12 {
		write(t, dir, fmt.Sprintf("small/%d", i), strings.Repeat("x", i*997))
	}
	must.Do(t, os.Symlink("size-1", filepath.Join(dir, "link")))
}
