package datasetclient

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// TestAsk: who asks for a second only, and remembers nothing, gets there by asking again; what it holds, on a node that it
// names, is held for as long as it says, and let go from anywhere.
func TestAsk(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := served(t)
		for {
			place, err := of(t, c).Ask(t.Context(), source(c, "train"), "slurm:7:train")
			if err == nil {
				if got, err := os.ReadFile(filepath.Join(place.Root, place.Path, "file")); string(got) != "train" {
					t.Errorf("%q, %v", got, err)
				}
				break
			}
			var u *Underway
			if !errors.As(err, &u) || u.Task == "" {
				t.Fatal(err)
			}
			must.Do(t, of(t, c).Follow(t.Context(), u.Task))
		}
		for range 2 { // and no lease more
			_, err := of(t, c).Ask(t.Context(), source(c, "train"), "slurm:7:train")
			must.Do(t, err)
		}
		held := 0
		for l, err := range c.Leases(t.Context(), &datamovev1.ListLeasesRequest{}) {
			must.Do(t, err)
			held++
			if left := time.Until(l.GetExpireTime().AsTime()); l.GetNode() != "n1" || left > time.Hour || left < time.Hour/2 {
				t.Errorf("%+v", l)
			}
		}
		if held != 1 {
			t.Errorf("%d leases", held)
		}
		m := of(t, c)
		if all, err := m.Holders(t.Context(), "slurm:7:"); err != nil || len(all) != 1 || all[0] != "slurm:7:train" {
			t.Errorf("%q, %v", all, err)
		}
		for range 2 {
			must.Do(t, m.Drop(t.Context(), "slurm:7:train"))
		}
		if all, err := m.Holders(t.Context(), ""); err != nil || len(all) != 0 {
			t.Errorf("%q, %v", all, err)
		}
		if err := m.Copy(t.Context(), Order{Key: "key", From: "shared:train", To: "shared:copy"}); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("a copy that nobody can tell from those of others: %v", err)
		}
	})
}

// TestAgentAway: what is held on a node is there also while the coordinator does not hear the agent of that node, and hears others.
func TestAgentAway(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := served(t)
		m := of(t, c)
		want, errs := m.All(t.Context(), []Want{{source(c, "train"), "h"}}, func(int, error) {})
		must.Do(t, errs)
		c.Join("n2")
		c.KillAgent("n1")
		c.Until("the coordinator does not hear n1", func() bool {
			tiers := must.Get(c.ListTiers(t.Context(), &datamovev1.ListTiersRequest{Name: "scratch"}))(t).GetTiers()
			return len(tiers) == 1 && tiers[0].GetNode() == "n2"
		})
		if got, err := m.Ask(t.Context(), source(c, "train"), "h"); err != nil || got != want[0] {
			t.Errorf("%+v, %v; want %+v", got, err, want[0])
		}
		if held, err := m.Held(t.Context(), "h"); err != nil || len(held) != 1 || held[0].Place != want[0] {
			t.Errorf("%+v, %v", held, err)
		}
	})
}

// TestUnreachable: a mover that is not there, that says nothing, or that ends while it is asked, can not be reached; nobody waits
// for it, but for one that says nothing, as long as the context lasts.
func TestUnreachable(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		unreached := func(what string, ctx context.Context, m *Mover) {
			t.Helper()
			source := Source{Location: "shared:train", Node: "n1"}
			_, askErr := m.Ask(ctx, source, "h")
			_, stageErr := m.Stage(ctx, source, "h")
			_, lookErr := m.Look(ctx)
			for _, err := range []error{askErr, stageErr, lookErr, m.Drop(ctx, "h")} {
				if !errors.Is(err, mover.ErrUnreachable) {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		unreached("one that is not there", t.Context(), by(t, nobody))
		unreached("one that does not answer", short, by(t, mute))
		c := served(t)
		m := of(t, c)
		_, err := m.Look(t.Context())
		must.Do(t, err)
		c.Crash()
		unreached("one that was killed", t.Context(), m)
		c.Start()
	})
}

// slowLeases answers what leases there were a minute ago.
type slowLeases struct {
	datamovev1.DatasetServiceClient
}

func (s slowLeases) ListLeases(ctx context.Context, r *datamovev1.ListLeasesRequest, o ...grpc.CallOption) (*datamovev1.ListLeasesResponse, error) {
	all, err := s.DatasetServiceClient.ListLeases(ctx, r, o...)
	time.Sleep(time.Minute)
	return all, err
}

// TestEndsMeanwhile: a staging that ends while it is asked for again has one lease.
func TestEndsMeanwhile(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := served(t)
		m := by(t, func(ctx context.Context) (*api.Client, error) {
			client, err := c.Dial(ctx)
			if err == nil {
				client.DatasetServiceClient = slowLeases{client.DatasetServiceClient}
			}
			return client, err
		})
		for there := false; !there; {
			_, err := m.Ask(t.Context(), source(c, "train"), "one")
			if u := (*Underway)(nil); !errors.As(err, &u) {
				must.Do(t, err)
				there = true
			}
		}
		if all := must.Get(of(t, c).Holders(t.Context(), ""))(t); len(all) != 1 {
			t.Errorf("leases of %q", all)
		}
	})
}

// TestAll: who waits for several sources has all of them, or hears which one can not be there and why; the mover may come late, and
// go away meanwhile.
func TestAll(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := served(t)
		c.Crash()
		want := func(name string) Want { return Want{source(c, name), "slurm:7:" + name} }
		late, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		told := 0
		if _, err := of(t, c).All(late, []Want{want("train"), want("val")}, func(int, error) { told++ }); !errors.Is(err, mover.ErrTimeout) || !errors.Is(err, mover.ErrUnreachable) || told != 2 || !strings.Contains(err.Error(), "2 of 2") || !strings.Contains(err.Error(), "on n1") {
			t.Errorf("%v; told %d times", err, told)
		}
		unreached, begun := 0, false
		places, err := of(t, c).All(t.Context(), []Want{want("train"), want("val")}, func(_ int, err error) {
			if errors.Is(err, mover.ErrUnreachable) {
				unreached++
			}
			if !begun {
				begun = true
				c.Start()
			}
		})
		must.Do(t, err)
		if unreached < 2 || len(places) != 2 || !strings.HasPrefix(places[1].Root, c.Dir) || places[0] == places[1] {
			t.Errorf("%+v; not reached %d times", places, unreached)
		}
		if all, err := of(t, c).Holders(t.Context(), "slurm:7:"); err != nil || len(all) != 2 {
			t.Errorf("%q, %v", all, err)
		}
		_, err = of(t, c).All(t.Context(), []Want{want("train"), want("nowhere")}, func(int, error) {})
		if !errors.Is(err, mover.ErrNotExist) || !strings.Contains(err.Error(), "nowhere on n1") {
			t.Errorf("what does not exist: %v", err)
		}
		over, stop := context.WithCancel(t.Context())
		stop()
		if _, err := of(t, c).All(over, []Want{want("train")}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if places, err := of(t, c).All(over, nil, nil); len(places) != 0 || err != nil {
			t.Errorf("nothing: %v, %v", places, err)
		}
	})
}
