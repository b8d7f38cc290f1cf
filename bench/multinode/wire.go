package multinode

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"datamove.dev/bench/loadgen"
	"datamove.dev/bench/result"
	"datamove.dev/mover"
)

// message is what is sent in either direction: a length of four bytes, and JSON.
type message struct {
	Say word `json:"say"`

	Hello  *hello          `json:"hello,omitempty"`
	Setup  *loadgen.Setup  `json:"setup,omitempty"`
	Work   *loadgen.Work   `json:"work,omitempty"`
	Tree   string          `json:"tree,omitempty"`
	At     int64           `json:"at,omitempty"`    // when to begin, in nanoseconds of the node's clock
	Clock  int64           `json:"clock,omitempty"` // of the node
	Wall   int64           `json:"wall,omitempty"`  // its time of day, in nanoseconds since 1970
	Bytes  int64           `json:"bytes,omitempty"` // so far
	Ops    int64           `json:"ops,omitempty"`
	Result *loadgen.Result `json:"result,omitempty"`
	Kind   string          `json:"kind,omitempty"` // of what has failed
	Failed string          `json:"failed,omitempty"`
}

// word is what a message is about. A node answers each of the first kind with Answer.
type word string

const (
	sayHello   word = "hello" // the first of a node
	sayOpen    word = "open"
	sayClock   word = "clock"
	sayPrepare word = "prepare"
	sayBegin   word = "begin"
	sayForget  word = "forget"
	sayClean   word = "clean"
	sayEnd     word = "end" // there is nothing more to do

	sayStop   word = "stop"  // what was begun; it is not answered by itself
	sayStill  word = "still" // the sender is there
	sayAnswer word = "answer"
)

// hello is the version and the identity of a node.
type hello struct {
	Version string      `json:"version"`
	Node    result.Node `json:"node"`
}

// fault is an error on its way.
func (m *message) fault(err error) {
	if err != nil {
		m.Kind, m.Failed = mover.KindName(err), err.Error()
	}
}

// err is what the other side could not do.
func (m *message) err() error {
	if m.Failed == "" {
		return nil
	}
	return loadgen.Fault(m.Kind, m.Failed)
}

const (
	mostMessage = 64 << 20
	stillEvery  = 2 * time.Second
	silence     = 20 * time.Second // after which the other side is lost
)

// wire carries messages. One reads; any may write.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	mu   sync.Mutex // of writing
}

func newWire(c net.Conn) *wire { return &wire{conn: c, in: bufio.NewReader(c)} }

func (w *wire) send(m *message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(text) > mostMessage {
		return fmt.Errorf("%w: a message of %d bytes", mover.ErrUsage, len(text))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.conn.SetWriteDeadline(time.Now().Add(silence))
	_, err = w.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

func (w *wire) receive() (*message, error) {
	_ = w.conn.SetReadDeadline(time.Now().Add(silence))
	var head [4]byte
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length > mostMessage {
		return nil, fmt.Errorf("%w: a message of %d bytes", mover.ErrUsage, length)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(w.in, text); err != nil {
		return nil, err
	}
	m := &message{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%w: %w", mover.ErrUsage, err)
	}
	return m, nil
}

// still says now and then that this side is there, until stop. The reader of the connection sees when sending fails.
func (w *wire) still(say func() *message) (stop func()) {
	return every(stillEvery, func() { _ = w.send(say()) })
}

// every does something again and again, until stop, which waits for it.
func every(interval time.Duration, do func()) (stop func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				do()
			}
		}
	}()
	return func() { close(done); <-over }
}
