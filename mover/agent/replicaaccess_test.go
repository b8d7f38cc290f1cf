package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/replicadir"
	"datamove.dev/mover/config"
	"datamove.dev/mover/p2p"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/test/must"
)

// vault is an agent with a sealed replica of uid 1001.
func vault(t *testing.T) (a *Agent, spot replicadir.Path, location string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root makes gates")
	}
	dir := t.TempDir()
	a = &Agent{o: Options{Config: func() *config.Config {
		return &config.Config{Tiers: map[string]config.Tier{"scratch": {Level: "hot", Path: dir, NodeLocal: true}}}
	}}}
	path := ".datasets/vision/" + strings.Repeat("a", 64) + "/data"
	spot, ok := replicadir.At(dir, path)
	if !ok {
		t.Fatal("it is no spot")
	}
	if open, err := spot.Make(1001, 1001); err != nil || open != "" {
		t.Skipf("there are no gates here: %q, %v", open, err)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, path, "file"), []byte("bytes"), 0o644))
	if why, err := spot.MakeImmutable(t.Context(), 0); err != nil || why != "" {
		t.Skipf("nothing can be sealed here: %q, %v", why, err)
	}
	t.Cleanup(func() { must.Do(t, spot.MakeMutable(context.Background())) })
	return a, spot, "scratch:" + path
}

// TestPublishedBehindGate: what is sealed is given to other nodes, but only for who gets through the gate of this one.
//
//safety:7 with mover/agent/replicadir TestStrangers
func TestPublishedBehindGate(t *testing.T) {
	a, spot, at := vault(t)
	piece := &p2p.Piece{Segments: []p2p.Segment{{Name: "file", Off: 1, Length: 4}}}
	gives := func(uid uint32) bool {
		into := make([]byte, 4)
		err := (&tree{a, swarmID("d", uid), uid, at}).Published(piece, into)
		if err != nil && !errors.Is(err, mover.ErrPermission) {
			t.Errorf("for %d: %v", uid, err)
		}
		return err == nil && string(into) == "ytes"
	}
	for uid, want := range map[uint32]bool{0: true, 1001: true, 1002: false} {
		if gives(uid) != want {
			t.Errorf("for %d it is given: %v", uid, !want)
		}
	}
	_, _, err := spot.LetIn(1002)
	must.Do(t, err)
	if !gives(1002) {
		t.Error("who was let in is not given it")
	}
	must.Do(t, spot.ShutOut(1002))
	if gives(1002) {
		t.Error("who was shut out is given it")
	}
	old := ".datasets/vision/" + strings.Repeat("b", 64) // where an earlier version has staged it
	must.Do(t, os.MkdirAll(filepath.Join(a.conf().Tiers["scratch"].Path, old), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(a.conf().Tiers["scratch"].Path, old, "file"), []byte("bytes"), 0o644))
	if at = "scratch:" + old; !gives(1003) {
		t.Error("what has no gate is not given to who may read it")
	}
	for _, other := range []string{"scratch:", "scratch:.datasets", "scratch:" + strings.Repeat("../", 3) + "etc", "scratch:.datasets/../../x/data", "gone:.datasets/x/y/data", "/etc"} {
		if err := (&tree{a, "", 0, other}).Published(piece, make([]byte, 4)); err == nil {
			t.Errorf("%s is given", other)
		}
	}
}

