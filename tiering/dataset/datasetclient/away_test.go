package datasetclient

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// notes are those at the replicas of a host.
type notes struct {
	mu    sync.Mutex
	until map[Staged]time.Time // guarded by mu
	err   error
}

func (n *notes) len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.until)
}

func (n *notes) note(_ context.Context, at Staged, until time.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil {
		n.until[at] = until
	}
	if until.IsZero() {
		delete(n.until, at)
	}
	return n.err
}

// TestAway: without the coordinator a holder has one version of what was held on its host before; a note keeps it until the coordinator knows of each of its
// holders, or they are dead. A process that is started again goes on.
func TestAway(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := served(t)
		digest := c.Add("train", "shared:train")
		n := &notes{until: map[Staged]time.Time{}}
		file := filepath.Join(t.TempDir(), "held.json")
		host := func(m *Mover) *Away {
			m.Node = "n1"
			return &Away{Mover: m, File: file, Note: n.note}
		}
		pinned, newest := Source{Location: "dataset:train@" + digest, Tier: "scratch"}, Source{Location: "dataset:train", Tier: "scratch"}
		there := host(of(t, c))
		for _, s := range []Source{newest, pinned} {
			must.Get(there.Stage(t.Context(), s, "csi:before"))(t)
		}
		must.Do(t, there.Drop(t.Context(), "csi:before"))

		gone := host(by(t, nobody))
		for _, row := range []struct {
			what   string
			source Source
			why    string
		}{
			{"what may be another version", newest, "which version is the newest"},
			{"what has no version", source(c, "val"), "what is at a location now"},
			{"what was never there", Source{Location: "dataset:val@" + digest, Tier: "scratch"}, "has not had it before"},
			{"what was on another tier", Source{Location: pinned.Location, Tier: "shared"}, "has not had it before"},
		} {
			p, err := gone.Stage(t.Context(), row.source, "csi:other")
			if !errors.Is(err, mover.ErrUnreachable) || !strings.Contains(err.Error(), "it comes when the coordinator answers again: ") || !strings.Contains(err.Error(), row.why) {
				t.Errorf("%s: %+v, %v", row.what, p, err)
			}
		}
		n.err = fmt.Errorf("%w: it is being removed", mover.ErrConflict)
		if p, err := gone.Stage(t.Context(), pinned, "csi:other"); !errors.Is(err, mover.ErrUnreachable) || errors.Is(err, mover.ErrConflict) || !strings.Contains(err.Error(), "being removed") {
			t.Errorf("what goes: %+v, %v", p, err)
		}
		n.err = nil
		for _, a := range []*Away{gone, host(by(t, mute))} {
			begun := time.Now()
			for _, holder := range []string{"csi:alive", "csi:second", "csi:dead"} {
				if p, err := a.Stage(t.Context(), pinned, holder); err != nil || !p.Away || p.Digest != digest || !strings.HasSuffix(p.Path, digest+"/data") {
					t.Fatalf("%+v, %v", p, err)
				}
			}
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		}
		if len(n.until) != 1 {
			t.Errorf("notes: %v", n.until)
		}
		alive := func(holder string) bool { return holder != "csi:dead" }
		time.Sleep(40 * time.Minute)
		gone = host(by(t, nobody))
		if err := gone.tell(t.Context(), "csi:", alive); !errors.Is(err, mover.ErrUnreachable) {
			t.Error(err)
		}
		for _, until := range n.until {
			if left := time.Until(until); left < 59*time.Minute {
				t.Errorf("the note lasts for %v", left)
			}
		}
		if err := gone.Drop(t.Context(), "csi:second"); !errors.Is(err, mover.ErrUnreachable) || len(n.until) != 1 {
			t.Errorf("%v, %v", n.until, err)
		}

		there = host(of(t, c))
		ctx, stop := context.WithCancel(t.Context())
		kept := make(chan struct{})
		go func() { defer close(kept); there.Keep(ctx, "csi:", alive, func(err error) { t.Error(err) }) }()
		c.Until("the coordinator knows", func() bool { return n.len() == 0 })
		stop()
		<-kept
		if held := c.LeasesOf("train"); len(held) != 1 || held["csi:alive"] != 1 {
			t.Errorf("%v", held)
		}
		must.Do(t, os.WriteFile(file, []byte("half of it"), 0o600))
		damaged := host(of(t, c))
		if p, err := damaged.Stage(t.Context(), pinned, "csi:more"); err != nil || p.Away {
			t.Errorf("with a damaged file: %+v, %v", p, err)
		}
		if err := damaged.tell(t.Context(), "csi:", alive); !errors.Is(err, mover.ErrUnsupported) {
			t.Errorf("a damaged file: %v", err)
		}
	})
}
