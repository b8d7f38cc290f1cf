package stage

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// of is a Mover of the service in dir, as a hook has one: it lives for one question.
func of(t *testing.T, dir string) *Mover {
	t.Helper()
	m := &Mover{Dial: func(ctx context.Context) (*api.Client, error) { return api.Dial(ctx, socketIn(dir), api.Options{}) }, TTL: time.Hour}
	t.Cleanup(func() { must(t, m.Close()) })
	return m
}

// TestAsk: who asks for a second only, and remembers nothing, gets there by asking again; what it holds, on a node that it
// names, is held for as long as it says, and let go from anywhere.
func TestAsk(t *testing.T) {
	dir, client := served(t)
	source := Source{Location: filepath.Join(dir, "shared/train"), Tier: "scratch", Node: "n1"}
	for limit := time.Now().Add(time.Minute); ; {
		place, err := of(t, dir).Ask(t.Context(), source, "slurm:7:train")
		if err == nil {
			if got, err := os.ReadFile(filepath.Join(place.Root, place.Path, "file")); string(got) != "train" {
				t.Errorf("%q, %v", got, err)
			}
			break
		}
		var u *Underway
		if !errors.As(err, &u) || u.Task == "" || time.Now().After(limit) {
			t.Fatal(err)
		}
		must(t, of(t, dir).Follow(t.Context(), u.Task))
	}
	for range 2 { // and no lease more
		_, err := of(t, dir).Ask(t.Context(), source, "slurm:7:train")
		must(t, err)
	}
	held := 0
	for l, err := range client.Leases(t.Context(), &datamovev1.ListLeasesRequest{}) {
		must(t, err)
		held++
		if left := time.Until(l.GetExpireTime().AsTime()); l.GetNode() != "n1" || left > time.Hour || left < time.Hour/2 {
			t.Errorf("%+v", l)
		}
	}
	if held != 1 {
		t.Errorf("%d leases", held)
	}
	m := of(t, dir)
	if all, err := m.Holders(t.Context(), "slurm:7:"); err != nil || len(all) != 1 || all[0] != "slurm:7:train" {
		t.Errorf("%q, %v", all, err)
	}
	for range 2 {
		must(t, m.Drop(t.Context(), "slurm:7:train"))
	}
	if all, err := m.Holders(t.Context(), ""); err != nil || len(all) != 0 {
		t.Errorf("%q, %v", all, err)
	}
	if err := m.Copy(t.Context(), Order{Key: "key", From: "shared:train", To: "shared:copy"}); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("a copy that nobody can tell from those of others: %v", err)
	}
}

// TestUnreachable: a mover that is not there, that says nothing, or that ends while it is asked, can not be reached; nobody waits
// for it, but for one that says nothing, as long as the context lasts.
func TestUnreachable(t *testing.T) {
	mute := t.TempDir()
	l, err := net.Listen("unix", strings.TrimPrefix(socketIn(mute), "unix://"))
	must(t, err)
	defer l.Close()
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for what, row := range map[string]struct {
		ctx context.Context
		dir string
	}{
		"one that is not there":    {t.Context(), t.TempDir()},
		"one that does not answer": {short, mute},
	} {
		m := of(t, row.dir)
		source := Source{Location: "shared:train", Node: "n1"}
		_, askErr := m.Ask(row.ctx, source, "h")
		_, stageErr := m.Stage(row.ctx, source, "h")
		_, lookErr := m.Look(row.ctx)
		for _, err := range []error{askErr, stageErr, lookErr, m.Drop(row.ctx, "h")} {
			if !errors.Is(err, mover.ErrUnreachable) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	dir := prepared(t)
	service := started(t, dir)
	m := of(t, dir)
	service.Until("it answers", func() bool { _, err := m.Look(t.Context()); return err == nil })
	service.Signal(syscall.SIGKILL)
	service.Wait()
	if _, err := m.Stage(t.Context(), Source{Location: filepath.Join(dir, "shared/train"), Node: "n1"}, "h"); !errors.Is(err, mover.ErrUnreachable) {
		t.Errorf("one that was killed: %v", err)
	}
}

// TestAll: who waits for several sources has all of them, or hears which one can not be there and why; the mover may come late, and
// go away meanwhile.
func TestAll(t *testing.T) {
	dir := prepared(t)
	want := func(name string) Want {
		return Want{Source{Location: filepath.Join(dir, "shared", name), Tier: "scratch", Node: "n1"}, "slurm:7:" + name}
	}
	late, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	told := 0
	if _, err := of(t, dir).All(late, []Want{want("train"), want("val")}, func(int, error) { told++ }); !errors.Is(err, mover.ErrTimeout) || !errors.Is(err, mover.ErrUnreachable) || told != 2 || !strings.Contains(err.Error(), "2 of 2") || !strings.Contains(err.Error(), "on n1") {
		t.Errorf("%v; told %d times", err, told)
	}
	unreached, begun := 0, false
	places, err := of(t, dir).All(t.Context(), []Want{want("train"), want("val")}, func(_ int, err error) {
		if errors.Is(err, mover.ErrUnreachable) {
			unreached++
		}
		if !begun {
			begun = true
			started(t, dir)
		}
	})
	must(t, err)
	if unreached < 2 || len(places) != 2 || !strings.HasPrefix(places[1].Root, dir) || places[0] == places[1] {
		t.Errorf("%+v; not reached %d times", places, unreached)
	}
	if all, err := of(t, dir).Holders(t.Context(), "slurm:7:"); err != nil || len(all) != 2 {
		t.Errorf("%q, %v", all, err)
	}
	_, err = of(t, dir).All(t.Context(), []Want{want("train"), want("nowhere")}, func(int, error) {})
	if !errors.Is(err, mover.ErrNotExist) || !strings.Contains(err.Error(), "nowhere on n1") {
		t.Errorf("what does not exist: %v", err)
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	if _, err := of(t, dir).All(over, []Want{want("train")}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if places, err := of(t, dir).All(over, nil, nil); len(places) != 0 || err != nil {
		t.Errorf("nothing: %v, %v", places, err)
	}
}
