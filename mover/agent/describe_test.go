package agent

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/config"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/test/must"
)

// gone is a worker that has ended.
type gone struct {
	net.Conn
	done    chan struct{}
	stopped bool
	refused error // why it was not confined; nil is none
}

func newGone() *gone {
	ours, theirs := net.Pipe()
	g := &gone{Conn: ours, done: make(chan struct{})}
	close(g.done)
	_ = theirs.Close()
	return g
}

func (g *gone) Confine(context.Context, sandbox.Confinement, func(string)) (Worker, error) {
	return goneWorker{g}, g.refused
}
func (g *gone) Stop() error { return nil }

type goneWorker struct{ *gone }

func (g goneWorker) Conn() net.Conn           { return g.gone.Conn }
func (goneWorker) PID() int                   { return 0 }
func (g goneWorker) Done() <-chan struct{}    { return g.done }
func (g goneWorker) Stop(time.Duration) error { g.stopped = true; return nil }
func (goneWorker) Crash() string              { return "" }

// stager is the process of a user that stages a dataset to a tier at dir. Other processes of its agent are gone, or refused.
func stager(t *testing.T, dir string, uid uint32, refused error) *process {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root makes folders for others")
	}
	conn := must.Get(grpc.NewClient("passthrough:nowhere", grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = conn.Close() })
	a := must.Get(New(Options{
		Name: "n1", Coordinator: conn, Data: t.TempDir(), Program: []string{"none"}, Ready: func(sandbox.Options) (Waiting, error) {
			g := newGone()
			g.refused = refused
			return g, nil
		},
		Config: func() *config.Config {
			return &config.Config{Tiers: map[string]config.Tier{"scratch": {Level: "hot", Path: dir, NodeLocal: true}}}
		},
	}))(t)
	at := ".datasets/vision/" + strings.Repeat("a", 64) + "/data"
	p := newProcess(a, &pb.Task{Id: "t1"}, &agentv1.Job{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_STAGE, Target: "scratch:" + at, Staging: &pb.Staging{Dataset: "vision"}}})
	p.lead, p.acting = newSession(1), goneWorker{newGone()}
	p.as.Account.UID = uid
	must.Do(t, a.prepareReplicas(t.Context(), p, osaccount.Account{UID: uid, GID: uid}))
	t.Cleanup(func() { must.Get(a.unseal(context.Background(), "scratch:.datasets", 0))(t) })
	file := filepath.Join(dir, at, "file")
	must.Do(t, errors.Join(os.WriteFile(file, []byte("bytes"), 0o644), os.Chown(file, int(uid), int(uid))))
	return p
}

// TestWhoDescribes: the manifest of what is sealed is not taken from the worker of a user. Where nothing can be sealed, it is, and the replica says so.
//
//safety:7 with test/system/service TestLiarStages
func TestWhoDescribes(t *testing.T) {
	plain := t.TempDir()
	unsealable := t.TempDir()
	if os.Geteuid() == 0 {
		must.Do(t, unix.Mount("none", unsealable, "ramfs", 0, "mode=755"))
		t.Cleanup(func() { must.Do(t, unix.Unmount(unsealable, unix.MNT_DETACH)) })
	}
	for what, row := range map[string]struct {
		dir           string
		uid           uint32
		before, after bool // the worker may describe it, before it is sealed and after that
		unguarded     string
	}{
		"a user":                         {plain, 54001, false, false, ""},
		"root":                           {plain, 0, true, true, ""},
		"a user where nothing is sealed": {unsealable, 54001, false, true, "has no immutable files"},
		"root where nothing is sealed":   {unsealable, 0, true, true, "has no immutable files"},
	} {
		t.Run(what, func(t *testing.T) {
			p := stager(t, row.dir, row.uid, nil)
			if may := p.mayDescribe(); may != row.before {
				t.Errorf("before it is sealed its worker may describe it: %v", may)
			}
			described, err := p.seal(t.Context())
			if may := p.mayDescribe(); err != nil || may != row.after || described == row.after {
				t.Errorf("its worker may describe it: %v, the agent does: %v, %v", may, described, err)
			}
			if row.unguarded == "" && p.unguarded != "" || !strings.Contains(p.unguarded, row.unguarded) {
				t.Errorf("it is unguarded: %q", p.unguarded)
			}
			must.Get(p.agent.unseal(t.Context(), "scratch:.datasets", 0))(t)
			must.Do(t, os.RemoveAll(filepath.Join(row.dir, ".datasets")))
		})
	}
}

// TestDescriberIsKilled: when the process that describes a replica is killed, its worker is ended as if it had been, so that the task is put back. It is begun once for a worker.
func TestDescriberIsKilled(t *testing.T) {
	p := stager(t, t.TempDir(), 54001, nil)
	if r, err := p.Seal(t.Context(), &agentv1.SealRequest{}); !errors.Is(err, mover.ErrTransient) || !p.acting.(goneWorker).stopped {
		t.Errorf("%v, %v; its worker was stopped: %v", r, err, p.acting.(goneWorker).stopped)
	}
	if _, err := p.Seal(t.Context(), &agentv1.SealRequest{}); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("again: %v", err)
	}
}

// TestDescriberTells: what a describer waits for is told of its lead, whose progress stays.
func TestDescriberTells(t *testing.T) {
	lead := newSession(1)
	lead.update(&agentv1.WorkerStatus{Phase: "closing", Progress: &pb.Progress{FilesDone: 7}}, waits{}, 0)
	d := newProcess(&Agent{}, &pb.Task{Id: "t1"}, &agentv1.Job{})
	d.describer = &describer{of: lead}
	for _, why := range []string{"", "the coordinator has no room for the manifest", ""} {
		d.hears(&agentv1.WorkerStatus{Phase: "closing", Why: why, Progress: &pb.Progress{}})
	}
	if v := lead.view(sessionKey{task: "t1"}); v.GetWhy() != "the coordinator has no room for the manifest" || v.GetProgress().GetFilesDone() != 7 {
		t.Errorf("the lead tells %v", v)
	}
}

// TestUnread: what root can seal and may not read is described by the worker of its owner, and unguarded.
func TestUnread(t *testing.T) {
	p := stager(t, t.TempDir(), 54001, mover.ErrPermission)
	r, err := p.Seal(t.Context(), &agentv1.SealRequest{})
	if err != nil || r.GetDescribed() || !p.mayDescribe() || p.unguarded != unread {
		t.Errorf("%v, %v; its worker may describe it: %v; it is unguarded: %q", r, err, p.mayDescribe(), p.unguarded)
	}
}

// TestManifestIsKept: a worker that compares nothing with the manifest of a dataset is not given it: its user may not be allowed to read that.
//
//safety:7 a worker that asks for the names in a dataset which its user may not read
func TestManifestIsKept(t *testing.T) {
	p := newProcess(&Agent{}, &pb.Task{Id: "t1"}, &agentv1.Job{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_STAGE}})
	p.lead = newSession(1)
	if err := p.Manifest(&agentv1.ManifestRequest{}, nil); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("it gets it: %v", err)
	}
}
