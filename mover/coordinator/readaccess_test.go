package coordinator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/tiering/dataset/datasetserver"
)

// Of what this service has made somebody has to have looked, of late, whether the caller may
// read it where it came from.
//
//safety:7 with test/system/service TestMayReadNow
func TestMayHave(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	alice, bob, carol := as("alice", 1001), as("bob", 1002), as("carol", 1003)
	no := errors.New("it is closed")
	var looked []string
	may := map[string]bool{"alice": true, "bob": true}
	d.sees = func(u *datasetserver.Unseen) error {
		if len(u.Sources) == 0 {
			looked = append(looked, u.Caller.Name+" is let in")
			return nil
		}
		looked = append(looked, u.Caller.Name+" "+u.Sources[0].GetLocation())
		if !may[u.Caller.Name] {
			return mover.Because(mover.ErrPermission, "%v", no)
		}
		return nil
	}
	seen := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(looked, want) {
			t.Errorf("%s: looked as %q, want %q", what, looked, want)
		}
		looked = nil
	}
	lease := func(ctx context.Context, tier string) error {
		_, err := d.datasets.AcquireLease(ctx, &pb.AcquireLeaseRequest{Dataset: "a", Tier: tier, Node: "n1", Ttl: durationpb.New(time.Hour)})
		return err
	}
	scratch := &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1", LeaseTtl: durationpb.New(time.Hour)}
	d.add(alice, "a", "project:a", 1)
	wants(t, "a lease where others have put it", lease(carol, "project"), nil)
	seen("what this service has not made")
	d.staged(alice, scratch, 1)
	wants(t, "who has just staged it", second(d.datasets.Stage(alice, scratch)), nil)
	seen("who has just staged it")
	wants(t, "a hit", second(d.datasets.Stage(bob, scratch)), nil)
	wants(t, "a lease at once", lease(bob, "scratch"), nil)
	seen("once for a while", "bob project:a")
	wants(t, "who may not", second(d.datasets.Stage(carol, scratch)), mover.ErrPermission)
	wants(t, "nor a lease", lease(carol, "scratch"), mover.ErrPermission)
	seen("a no counts for nothing", "carol project:a", "carol project:a")
	d.pass(datasetserver.LookCounts)
	wants(t, "later", errors.Join(second(d.datasets.Stage(alice, scratch)), lease(bob, "scratch")), nil)
	seen("later", "alice project:a", "bob project:a")

	// What is staged from a replica that this service has made is no way around it.
	d.staged(alice, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n2"}, 1)
	looked = nil
	if err := d.ledger.Update(context.Background(), state.Durable, func(tx *state.Tx) error {
		r, err := state.Replicas.Get(tx, "a", digestOf(1), "project", "", "")
		if err == nil {
			r.Level = pb.Level_LEVEL_UNSPECIFIED // so that another one is read
			err = d.datasets.PutReplica(tx, r)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	d.pass(datasetserver.LookCounts)
	_, err := d.SubmitTask(carol, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "dataset:a", Target: "project:copy", Node: "n1"}})
	wants(t, "a copy out of the cache", err, mover.ErrPermission)
	seen("a copy out of the cache", "carol project:a")

	// Nothing is left of where it came from.
	if err := d.ledger.Update(context.Background(), state.Durable, func(tx *state.Tx) error {
		return state.Replicas.Delete(tx, "a", digestOf(1), "project", "", "")
	}); err != nil {
		t.Fatal(err)
	}
	wants(t, "who staged it", second(d.datasets.Stage(alice, scratch)), nil)
	wants(t, "another one", second(d.datasets.Stage(bob, scratch)), mover.ErrPermission)
	seen("nobody can look", "alice is let in")
}

// For a bucket the rules decide, and who has a project that may read it.
func TestMayHaveOfABucket(t *testing.T) {
	d := newDesk(t, site(), authz.Input{Projects: map[string]authz.Project{
		"vision": {Roots: []string{"archive:vision", "scratch:"}, Members: []string{"alice", "bob"}},
		"audio":  {Roots: []string{"archive:audio", "scratch:"}, Members: []string{"carol"}},
	}})
	d.sees = func(u *datasetserver.Unseen) error {
		if len(u.Sources) > 0 {
			return errors.New("nobody has to look")
		}
		return nil
	}
	d.add(as("alice", 1001), "a", "archive:vision/a", 1)
	r := &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}
	d.staged(as("alice", 1001), r, 1)
	wants(t, "a member", second(d.datasets.Stage(as("bob", 1002), r)), nil)
	wants(t, "of another project", second(d.datasets.Stage(as("carol", 1003), r)), mover.ErrPermission)
}

// Many who come at once wait for one look; and what is remembered has a bound.
func TestLooks(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(as("alice", 1001), "a", "project:a", 1)
	r := &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}
	d.staged(as("alice", 1001), r, 1)
	n, begin := 0, make(chan struct{})
	d.sees = func(*datasetserver.Unseen) error { n++; <-begin; return nil }
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { wants(t, "one of many", second(d.datasets.Stage(as("bob", 1002), r)), nil) })
	}
	close(begin)
	all.Wait()
	if n != 1 {
		t.Errorf("%d looks", n)
	}
}
