package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"datamove.dev/mover"
)

// natsLane is a subject of the stream and the consumer that reads it. Its flow sees to
// it that one goroutine at a time uses it.
type natsLane struct {
	n       *natsEngine
	name    string             // of both
	fresh   int                // ids that are stored and were never delivered
	answers *nats.Subscription // to what pull asks; nil before that
}

func (n *natsEngine) lane(ctx context.Context) (lane, error) {
	name := strconv.FormatUint(n.lanes.Add(1), 10)
	_, err := n.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable:       name,
		FilterSubject: subject + name,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       n.o.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: -1,
		MemoryStorage: true,
	})
	if err != nil {
		return nil, kindOf(err)
	}
	return &natsLane{n: n, name: name}, nil
}

// pushAtOnce is how many ids are sent before the first answer is waited for.
const pushAtOnce = 1000

func (l *natsLane) push(ctx context.Context, ids []string) (sequences []uint64, err error) {
	for some := range slices.Chunk(ids, pushAtOnce) {
		if sequences, err = l.send(ctx, some, sequences); err != nil {
			return nil, kindOf(err)
		}
	}
	return sequences, nil
}

// send sends ids, waits for the answers, and adds the sequences in them.
func (l *natsLane) send(ctx context.Context, ids []string, sequences []uint64) ([]uint64, error) {
	answers := make([]jetstream.PubAckFuture, 0, len(ids))
	for _, id := range ids {
		a, err := l.n.js.PublishAsync(subject+l.name, []byte(id))
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	for _, a := range answers {
		select {
		case ack := <-a.Ok():
			sequences = append(sequences, ack.Sequence)
			l.fresh++
		case err := <-a.Err():
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return sequences, nil
}

// What pull asks for. A message that is stored is seen by its consumer a moment later;
// where one must be there, it is waited for.
const (
	askNow  = `{"batch":1,"no_wait":true}`
	askWait = `{"batch":1,"expires":1000000000}` // ns
)

func (l *natsLane) pull(ctx context.Context) (ticket, bool, error) {
	how := askNow
	if l.fresh > 0 {
		how = askWait
	}
	m, err := l.ask(ctx, how)
	if err != nil {
		return nil, false, errors.Join(err, l.deaf())
	}
	switch status := m.Header.Get("Status"); status {
	case "":
	case "404", "408": // nothing is there, nothing came
		l.fresh = 0
		return nil, false, nil
	default:
		return nil, false, fmt.Errorf("%w: %s %s", mover.ErrTransient, status, m.Header.Get("Description"))
	}
	meta, err := m.Metadata()
	if err != nil {
		return nil, false, err
	}
	if meta.NumDelivered == 1 {
		l.fresh--
	}
	return &message{l.n, m, meta.Sequence.Stream}, true, nil
}

// ask asks the consumer. The answer comes under the subject of the message, so that
// the connection can not tell whose it is: each lane listens for itself.
func (l *natsLane) ask(ctx context.Context, how string) (m *nats.Msg, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if l.answers == nil {
		if l.answers, err = l.n.conn.SubscribeSync(l.n.conn.NewInbox()); err != nil {
			return nil, err
		}
	}
	if err := l.n.conn.PublishRequest(nextSubject+l.name, l.answers.Subject, []byte(how)); err != nil {
		return nil, err
	}
	return l.answers.NextMsgWithContext(ctx)
}

// deaf ends the listening to an answer that was not waited for. Its message comes
// again when AckWait is over.
func (l *natsLane) deaf() error {
	if l.answers == nil {
		return nil
	}
	err := l.answers.Unsubscribe()
	l.answers = nil
	return err
}

func (l *natsLane) drop() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	return errors.Join(l.deaf(), l.n.stream.DeleteConsumer(ctx, l.name),
		l.n.stream.Purge(ctx, jetstream.WithPurgeSubject(subject+l.name)))
}

// message is a ticket. What it says is answered, so that the next call sees it done.
type message struct {
	n   *natsEngine
	m   *nats.Msg
	seq uint64
}

func (m *message) id() string       { return string(m.m.Data) }
func (m *message) sequence() uint64 { return m.seq }
func (m *message) ack() error       { return m.say("+ACK") }

func (m *message) back(delay time.Duration) error {
	if delay == 0 {
		return m.say("-NAK")
	}
	return m.say(fmt.Sprintf(`-NAK {"delay":%d}`, delay.Nanoseconds()))
}

func (m *message) say(word string) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	_, err := m.n.conn.RequestWithContext(ctx, m.m.Reply, []byte(word))
	return err
}

// kindOf gives err the kind that programs decide by.
func kindOf(err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && slices.Contains(fullCodes, api.ErrorCode) {
		return fmt.Errorf("%w: %w", mover.ErrFull, err)
	}
	return err
}

// fullCodes are what the server says when it has no room.
var fullCodes = []jetstream.ErrorCode{
	10023, // insufficient resources
	10028, // memory
	10047, // storage
}
