package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/changefeed"
	"datamove.dev/tiering/catalog/changefeed/remote"
)

// toldStream is the stream on which a lead tells of changes, in memory; up and down are its two sides.
type toldStream struct {
	grpc.ServerStream
	ctx  context.Context
	up   chan *agentv1.FollowRequest
	down chan *agentv1.FollowResponse
}

func (s *toldStream) Context() context.Context { return s.ctx }

func (s *toldStream) Recv() (*agentv1.FollowRequest, error) {
	select {
	case r := <-s.up:
		return r, nil
	case <-s.ctx.Done():
		return nil, io.EOF
	}
}

func (s *toldStream) Send(r *agentv1.FollowResponse) error {
	select {
	case s.down <- r:
		return nil
	case <-s.ctx.Done():
		return io.EOF
	}
}

// lead is the other side.
type toldBy struct{ *toldStream }

func (s toldBy) Recv() (*agentv1.FollowResponse, error) {
	select {
	case r := <-s.down:
		return r, nil
	case <-s.ctx.Done():
		return nil, io.EOF
	}
}

func (s toldBy) Send(r *agentv1.FollowRequest) error {
	select {
	case s.up <- r:
		return nil
	case <-s.ctx.Done():
		return io.EOF
	}
}

// tells is a feed that says what it is given.
type tells chan changefeed.Batch

