package service

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	crash "datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// neighbours are two nodes with a disk each and a coordinator, which are daemons.
type neighbours struct {
	t       *testing.T
	dir     string // of everything
	service *crash.Program
	tcp     string     // the coordinator's
	head    *crash.Run // the coordinator
	n1      *crash.Run
}

func newNeighbours(t *testing.T, policies string) *neighbours {
	t.Helper()
	crash.Root(t)
	dir, err := os.MkdirTemp("/tmp", "near") // short enough for a socket
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, os.RemoveAll(dir)) })
	n := &neighbours{t: t, dir: dir, service: crash.NewCommand(t, "datamoved")}
	must.Do(t, os.Mkdir(n.path("shared"), 0o755))
	for _, node := range []string{"head", "n1", "n2"} {
		must.Do(t, os.Mkdir(n.path("nvme-"+node), 0o755))
		must.Do(t, os.WriteFile(n.path(node+".yaml"), fmt.Appendf(nil, `leases: {lead: 2s}
tiers:
  shared: {level: warm, path: %s}
  nvme: {level: hot, path: %s, ephemeral: true, node_local: true, feed: inotify, checkpoints: {folders: [run*], quiet: 1s}}
policies: %s
`, n.path("shared"), n.path("nvme-"+node), policies), 0o644))
	}
	n.start("tcp://127.0.0.1:0")
	for word := range strings.FieldsSeq(n.head.Complained()) {
		if _, address, ok := strings.Cut(strings.Trim(word, `"`), "tcp://"); ok {
			n.tcp = "tcp://" + address
		}
	}
	c, err := api.Dial(t.Context(), "unix://"+n.path("head.sock"), api.Options{})
	must.Do(t, err)
	t.Cleanup(func() { _ = c.Close() })
	for _, node := range []string{"n1", "n2"} {
		token := must.Get(c.CreateJoinToken(t.Context(), &pb.CreateJoinTokenRequest{Name: node}))(t)
		must.Do(t, os.WriteFile(n.path(node+".token"), []byte(token.GetToken()), 0o600))
	}
	n.n1 = n.join("n1")
	n.join("n2")
	return n
}

func (n *neighbours) path(name string) string { return filepath.Join(n.dir, name) }

func (n *neighbours) daemon(node string, more ...string) *crash.Run {
	n.t.Helper()
	return n.service.Start(n.t, append([]string{"--config", n.path(node + ".yaml"), "--data", n.path(node), "--node", node, "--listen", "unix://" + n.path(node+".sock")}, more...)...)
}

// start starts the coordinator.
func (n *neighbours) start(address string) {
	n.t.Helper()
	n.head = n.daemon("head", "--no-agent", "--listen", address)
	n.head.Until("the coordinator is ready", func() bool { return strings.Contains(n.head.Complained(), "msg=ready") })
}

func (n *neighbours) join(node string) *crash.Run {
	n.t.Helper()
	return n.daemon(node, "--join", n.tcp, "--token-file", n.path(node+".token"))
}

func (n *neighbours) eventually(what string, is func() bool) {
	n.t.Helper()
	patience.Until(n.t, what, nil, is)
}

