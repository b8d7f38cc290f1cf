package coordinator

import (
	"context"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/notify"
	"datamove.dev/mover/server/authz"
)

// mailbox is a mail server that takes everything, when it is not away.
type mailbox struct {
	mu   sync.Mutex
	away bool     // guarded by mu
	full string   // a mailbox that is full; guarded by mu
	got  []string // TO|SUBJECT|TEXT; guarded by mu
}

func (b *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &posting{mailbox: b}, nil }

type posting struct {
	*mailbox
	to []string
}

func (p *posting) Reset()        { p.to = nil }
func (p *posting) Logout() error { return nil }
func (p *posting) Mail(string, *smtp.MailOptions) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return &smtp.SMTPError{Code: 421, Message: "later"}
	}
	return nil
}

func (p *posting) Rcpt(to string, _ *smtp.RcptOptions) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to == p.full {
		return &smtp.SMTPError{Code: 452, Message: "mailbox full"}
	}
	p.to = append(p.to, to)
	return nil
}

func (p *posting) Data(r io.Reader) error {
	m, err := netmail.ReadMessage(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, strings.Join(p.to, ",")+"|"+m.Header.Get("Subject")+"|"+strings.ReplaceAll(string(text), "\r\n", "\n"))
	return err
}

func (b *mailbox) isAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

// takes empties the mailbox.
func (b *mailbox) takes() (got []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	got, b.got = b.got, nil
	slices.Sort(got)
	return got
}

// mailed is a desk with a mail server.
func mailed(t *testing.T, d *desk) *mailbox {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	wants(t, "listen", err, nil)
	b := &mailbox{}
	server := smtp.NewServer(b)
	server.Domain = "mail.site"
	go func() { _ = server.Serve(l) }() // until it is closed
	t.Cleanup(func() { _ = server.Close() })
	d.conf.Mail = config.Mail{Server: l.Addr().String(), From: "datamove@site"}
	d.o.People = evenNamed{}
	return b
}

// evenNamed has names for even accounts.
type evenNamed struct{}

func (evenNamed) User(uid uint32) (string, error) {
	if uid%2 == 0 {
		return fmt.Sprint("user", uid), nil
	}
	return "", nil
}
func (evenNamed) Group(uint32) (string, error) { return "", nil }

// TestMailToOwners: who has files that the next run takes away is told in advance, once, of each of its plans; a mail server that is away gets it when it is back, and
// so it is after a restart in between.
func TestMailToOwners(t *testing.T) {
	d := policed(t, cold("enforce", "  schedule: {cron: \"0 1 * * *\"}\n  report: {preview: 6h}\n"))
	box := mailed(t, d)
	box.isAway(true)
	d.started = d.wall
	d.works(t, 0)
	d.pass(8 * time.Hour)
	d.works(t, 0) // it is announced
	if d.mail.sendMail(t.Context()) != serverAway || len(box.takes()) > 0 {
		t.Fatal("it was sent to a server that is away")
	}
	o, started := d.o, d.started
	d.close()
	d.open()
	d.o.Catalog, d.o.Policies, d.o.People, d.started = o.Catalog, o.Policies, o.People, started
	d.works(t, 0)
	box.isAway(false)
	if d.mail.sendMail(t.Context()) != allSent {
		t.Error("something is left")
	}
	got := box.takes()
	if len(got) != 1 {
		t.Fatalf("%q", got)
	}
	for _, want := range []string{"user1002@site|datamove: 10 files, 9.86 KiB of yours: policy cold runs at ", "01:00 UTC|", "\n    migrate to archive: 10 files, 9.86 KiB\n", "\n    project:runs/old-01  ", "datamove policy plan --items --plan "} {
		if !strings.Contains(got[0], want) {
			t.Errorf("%s\nhas no %q", got[0], want)
		}
	}
	if strings.Contains(got[0], "old-00") {
		t.Error("it has files of somebody else")
	}
	d.works(t, 0)
	o = d.o
	d.close()
	d.open()
	d.o.Catalog, d.o.Policies, d.o.People, d.started = o.Catalog, o.Policies, o.People, started
	d.works(t, 0)
	if d.mail.sendMail(t.Context()); len(box.takes()) != 0 {
		t.Error("owners are told twice")
	}
	d.pass(6 * time.Hour)
	d.works(t, 0)
	if r := d.runsThat(t); len(r) != 1 {
		t.Fatalf("%v", r)
	}
	if d.mail.sendMail(t.Context()); len(box.takes()) != 0 {
		t.Error("a run that went well is told of")
	}
}

