package coordinator

import (
	"bytes"
	"context"
	"errors"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/manifest"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
	"datamove.dev/tiering/dataset"
)

// TestAddedWhileWritten: what is written to while it is read is nothing to rely on.
//
//safety:4/datasets a version is not made of what a task is writing to, or of a source that is suddenly empty
func TestAddedWhileWritten(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	write := func(target string) *pb.Task { // as somebody else: one's own copy would wait for what reads there
		w, err := d.SubmitTask(as("ann", 1001), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/from", Target: target, Node: "n1"}})
		must.Do(t, err)
		d.give()
		return w
	}
	a, err := d.datasets.AddDataset(root, &pb.AddDatasetRequest{Name: "a", Location: "project:a"})
	d.give() // before the copy is asked for, which it would wait for
	w := write("/lustre/project/a/below")
	if end := d.done(a, err, 1); end.GetState() != task.Failed || end.GetErrorKind() != mover.KindName(mover.ErrConflict) {
		t.Errorf("it is %v", end)
	}
	wants(t, "the copy", d.finish(w.GetId(), 0, nil), nil)
	w = write("project:") // of another account, slowly and for ever
	d.add(root, "a", "project:a", 1)
	wants(t, "the copy above", d.finish(w.GetId(), 0, nil), nil)

	w = write("project:b")
	_ = d.ledger.Update(context.Background(), state.Soon, func(tx *state.Tx) error { // as if it had been added in between
		return d.datasets.PutReplica(tx, &pb.Replica{Dataset: "b", Digest: digestOf(2), Tier: "project", Location: "project:b", State: whole, Level: pb.Level_LEVEL_READ})
	})
	wants(t, "the copy", d.finish(w.GetId(), 0, errors.New("half of it")), nil)
	if got := d.row("b", digestOf(2), "project", ""); got.GetLevel() != pb.Level_LEVEL_UNSPECIFIED {
		t.Errorf("what was written to is %v", got)
	}
}

// TestForgottenCache: of a dataset that is forgotten, what this service has staged to
// scratch does not stay for ever.
//
//safety:5/datasets with TestOverwritten
func TestForgottenCache(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	stage := &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}
	forgotten := &pb.Replica{Tier: "scratch", Node: "n1", Location: "scratch:.datasets/a/" + digestOf(1) + "/data"}
	there := func() (r *pb.Replica) {
		_ = d.ledger.View(func(tx *state.Tx) (err error) {
			r, err = state.Replicas.Get(tx, state.ReplicaKey(forgotten)...)
			return err
		})
		return r
	}
	for range 2 {
		d.add(root, "a", "project:a", 1)
		d.staged(root, stage, 1) // the second time over what is there
		if there() != nil {
			t.Error("it is there twice")
		}
		wants(t, "forget", second(d.datasets.RemoveDataset(root, &pb.RemoveDatasetRequest{Name: "a"})), nil)
		if there().GetBytes() != 100 {
			t.Errorf("what is left is %v", there())
		}
	}
	row := d.tier("scratch")
	row.Node, row.TotalBytes = "n1", 100
	wants(t, "room", d.datasets.MakeRoom(t.Context(), row, dataset.Watermarks{High: 80, Low: 50}), nil)
	id := there().GetTask()
	d.give()
	wants(t, "evicted", d.finish(id, 0, nil), nil)
	if there() != nil || d.state(id).GetState() != task.Done {
		t.Errorf("it is %v", there())
	}
}

// TestForgottenByEarlierVersion: what an earlier version staged to the folder of the digest itself, and was forgotten, is
// not staged into.
func TestForgottenByEarlierVersion(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	old := &pb.Replica{Tier: "scratch", Node: "n1", Location: "scratch:.datasets/a/" + digestOf(1), State: pb.ReplicaState_REPLICA_STATE_WHOLE, Bytes: 100}
	wants(t, "forgotten", d.ledger.Update(t.Context(), state.Durable, func(tx *state.Tx) error { return d.datasets.PutReplica(tx, old) }), nil)
	r := d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}, 1)
	got := d.row("a", digestOf(1), "scratch", "n1")
	if got.GetLocation() != old.GetLocation() || got.GetState() != pb.ReplicaState_REPLICA_STATE_WHOLE {
		t.Errorf("it is at %v, after %v", got, r)
	}
	_ = d.ledger.View(func(tx *state.Tx) error {
		if was, err := state.Replicas.Get(tx, state.ReplicaKey(old)...); err == nil {
			t.Errorf("it is there twice: %v", was)
		}
		return nil
	})
}

// TestNothingIsNoVersion: a source that is suddenly empty, as one that is not mounted, does
// not become the newest version.
//
//safety:4/datasets with TestAddedWhileWritten
func TestNothingIsNoVersion(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	a, err := d.datasets.AddDataset(root, &pb.AddDatasetRequest{Name: "a", Location: "project:a"})
	must.Do(t, err)
	d.give()
	id := a.GetId()
	var nothing bytes.Buffer
	w, err := manifest.NewWriter(&nothing, manifest.Header{})
	if err == nil {
		err = w.Write(&mover.Entry{Kind: mover.Dir, Known: mover.FactMode, Mode: 0o755}) // the root
	}
	if err == nil {
		_, err = w.Close()
	}
	must.Do(t, err)
	first := &agentv1.PutManifestRequest{Task: id, Epoch: d.taken[id].GetEpoch()}
	wants(t, "the manifest", d.datasets.PutManifest(&sending{ctx: asAgent(d.led[id]), first: first, rest: &nothing}), nil)
	_, err = d.scheduler.Finish(asAgent(d.led[id]), &agentv1.FinishRequest{Task: id, Epoch: d.taken[id].GetEpoch(), Report: &pb.Report{}})
	wants(t, "the end", err, nil)
	if end := d.state(id); end.GetState() != task.Failed || end.GetExitCode() != 7 {
		t.Errorf("it is %v", end)
	}
	got, err := d.datasets.GetDataset(root, &pb.GetDatasetRequest{Name: "a"})
	if err != nil || len(got.GetVersions()) != 1 || got.GetVersions()[0].GetDigest() != digestOf(1) {
		t.Errorf("the dataset is %v, %v", got, err)
	}
	if r := d.row("a", digestOf(1), "project", ""); r.GetState() != whole {
		t.Errorf("where it was is %v", r)
	}
}
