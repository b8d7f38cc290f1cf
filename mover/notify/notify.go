// Package notify sends notices: by mail to accounts, and as JSON to webhooks of chats and of programs.
//
// A [Notifier] queues messages and sends each to its channel. A channel that does not answer keeps no other one waiting.
// Messages are in memory only: the caller of Post is told when one was sent, and has to post again after a restart.
package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover"
)

// Message is one to one recipient: an answer about another mailbox says nothing about this one.
type Message struct {
	To      string // a mail address, the name of a user of the mail domain, or webhook:NAME
	Subject string
	Text    string
}

// Sender is a channel.
type Sender interface {
	// Send hands over a message. It is mover.ErrTransient when another try may help, and [ErrLater] if the channel takes other messages. It is mover.ErrRefused when
	// the channel does not take the message, and mover.ErrUsage for a recipient that it can not have.
	Send(ctx context.Context, m Message) error
}

// ErrLater is mover.ErrTransient of one message: the channel takes others, and this one perhaps later, as with greylisting or a mailbox that is full.
var ErrLater = fmt.Errorf("%w: not this message now", mover.ErrTransient)

// webhookPrefix begins the recipients that are webhooks.
const webhookPrefix = "webhook:"

// ToWebhook is the recipient of messages to a webhook.
func ToWebhook(name string) string { return webhookPrefix + name }

// Channels are what messages go through.
type Channels struct {
	Mail     *Mail              // nil sends no mail
	Webhooks map[string]Webhook // by name
}

// of returns the channel of a recipient and its name; nil is none.
func (c Channels) of(to string) (Sender, string) {
	name, is := strings.CutPrefix(to, webhookPrefix)
	switch hook, has := c.Webhooks[name]; {
	case is && has:
		return &hook, to
	case is || c.Mail == nil:
		return nil, to
	}
	return c.Mail, "mail"
}

const (
	queueMost = 10_000
	rest      = time.Minute // between two tries of a message
	triesMost = 60
)

// Notifier has the messages that wait. Its methods may be called from many goroutines.
type Notifier struct {
	channels func() Channels
	log      *slog.Logger
	more     chan struct{} // there is a new message

	mu      sync.Mutex
	waiting []waiting // the oldest first; guarded by mu
}

type waiting struct {
	Message
	sent  func() // called when the message is sent, or given up for good; nil is no call
	tries int
	rests time.Time // until when it is not tried
}

// New returns a notifier without messages. channels are those of this moment.
func New(channels func() Channels, log *slog.Logger) *Notifier {
	return &Notifier{channels: channels, log: log, more: make(chan struct{}, 1)}
}

// Post queues a message. sent is called when it is sent, or given up for good; nil is no call. A message for a channel that is not configured is dropped, with
// a line in the log where a webhook is named.
func (n *Notifier) Post(m Message, sent func()) {
	if through, name := n.channels().of(m.To); through == nil {
		if name != "" && strings.HasPrefix(name, webhookPrefix) {
			n.log.Warn("a notice is not sent, because the configuration has no such webhook", "to", m.To, "subject", m.Subject)
		}
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) >= queueMost {
		n.log.Warn("a notice is not sent, because too many wait", "to", m.To, "subject", m.Subject)
		return
	}
	n.waiting = append(n.waiting, waiting{Message: m, sent: sent})
	select {
	case n.more <- struct{}{}:
	default:
	}
}

// Run sends messages until ctx ends.
func (n *Notifier) Run(ctx context.Context) {
	for {
		var again <-chan time.Time
		if !n.Send(ctx) {
			again = time.After(rest)
		}
		select {
		case <-ctx.Done():
			return
		case <-n.more:
		case <-again:
		}
	}
}

// Send tries the messages that wait, once, and reports whether none is left. After a channel did not answer, its other messages are left for the next call.
func (n *Notifier) Send(ctx context.Context) (all bool) {
	away := map[string]bool{}
	for at := 0; ctx.Err() == nil; {
		m, is := n.at(at)
		if !is {
			return at == 0
		}
		through, name := n.channels().of(m.To)
		if through != nil && (away[name] || time.Now().Before(m.rests)) {
			at++
			continue
		}
		err := mover.ErrRefused // the configuration has lost the channel
		if through != nil {
			err = through.Send(ctx, m.Message)
		}
		switch {
		case errors.Is(err, mover.ErrTransient) && m.tries+1 < triesMost:
			n.failed(at, m, err)
			away[name] = away[name] || !errors.Is(err, ErrLater)
			at++
			continue
		case err != nil:
			n.log.Warn("a notice was not delivered", "to", m.To, "subject", m.Subject, "err", err)
		}
		n.drop(at)
		if m.sent != nil {
			m.sent()
		}
	}
	return false
}

// at returns a message. Send alone takes some away.
func (n *Notifier) at(i int) (m waiting, is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i >= len(n.waiting) {
		return waiting{}, false
	}
	return n.waiting[i], true
}

// failed counts a try. A message that its channel does not take now rests.
func (n *Notifier) failed(at int, m waiting, err error) {
	if m.tries == 0 {
		n.log.Warn("a notice can not be sent, will try again", "to", m.To, "subject", m.Subject, "every", rest, "most", triesMost, "err", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting[at].tries++
	if errors.Is(err, ErrLater) {
		n.waiting[at].rests = time.Now().Add(rest)
	}
}

func (n *Notifier) drop(at int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = slices.Delete(n.waiting, at, at+1)
}
