package notify

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/test/mailbox"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hook is a webhook that keeps what is posted, and answers with a status.
type hook struct {
	Webhook
	status int
	got    []string
	mu     sync.Mutex
}

func newHook(t *testing.T, format Format) *hook {
	t.Helper()
	h := &hook{status: http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := must.Get(io.ReadAll(r.Body))(t)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(h.status)
		_, _ = io.WriteString(w, "said\x1b[2J")
		if h.status == http.StatusOK {
			h.got = append(h.got, r.Method+" "+r.Header.Get("Content-Type")+" "+r.URL.Path+" "+string(body))
		}
	}))
	t.Cleanup(func() { poster.CloseIdleConnections(); server.Close() })
	h.Webhook = Webhook{filepath.Join(t.TempDir(), "url"), format}
	must.Do(t, os.WriteFile(h.File, []byte(server.URL+"/secret\n"), 0o600))
	return h
}

func (h *hook) set(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = status
}

func (h *hook) take() (got []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	got, h.got = h.got, nil
	return got
}

// TestFormats: each format is what its receiver takes, and no name in a text can mention users, make a link or end the block that it is in.
func TestFormats(t *testing.T) {
	m := Message{To: "webhook:ops", Subject: "10 files of yours", Text: "a <!channel> & @all ``` ![x](http://evil/x.png)\n\xff\n" + strings.Repeat("ü", 20_000)}
	for format, want := range map[Format]string{
		Slack:      "```\n10 files of yours\n\na &lt;!channel&gt; &amp; @all ''' ![x](http://evil/x.png)\n�\nüüü",
		Mattermost: "```\n10 files of yours\n\na <!channel> & @all ''' ![x](http://evil/x.png)\n�\nüüü",
	} {
		h := newHook(t, format)
		must.Do(t, h.Send(t.Context(), m))
		var body map[string]string
		got := h.take()
		if len(got) != 1 || !strings.HasPrefix(got[0], "POST application/json /secret ") {
			t.Fatalf("%s: %.200q", format, got)
		}
		must.Do(t, json.Unmarshal([]byte(got[0][strings.Index(got[0], "{"):]), &body))
		text := body["text"]
		if len(body) != 1 || !strings.HasPrefix(text, want) || !strings.HasSuffix(text, "ü …\n```") || len([]rune(text)) > 16_383 || strings.Count(text, "```") != 2 {
			t.Errorf("%s: %.120q … %q", format, text, text[max(0, len(text)-20):])
		}
	}
	h := newHook(t, "")
	must.Do(t, h.Send(t.Context(), m))
	var body notice
	must.Do(t, json.Unmarshal([]byte(strings.SplitN(h.take()[0], " ", 4)[3]), &body))
	if body.Schema != "datamove.notice/v1" || body.To != m.To || body.Subject != m.Subject || body.Text != strings.ToValidUTF8(m.Text, "�") || body.Time.IsZero() {
		t.Errorf("%.300q", body)
	}
}

