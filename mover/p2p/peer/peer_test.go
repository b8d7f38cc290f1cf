package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/checksum"
	"datamove.dev/mover/p2p"
	"datamove.dev/mover/server/pki"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) {
	// A server that has refused a body waits for half a second until its connection is gone.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// here is a tree of which some is published, and some is with a process.
type here struct {
	published map[string]string // names -> contents
	process   map[string]string
	source    map[string]string
	reading   string // a name that comes from the source just now
	asked     atomic.Int64
	hold      chan struct{} // Ask waits for it; nil does not
}

func (h *here) from(where map[string]string, p *p2p.Piece, into []byte) error {
	for _, s := range p.Segments {
		text, ok := where[s.Name]
		if !ok || int64(len(text)) < s.Off+s.Length {
			return mover.ErrNotExist
		}
		into = into[copy(into, text[s.Off:s.Off+s.Length]):]
	}
	return nil
}

func (h *here) Published(p *p2p.Piece, into []byte) error { return h.from(h.published, p, into) }

func (h *here) Ask(ctx context.Context, p *p2p.Piece, atHome bool) ([]byte, error) {
	h.asked.Add(1)
	if h.hold != nil {
		select {
		case <-h.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	into := make([]byte, p.Bytes())
	err := h.from(h.process, p, into)
	switch {
	case err != nil && atHome:
		err = h.from(h.source, p, into)
	case err != nil && p.Segments[0].Name == h.reading:
		err = mover.ErrHeld
	}
	return into, err
}

// rig is one agent that serves, and who asks it.
type rig struct {
	t      *testing.T
	server *Server
	client *Client
	member p2p.Member
	keeper *pki.Store
}

func newRig(t *testing.T) *rig {
	authority := must.Get(pki.OpenAuthority(filepath.Join(t.TempDir(), "authority")))(t)
	id := pki.Identity{Role: pki.Agent, Name: "n1"}
	keeper := must.Get(pki.OpenStore(filepath.Join(t.TempDir(), "identity"), id, pki.StoreOptions{}))(t)
	must.Do(t, keeper.Obtain(t.Context(), func(_ context.Context, request []byte) ([]byte, []byte, error) {
		i, err := authority.Issue(request, id, 0)
		return i.Certificate, i.Authority, err
	}))
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &rig{t: t, server: NewServer(Options{}), keeper: keeper, member: p2p.Member{Name: "n1", Address: l.Addr().String()}}
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(tls.NewListener(l, pki.PeerServerTLS(keeper.Certificate))) }()
	t.Cleanup(func() {
		must.Do(t, l.Close())
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	r.client = r.asking("ticket")
	return r
}

func (r *rig) asking(ticket string) *Client {
	c := must.Get(NewClient(r.keeper.AuthorityCertificates()))(r.t)
	c.Present(ticket)
	r.t.Cleanup(c.Close)
	return c
}

func piece(index int, name string, off, n int64) *p2p.Piece {
	return &p2p.Piece{Index: index, Segments: []p2p.Segment{{Name: name, Off: off, Length: n}}}
}

func TestGet(t *testing.T) {
	r := newRig(t)
	tree := &here{published: map[string]string{"a": "seen by all", "b": "seen, too"}, process: map[string]string{"c": "being written"}, source: map[string]string{"d": "at the source"}, reading: "e"}
	r.server.Open("digest", "ticket", tree)
	r.server.Keep("digest", piece(9, "kept", 0, 4).Key(), []byte("KEPT"))
	both := &p2p.Piece{Segments: []p2p.Segment{{Name: "a", Off: 5, Length: 6}, {Name: "b", Off: 0, Length: 4}}}
	for _, row := range []struct {
		what   string
		piece  *p2p.Piece
		atHome bool
		want   string
		err    error
	}{
		{"what is published", piece(0, "a", 0, 11), false, "seen by all", nil},
		{"parts of two files", both, false, "by allseen", nil},
		{"what is being written", piece(1, "c", 6, 7), false, "written", nil},
		{"what is only at the source", piece(2, "d", 0, 13), false, "", mover.ErrNotExist},
		{"what is being read", piece(2, "e", 0, 13), false, "", mover.ErrHeld},
		{"and is this node's to read", piece(2, "d", 0, 13), true, "at the source", nil},
		{"is kept from then on", piece(2, "d", 0, 13), false, "at the source", nil},
		{"what was read before", piece(9, "kept", 0, 4), false, "KEPT", nil},
		{"more than there is", piece(3, "a", 5, 7), true, "", mover.ErrNotExist},
		{"a name that leads outside", piece(4, "../a", 0, 1), true, "", mover.ErrUsage},
		{"nothing", &p2p.Piece{}, true, "", mover.ErrUsage},
	} {
		into := make([]byte, row.piece.Bytes())
		err := r.client.Get(t.Context(), r.member, row.piece, row.atHome, into)
		if !errors.Is(err, row.err) || err == nil && string(into) != row.want {
			t.Errorf("%s: %q, %v", row.what, into, err)
		}
	}
}

// closed is a tree of which nothing that is published is for who asks.
type closed struct{ here }

func (c *closed) Published(*p2p.Piece, []byte) error { return mover.ErrPermission }

// TestClosed: who may not read what a node has hears more than that a piece is not there, and so asks others for the next ones.
func TestClosed(t *testing.T) {
	r := newRig(t)
	r.server.Open("digest", "ticket", &closed{here{published: map[string]string{"a": "1"}, process: map[string]string{"b": "2"}}})
	into := make([]byte, 1)
	if err := r.client.Get(t.Context(), r.member, piece(0, "a", 0, 1), false, into); err == nil || errors.Is(err, mover.ErrNotExist) || !strings.Contains(err.Error(), "403") || into[0] != 0 {
		t.Errorf("what is published: %q, %v", into, err)
	}
	if err := r.client.Get(t.Context(), r.member, piece(1, "b", 0, 1), false, into); err != nil || into[0] != '2' {
		t.Errorf("what their own process has: %q, %v", into, err)
	}
}

// TestTickets: who has none, or one of another tree, or an old one, gets nothing.
//
//safety:7 a node asks for pieces of what it does not stage; a stranger gives them
func TestTickets(t *testing.T) {
	r := newRig(t)
	r.server.Open("one", "ticket", &here{published: map[string]string{"a": "1"}})
	r.server.Open("two", "other", &here{published: map[string]string{"b": "2"}})
	ask := func(c *Client, name string) error {
		return c.Get(t.Context(), r.member, piece(0, name, 0, 1), true, make([]byte, 1))
	}
	must.Tell(t, ask(r.client, "a"))
	for _, ticket := range []string{"", "wrong", "ticke", "ticket2"} {
		if err := ask(r.asking(ticket), "a"); !errors.Is(err, mover.ErrPermission) {
			t.Errorf("with the ticket %q: %v", ticket, err)
		}
	}
	if err := ask(r.client, "b"); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("of another tree: %v", err)
	}
	r.server.Open("one", "new", &here{published: map[string]string{"a": "1"}})
	if err := ask(r.client, "a"); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("with an old ticket: %v", err)
	}
	r.server.Shut("two")
	if err := ask(r.asking("other"), "b"); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("of a tree that is shut: %v", err)
	}
	if r.server.Keep("two", piece(0, "b", 0, 1).Key(), []byte("2")); r.server.kept.bytes > 0 {
		t.Error("pieces of a tree that is shut are kept")
	}
}

// TestWhoServes: an agent with another name, or whom nobody knows, is not asked.
//
//safety:7 with TestTickets
func TestWhoServes(t *testing.T) {
	r := newRig(t)
	r.server.Open("digest", "ticket", &here{published: map[string]string{"a": "1"}})
	err := r.client.Get(t.Context(), p2p.Member{Name: "n2", Address: r.member.Address}, piece(0, "a", 0, 1), true, make([]byte, 1))
	if !errors.Is(err, mover.ErrPermission) || !strings.Contains(err.Error(), "not the agent of n2") {
		t.Errorf("under another name: %v", err)
	}
	stranger, err := pki.OpenAuthority(filepath.Join(t.TempDir(), "authority"))
	must.Do(t, err)
	c, err := NewClient([][]byte{pemless(t, stranger)})
	must.Do(t, err)
	defer c.Close()
	c.Present("ticket")
	if err := c.Get(t.Context(), r.member, piece(0, "a", 0, 1), true, make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "authority") {
		t.Errorf("of another authority: %v", err)
	}
}

// pemless is the certificate of an authority.
func pemless(t *testing.T, a *pki.Authority) []byte {
	id := pki.Identity{Role: pki.Agent, Name: "x"}
	k := must.Get(pki.OpenStore(filepath.Join(t.TempDir(), "identity"), id, pki.StoreOptions{}))(t)
	must.Do(t, k.Obtain(t.Context(), func(_ context.Context, request []byte) ([]byte, []byte, error) {
		i, err := a.Issue(request, id, 0)
		return i.Certificate, i.Authority, err
	}))
	return k.AuthorityCertificates()[0]
}

// TestTogether: many who want the same piece have the process asked once.
func TestTogether(t *testing.T) {
	r := newRig(t)
	tree := &here{source: map[string]string{"d": "wanted by many"}, hold: make(chan struct{})}
	r.server.Open("digest", "ticket", tree)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			into := make([]byte, 14)
			if err := r.client.Get(t.Context(), r.member, piece(0, "d", 0, 14), true, into); err != nil || string(into) != "wanted by many" {
				t.Errorf("%q, %v", into, err)
			}
		})
	}
	tree.hold <- struct{}{} // it was asked
	close(tree.hold)
	group.Wait()
	if n := tree.asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