// TestNeighbour: a checkpoint on the disk of one node comes to that of another one, whole and checked, and to the file system that all share, although the node that
// has it and the coordinator are killed while it is read from there. Shards that are the same as in the one before do not come again.
//
//safety:5/jobs with mover/p2p/peer TestPlace
func TestNeighbour(t *testing.T) {
	policies := filepath.Join(t.TempDir(), "policies")
	must.Do(t, os.Mkdir(policies, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(policies, "p.yaml"), []byte(`kind: TierPolicy
metadata: {name: near}
spec:
  mode: enforce
  scope: {roots: ["nvme:"]}
  trigger: [{event: checkpoint.complete}]
  limits: {rate: 40MB/s}
  rules:
    - {name: copy, match: {checkpoint: [complete, verified]}, action: {type: replicate, to: ["nvme@peer", shared]}}
`), 0o644))
	s := newNeighbours(t, policies)
	save := func(node, name string, shards, size int) {
		at := s.path("nvme-" + node + "/run1/" + name)
		must.Do(t, os.MkdirAll(at, 0o755))
		for i := range shards {
			data := make([]byte, size)
			_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(data)
			must.Do(t, os.WriteFile(filepath.Join(at, "__"+string(rune('0'+i))+"_0.distcp"), data, 0o640))
		}
		must.Do(t, os.WriteFile(filepath.Join(at, ".metadata"), []byte(name), 0o644))
		must.Do(t, os.WriteFile(s.path("nvme-"+node+"/run1/latest"), []byte(name), 0o644))
	}
	arrives := func(from, to, name string) {
		t.Helper()
		s.eventually(name+" is whole at "+to, func() bool {
			_, err := os.Stat(filepath.Join(to, "run1", name, "datamove-commit.json"))
			return err == nil
		})
		files := must.Get(filepath.Glob(filepath.Join(from, "run1", name, "*")))(t)
		for _, file := range files {
			want, err := os.ReadFile(file)
			must.Do(t, err)
			got, err := os.ReadFile(filepath.Join(to, "run1", name, filepath.Base(file)))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s came to %s as another one: %v", file, to, err)
			}
			was, _ := os.Stat(file)
			if is, err := os.Stat(filepath.Join(to, "run1", name, filepath.Base(file))); err != nil || is.Mode() != was.Mode() || !is.ModTime().Equal(was.ModTime()) {
				t.Errorf("%s has another mode or time at %s", file, to)
			}
		}
	}
	n1, n2 := s.path("nvme-n1"), s.path("nvme-n2")
	save("n1", "step_1", 3, 300_000)
	arrives(n1, n2, "step_1")
	arrives(n1, s.path("shared"), "step_1")
	s.eventually("the tracker is there", func() bool {
		text, _ := os.ReadFile(filepath.Join(n2, "run1/latest"))
		return string(text) == "step_1"
	})

	save("n1", "step_2", 4, 10_000_000) // 4 s
	s.eventually("it is on its way", func() bool {
		_, err := os.Stat(filepath.Join(n2, "run1/step_2.incomplete-0"))
		return err == nil
	})
	s.n1.Kill()
	s.head.Kill()
	if _, err := os.Stat(filepath.Join(n2, "run1/step_2")); err == nil {
		t.Error("it has its name before it is whole")
	}
	s.start(s.tcp)
	s.join("n1")
	arrives(n1, n2, "step_2")
	arrives(n1, s.path("shared"), "step_2")

	save("n1", "step_3", 2, 10_000_000) // as in step_2
	must.Do(t, os.WriteFile(filepath.Join(n1, "run1/step_3/__1_0.distcp"), bytes.Repeat([]byte{7}, 10_000_000), 0o640))
	s.eventually("step_3 is whole at "+n2, func() bool {
		_, err := os.Stat(filepath.Join(n2, "run1/step_3/datamove-commit.json"))
		return err == nil
	})
	for shard, same := range map[string]bool{"__0_0.distcp": true, "__1_0.distcp": false} {
		old := must.Get(os.Stat(filepath.Join(n2, "run1/step_2", shard)))(t)
		is := must.Get(os.Stat(filepath.Join(n2, "run1/step_3", shard)))(t)
		if os.SameFile(old, is) != same {
			t.Errorf("%s of step_3 is that of step_2: %v", shard, !same)
		}
	}
	for _, pattern := range []string{"run1/*incomplete*", "run1/*/datamove-commit.json"} {
		if left, _ := filepath.Glob(filepath.Join(n1, pattern)); len(left) > 0 {
			t.Errorf("something came back to where it was: %q", left)
		}
	}
}
