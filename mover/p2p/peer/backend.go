package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/p2p"
)

// Backend is a directory that another node exports, or a part of it: a mover.Backend that is read, and refuses all else. What it yields has no
// extended attributes. It is safe for many goroutines.
type Backend struct {
	client *Client
	lender p2p.Member
	dir    string
	called string
}

// NewBackend is what a client, which presents the ticket, sees below a directory of what a member exports. called is its address, for people.
func NewBackend(c *Client, lender p2p.Member, dir, called string) *Backend {
	return &Backend{c, lender, dir, called}
}

var _ mover.Backend = (*Backend)(nil)

// String implements mover.Source.
func (p *Backend) String() string { return p.called }

// Capabilities implements mover.Source.
func (p *Backend) Capabilities() mover.Capabilities {
	return mover.Capabilities{System: "the disk of " + p.lender.Name, Keeps: lentFacts, Remote: true,
		SmallBytes: p2p.PieceMost, BatchFiles: 64, BatchBytes: 16 << 20, PartBytes: 16 << 20, PartMin: 1 << 20, PartAlign: 4 << 10, MaxParts: 1 << 20, Parallel: connsMost, MaxParallel: 2 * connsMost}
}

func (p *Backend) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &mover.Error{Op: op, Location: p.called, Name: name, Err: err}
}

// below is a name as the lender knows it.
func (p *Backend) below(name string) string {
	if name == "" {
		return p.dir
	}
	return mover.Join(p.dir, name)
}

var errAnswer = fmt.Errorf("%w: an answer that is none", mover.ErrCorrupt)

// question asks, and reads the answer.
func (p *Backend) question(ctx context.Context, path string, question, said proto.Message) error {
	body, err := proto.Marshal(question)
	if err != nil {
		return err
	}
	answer, err := p.client.lent(ctx, p.lender, path, body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerMost+1))
	if err != nil {
		return kinded(ctx, err)
	}
	if len(text) > answerMost || proto.Unmarshal(text, said) != nil {
		return errAnswer
	}
	return nil
}

// Same has the exporting node compare the bytes of two files of the same size there: they do not come here.
func (p *Backend) Same(ctx context.Context, a, b string, size int64) (bool, error) {
	for off := int64(0); off < size; off += pairMost {
		said := &agentv1.LentSame{}
		q := &agentv1.LentPair{A: []byte(p.below(a)), B: []byte(p.below(b)), Off: off, Length: min(size-off, pairMost)}
		if err := p.question(ctx, exportedSame, q, said); err != nil || !said.GetSame() {
			return false, p.fail("compare", a, err)
		}
	}
	return true, nil
}

// ask asks for entries.
func (p *Backend) ask(ctx context.Context, name string, list bool) (all []mover.Entry, err error) {
	said := &agentv1.LentAnswer{}
	if err := p.question(ctx, exportedEntries, &agentv1.LentQuestion{Name: []byte(p.below(name)), List: list}, said); err != nil {
		return nil, err
	}
	if len(said.GetEntries()) > entriesMost || !list && len(said.GetEntries()) != 1 {
		return nil, errAnswer
	}
	for _, one := range said.GetEntries() {
		e, err := entryIn(one)
		if err != nil {
			return nil, err
		}
		if p.dir != "" {
			inside, is := strings.CutPrefix(e.Name+"/", p.dir+"/")
			if e.Name = strings.TrimSuffix(inside, "/"); !is {
				return nil, fmt.Errorf("%w: an entry that was not asked for", mover.ErrCorrupt)
			}
		}
		parent, _ := mover.Parent(e.Name)
		if !list && e.Name != name || list && (parent != name || e.Name == "") || len(all) > 0 && mover.Compare(&all[len(all)-1], &e) >= 0 {
			return nil, fmt.Errorf("%w: an entry that was not asked for", mover.ErrCorrupt)
		}
		all = append(all, e)
	}
	return all, nil
}

// Walk implements mover.Source: a question for each directory.
func (p *Backend) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		if o.After != "" {
			yield(mover.Entry{}, p.fail("walk", "", mover.ErrUnsupported))
			return
		}
		p.walk(ctx, o, o.Dir, yield)
	}
}

func (p *Backend) walk(ctx context.Context, o mover.WalkOptions, dir string, yield func(mover.Entry, error) bool) (more bool) {
	all, err := p.ask(ctx, dir, true)
	if err != nil && (dir == o.Dir || !errors.Is(err, mover.ErrPermission) && !errors.Is(err, mover.ErrNotExist)) {
		return yield(mover.Entry{}, p.fail("walk", dir, err)) && false
	}
	if err != nil {
		return yield(mover.Entry{Name: dir, Kind: mover.Dir}, p.fail("walk", dir, err))
	}
	for _, e := range all {
		if o.Skip != nil && o.Skip(e.Name, e.Kind) {
			continue
		}
		if !yield(e, nil) || e.Kind == mover.Dir && !leavesOut(o, e.Name) && !p.walk(ctx, o, e.Name, yield) {
			return false
		}
	}
	return true
}

// leavesOut says that nothing in a directory is wanted, whatever it has.
func leavesOut(o mover.WalkOptions, dir string) bool {
	return o.Skip != nil && o.Skip(mover.Join(dir, "\x01"), mover.Dir) && o.Skip(mover.Join(dir, "\x01"), mover.File)
}

// Stat implements mover.Source.
func (p *Backend) Stat(ctx context.Context, name string) (mover.Entry, error) {
	all, err := p.ask(ctx, name, false)
	if err != nil {
		return mover.Entry{}, p.fail("look at", name, err)
	}
	return all[0], nil
}

