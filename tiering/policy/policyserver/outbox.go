package policyserver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/notify"
)

// outbox has the mail that is to be sent. What is in it when the service ends is lost, but for what owners are told of announcements.
type outbox struct {
	mu    sync.Mutex
	mails []outgoing    // the oldest first; guarded by mu
	more  chan struct{} // there is one
}

type outgoing struct {
	notify.Message
	sent  func() // called when it is sent, or given up for good; nil is no call
	tries int
	rests time.Time // until when it is not tried
}

// Posted is what has become of the mail that was there.
type Posted int

// What becomes of the mail that waits.
const (
	AllSent    Posted = iota
	SomeRest          // the server takes others, and these perhaps later
	ServerAway        // nothing can be sent
)

const (
	outboxMost = 10_000
	mailRest   = time.Minute // between two tries
	mailTries  = 60
)

// post has a message sent, where the configuration has a mail server.
func (s *Server) post(m notify.Message, sent func()) {
	if s.conf().Mail.Server == "" {
		return
	}
	b := &s.outbox
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mails) >= outboxMost {
		s.log.Warn("mail is not sent, because too much waits", "to", m.To, "subject", m.Subject)
		return
	}
	b.mails = append(b.mails, outgoing{Message: m, sent: sent})
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// postAll has a message sent to each of some people. Roles are the people in them.
func (s *Server) postAll(who []string, m notify.Message) {
	var people []string
	for _, one := range who {
		role, is := s.conf().Roles[one]
		if !is {
			people = append(people, one)
			continue
		}
		for _, member := range role.Members {
			if !strings.HasPrefix(member, "@") { // a group has no address
				people = append(people, member)
			}
		}
	}
	for _, m.To = range slices.Compact(slices.Sorted(slices.Values(people))) {
		s.post(m, nil)
	}
}

// postman sends mail until ctx ends.
func (s *Server) postman(ctx context.Context) {
	for {
		more, rest := (<-chan struct{})(s.outbox.more), (<-chan time.Time)(nil)
		switch s.SendMail(ctx) {
		case AllSent:
		case SomeRest:
			rest = time.After(mailRest)
		case ServerAway:
			more, rest = nil, time.After(mailRest) // news make no server come back
		}
		select {
		case <-ctx.Done():
			return
		case <-more:
		case <-rest:
		}
	}
}

// SendMail sends the messages that wait. A message that the server does not take yet keeps no other one waiting.
func (s *Server) SendMail(ctx context.Context) Posted {
	result := AllSent
	for at := 0; ctx.Err() == nil; {
		m, is := s.outbox.try(at)
		if !is {
			break
		}
		if time.Now().Before(m.rests) {
			result, at = SomeRest, at+1
			continue
		}
		conf := s.conf().Mail
		sender := &notify.Sender{Server: conf.Server, From: conf.From, Domain: conf.Domain}
		err := sender.Send(ctx, m.Message)
		if again := errors.Is(err, mover.ErrTransient) && m.tries < mailTries && conf.Server != ""; again {
			if m.tries == 1 {
				s.log.Warn("mail can not be sent, will try again", "to", m.To, "subject", m.Subject, "every", mailRest, "most", mailTries, "err", err)
			}
			if !errors.Is(err, notify.ErrLater) {
				return ServerAway
			}
			s.outbox.rest(at, time.Now().Add(mailRest))
			continue
		}
		if err != nil {
			s.log.Warn("mail has not come to somebody", "to", m.To, "subject", m.Subject, "err", err)
		}
		s.outbox.drop(at)
		if m.sent != nil {
			m.sent()
		}
	}
	return result
}

// try returns a message, and counts a try where it does not rest. The postman alone takes some away.
func (b *outbox) try(at int) (m outgoing, is bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at >= len(b.mails) {
		return outgoing{}, false
	}
	if !time.Now().Before(b.mails[at].rests) {
		b.mails[at].tries++
	}
	return b.mails[at], true
}

func (b *outbox) rest(at int, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mails[at].rests = until
}

func (b *outbox) drop(at int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mails = slices.Delete(b.mails, at, at+1)
}
