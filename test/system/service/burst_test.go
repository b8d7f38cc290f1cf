package service

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
	"datamove.dev/test/aws"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst"
	burstaws "datamove.dev/tiering/burst/aws"
)

const declared = `kind: Burst
metadata: {name: llama}
spec:
  team: vision
  job: {kind: training, priority: high, gpus: 64, startsIn: 9h}
  cloud:
    tier: cloud
    region: us-east-1
    fileSystem: {type: SCRATCH_2, subnet: subnet-0123456789abcdef0}
  link: {kind: directConnect, rate: 10Gbit/s}
  lasts: 30h
  data:
    - {from: "shared:words", to: words}
  results:
    - {path: results, home: "shared:results"}
`

// inAWS gives a cluster a bucket, and a stand-in for AWS, which is a fake and in which everything takes no time.
func (c *cluster) inAWS() *aws.Server {
	c.t.Helper()
	store := s3test.Start(c.t, false)
	server := aws.New(aws.Options{Store: &aws.Store{Endpoint: store.Endpoint, Access: store.Access, Secret: store.Secret}, Lasts: aws.Lasts{Create: 1, Delete: 1, Link: 1, Pending: 1, Executing: 1}})
	must.Do(c.t, server.AddKey("datamove", store.Access, store.Secret, ""))
	listening := httptest.NewServer(server)
	c.t.Cleanup(listening.Close)
	for _, service := range []string{"FSX", "STS", "EC2", "CLOUDWATCH", "COST_EXPLORER"} {
		c.t.(*testing.T).Setenv("AWS_ENDPOINT_URL_"+service, listening.URL)
	}
	c.bucket("cloud", config.S3{Endpoint: store.Endpoint, Bucket: store.Bucket, Prefix: "team"}, "AWS_ACCESS_KEY_ID="+store.Access+"\nAWS_SECRET_ACCESS_KEY="+store.Secret+"\n")
	next := *c.Conf.Load()
	next.Burst.Accounts = map[string]config.BurstAccount{"vision": {Cap: "$200"}}
	c.Conf.Store(&next)
	return server
}

func (c *cluster) burst(req *pb.ApplyBurstRequest) *pb.Task {
	c.t.Helper()
	t := must.Get(c.ApplyBurst(context.Background(), req))(c.t)
	return t
}

// record is what the coordinator knows of the burst.
func (c *cluster) record() *burst.Record {
	c.t.Helper()
	known := must.Get(c.GetBurst(context.Background(), &pb.GetBurstRequest{Name: "llama"}))(c.t)
	r := &burst.Record{}
	must.Do(c.t, json.Unmarshal([]byte(known.GetRecord()), r))
	return r
}