// TestWebhookAnswers: whether another try may help is told, and the URL, which is a password, is in no error. No redirect is followed.
func TestWebhookAnswers(t *testing.T) {
	h := newHook(t, JSON)
	file := h.File
	gone := newHook(t, JSON)
	must.Do(t, os.WriteFile(gone.File, []byte("http://127.0.0.1:1/secret"), 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	must.Do(t, os.WriteFile(empty, []byte("secret\n"), 0o600))
	for _, row := range []struct {
		file   string
		status int
		want   error
	}{
		{file, 200, nil}, {file, 204, nil}, {file, 302, mover.ErrRefused}, {file, 404, mover.ErrRefused}, {file, 410, mover.ErrRefused},
		{file, 408, mover.ErrTransient}, {file, 429, mover.ErrTransient}, {file, 500, mover.ErrTransient}, {file, 503, mover.ErrTransient},
		{gone.File, 200, mover.ErrTransient}, {empty, 200, mover.ErrTransient}, {empty + ".none", 200, mover.ErrTransient},
	} {
		h.set(row.status)
		w := Webhook{File: row.file}
		err := w.Send(t.Context(), Message{To: "webhook:ops", Subject: "s", Text: "t"})
		if !errors.Is(err, row.want) || errors.Is(err, ErrLater) {
			t.Errorf("%s, %d: %v", filepath.Base(row.file), row.status, err)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\x1b") || !strings.Contains(err.Error(), "webhook:ops")) {
			t.Errorf("%d: %q", row.status, err)
		}
	}
	if got := h.take(); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// TestNotifier: a message that its channel does not take yet, as for a mailbox that is full, and a channel that is away keep no other one waiting, and are tried again.
func TestNotifier(t *testing.T) {
	box, h := mailbox.Start(t), newHook(t, JSON)
	all := Channels{Mail: &Mail{Server: box.Address, From: "datamove@site"}, Webhooks: map[string]Webhook{"ops": h.Webhook}}
	n := New(func() Channels { return all }, slog.New(slog.DiscardHandler))
	sent := map[string]int{}
	post := func(to string) {
		n.Post(Message{To: to, Subject: "s", Text: "t"}, func() { sent[to]++ })
	}
	mails := func(want ...string) {
		t.Helper()
		got := box.Take()
		if len(got) != len(want) {
			t.Fatalf("%q came", got)
		}
		for i, to := range want {
			if !strings.HasPrefix(got[i], to+"@site|") {
				t.Errorf("%q came", got)
			}
		}
	}
	box.SetFull("full@site")
	for _, to := range []string{"one", "full", "two", "webhook:none"} {
		post(to)
	}
	if n.Send(t.Context()) {
		t.Error("nothing is left")
	}
	mails("one", "two")
	post("three")
	if n.Send(t.Context()) || n.waiting[0].tries != 1 {
		t.Errorf("after %d tries nothing is left", n.waiting[0].tries)
	}
	mails("three")
	n.waiting[0].rests = time.Time{}
	box.SetFull("")
	box.SetAway(true)
	post("four")
	post("webhook:ops")
	if n.Send(t.Context()) || len(h.take()) != 1 || n.waiting[0].tries != 2 || n.waiting[1].tries != 0 {
		t.Errorf("a mail server that is away keeps others waiting, or is asked for each message: %+v", n.waiting)
	}
	box.SetAway(false)
	if !n.Send(t.Context()) {
		t.Error("something is left")
	}
	mails("four", "full") // sorted
	for _, to := range []string{"one", "two", "three", "four", "full", "webhook:ops"} {
		if sent[to] != 1 {
			t.Errorf("%s: told %d times", to, sent[to])
		}
	}

	// A message is given up in the end, and when its channel is no more.
	h.set(http.StatusServiceUnavailable)
	post("webhook:ops")
	for i := range triesMost {
		if left := !n.Send(t.Context()); left != (i+1 < triesMost) {
			t.Fatalf("after %d tries: left %t", i+1, left)
		}
	}
	h.set(http.StatusServiceUnavailable)
	post("webhook:ops")
	all.Webhooks = nil
	if !n.Send(t.Context()) || sent["webhook:ops"] != 3 {
		t.Errorf("told %d times", sent["webhook:ops"])
	}
	all.Mail = nil
	if post("one"); len(n.waiting) != 0 {
		t.Error("mail waits, and there is no server")
	}
}

// TestRun: what is posted is sent, until the context ends.
func TestRun(t *testing.T) {
	h := newHook(t, JSON)
	n := New(func() Channels { return Channels{Webhooks: map[string]Webhook{"ops": h.Webhook}} }, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	for range 3 {
		sent := make(chan struct{})
		n.Post(Message{To: "webhook:ops"}, func() { close(sent) })
		<-sent
	}
	stop()
	running.Wait()
	if got := h.take(); len(got) != 3 {
		t.Errorf("%q", got)
	}
}
