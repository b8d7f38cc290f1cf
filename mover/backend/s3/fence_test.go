package s3_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
)

// TestLateWriter: a draft whose name has become something else since the run saw it is
// not published; one whose first answer was lost is.
func TestLateWriter(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		l := newLiar(t, client)
		old, mine, newer := []byte("old content"), []byte("my content"), []byte("newer content, of somebody else")
		seen := func(name string) *mover.Entry {
			e, err := l.Stat(t.Context(), name)
			if errors.Is(err, mover.ErrNotExist) {
				return &mover.Entry{}
			}
			must.Do(t, err)
			return &e
		}
		draft := func(name string, s *mover.Entry) mover.Draft {
			d := must.Get(l.Draft(t.Context(), fileEntry(name, mine), mover.Hints{By: mover.WriterID{Task: "t", Epoch: 1}, Seen: s}))(t)
			fill(t, l.Backend, d, name, mine)
			return d
		}
		for _, row := range []struct {
			name        string
			there, then []byte // before the draft, and before it is published; nil is nothing
			lost        bool   // the answer
			published   bool
			forgets     bool // the server keeps no checksum
			meets       bool // another call to the key: AWS answers a condition with 409 then
		}{
			{"new", nil, nil, false, true, false, false},
			{"new, and somebody was faster", nil, newer, false, false, false, false},
			{"replaced", old, nil, false, true, false, false},
			{"replaced, and somebody was faster", old, newer, false, false, false, false},
			{"new, the answer is lost", nil, nil, true, true, false, false},
			{"replaced, the answer is lost", old, nil, true, true, false, false},
			{"somebody published the same", nil, mine, false, true, false, false},
			{"the answer is lost, and there is no checksum", nil, nil, true, true, true, false},
			{"somebody published the same, and there is no checksum", nil, mine, false, true, true, false},
			{"somebody published as much, and there is no checksum", nil, []byte("my contenu"), false, false, true, false},
			{"new, beside another call", nil, nil, false, true, false, true},
			{"replaced, beside another call", old, nil, false, true, false, true},
			{"beside the call of somebody who was faster", nil, newer, false, false, false, true},
		} {
			t.Run(client+" "+row.name, func(t *testing.T) {
				if f := l.Profile(); !row.published && !(f.CreatesOnce && f.MatchesPut) {
					t.Skip("this server has no conditional writes: whoever is last has written it")
				}
				l.honest()
				other := s3test.Open(t, l.options)
				if row.there != nil {
					publish(t, other, begun(t, other, row.name, row.there), row.name, row.there)
				}
				d := draft(row.name, seen(row.name))
				if row.then != nil {
					publish(t, other, begun(t, other, row.name, row.then), row.name, row.then)
				}
				want := mine
				if !row.published {
					want = row.then
				}
				after := l.honest
				if row.forgets {
					after = func() { l.lie(forgetful) }
					after()
				}
				if row.lost {
					l.lie(func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
						if r.Method != http.MethodPut {
							return false
						}
						forward.ServeHTTP(httptest.NewRecorder(), r)
						after()
						reset(w, r)
						return true
					})
				}
				if row.meets {
					l.lie(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
						if r.Method != http.MethodPut {
							return false
						}
						l.honest()
						errorDocument(w, http.StatusConflict, "ConditionalRequestConflict")
						return true
					})
				}
				out := l.Publish(t.Context(), []mover.Draft{d})[0]
				if row.meets && !errors.Is(out.Err, mover.ErrTransient) {
					t.Errorf("it met another call: %v", out.Err)
				}
				if (row.lost || row.meets) && out.Err != nil { // the patience around a place asks again
					out = l.Publish(t.Context(), []mover.Draft{d})[0]
				}
				if row.published && out.Err != nil || !row.published && !errors.Is(out.Err, mover.ErrChanged) {
					t.Errorf("published: %v", out.Err)
				}
				if got := backendtest.Read(t, l.Backend, row.name); string(got) != string(want) {
					t.Errorf("it has %q, want %q", got, want)
				}
			})
		}
	}
}

// TestLateWriterOfParts: the same of an object of parts, whose draft is an upload.
func TestLateWriterOfParts(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		l := newLiar(t, client)
		if !l.Profile().GuardsWhole {
			t.Skip("this server minds no condition when an upload is completed: whoever is last has written it")
		}
		mine := backendtest.Pattern(l.Capabilities().PartMin + 1)
		for _, row := range []struct {
			name        string
			there, then []byte // before the draft, and before it is published; nil is nothing
			lost        bool   // the answer
		}{
			{"new parts", nil, nil, false},
			{"new parts, and another writer was faster", nil, []byte("newer"), false},
			{"replaced by parts", []byte("old"), nil, false},
			{"replaced by parts, and another writer was faster", []byte("old"), []byte("newer"), false},
			{"new parts, the answer is lost", nil, nil, true},
			{"replaced by parts, the answer is lost", []byte("old"), nil, true},
		} {
			t.Run(client+" "+row.name, func(t *testing.T) {
				l.honest()
				seen := mover.Entry{}
				if row.there != nil {
					backendtest.Put(t, l.Backend, fileEntry(row.name, row.there), row.there)
					seen = must.Get(l.Stat(t.Context(), row.name))(t)
				}
				d := must.Get(l.Draft(t.Context(), fileEntry(row.name, mine), mover.Hints{PartBytes: l.Capabilities().PartMin, Seen: &seen}))(t)
				defer d.Close()
				fill(t, l.Backend, d, row.name, mine)
				want := mine
				if row.then != nil {
					backendtest.Put(t, l.Backend, fileEntry(row.name, row.then), row.then)
					want = row.then
				}
				if row.lost {
					l.lie(func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
						if r.Method != http.MethodPost {
							return false
						}
						forward.ServeHTTP(httptest.NewRecorder(), r)
						l.honest()
						reset(w, r)
						return true
					})
				}
				out := l.Publish(t.Context(), []mover.Draft{d})[0]
				if (out.Err == nil) != (row.then == nil) || out.Err != nil && !errors.Is(out.Err, mover.ErrChanged) {
					t.Errorf("published: %v", out.Err)
				}
				if got := backendtest.Read(t, l.Backend, row.name); string(got) != string(want) {
					t.Errorf("it has %d bytes, want %d", len(got), len(want))
				}
			})
		}
	}
}

// forgetful answers a look at an object as a server does that keeps no checksums.
func forgetful(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
	if r.Method != http.MethodHead {
		return false
	}
	answer := httptest.NewRecorder()
	forward.ServeHTTP(answer, r)
	for name, values := range answer.Header() {
		if !strings.HasPrefix(name, "X-Amz-Checksum-") {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(answer.Code)
	return true
}