// TestBurstKilled: whatever dies in the middle of a step, the task goes on under another lead, and nothing in AWS is made twice.
//
//safety:3 the process of a burst, its coordinator or its agent is lost in the middle of a step: one file system is made, and its money reserved once; an agent that lost the task keeps nothing and spends nothing
func TestBurstKilled(t *testing.T) {
	c := newCluster(t)
	server := c.inAWS()
	c.Join("n1")
	c.Tree("shared/words", 20, 0, 0)

	// The process dies while it asks for the file system; once before that is made, and once after, so that its answer is lost.
	release := server.Hold("CreateFileSystem")
	up := c.burst(&pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_UP, Declaration: declared})
	creating := func() bool {
		r := c.Now(up.GetId())
		if task.Ended(r.GetState()) {
			t.Fatalf("it has ended: %s %s", r.GetState(), r.GetError())
		}
		known, err := c.GetBurst(context.Background(), &pb.GetBurstRequest{Name: "llama"})
		return err == nil && strings.Contains(known.GetRecord(), `"fileSystem"`) && len(c.Working("n1", up.GetId())) > 0
	}
	c.Until("the file system is asked for", creating)
	c.Kill("n1", up.GetId())
	tries := c.Now(up.GetId()).GetTries()
	c.Until("another lead asks for it", func() bool { return c.Now(up.GetId()).GetTries() > tries && creating() })
	server.Order("CreateFileSystem", 1, aws.AnswerLost)
	hold := server.Hold("CreateDataRepositoryAssociation")
	release()
	c.Until("there is one", func() bool { return c.record().FileSystem.ID != "" })
	c.Until("the bucket is joined to it", func() bool { return c.record().Link != nil })

	// The coordinator dies, and begins anew: the process goes on, and what it has to keep is kept.
	c.Crash()
	hold()
	c.Start()
	c.Done(up.GetId())
	if n := len(c.systems()); n != 1 {
		t.Errorf("%d file systems", n)
	}
	r := c.record()
	if r.State != burst.Ready || r.FileSystem.ID == "" {
		t.Errorf("it is %s: %+v", r.State, r.FileSystem)
	}
	reserved := c.account().GetReservedMicros() + c.account().GetSpentMicros()
	if len(c.account().GetBursts()) != 1 || reserved != int64(r.Reserved) {
		t.Errorf("reserved %d of %d: %v", reserved, int64(r.Reserved), c.account())
	}

	// The same once more is nothing.
	c.Done(c.burst(&pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_UP, Declaration: declared}).GetId())
	if again := c.record(); again.ID != r.ID || len(c.systems()) != 1 {
		t.Errorf("burst %s became %s", r.ID, again.ID)
	}

	// It is told to stop in the middle of the way home, and goes on later; a cancelled one leaves the record.
	tree := server.FileSystem(r.FileSystem.ID)
	tree.Write(aws.File{Name: "results/log.txt", Body: []byte("loss 0.1"), Mode: 0o644})
	hold = server.Hold("CreateDataRepositoryTask")
	home := c.burst(&pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_SYNC_BACK, Name: "llama"})
	exporting := func() bool { return len(c.record().Open()) > 0 }
	c.Until("an export is asked for", exporting)
	if _, err := c.PauseTask(context.Background(), &pb.PauseTaskRequest{Id: home.GetId()}); err != nil {
		t.Fatal(err)
	}
	c.Until("it is paused", func() bool { return c.Now(home.GetId()).GetState() == task.Paused })
	if r := c.record(); r.Trouble != "" || len(r.Open()) != 1 {
		t.Errorf("paused: %q, %d open", r.Trouble, len(r.Open()))
	}
	hold()
	if _, err := c.ResumeTask(context.Background(), &pb.ResumeTaskRequest{Id: home.GetId()}); err != nil {
		t.Fatal(err)
	}
	c.Done(home.GetId())
	if body, err := os.ReadFile(filepath.Join(c.Dir, "shared", "results", "log.txt")); err != nil || string(body) != "loss 0.1" {
		t.Errorf("%q, %v", body, err)
	}
	hold = server.Hold("DeleteFileSystem")
	down := c.burst(&pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_DOWN, Name: "llama", Settle: believes})
	c.Until("it leaves", func() bool { return c.record().State == burst.Leaving })
	if _, err := c.CancelTask(context.Background(), &pb.CancelTaskRequest{Id: down.GetId()}); err != nil {
		t.Fatal(err)
	}
	c.Until("it is cancelled", func() bool { return c.Now(down.GetId()).GetState() == task.Cancelled })
	hold()
	if r := c.record(); r.State != burst.Leaving || r.FileSystem.Gone {
		t.Errorf("cancelled: %s, gone %v", r.State, r.FileSystem.Gone)
	}
	c.Done(c.burst(&pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_DOWN, Name: "llama", Settle: believes}).GetId())
	if r := c.record(); r.State != burst.Gone || len(c.systems()) != 0 {
		t.Errorf("%s, with %d file systems", r.State, len(c.systems()))
	}
	if a := c.account(); a.GetReservedMicros() != 0 || len(a.GetBursts()) != 0 || a.GetSpentMicros() <= 0 {
		t.Errorf("%v", a)
	}
}