// TestLent: who removes a replica gets through its gate as long as any of their tasks lasts, and stays in who was let in meanwhile.
//
//safety:7 with test/system/service TestSealedCache
func TestLent(t *testing.T) {
	a, spot, at := vault(t)
	begin := func() *process {
		p := &process{job: &agentv1.Job{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_RELEASE, Target: at}}}
		must.Do(t, a.prepareReplicas(t.Context(), p, osaccount.Account{UID: 1002, GID: 1002}))
		return p
	}
	is := func(what string, in bool) {
		t.Helper()
		if passes, err := spot.Passes(1002); passes != in || err != nil {
			t.Errorf("%s, and they are in: %v, %v", what, passes, err)
		}
	}
	is("nothing was asked", false)
	first, second := begin(), begin()
	is("two tasks are at work", true)
	first.leaveReplicas()
	is("one has ended", true)
	second.leaveReplicas()
	is("both have", false)
	third := begin()
	must.Do(t, a.accessLists.addPermanent(spot, 1002, func() error { _, _, err := spot.LetIn(1002); return err }))
	third.leaveReplicas()
	is("they were let in meanwhile", true)
	fourth := begin()
	fourth.leaveReplicas()
	is("they were in before", true)
	must.Do(t, a.accessLists.remove(spot, 1002))
	fifth := begin()
	must.Do(t, a.accessLists.remove(spot, 1002)) // a look has found that they may not
	is("they were shut out meanwhile", false)
	sixth := begin()
	is("another task of theirs begins", true)
	fifth.leaveReplicas()
	is("the one from before it has ended", true)
	sixth.leaveReplicas()
	is("that one, too", false)
	if len(a.accessLists.all) > 0 {
		t.Errorf("%d gates are remembered", len(a.accessLists.all))
	}
}

// TestLentUntilItIsGone: an entry that can not be removed when its task ends is removed by the next task that sets the gate, and not for another one of the
// same account that still needs it.
func TestLentUntilItIsGone(t *testing.T) {
	a, spot, _ := vault(t)
	gate := filepath.Dir(spot.String())
	is := func(what string, uid uint32, in bool) {
		t.Helper()
		if passes, err := spot.Passes(uid); passes != in || err != nil {
			t.Errorf("%s, and %d is in: %v, %v", what, uid, passes, err)
		}
	}
	lend := func(uid uint32) (leave func() error) {
		t.Helper()
		leave = must.Get(a.accessLists.addTemporary(spot, uid))(t)
		if leave == nil {
			t.Fatalf("%d is in for good", uid)
		}
		return leave
	}
	first, second := lend(1002), lend(1003)
	fixed(t, gate, true)
	for _, leave := range []func() error{first, second} {
		if err := leave(); err == nil {
			t.Fatal("an entry of a gate that can not be changed is gone")
		}
	}
	if len(a.accessLists.all) == 0 {
		t.Error("entries that are to go are forgotten")
	}
	fixed(t, gate, false)
	third := lend(1002)
	is("a task needs it again", 1002, true)
	is("the gate is set again", 1003, false)
	must.Do(t, third())
	is("that task has ended", 1002, false)
	if len(a.accessLists.all) > 0 {
		t.Errorf("%d gates are remembered", len(a.accessLists.all))
	}
}

// fixed makes a folder one that not even root can change, or takes that back.
func fixed(t *testing.T, dir string, on bool) {
	t.Helper()
	f := must.Get(os.Open(dir))(t)
	defer f.Close()
	flags := must.Get(unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS))(t)
	const immutable = 0x10 // FS_IMMUTABLE_FL
	if flags &^= immutable; on {
		flags |= immutable
	}
	must.Do(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags))
}

// TestSealEnds: what a process asks for that has ended is not done any more, whoever goes on with its task.
//
//safety:7 with test/system/service TestSealedCache
func TestSealEnds(t *testing.T) {
	a, spot, at := vault(t)
	p := newProcess(a, &pb.Task{}, &agentv1.Job{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_STAGE, Target: at}})
	p.lead = newSession(1)
	for _, ended := range []bool{false, true} {
		must.Do(t, spot.MakeMutable(t.Context()))
		if ended {
			p.cancel()
			p.leaveReplicas()
		}
		_, failed := p.Seal(t.Context(), &agentv1.SealRequest{})
		if err := os.WriteFile(filepath.Join(spot.String(), "file"), []byte("other"), 0o644); (failed != nil) != ended || (err == nil) != ended {
			t.Errorf("it has ended: %v; to seal it: %v; to change it then: %v", ended, failed, err)
		}
	}
}
