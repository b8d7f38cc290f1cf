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

// post has a message sent, where the configuration has a mail server.
func (s *Service) post(m mail.Message, sent func()) {
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
func (s *Service) postAll(who []string, m mail.Message) {
	var people []string
	for _, one := range who {
		role, is := s.conf().Roles[one]
		if !is {
			people = append(people, one)
			continue
		}
		for _, member := range role.Members {
			if !strings.HasPrefix(member, "@") { // a group is nobody's name
				people = append(people, member)
			}
		}
	}
	for _, m.To = range slices.Compact(slices.Sorted(slices.Values(people))) {
		s.post(m, nil)
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