// TestBurstFenced: a process that is cut off from its coordinator, and wakes up when another one has its task, keeps nothing and makes nothing.
//
//safety:3 with TestBurstKilled
func TestBurstFenced(t *testing.T) {
	c := newCluster(t)
	server := c.inAWS()
	c.Join("n1")
	c.Tree("shared/words", 5, 0, 0)
	hold := server.Hold("CreateFileSystem")
	up := c.burst(&pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_UP, Declaration: declared})
	c.Until("the file system is asked for", func() bool {
		known, err := c.GetBurst(context.Background(), &pb.GetBurstRequest{Name: "llama"})
		return err == nil && strings.Contains(known.GetRecord(), `"fileSystem"`)
	})
	c.Cut("n1")
	c.Join("n2")
	c.Until("another agent leads it", func() bool { return c.Now(up.GetId()).GetAgent() == "n2" })
	hold() // both ask
	c.Mend("n1")
	c.Done(up.GetId())
	if n := len(c.systems()); n != 1 {
		t.Errorf("%d file systems", n)
	}
	if r := c.record(); r.State != burst.Ready || r.Trouble != "" {
		t.Errorf("it is %s, with trouble %q", r.State, r.Trouble)
	}
	if a := c.account(); len(a.GetBursts()) != 1 {
		t.Errorf("%v", a)
	}
}

// TestBurstAsPerson: a burst is done as who asked, with the keys of the tier, which that person can not read; who is not of the team may not.
func TestBurstAsPerson(t *testing.T) {
	c := newTown(t)
	server := c.inAWS()
	next := *c.Conf.Load()
	next.Projects = map[string]config.Project{"vision": {Members: []string{"alice"}, Roots: []string{"shared:", "cloud:"}}}
	c.Conf.Store(&next)
	c.Join("n1")
	c.Tree("shared/words", 3, 0, 0)
	must.Do(t, os.MkdirAll(filepath.Join(c.Dir, "shared", "results"), 0o755))
	c.giveTo("alice", filepath.Join(c.Dir, "shared"))
	apply := func(who string, r *pb.ApplyBurstRequest) error {
		t.Helper()
		b, err := c.ApplyBurst(rig.As(who), r)
		if err != nil {
			return err
		}
		c.Done(b.GetId())
		return nil
	}
	if err := apply("bob", &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_UP, Declaration: declared}); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("bob: %v", err)
	}
	must.Do(t, apply("alice", &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_UP, Declaration: declared}))
	server.FileSystem(c.record().FileSystem.ID).Write(aws.File{Name: "results/log.txt", Body: []byte("loss 0.1"), Mode: 0o644, UID: rig.People["alice"], GID: rig.People["alice"]})
	must.Do(t, apply("alice", &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_SYNC_BACK, Name: "llama"}))
	info, err := os.Stat(filepath.Join(c.Dir, "shared", "results", "log.txt"))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != rig.People["alice"] {
		t.Errorf("%+v, %v", info, err)
	}
	if owner := c.systems()[0].Tags[burst.TagOwner]; owner != "alice" {
		t.Errorf("the file system is %q's", owner)
	}
	if err := apply("bob", &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_DOWN, Name: "llama"}); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("bob: %v", err)
	}
}

// believes has who takes a burst down believe that no client runs.
var believes = durationpb.New(0)

// systems are the file systems that there are in AWS.
func (c *cluster) systems() []burstaws.FileSystem {
	c.t.Helper()
	all, err := burstaws.Open(burstaws.Options{Region: "us-east-1", Keys: s3api.Session{Keys: aws.Static(aws.OwnerKey, aws.OwnerSecret, "")}}).FileSystems(context.Background())
	must.Do(c.t, err)
	return all
}

// account is the money of the team.
func (c *cluster) account() *pb.BurstAccount {
	c.t.Helper()
	all := must.Get(c.GetAccounts(context.Background(), &pb.GetAccountsRequest{Teams: []string{"vision"}}))(c.t)
	return all.GetAccounts()[0]
}