// TestMailOfRuns: who a rule names is told, roles are the people in them, and whose policy it is hears of a run that waits for somebody.
func TestMailOfRuns(t *testing.T) {
	d := policed(t, `kind: TierPolicy
metadata: {name: cold, owner: storage}
spec:
  mode: enforce
  scope: {roots: ["project:runs"]}
  schedule: {cron: "0 1 * * *"}
  safety: {approval: {whenDeleting: 1KiB, by: owner}}
  rules:
    - {name: old, match: {name: "old-0*"}, action: {type: migrate, to: archive}}
    - {name: rest, match: {kind: file}, action: {type: notify, who: [storage, eve], message: "too\nmany"}}
`)
	box := mailed(t, d)
	d.conf.Roles = map[string]config.Role{"storage": {Members: []string{"opal", "@admins", "ruby"}}}
	d.started = d.wall
	d.pass(13 * time.Hour)
	d.works(t, 0)
	d.mail.sendMail(t.Context())
	got := box.takes()
	to := func(names ...string) {
		t.Helper()
		if len(got) != len(names) {
			t.Fatalf("%q", got)
		}
		for i, name := range names {
			if !strings.HasPrefix(got[i], name+"@site|") {
				t.Errorf("%q is not to %s", got[i], name)
			}
		}
	}
	to("opal", "ruby")
	if !strings.Contains(got[0], "|datamove: policy cold did not run to its end|") || !strings.Contains(got[0], "datamove policy run --plan ") {
		t.Fatalf("%q", got)
	}
	for range 3 {
		d.works(t, 0)
	}
	if d.mail.sendMail(t.Context()); len(box.takes()) != 0 {
		t.Error("it is told again and again")
	}
	_, id, _ := strings.Cut(got[0], "--plan ")
	id, _, _ = strings.Cut(id, "\n")
	for range 2 {
		_, err := d.policy.RunPlan(as("opal", 1042), &pb.RunPlanRequest{Plan: id})
		wants(t, "run", err, nil)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { d.mail.postman(ctx); close(ended) }()
	for got = nil; len(got) < 3; time.Sleep(time.Millisecond) {
		got = append(got, box.takes()...)
	}
	stop()
	<-ended
	to("eve", "opal", "ruby")
	if !strings.Contains(got[0], "|datamove: policy cold, rule rest: 11 files, ") || !strings.Contains(got[0], "too\nmany") {
		t.Errorf("%q", got)
	}
}

// TestMailOnce: as long as the mail server is away, nothing is told again and again, however many policies have something to tell; one in the mode plan has nothing.
func TestMailOnce(t *testing.T) {
	const announced = "  schedule: {cron: \"0 1 * * *\"}\n  report: {preview: 6h}\n"
	text := ""
	for name, mode := range map[string]string{"one": "enforce", "two": "enforce", "only": "plan"} {
		text += strings.Replace(cold(mode, announced), "name: cold", "name: "+name, 1) + "---\n"
	}
	d := policed(t, text)
	box := mailed(t, d)
	box.isAway(true)
	d.started = d.wall
	d.works(t, 0)
	d.pass(8 * time.Hour)
	for range 5 {
		d.works(t, 0)
		d.mail.sendMail(t.Context())
	}
	box.isAway(false)
	d.mail.sendMail(t.Context())
	if got := box.takes(); len(got) != 2 || !strings.Contains(got[0], "policy one") || !strings.Contains(got[1], "policy two") {
		t.Errorf("%q", got)
	}
}

// TestMailOfOthers: a message that the server does not take yet, as for a mailbox that is full, keeps no other one waiting, and is tried again later.
func TestMailOfOthers(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	box := mailed(t, d)
	box.full = "full@site"
	for _, to := range []string{"one", "full", "two"} {
		d.mail.post(notify.Message{To: to, Subject: "s", Text: "t"}, nil)
	}
	if got := d.mail.sendMail(t.Context()); got != someRest {
		t.Errorf("it ended with %v", got)
	}
	if got := box.takes(); len(got) != 2 || !strings.HasPrefix(got[0], "one@site|") || !strings.HasPrefix(got[1], "two@site|") {
		t.Errorf("%q came", got)
	}
	d.mail.post(notify.Message{To: "three", Subject: "s", Text: "t"}, nil)
	if got := d.mail.sendMail(t.Context()); got != someRest || d.mail.outbox.mails[0].tries != 1 {
		t.Errorf("it ended with %v, after %d tries", got, d.mail.outbox.mails[0].tries)
	}
	d.mail.outbox.rest(0, time.Time{})
	box.mu.Lock()
	box.full = ""
	box.mu.Unlock()
	if got := d.mail.sendMail(t.Context()); got != allSent {
		t.Errorf("it ended with %v", got)
	}
	if got := box.takes(); len(got) != 2 || !strings.HasPrefix(got[0], "full@site|") || !strings.HasPrefix(got[1], "three@site|") {
		t.Errorf("%q came", got)
	}
}