// TestDamage: bytes that are not those that were sent, too few of them, or none.
func TestDamage(t *testing.T) {
	good := append([]byte("1234"), binary.LittleEndian.AppendUint64(nil, checksum.Update(0, []byte("1234")))...)
	for _, row := range []struct {
		what string
		sent []byte
		kind error
	}{
		{"right", good, nil}, {"a bit", append([]byte("1235"), good[4:]...), mover.ErrCorrupt}, {"of the sum", append(good[:11:11], good[11]^1), mover.ErrCorrupt},
		{"too few", good[:11], mover.ErrTransient}, {"none", nil, mover.ErrTransient},
	} {
		if err := read(bytes.NewReader(row.sent), make([]byte, 4)); !errors.Is(err, row.kind) {
			t.Errorf("%s: %v", row.what, err)
		}
	}
}

// TestRequests: what is no piece is refused, and said so.
//
//safety:6 with mover/p2p TestHostilePieces
func TestRequests(t *testing.T) {
	r := newRig(t)
	r.server.Open("digest", "ticket", &here{published: map[string]string{"a": "1"}})
	body := must.Get(proto.Marshal(Encode(piece(0, "a", 0, 1))))(t)
	huge := must.Get(proto.Marshal(&agentv1.Piece{Segments: []*agentv1.PieceSegment{{Name: bytes.Repeat([]byte("x"), bodyMost), Length: 1}}}))(t)
	call, _ := r.client.to(r.member, false)
	for _, row := range []struct {
		what, method, path string
		body               []byte
		status             int
	}{
		{"right", http.MethodPost, path, body, http.StatusOK}, {"a GET", http.MethodGet, path, body, http.StatusBadRequest}, {"elsewhere", http.MethodPost, "/", body, http.StatusBadRequest},
		{"nonsense", http.MethodPost, path, []byte("nonsense"), http.StatusBadRequest}, {"too much", http.MethodPost, path, huge, http.StatusBadRequest},
	} {
		req, err := http.NewRequestWithContext(t.Context(), row.method, "https://"+r.member.Address+row.path, bytes.NewReader(row.body))
		must.Do(t, err)
		req.Header.Set("Authorization", scheme+"ticket")
		answer, err := call.Do(req)
		must.Do(t, err)
		text, err := io.ReadAll(answer.Body)
		must.Do(t, errors.Join(err, answer.Body.Close()))
		if answer.StatusCode != row.status {
			t.Errorf("%s: %s %q", row.what, answer.Status, text)
		}
	}
}

