package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
)

var datasetDeeds = []deed{{"add", 4}, {"stage", 7}, {"release", 3}, {"lease", 2}, {"drop", 2}, {"pin", 1}, {"unpin", 1}}

// datasets are versions of the sources, staged to nodes.
type datasets struct {
	*running
	plain
	leases map[string]lease // that were given, by id
}

type lease struct {
	dataset, node string
	dropped       bool
}

func (r *datasets) do(s step) {
	name, node := fmt.Sprint("ds", s.a%sources), nodeName(s.b%r.w.agents)
	r.n++
	key := fmt.Sprint("key", r.n)
	a := &asked{what: fmt.Sprintf("%s %s on %s", s.do, name, node)}
	switch s.do {
	case "add":
		a.call = func(ctx context.Context, c *api.Client) (string, error) {
			t, err := api.Once(ctx, c, c.AddDataset, &pb.AddDatasetRequest{Name: name, Location: fmt.Sprint("shared:src", s.a%sources), IdempotencyKey: key})
			return t.GetId(), err
		}
	case "stage":
		a.call = func(ctx context.Context, c *api.Client) (string, error) {
			req := &pb.StageRequest{Source: "dataset:" + name, Tier: "scratch", Node: node, IdempotencyKey: key}
			if s.c%3 > 0 {
				req.LeaseTtl, req.Holder = durationpb.New(100*time.Hour), "job:"+key
			}
			answer, err := api.Once(ctx, c, c.Stage, req)
			r.given(answer.GetLease())
			return answer.GetTask().GetId(), err
		}
	case "release":
		a.call = func(ctx context.Context, c *api.Client) (string, error) {
			t, err := api.Once(ctx, c, c.Release, &pb.ReleaseRequest{Source: "dataset:" + name, Tier: "scratch", Node: node, IdempotencyKey: key})
			return t.GetId(), err
		}
	case "lease":
		a.call = func(ctx context.Context, c *api.Client) (string, error) {
			l, err := api.Once(ctx, c, c.AcquireLease, &pb.AcquireLeaseRequest{Dataset: name, Tier: "scratch", Node: node, Holder: "job:" + key, Ttl: durationpb.New(100 * time.Hour), IdempotencyKey: key})
			r.given(l)
			return "", err
		}
	case "pin":
		a.call = func(ctx context.Context, c *api.Client) (string, error) {
			_, err := c.Pin(ctx, &pb.PinRequest{Source: "dataset:" + name, Tier: "scratch", Until: timestamppb.New(time.Now().Add(time.Hour)), IdempotencyKey: key})
			return "", err
		}
	case "unpin":
		a.call = func(ctx context.Context, c *api.Client) (string, error) {
			_, err := c.Unpin(ctx, &pb.UnpinRequest{Source: "dataset:" + name, Tier: "scratch"})
			return "", err
		}
	case "drop":
		ids := slices.Sorted(maps.Keys(r.leases))
		if len(ids) == 0 {
			return
		}
		id := ids[s.b%len(ids)]
		l := r.leases[id]
		l.dropped = true // whatever the answer
		r.leases[id] = l
		a.call = func(ctx context.Context, c *api.Client) (string, error) {
			_, err := c.DropLease(ctx, &pb.DropLeaseRequest{Id: id})
			return "", err
		}
	}
	r.ask(a)
}

// given notes a lease; nil is none.
func (r *datasets) given(l *pb.Lease) {
	if l != nil {
		r.leases[l.GetId()] = lease{dataset: l.GetDataset() + "@" + l.GetDigest(), node: l.GetNode()}
	}
}

func (r *datasets) check() { r.replicas() }

func (r *datasets) mayFail(x *pb.Task) bool {
	switch x.GetSpec().GetKind() {
	case pb.TaskKind_TASK_KIND_RELEASE:
		return true // of what is not there, or in use
	case pb.TaskKind_TASK_KIND_STAGE, pb.TaskKind_TASK_KIND_DESCRIBE:
		return r.everChanged()
	}
	return false
}

func (r *datasets) end(map[string]*pb.Task) { r.empty() }

