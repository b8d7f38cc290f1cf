package peer

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"datamove.dev/mover"
	"datamove.dev/mover/p2p"
)

// Tree is what a node has of a tree.
type Tree interface {
	// Published fills into with a piece of what can be seen of the tree. ErrNotExist, or any other error, when it is not all there.
	// ErrPermission when the caller may have nothing of it, and has to ask other members.
	Published(p *p2p.Piece, into []byte) error
	// Ask has the process that brings the tree here give a piece: from its memory, from what it is writing, and with atHome from the source.
	// ErrNotExist when there is none, or it has it not.
	Ask(ctx context.Context, p *p2p.Piece, atHome bool) ([]byte, error)
}

// Options are those of a server. The zero value works.
type Options struct {
	Memory int64        // bytes of pieces that are kept; 0 means 128 MiB
	Logger *slog.Logger // nil means no log
}

// Server gives pieces to other nodes.
type Server struct {
	kept  pieceCache
	log   *slog.Logger
	reads reads
	asks  chan struct{} // held while a process reads

	flight singleflight.Group

	mu    sync.Mutex
	trees map[string]*openTree // by digest; guarded by mu
}

// openTree is a tree, and the ticket that opens it.
type openTree struct {
	ticket string
	tree   Tree
	digest string
}

const (
	usualMemory = 128 << 20
	asksMost    = 256
	askTime     = 2 * time.Minute // that a process may take
	shared      = 2 * time.Second // a shorter wait was shared with an earlier request: the home is asked again
)

// NewServer returns a server of nothing; Open gives it trees.
func NewServer(o Options) *Server {
	if o.Memory <= 0 {
		o.Memory = usualMemory
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{log: o.Logger, asks: make(chan struct{}, asksMost), trees: map[string]*openTree{}}
	s.kept.open(o.Memory)
	s.reads.open()
	return s
}

// Open gives bearers of the ticket pieces of a tree, which has a digest, from now on. It replaces what was open under the digest.
func (s *Server) Open(digest, ticket string, t Tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trees[digest] = &openTree{ticket, t, digest}
}

// Shut ends that.
func (s *Server) Shut(digest string) {
	s.mu.Lock()
	delete(s.trees, digest)
	s.mu.Unlock()
	s.kept.forget(digest)
}

// Keep has a piece in memory for later requests. data is the server's from now on.
func (s *Server) Keep(digest string, key p2p.Key, data []byte) {
	s.mu.Lock()
	open := s.trees[digest] != nil
	s.mu.Unlock()
	if open {
		s.kept.put(digest, key, data)
	}
}

// Serve serves until the listener is closed.
func (s *Server) Serve(l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	err := server.Serve(l)
	_ = server.Close()
	return err
}

// admit finds the tree of a ticket.
func (s *Server) admit(r *http.Request) *openTree {
	ticket, ok := strings.CutPrefix(r.Header.Get("Authorization"), scheme)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.trees {
		if subtle.ConstantTimeCompare([]byte(x.ticket), []byte(ticket)) == 1 {
			return x
		}
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // net/http keeps that of the answer before
	lends := slices.Contains([]string{exportedPiece, exportedEntries, exportedSame}, r.URL.Path)
	if r.Method != http.MethodPost || r.URL.Path != path && !lends {
		http.Error(w, "there is nothing here", http.StatusBadRequest)
		return
	}
	x := s.admit(r)
	if x == nil {
		http.Error(w, "the ticket is not good, or not any more", http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMost))
	if err != nil {
		http.Error(w, "the piece can not be read", http.StatusBadRequest)
		return
	}
	if l, is := x.tree.(*exported); is != lends {
		http.Error(w, "the ticket is for something else", http.StatusUnauthorized)
		return
	} else if lends {
		s.serveExport(w, r, l, body)
		return
	}
	p, err := parse(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := s.give(w, r, x, p); err != nil {
		s.fail(w, err)
	}
}

func (s *Server) fail(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, mover.ErrNotExist):
		http.Error(w, "it is not here", http.StatusNotFound)
	case errors.Is(err, mover.ErrHeld):
		http.Error(w, "it is being read", http.StatusConflict)
	case errors.Is(err, mover.ErrPermission):
		http.Error(w, err.Error(), http.StatusForbidden)
	case errors.Is(err, errSent):
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// errSent is an error after which nothing can be said.
var errSent = errors.New("the answer has begun")

// give finds a piece, and sends it.
func (s *Server) give(w http.ResponseWriter, r *http.Request, x *openTree, p *p2p.Piece) error {
	if data := s.kept.get(x.digest, p.Key()); data != nil {
		return send(w, data)
	}
	denied := s.published(w, r, x, p)
	if denied == nil || errors.Is(denied, errSent) {
		return denied
	}
	begun := time.Now()
	data, err := s.ask(r, x, p)
	for fromSource(r) && errors.Is(err, mover.ErrHeld) && time.Since(begun) < shared { // it joined a request that came earlier
		data, err = s.ask(r, x, p)
	}
	if errors.Is(err, mover.ErrNotExist) && errors.Is(denied, mover.ErrPermission) {
		err = denied
	}
	if err != nil {
		return err
	}
	return send(w, data)
}

// home says whether this node is asked as the home of a piece.
func fromSource(r *http.Request) bool { return r.URL.RawQuery == atHome }

// ask asks the process, once for all requests for the same piece at one time.
func (s *Server) ask(r *http.Request, x *openTree, p *p2p.Piece) ([]byte, error) {
	home := fromSource(r)
	ctx := context.WithoutCancel(r.Context())
	answer := s.flight.DoChan(fmt.Sprintf("%s %d %x %t", x.digest, p.Index, p.Key().Sum, home), func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		if home {
			select {
			case s.asks <- struct{}{}:
			case <-ctx.Done():
				return nil, mover.ErrTimeout
			}
			defer func() { <-s.asks }()
		}
		data, err := x.tree.Ask(ctx, p, home)
		if err == nil && int64(len(data)) != p.Bytes() {
			err = mover.ErrCorrupt
		}
		if err == nil {
			s.Keep(x.digest, p.Key(), data)
		}
		return data, err
	})
	select {
	case got := <-answer:
		data, _ := got.Val.([]byte)
		return data, got.Err
	case <-r.Context().Done():
		return nil, errSent
	}
}

// published sends a piece of what can be seen.
func (s *Server) published(w http.ResponseWriter, r *http.Request, x *openTree, p *p2p.Piece) error {
	leave, err := s.reads.enter(r)
	if err != nil {
		return errSent
	}
	defer leave()
	into := make([]byte, p.Bytes())
	if err := x.tree.Published(p, into); err != nil {
		return err
	}
	return send(w, into)
}

// send sends the answer. It gives up a client that takes too long.
func send(w http.ResponseWriter, data []byte) error {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * silence)) // a connection that can not is closed some time
	w.Header().Set("Content-Type", answerType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)+sumBytes))
	if err := write(w, data); err != nil {
		return errSent
	}
	return nil
}
