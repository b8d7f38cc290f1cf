package nbd

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a disk that counts its flushes.
type memory struct {
	mu      sync.Mutex
	b       []byte // guarded by mu, as all below
	flushes int
}

func (m *memory) Bytes() int64 { return int64(len(m.b)) }

func (m *memory) Flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flushes++
	return nil
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copy(p, m.b[off:]), nil
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copy(m.b[off:], p), nil
}

func option(kind uint32, data string) []byte {
	b := binary.BigEndian.AppendUint64(nil, magicOption)
	b = binary.BigEndian.AppendUint32(b, kind)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(data))), data...)
}

func request(command uint16, cookie, off uint64, length uint32, payload string) []byte {
	b := binary.BigEndian.AppendUint32(nil, magicRequest)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint16(b, command)
	b = binary.BigEndian.AppendUint64(b, cookie)
	b = binary.BigEndian.AppendUint64(b, off)
	return append(binary.BigEndian.AppendUint32(b, length), payload...)
}

func reply(code uint32, cookie uint64, data string) []byte {
	b := binary.BigEndian.AppendUint32(nil, magicReply)
	b = binary.BigEndian.AppendUint32(b, code)
	return append(binary.BigEndian.AppendUint64(b, cookie), data...)
}

// hello is what a client sends before its requests: its flags, an option that is not
// known here, and GO for the export without a name.
func hello() []byte {
	b := binary.BigEndian.AppendUint32(nil, fixedNewstyle|noZeroes)
	b = append(b, option(8, "")...)
	return append(b, option(optionGo, "\x00\x00\x00\x00\x00\x00")...)
}

// TestProtocol speaks byte by byte; a guest in test/vm/guests is the real client.
func TestProtocol(t *testing.T) {
	m := &memory{b: make([]byte, 4096)}
	socket := filepath.Join(t.TempDir(), "disk")
	s := must.Get(Serve(socket, m))(t)
	c := must.Get(net.Dial("unix", socket))(t)
	defer c.Close()
	want := []byte("NBDMAGICIHAVEOPT\x00\x03")
	want = append(want, answer(8, answerUnsupported, nil)...)
	want = append(want, answer(optionGo, answerInfo, []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x05"))...)
	want = append(want, answer(optionGo, answerAck, nil)...)
	talked(t, c, hello(), want)
	talked(t, c, request(commandWrite, 1, 4090, 5, "hello"), reply(0, 1, ""))
	talked(t, c, request(commandFlush, 2, 0, 0, ""), reply(0, 2, ""))
	talked(t, c, request(commandRead, 3, 4088, 8, ""), reply(0, 3, "\x00\x00hello\x00"))
	talked(t, c, request(commandRead, 4, 4095, 2, ""), reply(errorInvalid, 4, ""))
	talked(t, c, request(commandWrite, 5, 1<<63, 2, "no"), reply(errorInvalid, 5, ""))
	talked(t, c, request(99, 6, 0, 0, ""), reply(errorInvalid, 6, ""))
	if m.flushes != 1 {
		t.Errorf("%d flushes, want 1", m.flushes)
	}
	must.Tell(t, s.Close())
	if n, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the end: %d bytes, %v", n, err)
	}
}

func talked(t *testing.T, c net.Conn, say, want []byte) {
	t.Helper()
	if _, err := c.Write(say); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%q is answered with\n\t%q, %v, want\n\t%q", say, got, err, want)
	}
}

// FuzzTalk: whatever a client says, nothing outside of the disk is touched, and the
// conversation ends with what it says.
func FuzzTalk(f *testing.F) {
	f.Add(append(hello(), request(commandWrite, 1, 0, 3, "abc")...))
	f.Add(append(hello(), request(commandRead, 1, 1<<63, 1<<31, "")...))
	f.Add(option(optionAbort, "x"))
	f.Fuzz(func(t *testing.T, said []byte) {
		m := &memory{b: make([]byte, 64)}
		c := struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(said), io.Discard}
		_ = talk(c, m) // it ends, which is the promise
	})
}
