package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/p2p"
)

// What is exported is asked for at paths of its own: entries, pieces of files, and whether two of them have the same bytes. A server that can not give answers with a kind of error.
const (
	exportedEntries = "/datamove.peer.v1/lent/entries"
	exportedPiece   = "/datamove.peer.v1/lent/piece"
	exportedSame    = "/datamove.peer.v1/lent/same"
	kindHeader      = "Datamove-Error"
	entriesMost     = 100_000  // of one directory
	answerMost      = 64 << 20 // bytes of one answer with entries
	pairMost        = 64 << 20 // bytes of two files that are compared for one question: an answer has to come before silence
	exportTime      = 2 * time.Minute
)

// exported is a directory that this node exports. It is a Tree of which names can be asked for, too.
type exported struct{ place mover.Source }

// Export makes a source one that can be opened to others. It is read, and never written.
func Export(place mover.Source) Tree { return &exported{place} }

// Published implements Tree.
func (l *exported) Published(p *p2p.Piece, into []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), exportTime)
	defer cancel()
	for _, s := range p.Segments {
		if err := l.read(ctx, s, into[:s.Length]); err != nil {
			return err
		}
		into = into[s.Length:]
	}
	return nil
}

func (l *exported) read(ctx context.Context, s p2p.Segment, into []byte) error {
	return l.ranged(ctx, s, func(r io.Reader) error {
		_, err := io.ReadFull(r, into)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: it is shorter by now", mover.ErrChanged)
		}
		return err
	})
}

// ranged has a range of a file be used, which is the same file afterwards.
func (l *exported) ranged(ctx context.Context, s p2p.Segment, use func(io.Reader) error) error {
	e, err := l.place.Stat(ctx, s.Name)
	if err != nil {
		return err
	}
	if e.Kind != mover.File {
		return fmt.Errorf("%w: it is no file", mover.ErrChanged)
	}
	content, err := l.place.Open(mover.Ranged(ctx), e)
	if err != nil {
		return err
	}
	defer content.Close()
	r, err := content.Range(ctx, s.Off, s.Length)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := use(r); err != nil {
		return err
	}
	return content.Check(ctx)
}

// same says whether two files have the same bytes in a range.
func (l *exported) same(ctx context.Context, a, b p2p.Segment) (same bool, err error) {
	err = l.ranged(ctx, a, func(x io.Reader) error {
		return l.ranged(ctx, b, func(y io.Reader) (err error) {
			same, err = mover.Same(x, y)
			return err
		})
	})
	return same && err == nil, err
}

// Ask implements Tree.
func (l *exported) Ask(context.Context, *p2p.Piece, bool) ([]byte, error) {
	return nil, mover.ErrNotExist
}

// entries are what is directly in a directory, or the one of that name.
func (l *exported) entries(ctx context.Context, name string, list bool) (all []mover.Entry, err error) {
	if !list {
		e, err := l.place.Stat(ctx, name)
		return []mover.Entry{e}, err
	}
	below := ""
	if name != "" {
		below = name + "/"
	}
	deeper := func(name string, _ mover.Kind) bool { return strings.Contains(strings.TrimPrefix(name, below), "/") }
	for e, err := range l.place.Walk(ctx, mover.WalkOptions{Dir: name, Skip: deeper}) {
		if err != nil {
			return nil, err
		}
		if all = append(all, e); len(all) > entriesMost {
			return nil, fmt.Errorf("%w: there are more than %d names in one directory", mover.ErrRefused, entriesMost)
		}
	}
	return all, nil
}

// serveExport answers a request for something that is exported.
func (s *Server) serveExport(w http.ResponseWriter, r *http.Request, l *exported, body []byte) {
	var err error
	switch r.URL.Path {
	case exportedPiece:
		err = s.exportPiece(w, r, l, body)
	case exportedSame:
		err = s.exportSame(w, r, l, body)
	default:
		err = s.exportEntries(w, r, l, body)
	}
	if err != nil && !errors.Is(err, errSent) {
		w.Header().Set(kindHeader, mover.KindName(err))
		http.Error(w, mover.Printable(err.Error()), http.StatusConflict)
	}
}

func (s *Server) exportPiece(w http.ResponseWriter, r *http.Request, l *exported, body []byte) error {
	p, err := parse(body)
	if err != nil {
		return err
	}
	leave, err := s.reads.enter(r)
	if err != nil {
		return errSent
	}
	defer leave()
	into := make([]byte, p.Bytes())
	if err := l.Published(p, into); err != nil {
		return err
	}
	return send(w, into)
}