// limited is an answer on a connection that has taken others before.
type limited struct {
	*httptest.ResponseRecorder
	until time.Time // it may be written; zero is for ever
}

func (l *limited) SetWriteDeadline(t time.Time) error {
	l.until = t
	return nil
}

// TestRefusalLater: the time that a piece had is not that of a refusal which comes later on its connection, and would not be written.
func TestRefusalLater(t *testing.T) {
	s := NewServer(Options{})
	s.Open("digest", "ticket", &here{})
	for body, code := range map[string]int{"nonsense": http.StatusBadRequest, string(must.Get(proto.Marshal(Encode(piece(0, "a", 0, 1))))(t)): http.StatusNotFound} {
		w := &limited{httptest.NewRecorder(), time.Now()}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Authorization", scheme+"ticket")
		if s.ServeHTTP(w, r); w.Code != code || !w.until.IsZero() {
			t.Errorf("%d %s, to be written until %v", w.Code, w.Body, w.until)
		}
	}
}

// TestKeeper: what was asked for last stays, within the limit.
func TestKeeper(t *testing.T) {
	var k pieceCache
	k.open(10)
	key := func(i int) p2p.Key { return p2p.Key{Index: i} }
	for i := range 4 {
		k.put("d", key(i), []byte("123"))
		k.get("d", key(0))
	}
	k.put("d", key(9), make([]byte, 11))
	for i, want := range []bool{true, false, true, true} {
		if got := k.get("d", key(i)) != nil; got != want {
			t.Errorf("piece %d is there: %v", i, got)
		}
	}
	k.put("e", key(0), []byte("1"))
	if k.forget("d"); k.bytes != 1 || k.get("e", key(0)) == nil || len(k.all) != 1 || k.order.Len() != 1 {
		t.Errorf("%d bytes, %v", k.bytes, k.all)
	}
}

//safety:6 with mover/p2p TestHostilePieces
func FuzzParse(f *testing.F) {
	body, _ := proto.Marshal(Encode(&p2p.Piece{Index: 3, Segments: []p2p.Segment{{Name: "a/b", Off: 1, Length: 2}, {Name: "c", Length: 4}}}))
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := parse(body)
		if err != nil {
			return
		}
		again, err := proto.Marshal(Encode(p))
		must.Do(t, err)
		if q, err := parse(again); err != nil || q.Key() != p.Key() || fmt.Sprint(q) != fmt.Sprint(p) {
			t.Errorf("%v was %v: %v", q, p, err)
		}
	})
}
