package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"datamove.dev/mover"
)

// Names and sizes within the server.
const (
	streamName = "queue"
	subject    = streamName + "." // and the number of a lane
	// nextSubject asks for the next message of a consumer.
	nextSubject = "$JS.API.CONSUMER.MSG.NEXT." + streamName + "."
	// idleBytes is what the server may keep in memory beside ids, and idBytes what it
	// keeps of one, about.
	idleBytes = 32 << 20
	idBytes   = 512
	// answerTime bounds a call to a server in the same process.
	answerTime  = 10 * time.Second
	startupTime = 30 * time.Second
)

// NewJetStream returns a queue that is a JetStream in this process. Nobody else can
// reach it: it has no listener. The directory is its own; JetStream wants one, though
// what it keeps is in memory. What is in there goes.
func NewJetStream(ctx context.Context, dir string, o Options) (Queue, error) {
	o = o.defaults()
	n, err := startNATS(dir, o)
	if err != nil {
		return nil, &mover.Error{Op: "start queue in", Place: dir, Err: err}
	}
	if err := n.begin(ctx); err != nil {
		return nil, errors.Join(&mover.Error{Op: "start queue in", Place: dir, Err: err}, n.close())
	}
	return newQueue(o, n), nil
}

// natsEngine is a server, and the one connection to it.
type natsEngine struct {
	dir    string
	o      Options
	server *server.Server
	conn   *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	lanes  atomic.Uint64 // that there were
	answer time.Duration // for how long an id waits to be taken
}

func startNATS(dir string, o Options) (*natsEngine, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s, err := server.NewServer(&server.Options{
		ServerName:             streamName,
		DontListen:             true,
		NoSigs:                 true,
		JetStream:              true,
		StoreDir:               dir,
		JetStreamMaxMemory:     idleBytes + int64(o.Flows)*int64(o.Window)*idBytes,
		JetStreamMaxStore:      1 << 20, // nothing is stored there
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return nil, err
	}
	s.SetLoggerV2(serverLog{o.Logger}, false, false, false)
	s.Start()
	return &natsEngine{dir: dir, o: o, server: s, answer: answerTime}, nil
}

// begin connects and makes the stream.
func (n *natsEngine) begin(ctx context.Context) (err error) {
	if !n.server.ReadyForConnections(startupTime) {
		return fmt.Errorf("%w: it did not begin in %s", mover.ErrTimeout, startupTime)
	}
	n.conn, err = nats.Connect("", nats.InProcessServer(n.server), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			n.o.Logger.Warn("queue: connection", "err", err)
		}))
	if err != nil {
		return err
	}
	if n.js, err = jetstream.New(n.conn, jetstream.WithPublishAsyncTimeout(n.answer)); err != nil {
		return err
	}
	n.stream, err = n.js.CreateStream(ctx, jetstream.StreamConfig{
		Name:      streamName,
		Subjects:  []string{subject + "*"},
		Storage:   jetstream.MemoryStorage,
		Retention: jetstream.WorkQueuePolicy,
	})
	return err
}

func (n *natsEngine) close() error {
	if n.conn != nil {
		n.conn.Close()
	}
	n.server.Shutdown()
	n.server.WaitForShutdown()
	return os.RemoveAll(n.dir)
}

// serverLog gives the server's log to ours. Most of what it says is for its operators.
type serverLog struct{ log *slog.Logger }

func (s serverLog) say(level slog.Level, format string, args []any) {
	ctx := context.Background() // the server has none to give
	if s.log.Enabled(ctx, level) {
		s.log.Log(ctx, level, "nats: "+strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

func (s serverLog) Fatalf(f string, a ...any)  { s.say(slog.LevelError, f, a) }
func (s serverLog) Errorf(f string, a ...any)  { s.say(slog.LevelWarn, f, a) }
func (s serverLog) Warnf(f string, a ...any)   { s.say(slog.LevelInfo, f, a) }
func (s serverLog) Noticef(f string, a ...any) { s.say(slog.LevelDebug, f, a) }
func (s serverLog) Debugf(string, ...any)      {}
func (s serverLog) Tracef(string, ...any)      {}
