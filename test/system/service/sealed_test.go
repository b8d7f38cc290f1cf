package service

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/slurm"
)

// lab is a dataset of alice that nobody else can reach, staged by her to the scratch of n1.
func lab(t *testing.T) (c *cluster, source, replica string) {
	t.Helper()
	c = newTown(t, "n1")
	source = c.Tree("shared/lab/vision", 50, 1, 2<<20)
	c.giveTo("alice", filepath.Dir(source))
	must.Do(t, os.Chmod(filepath.Dir(source), 0o700))
	c.addAs("alice", "vision", "shared:lab/vision")
	if _, err := c.stageAs("alice", "dataset:vision", "n1"); err != nil {
		t.Fatal(err)
	}
	return c, source, c.where("vision")
}

// where is the path of a replica on the scratch of n1.
func (c *cluster) where(dataset string) string {
	c.t.Helper()
	return c.whereOn("n1", dataset)
}

// whereOn is the path of a replica on the scratch of a node.
func (c *cluster) whereOn(node, dataset string) string {
	c.t.Helper()
	r := c.ReplicasOf(dataset)["scratch@"+node]
	if r.GetState() != pb.ReplicaState_REPLICA_STATE_WHOLE || r.GetUnguarded() != "" {
		c.t.Fatalf("the replica is %v", r)
	}
	return filepath.Join(c.Dir, "nodes", node, "scratch", strings.TrimPrefix(r.GetLocation(), "scratch:"))
}

// Who may not read the source gets neither a lease nor to the files, and who may does.
//
//safety:7 with mover/agent/replicadir TestStrangers
func TestClosedCache(t *testing.T) {
	c, source, replica := lab(t)
	reads := func(name string) error {
		_, err := c.doAs(name, "cat", replica+"/d00/f00000")
		return err
	}
	c.Same(source, replica)
	if err := reads("alice"); err != nil {
		t.Errorf("who staged it: %v", err)
	}
	if reads("bob") == nil {
		t.Error("bob reads by path")
	}
	if _, err := c.stageAs("bob", "dataset:vision", "n1"); !errors.Is(err, mover.ErrPermission) || reads("bob") == nil {
		t.Errorf("bob may not read the source: %v", err)
	}
	must.Do(t, os.Chmod(filepath.Dir(source), 0o755))
	if a, err := c.stageAs("bob", "dataset:vision", "n1"); err != nil || a.GetLease() == nil {
		t.Fatalf("bob may read the source: %v, %v", a, err)
	}
	if err := reads("bob"); err != nil { // at once
		t.Errorf("bob has a lease: %v", err)
	}
	must.Do(t, os.Chmod(filepath.Dir(source), 0o700))
	c.Until("the next hit is refused", func() bool {
		_, err := c.stageAs("bob", "dataset:vision", "n1")
		return errors.Is(err, mover.ErrPermission)
	})
	if reads("bob") == nil || reads("alice") != nil {
		t.Error("who was refused gets in, or who was not does not")
	}
	// A copy reads the replica only as who was let in.
	for name, want := range map[string]pb.TaskState{"alice": task.Done, "bob": task.Failed} {
		out := filepath.Join(c.Dir, "nodes/n1/scratch", name)
		must.Do(t, errors.Join(os.Mkdir(out, 0o755), os.Chown(out, int(rig.People[name]), int(rig.People[name]))))
		x, err := c.SubmitTask(rig.As(name), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: replica, Target: out, Node: "n1"}})
		if end := c.Ends(x, err); end.GetState() != want {
			t.Errorf("a copy by %s: %v", name, end)
		}
	}
}

