package transfer

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
)

// Work is a piece of a run that another process can do: the actions of a batch, or
// parts of one large file.
type Work struct {
	Task  string // of the target: part of temporary names
	Steps []Step // of a batch, in order
	Parts *Parts // of a large file; nil is a batch

	// Again says that another process had this batch before and did not answer: the helper first looks at
	// what is at the target now. Over are the epochs of those processes. The helper drops
	// their drafts before anything else.
	Again bool
	Over  []uint64
}

// Step is an action of a batch as the cutter left it.
type Step struct {
	Seq    int64
	Action plan.Action
	Tries  int
	Build  bool // a new directory that lies wholly in the batch
}

// Parts are some parts of a file with a draft that the lead has begun.
type Parts struct {
	Source    mover.Entry // as the walk saw it
	Entry     mover.Entry // as it is carried over
	Token     mover.Token
	PartBytes int64
	Index     []int
}

// Entries is how many names a work is about.
func (w *Work) Entries() int64 { return int64(max(len(w.Steps), 1)) }

// Bytes is how many bytes a work will move, as far as that is known.
func (w *Work) Bytes() (n int64) {
	for i := range w.Steps {
		moved, _ := w.Steps[i].Action.Moves()
		n += moved
	}
	if p := w.Parts; p != nil {
		for _, i := range p.Index {
			n += cut(p.Entry.Size, p.PartBytes, i).Length
		}
	}
	return n
}

// Reply is what became of a work. What is in none of its lists was not reached.
type Reply struct {
	Results  []Told
	Redo     []Step          // to be moved once more by the lead
	Links    []Step          // hard links, which come later
	Dirs     []Step          // directories that get their facts at the end
	Undone   []Step          // not begun
	Receipts []mover.Receipt // of parts that are stored
	Unlike   []string        // names with another content than the walk saw
	Failed   *Fault          // why parts are missing
}

// Told is a Result that can travel.
type Told struct {
	Result // with no Err
	Fault  *Fault
}

// Fault is an error that can travel: its text, the name of its kind, and whether it has
// the marks mover.ErrUnlike, mover.ErrUnconfirmed, mover.ErrNamesake and mover.ErrNoSuchName.
type Fault struct {
	Kind, Text  string
	Unlike      bool
	Unconfirmed bool
	Namesake    bool
	NoSuchName  bool
}

func faultOf(err error) *Fault {
	if err == nil {
		return nil
	}
	return &Fault{mover.KindName(err), err.Error(), errors.Is(err, mover.ErrUnlike), errors.Is(err, mover.ErrUnconfirmed), errors.Is(err, mover.ErrNamesake), errors.Is(err, mover.ErrNoSuchName)}
}

// Err is the error again. It prints the same, is of the same kind, and has the same marks.
func (f *Fault) Err() error {
	if f == nil {
		return nil
	}
	var err error = &faulty{f.Text, mover.KindNamed(f.Kind)}
	if f.Unlike {
		err = mover.Unlike(err)
	}
	if f.Unconfirmed {
		err = mover.Unconfirmed(err)
	}
	if f.Namesake {
		err = mover.MarkNamesake(err)
	}
	if f.NoSuchName {
		err = mover.NoSuchName(err)
	}
	return err
}

type faulty struct {
	text string
	kind error
}

func (f *faulty) Error() string { return f.text }
func (f *faulty) Unwrap() error { return f.kind }

// mostEncoded bounds a work or a reply on its way. A batch has a few thousand
// entries, a name at most 4 KiB; usual are 200 KiB.
const mostEncoded = 64 << 20

// Encode gives w as bytes that DecodeWork reads, in this version or another one:
// fields that the reader does not know are left out.
func (w *Work) Encode() ([]byte, error) { return encode(w) }

// DecodeWork is the inverse of Work.Encode. What it reads may come from anybody.
func DecodeWork(b []byte) (*Work, error) {
	w := new(Work)
	if err := decode(b, w); err != nil {
		return nil, err
	}
	return w, w.check()
}

// check refuses names and parts that lead nowhere good.
func (w *Work) check() error {
	for i := range w.Steps {
		a := &w.Steps[i].Action
		if !mover.ValidName(a.Source.Name) || !mover.ValidName(a.Target.Name) || !mover.ValidName(a.Link) {
			return fmt.Errorf("%w: a work with an invalid name", mover.ErrUsage)
		}
	}
	p := w.Parts
	if p == nil {
		return nil
	}
	if !mover.ValidName(p.Source.Name) || !mover.ValidName(p.Entry.Name) || p.PartBytes <= 0 || p.Entry.Size < 0 {
		return fmt.Errorf("%w: a work with an invalid file", mover.ErrUsage)
	}
	for _, i := range p.Index {
		if i < 0 || i >= count(p.Entry.Size, p.PartBytes) {
			return fmt.Errorf("%w: a work with part %d of %d", mover.ErrUsage, i, count(p.Entry.Size, p.PartBytes))
		}
	}
	return nil
}

// Encode gives r as bytes that DecodeReply reads.
func (r *Reply) Encode() ([]byte, error) { return encode(r) }

// DecodeReply is the inverse of Reply.Encode.
func DecodeReply(b []byte) (*Reply, error) {
	r := new(Reply)
	return r, decode(b, r)
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return nil, err
	}
	if b.Len() > mostEncoded {
		return nil, fmt.Errorf("%w: a batch of %d bytes", mover.ErrUnsupported, b.Len())
	}
	return b.Bytes(), nil
}

var errWork = errors.New("not a work, or of another version")

func decode(b []byte, v any) error {
	if len(b) > mostEncoded {
		return fmt.Errorf("%w: %w", mover.ErrUsage, errWork)
	}
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(v); err != nil {
		return fmt.Errorf("%w: %w: %w", mover.ErrUsage, errWork, err)
	}
	return nil
}

func stepOf(it *item) Step { return Step{it.Seq, it.Action, it.Tries, it.build} }

func (s *Step) item() item { return item{Seq: s.Seq, Action: s.Action, Tries: s.Tries, build: s.Build} }

func stepsOf(items []item) []Step {
	steps := make([]Step, len(items))
	for i := range items {
		steps[i] = stepOf(&items[i])
	}
	return steps
}

func itemsOf(steps []Step) []item {
	items := make([]item, len(steps))
	for i := range steps {
		items[i] = steps[i].item()
	}
	return items
}
