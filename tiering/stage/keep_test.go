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
