package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/mail"
)

// outbox has the mail that is to be sent. What is in it when the service ends is lost, but for what owners are told of announcements.
type outbox struct {
	mu    sync.Mutex
	mails []outgoing    // the oldest first; guarded by mu
	more  chan struct{} // there is one
}

type outgoing struct {
	mail.Message
	sent  func() // called when it is over with it; nil is nobody
	tries int
}

const (
	outboxMost = 10_000
	mailRest   = time.Minute // between two tries
	mailTries  = 60
)

// post has a message sent, where the configuration has a mail server. Roles are the people in them.
func (s *Service) post(m mail.Message, sent func()) {
	if s.conf().Mail.Server == "" {
		return
	}
	var to []string
	for _, who := range m.To {
		role, is := s.conf().Roles[who]
		if !is {
			to = append(to, who)
			continue
		}
		for _, member := range role.Members {
			if !strings.HasPrefix(member, "@") { // a group is nobody's name
				to = append(to, member)
			}
		}
	}
	m.To = slices.Compact(slices.Sorted(slices.Values(to)))
	b := &s.outbox
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mails) >= outboxMost || len(m.To) == 0 {
		s.log.Warn("mail is not sent: there is nobody to send it to, or too much waits", "subject", m.Subject)
		return
	}
	b.mails = append(b.mails, outgoing{Message: m, sent: sent})
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// postman sends mail until ctx ends.
func (s *Service) postman(ctx context.Context) {
	for {
		more, rest := (<-chan struct{})(s.outbox.more), (<-chan time.Time)(nil)
		if !s.sendMail(ctx) {
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

// sendMail sends what is there. With all false the mail server is to be asked again later.
func (s *Service) sendMail(ctx context.Context) (all bool) {
	b := &s.outbox
	for ctx.Err() == nil {
		b.mu.Lock()
		if len(b.mails) == 0 {
			b.mu.Unlock()
			return true
		}
		first := &b.mails[0]
		first.tries++
		m := *first
		b.mu.Unlock()
		conf := s.conf().Mail
		sender := &mail.Sender{Server: conf.Server, From: conf.From, Domain: conf.Domain}
		err := sender.Send(ctx, m.Message)
		if errors.Is(err, mover.ErrTransient) && m.tries < mailTries && conf.Server != "" {
			if m.tries == 1 {
				s.log.Warn("mail can not be sent, will try again", "subject", m.Subject, "err", err)
			}
			return false
		}
		if err != nil {
			s.log.Warn("mail has not come to somebody", "subject", m.Subject, "err", err)
		}
		b.mu.Lock()
		b.mails = slices.Delete(b.mails, 0, 1)
		b.mu.Unlock()
		if m.sent != nil {
			m.sent()
		}
	}
	return true
}