func (s *Server) exportEntries(w http.ResponseWriter, r *http.Request, l *exported, body []byte) error {
	q := &agentv1.LentQuestion{}
	if err := proto.Unmarshal(body, q); err != nil || !mover.ValidName(string(q.GetName())) {
		return fmt.Errorf("%w: not a question", mover.ErrUsage)
	}
	all, err := l.entries(r.Context(), string(q.GetName()), q.GetList())
	if err != nil {
		return err
	}
	answer := &agentv1.LentAnswer{}
	for i := range all {
		answer.Entries = append(answer.Entries, entryOut(&all[i]))
	}
	return reply(w, answer)
}

func (s *Server) exportSame(w http.ResponseWriter, r *http.Request, l *exported, body []byte) error {
	q := &agentv1.LentPair{}
	err := proto.Unmarshal(body, q)
	a, b := p2p.Segment{Name: string(q.GetA()), Off: q.GetOff(), Length: q.GetLength()}, p2p.Segment{Name: string(q.GetB()), Off: q.GetOff(), Length: q.GetLength()}
	if err != nil || !mover.ValidName(a.Name) || !mover.ValidName(b.Name) || a.Off < 0 || a.Length < 0 || a.Length > pairMost || a.Off > math.MaxInt64-a.Length {
		return fmt.Errorf("%w: not a question", mover.ErrUsage)
	}
	leave, err := s.reads.enter(r)
	if err != nil {
		return errSent
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), exportTime)
	defer cancel()
	same, err := l.same(ctx, a, b)
	if err != nil {
		return err
	}
	return reply(w, &agentv1.LentSame{Same: same})
}

// reply sends an answer.
func reply(w http.ResponseWriter, answer proto.Message) error {
	text, err := proto.Marshal(answer)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", answerType)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * silence)) // a connection that can not is closed some time
	if _, err := w.Write(text); err != nil {
		return errSent
	}
	return nil
}

// lentFacts are those that an entry has on the wire.
const lentFacts = mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactAtime | mover.FactCtime | mover.FactLinks

func entryOut(e *mover.Entry) *agentv1.LentEntry {
	return &agentv1.LentEntry{Name: []byte(e.Name), Kind: int32(e.Kind), Known: uint32(e.Known & lentFacts), Size: e.Size, Mode: e.Mode, Uid: e.UID, Gid: e.GID,
		Mtime: e.Mtime.Sec, MtimeNs: e.Mtime.Nsec, Atime: e.Atime.Sec, AtimeNs: e.Atime.Nsec, Ctime: e.Ctime.Sec, CtimeNs: e.Ctime.Nsec,
		Target: []byte(e.Target), Device: e.Dev, Inode: e.Ino, Links: e.Nlink, Stored: e.Stored}
}

// entryIn is the inverse. What comes from others is checked.
func entryIn(in *agentv1.LentEntry) (e mover.Entry, err error) {
	e = mover.Entry{Name: string(in.GetName()), Kind: mover.Kind(in.GetKind()), Known: mover.Facts(in.GetKnown()) & lentFacts, Size: in.GetSize(), Mode: in.GetMode() & 0o7777, UID: in.GetUid(), GID: in.GetGid(),
		Mtime: mover.Time{Sec: in.GetMtime(), Nsec: in.GetMtimeNs()}, Atime: mover.Time{Sec: in.GetAtime(), Nsec: in.GetAtimeNs()}, Ctime: mover.Time{Sec: in.GetCtime(), Nsec: in.GetCtimeNs()},
		Target: string(in.GetTarget()), Dev: in.GetDevice(), Ino: in.GetInode(), Nlink: in.GetLinks(), Stored: in.GetStored()}
	nsec := slices.Max([]int32{e.Mtime.Nsec, e.Atime.Nsec, e.Ctime.Nsec})
	if !mover.ValidName(e.Name) || e.Kind < mover.File || e.Kind > mover.BlockDevice || e.Size < 0 || e.Stored < 0 || nsec > 999_999_999 || min(e.Mtime.Nsec, e.Atime.Nsec, e.Ctime.Nsec) < 0 {
		return mover.Entry{}, fmt.Errorf("%w: an entry that is none", mover.ErrCorrupt)
	}
	return e, nil
}