// Who joins a staging is let in before it is whole, and root of the agents' nodes ever.
func TestClosedToWhoJoins(t *testing.T) {
	c := newTown(t, "n1")
	source := c.Tree("shared/vision", 5, 1, 12<<20)
	c.giveTo("alice", source)
	c.addAs("alice", "vision", "shared:vision")
	c.Slowly("scratch", 4<<20)
	stage := func(name string) *pb.StageResponse {
		a := must.Get(c.Stage(rig.As(name), &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1", LeaseTtl: durationpb.New(time.Hour)}))(t)
		return a
	}
	first, second := stage("alice"), stage("bob")
	if first.GetTask().GetId() != second.GetTask().GetId() {
		t.Fatalf("bob waits for %v", second)
	}
	c.Done(first.GetTask().GetId())
	for _, name := range []string{"alice", "bob"} {
		if out, err := c.doAs(name, "cat", c.where("vision")+"/d00/f00000"); err != nil {
			t.Errorf("%s: %s", name, out)
		}
	}
	if held := c.LeasesOf("vision"); held["alice"] != 1 || held["bob"] != 1 {
		t.Errorf("leases: %v", held)
	}
}

// Who staged it can not change it for others; and it goes as it came.
//
//safety:7 changes by the owner of a replica; kills between its last byte and its immutable flag, and of a task with temporary access
func TestSealedCache(t *testing.T) {
	c, source, replica := lab(t)
	for what, try := range map[string]string{
		"changes a file": "echo x >>" + replica + "/d00/f00000", "removes one": "rm -f " + replica + "/d00/f00000", "makes one": "touch " + replica + "/new",
		"replaces all": "mv " + replica + " " + replica + "x", "changes a mode": "chmod 777 " + replica + "/d00",
	} {
		if out, err := c.doAs("alice", "sh", "-c", try); err == nil {
			t.Errorf("alice %s: %s", what, out)
		}
	}
	if err := os.RemoveAll(replica); err == nil {
		t.Error("rm -rf by root removes it")
	}
	c.Same(source, replica)
	if _, err := c.Release(rig.As("alice"), &pb.ReleaseRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1"}); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("it is leased: %v", err)
	}
	c.Drop("vision")
	if end := c.Ends(c.Release(rig.As("alice"), &pb.ReleaseRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1"})); end.GetState() != task.Done {
		t.Errorf("release: %v", end)
	}
	if _, err := os.Lstat(filepath.Join(c.Dir, "nodes/n1/scratch/.datasets/vision")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folders: %v", err)
	}
	// Purge, by who made it, and by root.
	for _, who := range []context.Context{rig.As("alice"), context.Background()} {
		if _, err := c.stageAs("alice", "dataset:vision", "n1"); err != nil {
			t.Fatal(err)
		}
		at := c.ReplicasOf("vision")["scratch@n1"].GetLocation()
		c.Drop("vision")
		if end := c.Ends(c.Purge(who, &pb.PurgeRequest{Location: at, Node: "n1"})); end.GetState() != task.Done {
			t.Errorf("purge: %v", end)
		}
		if len(c.ReplicasOf("vision")) != 1 {
			t.Errorf("replicas: %v", c.ReplicasOf("vision"))
		}
	}
	// What nobody knows of any more is removed by root.
	if _, err := c.stageAs("alice", "dataset:vision", "n1"); err != nil {
		t.Fatal(err)
	}
	orphan := filepath.Dir(filepath.Dir(c.where("vision")))
	moved := filepath.Join(filepath.Dir(orphan), "orphan")
	must.Do(t, os.Rename(orphan, moved))
	x, err := c.SubmitTask(context.Background(), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_REMOVE, Target: "scratch:.datasets/orphan", Node: "n1"}})
	if end := c.Ends(x, err); end.GetState() != task.Done {
		t.Errorf("rm: %v", end)
	}
	if _, err := os.Lstat(moved); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
}

// What is doubted is mended by who stages it again, and sealed again.
func TestSealedMended(t *testing.T) {
	c, source, replica := lab(t)
	must.Do(t, os.Chmod(filepath.Dir(source), 0o755))
	if _, err := c.stageAs("bob", "dataset:vision", "n1"); err != nil {
		t.Fatal(err)
	}
	c.Drop("vision")
	// Bob tries to purge what is not his: that fails, unseals nothing, and changes nothing of what is known of it.
	was := c.ReplicasOf("vision")["scratch@n1"]
	if end := c.Ends(c.Purge(rig.As("bob"), &pb.PurgeRequest{Location: was.GetLocation(), Node: "n1"})); end.GetState() != task.Failed || end.GetErrorKind() != mover.KindName(mover.ErrPermission) {
		t.Fatalf("the purge: %v", end)
	}
	if is := c.ReplicasOf("vision")["scratch@n1"]; is.GetLevel() != was.GetLevel() || is.GetState() != pb.ReplicaState_REPLICA_STATE_WHOLE {
		t.Errorf("after a purge that was refused it is %v, and was %v", is, was)
	}
	sealed := func() bool {
		_, err := c.doAs("alice", "sh", "-c", "echo x >>"+replica+"/d00/f00000")
		return err != nil
	}
	if !sealed() {
		t.Error("it is not sealed any more")
	}
	c.Unseal(filepath.Join(c.Dir, "nodes/n1/scratch"))
	roots := filepath.Join(replica, "d00", "of-root") // which keeps a purge of alice from coming to its end
	must.Do(t, errors.Join(os.Mkdir(roots, 0o755), os.WriteFile(filepath.Join(roots, "file"), nil, 0o644)))
	if end := c.Ends(c.Purge(rig.As("alice"), &pb.PurgeRequest{Location: was.GetLocation(), Node: "n1"})); end.GetState() != task.Failed || c.ReplicasOf("vision")["scratch@n1"].GetLevel() != pb.Level_LEVEL_UNSPECIFIED {
		t.Fatalf("it is not doubted: %v", end)
	}
	must.Do(t, os.RemoveAll(roots))
	if sealed() { // now it is spoiled
		t.Fatal("it is sealed")
	}
	for i := range 2 {
		if a, err := c.stageAs("alice", "dataset:vision", "n1"); err != nil || (a.GetTask() == nil) != (i == 1) {
			t.Fatalf("%v, %v", a, err)
		}
	}
	c.Same(source, c.where("vision"))
	if !sealed() {
		t.Error("what was mended is not sealed")
	}
}

// What makes room goes, though it is sealed, with nobody asking.
func TestSealedEvicted(t *testing.T) {
	c := newTown(t)
	c.small("n1", 64<<20)
	conf := *c.Conf.Load()
	conf.Tiers = map[string]config.Tier{"shared": conf.Tiers["shared"], "scratch": conf.Tiers["scratch"]}
	scratch := conf.Tiers["scratch"]
	scratch.Cache = &config.Cache{High: 50, Low: 40}
	conf.Tiers["scratch"] = scratch
	c.Conf.Store(&conf)
	c.Join("n1")
	for _, name := range []string{"a", "b"} {
		source := c.Tree("shared/"+name, 3, 1, 20<<20)
		c.giveTo("alice", source)
		c.addAs("alice", name, "shared:"+name)
		a := must.Get(c.Stage(rig.As("alice"), &pb.StageRequest{Source: "dataset:" + name, Tier: "scratch", Node: "n1"}))(t)
		c.Done(a.GetTask().GetId())
	}
	c.Until("the older one goes", func() bool { return c.ReplicasOf("a")["scratch@n1"] == nil })
	c.where("b")
}

// An agent that is stopped while it seals leaves what the next one goes on with.
//
//safety:7 with TestSealedCache
func TestSealInterrupted(t *testing.T) {
	c, source, replica := lab(t)
	c.Drop("vision")
	if end := c.Ends(c.Release(rig.As("alice"), &pb.ReleaseRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1"})); end.GetState() != task.Done {
		t.Fatalf("release: %v", end)
	}
	for range 5 {
		a := must.Get(c.Stage(rig.As("alice"), &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1"}))(t)
		c.Until("it is being sealed, or is", func() bool {
			out, err := c.doAs("alice", "lsattr", "-d", replica)
			return err == nil && strings.Contains(strings.Fields(out)[0], "i")
		})
		for _, pid := range c.Working("n1", a.GetTask().GetId()) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		c.Done(a.GetTask().GetId())
		c.Same(source, c.where("vision"))
		if end := c.Ends(c.Release(rig.As("alice"), &pb.ReleaseRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1"})); end.GetState() != task.Done {
			t.Fatalf("release: %v", end)
		}
	}
}

// A job reads through the link of its prolog what was leased for it, as whose it is; others who come to that link do not.
//
//safety:7 a job reads what was staged for it, as its user, and can not change it
func TestJobReadsSealed(t *testing.T) {
	c, source, replica := lab(t)
	conf := *c.ConfOf("n1")()
	conf.Slurm.State = filepath.Join(c.Dir, "run")
	c.Conf.Store(&conf) // a tier of each node has one path on all
	site, err := slurm.Of(&conf, "n1", func(ctx context.Context) (*api.Client, error) {
		return c.Dial(ctx)
	}, func(config.Tier) error { return nil })
	must.Do(t, err)
	defer func() { _ = site.Close() }()
	job := slurm.Job{ID: 7, UID: rig.People["alice"], GID: rig.People["alice"]}
	if _, err := c.Stage(rig.As("alice"), &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1", LeaseTtl: durationpb.New(time.Hour), Holder: job.Holder("vision")}); err != nil {
		t.Fatal(err)
	}
	out, err := site.Prolog(t.Context(), job)
	if err != nil || len(out.Notes) > 0 || len(out.Links) != 1 || out.Links[0].Path != replica || filepath.Base(replica) != "data" {
		t.Fatalf("%+v, %v", out, err)
	}
	link := filepath.Join(out.Dir, "vision")
	if said, err := c.doAs("alice", "cmp", link+"/large0", source+"/large0"); err != nil {
		t.Errorf("the job reads: %s", said)
	}
	if said, err := c.doAs("alice", "sh", "-c", "echo x >>"+link+"/large0"); err == nil {
		t.Errorf("the job changes it: %s", said)
	}
	must.Do(t, os.Chmod(out.Dir, 0o755))
	if said, err := c.doAs("bob", "cat", link+"/large0"); err == nil {
		t.Errorf("bob reads through the link of alice's job: %.80s", said)
	}
	if out, err := site.Epilog(t.Context(), job); err != nil || len(out.Notes) > 0 {
		t.Errorf("%+v, %v", out, err)
	}
	c.Same(source, replica)
}