// Open implements mover.Source. That it is the entry that was meant is left to Check.
func (p *Backend) Open(_ context.Context, e mover.Entry) (mover.Content, error) {
	return &content{p, e}, nil
}

// Close implements mover.Source.
func (p *Backend) Close() error { return nil }

// content is an entry of another node.
type content struct {
	place *Backend
	entry mover.Entry
}

// Entry implements mover.Content.
func (c *content) Entry() mover.Entry { return c.entry }

// Segment implements mover.Content: holes are not known, and read as zeros.
func (c *content) Segment(off int64) (mover.Segment, error) {
	return mover.Segment{Start: off, End: max(off, c.entry.Size)}, nil
}

// Check implements mover.Content.
func (c *content) Check(ctx context.Context) error {
	now, err := c.place.Stat(ctx, c.entry.Name)
	if errors.Is(err, mover.ErrNotExist) {
		err = c.place.fail("read", c.entry.Name, fmt.Errorf("%w: it is gone", mover.ErrChanged))
	}
	if err != nil {
		return err
	}
	was := c.entry
	if now.Kind != was.Kind || now.Size != was.Size || now.Ino != was.Ino || now.Dev != was.Dev || now.Mtime != was.Mtime || now.Ctime != was.Ctime {
		return c.place.fail("read", was.Name, fmt.Errorf("%w: it is another one than before", mover.ErrChanged))
	}
	return nil
}

// Close implements mover.Content.
func (c *content) Close() error { return nil }

// Range implements mover.Content.
func (c *content) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	return io.NopCloser(&ranging{ctx: ctx, content: c, off: off, left: n}), nil
}

// ranging reads a range, a piece after the other.
type ranging struct {
	ctx context.Context
	*content
	off, left int64
	have      []byte
}

// Read implements io.Reader.
func (r *ranging) Read(b []byte) (int, error) {
	if len(r.have) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		piece := &p2p.Piece{Segments: []p2p.Segment{{Name: r.place.below(r.entry.Name), Off: r.off, Length: min(r.left, p2p.PieceMost)}}}
		r.have = make([]byte, piece.Bytes())
		if err := r.place.piece(r.ctx, piece, r.have); err != nil {
			r.have = nil
			return 0, r.place.fail("read", r.entry.Name, err)
		}
		r.off, r.left = r.off+piece.Bytes(), r.left-piece.Bytes()
	}
	n := copy(b, r.have)
	r.have = r.have[n:]
	return n, nil
}

func (p *Backend) piece(ctx context.Context, piece *p2p.Piece, into []byte) error {
	body, err := proto.Marshal(Encode(piece))
	if err != nil {
		return err
	}
	answer, err := p.client.lent(ctx, p.lender, exportedPiece, body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return kinded(ctx, read(answer.Body, into))
}

// exported asks for something that an agent exports. A ticket that is not good has been: the agent has begun anew, or the task is another's.
func (c *Client) lent(ctx context.Context, m p2p.Member, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+m.Address+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", mover.ErrUsage, err)
	}
	call, ticket := c.to(m, false)
	r.Header.Set("Authorization", scheme+ticket)
	answer, err := call.Do(r)
	if err != nil {
		return nil, kinded(ctx, err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer answer.Body.Close()
	if kind := mover.KindNamed(answer.Header.Get(kindHeader)); kind != nil {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, errorBytes))
		return nil, &told{mover.Printable(strings.TrimSpace(string(text))), kind}
	}
	return nil, &told{refused(answer).Error(), mover.ErrTransient}
}

// told is an error of the other node.
type told struct {
	text string
	kind error
}

func (e *told) Error() string { return e.text }
func (e *told) Unwrap() error { return e.kind }

// refuses is what a place answers that is read only.
func (p *Backend) refuses(op, name string) error {
	return p.fail(op, name, fmt.Errorf("%w: what another node lends is read only", mover.ErrUnsupported))
}

// Lock implements mover.Target.
func (p *Backend) Lock(context.Context, string, mover.WriterID) (context.Context, func() error, error) {
	return nil, nil, p.refuses("lock", "")
}

// Draft implements mover.Target.
func (p *Backend) Draft(_ context.Context, e mover.Entry, _ mover.Hints) (mover.Draft, error) {
	return nil, p.refuses("write", e.Name)
}

// Adopt implements mover.Target.
func (p *Backend) Adopt(context.Context, mover.Token) (mover.Draft, error) {
	return nil, p.refuses("write", "")
}

// Drop implements mover.Target.
func (p *Backend) Drop(context.Context, mover.Token) error { return p.refuses("write", "") }

// Publish implements mover.Target.
func (p *Backend) Publish(_ context.Context, batch []mover.Draft) []mover.Outcome {
	out := make([]mover.Outcome, len(batch))
	for i := range out {
		out[i].Err = p.refuses("write", "")
	}
	return out
}

// Mkdir implements mover.Target.
func (p *Backend) Mkdir(_ context.Context, e mover.Entry) error { return p.refuses("write", e.Name) }

// Update implements mover.Target.
func (p *Backend) Update(_ context.Context, e mover.Entry) error { return p.refuses("write", e.Name) }

// Remove implements mover.Target.
func (p *Backend) Remove(_ context.Context, e mover.Entry, _ mover.WriterID) error {
	return p.refuses("remove", e.Name)
}

// Sync implements mover.Target.
func (p *Backend) Sync(context.Context) error { return nil }