// replicas checks that what is said to be whole is, and that what is leased is whole.
func (r *datasets) replicas() {
	there := map[string]string{} // what a lease holds; asked for first: what is whole stays so while it is leased
	for l, err := range r.Leases(context.Background(), &pb.ListLeasesRequest{}) {
		if err != nil {
			r.t.Errorf("the leases: %v", err)
			return
		}
		there[l.GetId()] = ""
		if l.GetTier() == "scratch" && strings.HasPrefix(l.GetDataset(), "ds") && !strings.HasPrefix(l.GetHolder(), "task:") {
			there[l.GetId()] = l.GetDataset() + "@" + l.GetDigest() + " on " + l.GetNode()
		}
	}
	whole := map[string]bool{}
	for i, src := range r.sources {
		name := fmt.Sprint("ds", i)
		for x, err := range r.Replicas(context.Background(), &pb.ListReplicasRequest{Dataset: name}) {
			if err != nil {
				if !errors.Is(err, mover.ErrNotExist) {
					r.t.Errorf("the replicas of %s: %v", name, err)
				}
				break
			}
			if x.GetState() != pb.ReplicaState_REPLICA_STATE_WHOLE || x.GetTier() != "scratch" {
				continue
			}
			whole[x.GetDataset()+"@"+x.GetDigest()+" on "+x.GetNode()] = true
			files, temporary := r.contents(r.Scratch(x.GetNode(), name, x.GetDigest()))
			if len(temporary) > 0 {
				r.t.Errorf("the replica of %s on %s is whole, and has %v", name, x.GetNode(), temporary)
			}
			for file, sum := range files {
				if !src.ever[file][sum] {
					r.t.Errorf("the replica of %s on %s has another %s", name, x.GetNode(), file)
				}
			}
			if len(files) != len(src.now) && !r.everChanged() {
				r.t.Errorf("the replica of %s on %s is whole with %d files of %d", name, x.GetNode(), len(files), len(src.now))
			}
		}
	}
	for id, at := range there {
		if at != "" && !whole[at] {
			r.t.Errorf("lease %s holds %s, of which no whole replica is there", id, at)
		}
	}
	for id, l := range r.leases {
		if _, is := there[id]; !l.dropped && !is {
			r.t.Errorf("lease %s on %s was given, not dropped, and is not there", id, l.dataset)
		}
	}
}

// empty releases all that was staged, and checks that nothing is left of it.
func (r *datasets) empty() {
	ctx := context.Background()
	r.Drop("")
	for i := range r.sources {
		name := fmt.Sprint("ds", i)
		if _, err := r.Unpin(ctx, &pb.UnpinRequest{Source: "dataset:" + name, Tier: "scratch"}); err != nil && !errors.Is(err, mover.ErrNotExist) {
			r.t.Errorf("unpin %s: %v", name, err)
		}
		var all []*pb.Replica
		for x, err := range r.Replicas(ctx, &pb.ListReplicasRequest{Dataset: name}) {
			if err != nil {
				break // of no such dataset
			}
			if x.GetTier() == "scratch" {
				all = append(all, x)
			}
		}
		for _, x := range all {
			y, err := r.Release(ctx, &pb.ReleaseRequest{Source: "dataset:" + name + "@" + x.GetDigest(), Tier: "scratch", Node: x.GetNode()})
			if err != nil {
				if !r.everChanged() {
					r.t.Errorf("release %v: %v", x, err)
				}
				continue
			}
			if !r.rest() {
				return
			}
			if y = r.Now(y.GetId()); y.GetState() != task.Done && !r.everChanged() {
				r.t.Errorf("what is not in use is not released: %s", told(y))
			}
		}
	}
	if r.everChanged() || r.t.Failed() { // a replica is not released when its source is not what it was
		return
	}
	for i := range r.w.agents {
		left, err := filepath.Glob(filepath.Join(r.ConfOf(nodeName(i))().Tiers["scratch"].Path, ".datasets/ds*/*"))
		if err != nil || len(left) > 0 {
			r.t.Errorf("all is released, and on %s there is %v %v", nodeName(i), left, err)
		}
	}
}
