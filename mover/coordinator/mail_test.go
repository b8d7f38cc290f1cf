package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/test/mailbox"
	"datamove.dev/test/must"
)

// mailed is a desk with a mail server.
func mailed(t *testing.T, d *desk) *mailbox.Mailbox {
	t.Helper()
	b := mailbox.Start(t)
	d.conf.Mail = config.Mail{Server: b.Address, From: "datamove@site"}
	d.policies.People = evenNamed{}
	d.servePolicies()
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
	box.SetAway(true)
	d.started = d.wall
	d.servePolicies()
	d.works(t, 0)
	d.pass(8 * time.Hour)
	d.works(t, 0) // it is announced
	if d.policy.SendNotices(t.Context()) || len(box.Take()) > 0 {
		t.Fatal("it was sent to a server that is away")
	}
	started := d.started
	d.close()
	d.open()
	d.started = started
	d.servePolicies()
	d.works(t, 0)
	box.SetAway(false)
	if !d.policy.SendNotices(t.Context()) {
		t.Error("something is left")
	}
	got := box.Take()
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
	d.close()
	d.open()
	d.started = started
	d.servePolicies()
	d.works(t, 0)
	if d.policy.SendNotices(t.Context()); len(box.Take()) != 0 {
		t.Error("owners are told twice")
	}
	d.pass(6 * time.Hour)
	d.works(t, 0)
	if r := d.runsThat(t); len(r) != 1 {
		t.Fatalf("%v", r)
	}
	if d.policy.SendNotices(t.Context()); len(box.Take()) != 0 {
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
    - {name: rest, match: {kind: file}, action: {type: notify, who: [storage, eve, "webhook:ops"], message: "too\nmany"}}
`)
	box := mailed(t, d)
	posted := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Subject string }
		must.Do(t, json.NewDecoder(r.Body).Decode(&m))
		posted <- m.Subject
	}))
	defer hook.Close()
	file := filepath.Join(t.TempDir(), "url")
	must.Do(t, os.WriteFile(file, []byte(hook.URL), 0o600))
	d.conf.Webhooks = map[string]config.Webhook{"ops": {File: file}}
	d.conf.Roles = map[string]config.Role{"storage": {Members: []string{"opal", "@admins", "ruby"}}}
	d.started = d.wall
	d.servePolicies()
	d.pass(13 * time.Hour)
	d.works(t, 0)
	d.policy.SendNotices(t.Context())
	got := box.Take()
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
	if subject := <-posted; subject != "datamove: policy cold did not run to its end" {
		t.Errorf("the webhook got %q", subject)
	}
	for range 3 {
		d.works(t, 0)
	}
	if d.policy.SendNotices(t.Context()); len(box.Take()) != 0 || len(posted) != 0 {
		t.Error("it is told again and again")
	}
	_, id, _ := strings.Cut(got[0], "--plan ")
	id, _, _ = strings.Cut(id, "\n")
	for range 2 {
		_, err := d.policy.RunPlan(as("opal", 1042), &pb.RunPlanRequest{Plan: id})
		wants(t, "run", err, nil)
	}
	ctx, stop := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	for _, loop := range d.loops {
		loops.Go(func() { loop(ctx) })
	}
	for got = nil; len(got) < 3; time.Sleep(time.Millisecond) {
		got = append(got, box.Take()...)
	}
	if subject := <-posted; !strings.HasPrefix(subject, "datamove: policy cold, rule rest: 11 files, ") {
		t.Errorf("the webhook got %q", subject)
	}
	stop()
	loops.Wait()
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
	box.SetAway(true)
	d.started = d.wall
	d.servePolicies()
	d.works(t, 0)
	d.pass(8 * time.Hour)
	for range 5 {
		d.works(t, 0)
		d.policy.SendNotices(t.Context())
	}
	box.SetAway(false)
	d.policy.SendNotices(t.Context())
	if got := box.Take(); len(got) != 2 || !strings.Contains(got[0], "policy one") || !strings.Contains(got[1], "policy two") {
		t.Errorf("%q", got)
	}
}
