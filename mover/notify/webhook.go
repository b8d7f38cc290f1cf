package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"datamove.dev/mover"
)

// Format is how a webhook gets a message.
type Format string

// The formats. "" is JSON.
const (
	JSON       Format = "json"       // an object with schema, to, subject, text and time
	Slack      Format = "slack"      // an incoming webhook of Slack: docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
	Mattermost Format = "mattermost" // one of Mattermost: developers.mattermost.com/integrate/webhooks/incoming
)

// Webhook posts messages to a URL.
type Webhook struct {
	File   string // has the URL; that of a chat is a password
	Format Format
}

const (
	webhookMost = 10 * time.Second // for one message
	textMost    = 12_000           // bytes of a message in a chat: Mattermost takes 16,383 characters
)

// notice is the generic format.
type notice struct {
	Schema  string    `json:"schema"`
	To      string    `json:"to"`
	Subject string    `json:"subject"`
	Text    string    `json:"text"`
	Time    time.Time `json:"time"`
}

// poster follows no redirect: a message goes to the host that was configured.
var poster = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// Send implements [Sender]. Errors do not show the URL.
func (w *Webhook) Send(ctx context.Context, m Message) error {
	text, err := os.ReadFile(w.File)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", mover.ErrTransient, m.To, err) // it can be mended
	}
	body, err := json.Marshal(w.body(m))
	if err != nil {
		return fmt.Errorf("%w: %s: %w", mover.ErrRefused, m.To, err)
	}
	ctx, cancel := context.WithTimeout(ctx, webhookMost)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSpace(string(text)), bytes.NewReader(body))
	if err != nil || (r.URL.Scheme != "https" && r.URL.Scheme != "http") || r.URL.Host == "" {
		return fmt.Errorf("%w: %s: %s has no URL", mover.ErrTransient, m.To, mover.Printable(w.File)) // it can be mended
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := poster.Do(r)
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err // without the URL
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", mover.ErrTransient, m.To, err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 200)) // best effort: it explains the status
	switch code := answer.StatusCode; {
	case code < 300:
		return nil
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return fmt.Errorf("%w: %s answers %s: %s", mover.ErrTransient, m.To, mover.Printable(answer.Status), mover.Printable(string(said)))
	}
	return fmt.Errorf("%w: %s answers %s: %s", mover.ErrRefused, m.To, mover.Printable(answer.Status), mover.Printable(string(said)))
}

// body is what is posted.
func (w *Webhook) body(m Message) any {
	if w.Format != Slack && w.Format != Mattermost {
		return notice{"datamove.notice/v1", m.To, m.Subject, m.Text, time.Now().UTC()}
	}
	text := strings.ToValidUTF8(m.Subject+"\n\n"+m.Text, "�")
	if len(text) > textMost {
		text = strings.ToValidUTF8(text[:textMost], "") + " …"
	}
	// Names in a text are not trusted: in a block of code they mention no user and show no picture.
	text = "```\n" + strings.TrimSpace(strings.ReplaceAll(text, "```", "'''")) + "\n```"
	if w.Format == Slack { // the three that Slack has escaped: docs.slack.dev/messaging/formatting-message-text
		text = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
	}
	return map[string]string{"text": text}
}
