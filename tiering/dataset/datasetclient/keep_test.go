package datasetclient

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { rig.Main(m) }

// TestKeep: leases of those who are alive are renewed, those of the dead are dropped when nobody can be about to
// need them, and those of others are left alone.
func TestKeep(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := served(t)
		m := of(t, c)
		m.Node = "n1"
		for _, holder := range []string{"csi:alive", "csi:dead", "slurm:7"} {
			_, err := m.Stage(t.Context(), source(c, "train"), holder)
			must.Do(t, err)
		}
		leases := func() map[string]time.Time {
			t.Helper()
			ends := map[string]time.Time{}
			for l, err := range c.Leases(t.Context(), &datamovev1.ListLeasesRequest{}) {
				must.Do(t, err)
				ends[l.GetHolder()] = l.GetExpireTime().AsTime()
			}
			return ends
		}
		alive := func(holder string) bool { return strings.HasSuffix(holder, "alive") }
		before := leases()
		time.Sleep(time.Minute) // the dead may be about to need it
		must.Do(t, m.keep(t.Context(), "csi:", alive))
		after := leases()
		if len(after) != 3 || !after["csi:alive"].After(before["csi:alive"]) || !after["slurm:7"].Equal(before["slurm:7"]) {
			t.Errorf("%v, then %v", before, after)
		}
		time.Sleep(10 * time.Minute)
		must.Do(t, m.keep(t.Context(), "csi:", alive))
		if left := leases(); len(left) != 2 || left["csi:dead"] != (time.Time{}) {
			t.Errorf("%v", left)
		}
	})
}

// TestHoldersOfOthers: a lease or a task that another account has made, in the name of a holder or with a label of ours, is neither ours nor in our way.
//
//safety:6 leases and copies of another account in the name of a holder, or with a label, of ours
func TestHoldersOfOthers(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.Open(t, rig.Options{Accounts: rig.Accounts(t)}, "n1")
		must.Do(t, errors.Join(os.Mkdir(filepath.Join(c.Dir, "shared/train"), 0o755), os.WriteFile(filepath.Join(c.Dir, "shared/train/file"), nil, 0o644)))
		c.Add("train", "shared:train")
		m := of(t, c)
		m.Node, m.Label, m.Grace = "n1", "csi-copy", time.Minute
		ask := Source{Location: "dataset:train", Tier: "scratch"}
		_, err := m.Stage(t.Context(), ask, "csi:first")
		must.Do(t, err)
		var theirs []string
		for _, holder := range []string{"csi:alive", "csi:dead", "csi:second"} {
			l := must.Get(c.AcquireLease(rig.As("bob"), &datamovev1.AcquireLeaseRequest{Dataset: "train", Tier: "scratch", Node: "n1", Holder: holder, Ttl: durationpb.New(30 * time.Minute)}))(t)
			theirs = append(theirs, l.GetId())
		}
		const key = "snapshot 7"
		c.Done(must.Get(c.Submit(rig.As("bob"), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{Kind: datamovev1.TaskKind_TASK_KIND_COPY,
			Source: "shared:train", Target: "shared:bob", Node: "n1", Labels: map[string]string{m.Label: digest(key)}}}))(t).GetId())

		if got := must.Get(m.Holders(t.Context(), "csi:"))(t); !slices.Equal(got, []string{"csi:first"}) {
			t.Errorf("%q hold it", got)
		}
		if got := must.Get(m.Look(t.Context()))(t).On("csi:second"); len(got) > 0 {
			t.Errorf("it is on %q", got)
		}
		r, err := c.Stage(rig.As("bob"), &datamovev1.StageRequest{Source: "shared:late", Tier: "scratch", Node: "n1"})
		if x := c.Ends(r.GetTask(), err); x.GetErrorKind() == "" {
			t.Errorf("%v has not failed", x)
		}
		if got := must.Get(m.Look(t.Context()))(t).Failed("shared:late"); len(got) > 0 {
			t.Errorf("it has failed: %q", got)
		}
		time.Sleep(2 * time.Minute)
		must.Do(t, m.keep(t.Context(), "csi:", func(holder string) bool { return holder != "csi:dead" }))
		_, err = m.Stage(t.Context(), ask, "csi:second") // needs a lease of its own
		must.Do(t, err)
		must.Do(t, m.Drop(t.Context(), "csi:dead"))
		if got := must.Get(m.Last(t.Context(), key))(t); got != nil {
			t.Errorf("the copy of the key is that of %s", got.GetOwner().GetName())
		}
		var left []string
		for l, err := range c.Leases(t.Context(), &datamovev1.ListLeasesRequest{}) {
			must.Do(t, err)
			left = append(left, l.GetOwner().GetName()+" "+l.GetHolder())
		}
		slices.Sort(left)
		if want := []string{"bob csi:alive", "bob csi:dead", "bob csi:second", "root csi:first", "root csi:second"}; !slices.Equal(left, want) {
			t.Errorf("%q, want %q", left, want)
		}
		for _, id := range theirs {
			_, err := c.DropLease(rig.As("bob"), &datamovev1.DropLeaseRequest{Id: id})
			must.Do(t, err)
		}
		if got := must.Get(m.Holders(t.Context(), "csi:"))(t); len(got) != 2 {
			t.Errorf("%q hold it", got)
		}
	})
}

