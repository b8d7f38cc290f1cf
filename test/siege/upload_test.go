package siege

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/test/crash/rig"
)

// gate holds the first call of a kind at a store: what is asked for is done, and
// nobody hears of it until the gate is opened.
type gate struct {
	call    string
	once    sync.Once
	reached chan struct{} // closed when the call was done
	opened  chan struct{}
}

func newGate(call string) *gate {
	return &gate{call: call, reached: make(chan struct{}), opened: make(chan struct{})}
}

func (g *gate) open() { close(g.opened) }

func (g *gate) fault(w http.ResponseWriter, r *http.Request, next http.Handler) {
	first := false
	if rig.Call(r) == g.call && !strings.Contains(r.URL.Path, "/.datamove/") { // else it probes the bucket
		g.once.Do(func() { first = true })
	}
	if !first {
		next.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	next.ServeHTTP(answer, r)
	close(g.reached)
	<-g.opened
	for key, values := range answer.Header() {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // whoever asked may be gone
}

// Somebody is killed while an upload is being begun, or put together: no object is made
// twice, none is missing, and no upload stays behind.
//
//safety:3 the coordinator, or the lead, is killed while a store begins an upload or puts it together
func TestKilledBetweenCreateAndComplete(t *testing.T) {
	long(t)
	t.Parallel()
	coordinator := func(s *site, _ *order) { s.crash(); s.start() }
	lead := func(s *site, o *order) { s.victim(o, (*pb.Task).GetAgent).kill() }
	for _, row := range []struct {
		name, call string
		kill       func(*site, *order)
	}{
		{"the coordinator, while one is begun", "CreateMultipartUpload", coordinator},
		{"the coordinator, while one is put together", "CompleteMultipartUpload", coordinator},
		{"the lead, while one is begun", "CreateMultipartUpload", lead},
		{"the lead, while one is put together", "CompleteMultipartUpload", lead},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, plan{nodes: []string{"n1", "n2"}, store: true})
			g := newGate(row.call)
			s.store.Set(g.fault)
			o := s.upload("target")
			<-g.reached
			row.kill(s, o)
			g.open()
			o.done()
			s.stored("target")
		})
	}
}
