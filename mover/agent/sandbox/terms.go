package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"datamove.dev/mover"
)

// terms is what Start tells the new process: its account and its confinement.
type terms struct {
	Account Account
	Roots   Confinement
}

// reply is what Child answers. After one without Waits the socket belongs to the callers.
type reply struct {
	Waits    string // the path on a file system that does not answer; "" is that it goes on or has ended
	Enforced Enforced
	Error    string
	Kind     int // of the error: 1 + its place in mover.Kinds; 0 is none of them
}

const (
	maxTerms = 4 << 20 // bytes; a thousand roots of 4 KiB
	maxReply = 4 << 20 // of a process that may be hostile
)

func (r *reply) set(err error) {
	r.Error = err.Error()
	for i, kind := range mover.Kinds() {
		if errors.Is(err, kind) {
			r.Kind = i + 1
			return
		}
	}
}

func (r *reply) err() error {
	if r.Error == "" {
		return nil
	}
	if kinds := mover.Kinds(); 0 < r.Kind && r.Kind <= len(kinds) {
		return Refusal{r.Error, kinds[r.Kind-1]}
	}
	return Refusal{r.Error, nil}
}

// Refusal is an error as the process told it.
type Refusal struct {
	text string
	kind error
}

func (r Refusal) Error() string { return mover.Printable(r.text) }

func (r Refusal) Unwrap() error { return r.kind }

// send writes v as one message: its length in four bytes, and JSON.
func send(w io.Writer, v any, limit int) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) > limit {
		return fmt.Errorf("%w: %d bytes of roots and groups; at most %d", mover.ErrUsage, len(text), limit)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// receive reads one message, and not a byte more.
func receive(r io.Reader, v any, limit int) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if int64(n) > int64(limit) {
		return fmt.Errorf("%w: a message of %d bytes", mover.ErrCorrupt, n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%w: a message that can not be read: %w", mover.ErrCorrupt, err)
	}
	return nil
}
