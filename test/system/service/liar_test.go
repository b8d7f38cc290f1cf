package service

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamoved/runners"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// liarArg has this program be a worker that lies, as one does that its user controls. As root it is an honest one.
const liarArg = "liar"

// liar does not do what its task says, and reports what makes others rely on it.
func liar() (err error) {
	conn, err := sandbox.Child()
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		return worker.Run(context.Background(), conn, worker.Options{Runners: runners.Of(nil), Stderr: os.Stderr})
	}
	client, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return conn, nil }))
	if err != nil {
		return err
	}
	ctx, agent := context.Background(), agentv1.NewWorkerServiceClient(client)
	orders, err := agent.Serve(ctx)
	if err != nil {
		return err
	}
	first, err := orders.Recv()
	if err != nil {
		return err
	}
	job := first.GetJob()
	end := &agentv1.EndLeadRequest{Report: &pb.Report{}}
	switch job.GetSpec().GetKind() {
	case pb.TaskKind_TASK_KIND_STAGE: // something else is staged, and called the dataset
		err = errors.Join(spoil(job, "other"), describesFalsely(ctx, job, agent))
		_, failed := agent.Seal(ctx, &agentv1.SealRequest{})
		err = errors.Join(err, failed, describesFalsely(ctx, job, agent))
	case pb.TaskKind_TASK_KIND_PURGE: // it is changed, and said to be as it was
		_, err = agent.Seal(ctx, &agentv1.SealRequest{Off: true})
		err = errors.Join(err, spoil(job, "d00/f00000"))
		end.Error, end.ErrorKind, end.Untouched = "it stays", mover.KindName(mover.ErrRefused), true
	}
	if err != nil {
		_, _ = os.Stderr.WriteString("liar: " + err.Error() + "\n")
	}
	_, err = agent.EndLead(ctx, end)
	return err
}

// spoil writes to a file of the target.
func spoil(job *agentv1.Job, name string) error {
	tier, path, _ := strings.Cut(job.GetSpec().GetTarget(), ":")
	i := slices.IndexFunc(job.GetTiers(), func(t *agentv1.TierAccess) bool { return t.GetName() == tier })
	return os.WriteFile(filepath.Join(job.GetTiers()[i].GetPath(), path, name), []byte("something else"), 0o644)
}

// describesFalsely sends the manifest of the source as that of the target.
func describesFalsely(ctx context.Context, job *agentv1.Job, agent agentv1.WorkerServiceClient) error {
	tier, path, _ := strings.Cut(job.GetSpec().GetSource(), ":")
	var text bytes.Buffer
	at := location.Location{Scheme: location.POSIX, Path: filepath.Join(job.GetTierPaths()[tier], path)}
	if err := engine.WriteManifest(ctx, at, &text, backend.Resolver{}.Open); err != nil {
		return err
	}
	out, err := agent.Describe(ctx)
	if err != nil {
		return err
	}
	_ = out.Send(&agentv1.DescribeRequest{Data: text.Bytes()}) // CloseAndRecv says why not
	_, err = out.CloseAndRecv()
	return err
}

// lies has the workers of a node be liars from now on.
func (c *cluster) lies(node string) {
	c.t.Helper()
	if c.Agents[node] != nil {
		c.Leave(node)
	}
	c.Program = []string{c.Program[0], liarArg}
	c.Join(node)
}

// TestLiarStages: a worker that its user controls can not have others take what it has staged for the dataset: what is sealed the agent describes.
//
//safety:7 a worker that says of something else that it is the dataset
func TestLiarStages(t *testing.T) {
	c, _, _ := lab(t)
	c.lies("n2")
	a := must.Get(c.Stage(rig.As("alice"), &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n2"}))(t)
	end := c.Ends(a.GetTask(), nil)
	if end.GetState() != task.Failed || end.GetErrorKind() != mover.KindName(mover.ErrCorrupt) {
		t.Errorf("the staging: %v", end)
	}
	if r := c.ReplicasOf("vision")["scratch@n2"]; r.GetState() == pb.ReplicaState_REPLICA_STATE_WHOLE {
		t.Errorf("others rely on %v", r)
	}
}

// TestLiarPurges: a worker for which a replica was unsealed can not have others rely on it as it was.
//
//safety:7 a worker that changes what it was to remove, and says that it has not
func TestLiarPurges(t *testing.T) {
	c, _, replica := lab(t)
	c.Drop("vision")
	at := c.ReplicasOf("vision")["scratch@n1"].GetLocation()
	c.lies("n1")
	if end := c.Ends(c.Purge(rig.As("alice"), &pb.PurgeRequest{Location: at, Node: "n1"})); end.GetState() != task.Failed {
		t.Errorf("the purge: %v", end)
	}
	if text := must.Get(os.ReadFile(replica + "/d00/f00000"))(t); string(text) != "something else" {
		t.Errorf("it has not changed it: %.40q", text)
	}
	if r := c.ReplicasOf("vision")["scratch@n1"]; r.GetLevel() != pb.Level_LEVEL_UNSPECIFIED {
		t.Errorf("others rely on %v", r)
	}
}
