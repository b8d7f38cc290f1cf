package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/checksum"
	"datamove.dev/mover/p2p"
)

// What goes over the wire.
const (
	path       = "/datamove.peer.v1/piece"
	atHome     = "home" // of the query: the member that is asked has to read it
	scheme     = "Bearer "
	sumBytes   = 8
	bodyMost   = 4 << 20 // of a request: all names of a piece
	answerType = "application/octet-stream"
)

// Encode is a piece on the wire.
func Encode(p *p2p.Piece) *agentv1.Piece {
	out := &agentv1.Piece{Index: int64(p.Index)}
	for _, s := range p.Segments {
		out.Segments = append(out.Segments, &agentv1.PieceSegment{Name: []byte(s.Name), Off: s.Off, Length: s.Length})
	}
	return out
}

// Decode is the inverse of Encode. What comes from others is checked.
func Decode(in *agentv1.Piece) (*p2p.Piece, error) {
	p := &p2p.Piece{Index: int(in.GetIndex())}
	for _, s := range in.GetSegments() {
		p.Segments = append(p.Segments, p2p.Segment{Name: string(s.GetName()), Off: s.GetOff(), Length: s.GetLength()})
	}
	return p, p.Check()
}

func parse(body []byte) (*p2p.Piece, error) {
	var m agentv1.Piece
	if err := proto.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("%w: not a piece: %w", mover.ErrUsage, err)
	}
	return Decode(&m)
}

// write sends a piece and its checksum.
func write(w io.Writer, data []byte) error {
	if _, err := w.Write(data); err != nil {
		return err
	}
	_, err := w.Write(binary.LittleEndian.AppendUint64(nil, checksum.Update(0, data)))
	return err
}

// read fills into with a piece, and compares it with the checksum that follows.
func read(r io.Reader, into []byte) error {
	var sum [sumBytes]byte
	_, err := io.ReadFull(r, into)
	if err == nil {
		_, err = io.ReadFull(r, sum[:])
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the answer ends too early", mover.ErrTransient)
	case err != nil:
		return err
	case binary.LittleEndian.Uint64(sum[:]) != checksum.Update(0, into):
		return fmt.Errorf("%w: what came is not what was sent", mover.ErrCorrupt)
	}
	return nil
}