func (f tells) Run(ctx context.Context, _ changefeed.Marks, take changefeed.Take) error {
	for {
		select {
		case b := <-f:
			if err := take(ctx, b); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// TestDeaf: that changes in a tier are not heard of stands in the log of the service, for no caller waits for such a task.
func TestDeaf(t *testing.T) {
	d := catalogued(t, authz.Input{})
	var log bytes.Buffer
	d.log = slog.New(slog.NewTextHandler(&log, nil))
	tier := d.conf.Tiers["project"]
	tier.Feed = "changelog"
	d.conf.Tiers["project"] = tier
	wants(t, "keep", d.catalog.KeepFollowed(t.Context()), nil)
	d.give()
	for id := range d.taken {
		wants(t, "finish", d.finish(id, 0, fmt.Errorf("%w: open /mnt", mover.ErrPermission)), nil)
	}
	said := log.String()
	for _, want := range []string{"level=WARN", "kind=follow", "source=project:", "open /mnt"} {
		if !strings.Contains(said, want) {
			t.Errorf("the log lacks %q: %s", want, said)
		}
	}
}

// TestTasksAreLogged: a task of a caller has one line when it is submitted and one when it ends, whichever way that is; what the service sets itself has none.
func TestTasksAreLogged(t *testing.T) {
	const about = " kind=copy owner=alice source=project:in/0 target=project:out/0"
	ends := func(failed error) func(*desk, string) error {
		return func(d *desk, id string) error {
			d.give()
			d.pass(90 * time.Second)
			return d.finish(id, 0, failed)
		}
	}
	for name, row := range map[string]struct {
		end  func(*desk, string) error
		want string
	}{
		"done":   {ends(nil), "a task has ended|%s|state=done files=0 bytes=0 failed=0 took=1m30s"},
		"failed": {ends(mover.ErrPermission), `a task has failed|%s|state=failed|took=1m30s|err="permission denied"`},
		"cancelled": {func(d *desk, id string) error {
			_, err := d.CancelTask(alice, &pb.CancelTaskRequest{Id: id})
			return err
		}, "a task has ended|%s|state=cancelled|took=0s"},
		"refused when it begins": {func(d *desk, _ string) (err error) {
			d.rules, err = authz.New(authz.Input{}) // the tier has gone
			d.give()
			return err
		}, "a task has failed|%s|state=failed"},
		"of a node that is forgotten": {func(d *desk, _ string) error {
			d.leaves("n2")
			_, err := d.agents.ForgetAgent(root, &pb.ForgetAgentRequest{Name: "n2"})
			return err
		}, "a task has failed|%s|state=failed"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, site(), authz.Input{})
			var log bytes.Buffer
			d.log = slog.New(slog.NewTextHandler(&log, nil))
			said := func(when, want string) {
				t.Helper()
				var lines []string
				for line := range strings.Lines(log.String()) {
					if strings.Contains(line, `msg="a task`) {
						lines = append(lines, line)
					}
				}
				log.Reset()
				if len(lines) != 1 || !strings.Contains(lines[0], "level=INFO") {
					t.Fatalf("%s, the log has %q", when, lines)
				}
				for part := range strings.SplitSeq(want, "|") {
					if !strings.Contains(lines[0], part) {
						t.Errorf("%s, the log lacks %q: %s", when, part, lines[0])
					}
				}
			}
			r := copying(0, 0)
			r.Paused, r.Spec.Node = false, "n2"
			x, err := d.SubmitTask(alice, r)
			wants(t, "submit", err, nil)
			task := "task=" + x.GetId() + about
			said("when it is submitted", "a task was submitted|"+task)
			wants(t, "end", row.end(d, x.GetId()), nil)
			said("when it has ended", fmt.Sprintf(row.want, task))
		})
	}
	d := catalogued(t, authz.Input{})
	var log bytes.Buffer
	d.log = slog.New(slog.NewTextHandler(&log, nil))
	_, err := d.datasets.Stage(alice, &pb.StageRequest{Source: "/data", Tier: "scratch", Node: "n1"})
	if wants(t, "stage", err, nil); strings.Count(log.String(), `level=INFO msg="a task was submitted"`) != 1 || !strings.Contains(log.String(), "kind=stage owner=alice source=/data target=scratch:data node=n1") {
		t.Errorf("of a staging, the log has %s", log.String())
	}
	log.Reset()
	tier := d.conf.Tiers["project"]
	tier.Feed = "inotify"
	d.conf.Tiers["project"] = tier
	wants(t, "keep", d.catalog.KeepFollowed(t.Context()), nil)
	if d.give(); len(d.taken) == 0 || strings.Contains(log.String(), `msg="a task`) {
		t.Errorf("of what the service sets itself, the log has %s", log.String())
	}
}

// TestHearChanges: where the configuration has a feed, the service has it followed; the lead alone tells what happens, as long as it is one, and the catalog is as fresh as what
// it tells. When the configuration changes its mind, that ends.
func TestHearChanges(t *testing.T) {
	d := catalogued(t, authz.Input{})
	tier := d.conf.Tiers["project"]
	tier.Feed = "inotify"
	d.conf.Tiers["project"] = tier
	keep := func() (all []*pb.Task) {
		t.Helper()
		wants(t, "keep", d.catalog.KeepFollowed(t.Context()), nil)
		d.give()
		wants(t, "look", d.ledger.View(func(tx *state.Tx) error {
			for one, err := range state.FindTasks(tx, d.OwnTasks()) {
				if err != nil {
					return err
				}
				all = append(all, one)
			}
			return nil
		}), nil)
		return all
	}
	if all := keep(); len(all) != 1 || all[0].GetSpec().GetKind() != pb.TaskKind_TASK_KIND_FOLLOW || len(keep()) != 1 {
		t.Fatalf("%v", all)
	}
	var id string
	for id = range d.taken {
	}
	tree := mem.NewTree().Files(map[string]string{"a": "1", "dir/b": "22"})
	ctx, hangUp := context.WithCancel(asAgent(d.led[id]))
	begin := func(ctx context.Context, id string, epoch uint64) (*toldStream, chan error) {
		s := &toldStream{ctx: ctx, up: make(chan *agentv1.FollowRequest, 1), down: make(chan *agentv1.FollowResponse, 1)}
		s.up <- &agentv1.FollowRequest{Task: id, Epoch: epoch}
		ended := make(chan error, 1)
		go func() { ended <- d.catalog.Follow(s) }()
		return s, ended
	}
	other := map[string]string{"n1": "n2", "n2": "n1"}[d.led[id]]
	for what, row := range map[string]struct {
		agent string
		epoch uint64
	}{"another agent": {other, d.taken[id].GetEpoch()}, "another epoch": {d.led[id], d.taken[id].GetEpoch() + 1}} {
		_, ended := begin(asAgent(row.agent), id, row.epoch)
		wants(t, what, <-ended, mover.ErrHeld)
	}
	s, ended := begin(ctx, id, d.taken[id].GetEpoch())
	feeds := make(tells)
	var g sync.WaitGroup
	place := mem.New(tree, mem.Options{})
	g.Go(func() {
		_ = remote.Tell(ctx, toldBy{s}, place, func(k *agentv1.FollowFeed) (changefeed.Feed, error) {
			if k.GetKind() != "inotify" {
				t.Errorf("asked for %v", k)
			}
			return feeds, nil
		}, d.log)
	})
	feeds <- changefeed.Batch{All: true, Why: "a test", Since: time.Now()}
	feeds <- changefeed.Batch{Names: []string{"nothing"}, Events: 3} // it is taken: the one before is in the catalog
	feeds <- changefeed.Batch{Names: []string{"nothing"}}
	d.finding(t, "root", root, &pb.Question{Location: "project:"}, "a", "dir", "dir/b")
	tree.Files(map[string]string{"new": "333"})
	feeds <- changefeed.Batch{Names: []string{"new"}}
	feeds <- changefeed.Batch{Names: []string{"nothing"}}
	d.finding(t, "root", root, &pb.Question{Location: "project:"}, "a", "dir", "dir/b", "new")
	scans, err := d.catalog.ListScans(root, &pb.ListScansRequest{Tier: "project"})
	wants(t, "scans", err, nil)
	if f := scans.GetScans()[0].GetFollowing(); f.GetFeed() != "inotify" || f.GetEvents() < 3 || f.GetScans() != 1 || f.GetTime() == nil {
		t.Errorf("%v", scans)
	}
	d.pass(time.Hour)
	state, err := d.policies.Catalog.State(catalog.Tree{Tier: "project"})
	wants(t, "state", err, nil)
	if d.now().Sub(d.catalog.AsOf(&state)) > time.Minute {
		t.Errorf("the catalog is of %v, and it is %v", d.catalog.AsOf(&state), d.now())
	}
	tier.Feed = ""
	d.conf.Tiers["project"] = tier
	if all := keep(); len(all) != 0 && all[0].GetState() != task.Running { // its lead is told to let go
		t.Errorf("%v", all)
	}
	d.scheduler.mu.Lock()
	delete(d.scheduler.leads, id)
	d.scheduler.mu.Unlock()
	_ = toldBy{s}.Send(&agentv1.FollowRequest{MarkOf: "x"}) // what it says now does not count
	if err := <-ended; !errors.Is(err, mover.ErrTransient) || !errors.Is(err, mover.ErrHeld) {
		t.Errorf("%v", err)
	}
	if d.catalog.Follows(catalog.Tree{Tier: "project"}) {
		t.Error("it is heard still")
	}
	hangUp()
	g.Wait()
}

// TestStandingGoesOn: what the service has set itself waits for the next agent at once where the coordinator or an agent has stopped, or a connection has broken. What
// can not be done has failed, and so has what ends at once again and again.
func TestStandingGoesOn(t *testing.T) {
	raw := errors.New("rpc error: code = Canceled desc = grpc: the client connection is closing")
	for _, row := range []struct {
		what  string
		err   error
		lasts time.Duration
		ends  int // how often
		want  pb.TaskState
	}{
		{"the connection of the agent closes", raw, 0, 1, task.Running},
		{"the coordinator stops", mover.ErrUnreachable, 0, 1, task.Running},
		{"a stop each day, for a month", raw, 24 * time.Hour, 30, task.Running},
		{"again and again, at once", raw, 0, crashesMost, task.Failed},
		{"it may not", mover.ErrPermission, time.Hour, 1, task.Failed},
		{"it can not", mover.ErrUnsupported, time.Hour, 1, task.Failed},
	} {
		for _, kind := range []pb.TaskKind{pb.TaskKind_TASK_KIND_FOLLOW, pb.TaskKind_TASK_KIND_CHECKPOINTS, pb.TaskKind_TASK_KIND_SCAN} {
			t.Run(fmt.Sprint(row.what, " ", kind), func(t *testing.T) {
				d := catalogued(t, authz.Input{})
				spec := &pb.TaskSpec{Kind: kind, Source: "project:"}
				spec.Class = task.ClassOf(spec)
				x := d.NewTask(spec)
				wants(t, "begin", d.ledger.Update(t.Context(), state.Durable, func(tx *state.Tx) error { return state.Tasks.Put(tx, x) }), nil)
				d.Submitted(t.Context(), x)
				for range row.ends {
					d.give()
					if d.taken[x.GetId()] == nil {
						t.Fatalf("it is %v", d.state(x.GetId()))
					}
					d.pass(row.lasts)
					wants(t, "finish", d.finish(x.GetId(), 0, row.err), nil)
				}
				d.give()
				if got := d.state(x.GetId()); got.GetState() != row.want {
					t.Errorf("it is %v", got)
				}
			})
		}
	}
}
