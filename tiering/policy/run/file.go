package run

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
)

// A plan file is its head (a Plan) and its items (PlanItem), as messages with their lengths before them, and at its end the SHA-256 of all that. Its
// digest is that of the items alone.

// messageMost is how long a message in a file is at most: names are of 4096 bytes.
const messageMost = 1 << 20

// Writer writes a plan file.
type Writer struct {
	f     *atomicfile.File
	out   *bufio.Writer
	sum   hash.Hash // of the items
	count int64
	items *os.File // before the head is known
	spool *bufio.Writer
}

// Create begins the plan that will have a name. It lies beside it until it is whole.
func Create(name string) (*Writer, error) {
	f, err := atomicfile.Create(name, atomicfile.Options{Draft: filepath.Base(name) + ".part"})
	if err != nil {
		return nil, err
	}
	w := &Writer{f: f, sum: sha256.New()}
	if w.items, err = os.OpenFile(name+".items", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	w.spool = bufio.NewWriterSize(io.MultiWriter(w.items, w.sum), 256<<10)
	return w, nil
}

// Add adds an item.
func (w *Writer) Add(item *pb.PlanItem) error {
	w.count++
	_, err := protodelim.MarshalTo(w.spool, item)
	return err
}

// Close ends the file, on stable storage and under its name, and notes the digest in the head. Without a head it is dropped.
func (w *Writer) Close(head *pb.Plan) (err error) {
	defer func() { err = errors.Join(err, w.f.Close()) }()
	defer func() { err = errors.Join(err, w.items.Close(), os.Remove(w.items.Name())) }()
	if head == nil {
		return nil
	}
	if err := w.spool.Flush(); err != nil {
		return err
	}
	head.Digest = hex.EncodeToString(w.sum.Sum(nil))
	all := sha256.New()
	w.out = bufio.NewWriterSize(io.MultiWriter(w.f, all), 256<<10)
	if _, err := protodelim.MarshalTo(w.out, head); err != nil {
		return err
	}
	if _, err := w.items.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(w.out, w.items); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	if _, err := w.f.Write(all.Sum(nil)); err != nil {
		return err
	}
	return w.f.Publish()
}

// File is an open plan file.
type File struct {
	Plan *pb.Plan
	f    *os.File
	in   *bufio.Reader
	rest int64 // bytes before the sum
}

// Open opens a plan file. mover.ErrNotExist when there is none of that name.
func Open(name string) (*File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	p := &File{Plan: &pb.Plan{}, f: f}
	if err := p.begin(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return p, nil
}

func (p *File) begin() error {
	st, err := p.f.Stat()
	if err != nil {
		return err
	}
	if p.rest = st.Size() - sha256.Size; p.rest < 0 {
		return fmt.Errorf("%w: a plan of %d bytes", mover.ErrCorrupt, st.Size())
	}
	p.in = bufio.NewReaderSize(io.LimitReader(p.f, p.rest), 256<<10)
	return read(p.in, p.Plan)
}

func read(in *bufio.Reader, m proto.Message) error {
	err := protodelim.UnmarshalOptions{MaxSize: messageMost}.UnmarshalFrom(in, m)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: a plan: %w", mover.ErrCorrupt, err)
	}
	return err
}

// Items yields the items that come next.
func (p *File) Items() iter.Seq2[*pb.PlanItem, error] {
	return func(yield func(*pb.PlanItem, error) bool) {
		for {
			item := &pb.PlanItem{}
			err := read(p.in, item)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// Verify reads a plan file to its end, and says whether it is what was written.
func Verify(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.CopyN(sum, f, max(0, st.Size()-sha256.Size)); err != nil {
		return err
	}
	end := make([]byte, sha256.Size)
	if _, err := io.ReadFull(f, end); err != nil || string(end) != string(sum.Sum(nil)) {
		return fmt.Errorf("%w: the plan is not what was written", mover.ErrCorrupt)
	}
	return nil
}

// Close ends the reading.
func (p *File) Close() error { return p.f.Close() }
