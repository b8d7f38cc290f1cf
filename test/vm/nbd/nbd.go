// Package nbd serves one disk to a virtual machine over a unix socket, in the protocol
// of network block devices: the fixed newstyle handshake with NBD_OPT_GO, and reads,
// writes and flushes with simple replies (see doc/proto.md of the NBD project). There
// is no TLS and no second export; requests are done in their order, so a flush covers
// every write that was answered before.
package nbd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Disk is what is served.
type Disk interface {
	io.ReaderAt
	io.WriterAt
	Flush() error
	Bytes() int64
}

// Numbers of the protocol.
const (
	magicServer  = 0x4e42444d41474943 // "NBDMAGIC"
	magicOption  = 0x49484156454f5054 // "IHAVEOPT"
	magicAnswer  = 0x0003e889045565a9
	magicRequest = 0x25609513
	magicReply   = 0x67446698

	fixedNewstyle = 1 << 0
	noZeroes      = 1 << 1

	optionAbort = 2
	optionInfo  = 6
	optionGo    = 7

	answerAck         = 1
	answerInfo        = 3
	answerUnsupported = 1<<31 + 1

	exportHasFlags  = 1 << 0
	exportSendFlush = 1 << 2

	commandRead       = 0
	commandWrite      = 1
	commandDisconnect = 2
	commandFlush      = 3

	errorIO      = 5
	errorInvalid = 22

	mostOption  = 4 << 10  // bytes of an option's data
	mostPayload = 32 << 20 // bytes of a read or a write
)

// Server is a disk on a socket.
type Server struct {
	disk     Disk
	listener net.Listener
	crowd    sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu; nil when the server is closed
}

// Serve listens on a unix socket until Close.
func Serve(socket string, disk Disk) (*Server, error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	s := &Server{disk: disk, listener: l, conns: map[net.Conn]bool{}}
	s.crowd.Go(s.accept)
	return s, nil
}

// Close ends all conversations and waits for their ends.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close() // the other side may have done it
	}
	s.conns = nil
	s.mu.Unlock()
	s.crowd.Wait()
	return err
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		if s.conns == nil {
			_ = c.Close()
		} else {
			s.conns[c] = true
			s.crowd.Go(func() { s.converse(c) })
		}
		s.mu.Unlock()
	}
}

// converse ends when the machine goes, or says what is not in the protocol: then it
// loses its disk, which its kernel will say.
func (s *Server) converse(c net.Conn) {
	defer func() {
		_ = c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	_ = talk(c, s.disk)
}

func talk(c io.ReadWriter, disk Disk) error {
	r, w := bufio.NewReaderSize(c, 256<<10), bufio.NewWriterSize(c, 256<<10)
	going, err := greet(r, w, disk.Bytes())
	for err == nil && going {
		going, err = serve(r, w, disk)
	}
	return err
}

// greet says hello, and answers options until the machine wants to begin.
func greet(r *bufio.Reader, w *bufio.Writer, bytes int64) (bool, error) {
	hello := binary.BigEndian.AppendUint64(nil, magicServer)
	hello = binary.BigEndian.AppendUint64(hello, magicOption)
	if err := send(w, binary.BigEndian.AppendUint16(hello, fixedNewstyle|noZeroes)); err != nil {
		return false, err
	}
	var flags uint32
	if err := binary.Read(r, binary.BigEndian, &flags); err != nil {
		return false, err
	}
	for {
		var option struct {
			Magic          uint64
			Option, Length uint32
		}
		if err := binary.Read(r, binary.BigEndian, &option); err != nil {
			return false, err
		}
		if option.Magic != magicOption || option.Length > mostOption {
			return false, fmt.Errorf("no option: %+v", option)
		}
		if _, err := io.CopyN(io.Discard, r, int64(option.Length)); err != nil { // the name of the export: there is one
			return false, err
		}
		if err := send(w, answers(option.Option, bytes)); err != nil || option.Option == optionAbort {
			return false, err
		}
		if option.Option == optionGo {
			return true, nil
		}
	}
}

func answers(option uint32, bytes int64) []byte {
	switch option {
	case optionGo, optionInfo:
		info := binary.BigEndian.AppendUint16(nil, 0) // NBD_INFO_EXPORT
		info = binary.BigEndian.AppendUint64(info, uint64(bytes))
		info = binary.BigEndian.AppendUint16(info, exportHasFlags|exportSendFlush)
		return append(answer(option, answerInfo, info), answer(option, answerAck, nil)...)
	case optionAbort:
		return answer(option, answerAck, nil)
	}
	return answer(option, answerUnsupported, nil)
}

func answer(option, kind uint32, data []byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, magicAnswer)
	b = binary.BigEndian.AppendUint32(b, option)
	b = binary.BigEndian.AppendUint32(b, kind)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(data))), data...)
}

func send(w *bufio.Writer, p []byte) error {
	_, err := w.Write(p)
	return errors.Join(err, w.Flush())
}

// serve does one request.
func serve(r *bufio.Reader, w *bufio.Writer, disk Disk) (going bool, err error) {
	var q struct {
		Magic          uint32
		Flags, Command uint16
		Cookie, Offset uint64
		Length         uint32
	}
	if err := binary.Read(r, binary.BigEndian, &q); err != nil {
		return false, err
	}
	if q.Magic != magicRequest || q.Length > mostPayload {
		return false, fmt.Errorf("no request: %+v", q)
	}
	inside := q.Offset <= uint64(disk.Bytes()) && uint64(q.Length) <= uint64(disk.Bytes())-q.Offset
	payload := make([]byte, q.Length)
	if q.Command == commandWrite {
		if _, err := io.ReadFull(r, payload); err != nil {
			return false, err
		}
	}
	code := uint32(errorInvalid)
	switch {
	case q.Command == commandDisconnect:
		return false, nil
	case q.Command == commandFlush:
		code = failure(disk.Flush())
	case q.Command == commandWrite && inside:
		_, err := disk.WriteAt(payload, int64(q.Offset))
		code = failure(err)
	case q.Command == commandRead && inside:
		_, err := disk.ReadAt(payload, int64(q.Offset))
		code = failure(err)
	}
	reply := binary.BigEndian.AppendUint32(nil, magicReply)
	reply = binary.BigEndian.AppendUint32(reply, code)
	reply = binary.BigEndian.AppendUint64(reply, q.Cookie)
	if q.Command == commandRead && code == 0 {
		reply = append(reply, payload...)
	}
	return true, send(w, reply)
}

func failure(err error) uint32 {
	if err != nil {
		return errorIO
	}
	return 0
}