// TestHeldOfATierGone: what is held on a tier that the configuration has no longer is held, and let go, beside what is held elsewhere; where it
// lies is not known.
func TestHeldOfATierGone(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := served(t)
		with, without := *c.Conf.Load(), c.Conf.Load()
		with.Tiers = maps.Clone(with.Tiers)
		with.Tiers["old"] = config.Tier{Level: "hot", Path: t.TempDir(), Ephemeral: true, NodeLocal: true}
		c.Conf.Store(&with)
		c.Restart()
		m := of(t, c)
		m.Node = "n1"
		for _, tier := range []string{"scratch", "old"} {
			s := source(c, "train")
			s.Tier = tier
			_, err := m.Stage(t.Context(), s, "slurm:7:"+tier)
			must.Do(t, err)
		}
		c.Conf.Store(without)
		c.Restart()
		all := must.Get(m.Held(t.Context(), "slurm:"))(t)
		if len(all) != 2 {
			t.Fatalf("%+v", all)
		}
		for _, h := range all {
			if known := h.Place != (Staged{}); known != (h.Holder == "slurm:7:scratch") {
				t.Errorf("%+v", h)
			}
			must.Do(t, m.LetGo(t.Context(), h))
		}
		if all, err := m.Held(t.Context(), "slurm:"); err != nil || len(all) > 0 {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

// TestDropUnderway: what is on its way to a holder alone ends when that lets go, also of a Mover that remembers nothing, and its space comes back; what others
// wait for goes on.
func TestDropUnderway(t *testing.T) {
	for name, c := range map[string]struct {
		restarted bool
		others    bool
		want      string
	}{
		"one that remembers":       {false, false, "CANCELLED"},
		"one that begins anew":     {true, false, "CANCELLED"},
		"another one wants it too": {true, true, "DONE"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cluster := served(t)
				cluster.Tree("shared/large", 5, 1, 24<<20)
				cluster.Add("large", "shared:large")
				cluster.Slowly("scratch", 1<<20)
				ask := Source{Location: "dataset:large", Tier: "scratch", Node: "n1"}
				labelled := func() *Mover { m := of(t, cluster); m.Node, m.Label = "n1", "csi-copy"; return m }
				m := labelled()
				_, err := m.Ask(t.Context(), ask, "csi:one")
				var u *Underway
				if !errors.As(err, &u) {
					t.Fatal(err)
				}
				if c.others {
					if _, err := m.Ask(t.Context(), ask, "csi:two"); !errors.As(err, new(*Underway)) {
						t.Fatal(err)
					}
				}
				cluster.Half(u.Task, 1<<20)
				if c.restarted {
					m = labelled()
				}
				must.Do(t, m.Drop(t.Context(), "csi:one"))
				end := must.Get(cluster.Wait(t.Context(), u.Task, nil))(t)
				if got := strings.TrimPrefix(end.GetState().String(), "TASK_STATE_"); got != c.want {
					t.Errorf("the staging is %s", got)
				}
				if c.others {
					return
				}
				cluster.Until("its space is back", func() bool { return len(cluster.ReplicasOf("large")) == 1 })
				if _, err := os.Stat(filepath.Join(rig.ScratchOf(cluster.Dir, "n1"), ".datasets", "large")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("something is left of it: %v", err)
				}
			})
		})
	}
}

// served is a mover with a node n1 and the tiers shared and scratch, with shared/train and shared/val.
func served(t *testing.T) *rig.Cluster {
	t.Helper()
	c := rig.New(t, "n1")
	for _, name := range []string{"train", "val"} {
		dir := filepath.Join(c.Dir, "shared", name)
		must.Do(t, errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "file"), []byte(name), 0o644)))
	}
	return c
}

// source is a directory of shared, which is needed on the node.
func source(c *rig.Cluster, name string) Source {
	return Source{Location: filepath.Join(c.Dir, "shared", name), Tier: "scratch", Node: "n1"}
}

// of is a Mover of a service, as a hook has one: it lives for one question.
func of(t *testing.T, c *rig.Cluster) *Mover {
	t.Helper()
	return by(t, c.Dial)
}

func by(t *testing.T, dial func(context.Context) (*api.Client, error)) *Mover {
	t.Helper()
	m := &Mover{Dial: dial, TTL: time.Hour}
	t.Cleanup(func() { must.Do(t, m.Close()) })
	return m
}

// nobody is where no mover is.
func nobody(ctx context.Context) (*api.Client, error) {
	return api.Dial(ctx, "nobody", api.Options{Dialer: func(context.Context) (net.Conn, error) { return nil, syscall.ECONNREFUSED }})
}

// mute is a mover that does not answer.
func mute(ctx context.Context) (*api.Client, error) {
	return api.Dial(ctx, "mute", api.Options{Dialer: func(ctx context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		context.AfterFunc(ctx, func() { _ = theirs.Close() })
		return ours, nil
	}})
}
