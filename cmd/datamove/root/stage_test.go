package root

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestStage(t *testing.T) {
	s, u := furnished(t)
	s.answers["ListReplicas"] = &pb.ListReplicasResponse{Replicas: s.answers["ListReplicas"].(*pb.ListReplicasResponse).GetReplicas()[:1]} // of the tier that is asked for
	s.ends(func(t *pb.Task) { isDone(t); t.Dataset = "imagenet@" + digestOf })
	u.env["USER"] = "alice"
	began := time.Now()
	out, _ := u.wants(0, "stage", "dataset:imagenet", "--to", "scratch", "--ttl", "24h", "--pin", "2d", "--project", "vision", "--class", "restore", "--node", "n1")
	ended := time.Now()
	req := last[*pb.StageRequest](t, s, "Stage")
	pin := req.GetPinUntil().AsTime()
	if req.GetSource() != "dataset:imagenet" || req.GetTier() != "scratch" || req.GetNode() != "n1" || req.GetLeaseTtl().AsDuration() != 24*time.Hour || req.GetHolder() != "alice" ||
		req.GetProject() != "vision" || req.GetClass() != pb.TaskClass_TASK_CLASS_RESTORE || req.GetIdempotencyKey() == "" || pin.Before(began.Add(48*time.Hour)) || pin.After(ended.Add(48*time.Hour)) {
		t.Errorf("%v", req)
	}
	if got := last[*pb.ListLeasesRequest](t, s, "ListLeases"); got.GetHolder() != "alice" || got.GetTier() != "scratch" || got.GetNode() != "n1" {
		t.Errorf("%v", got)
	}
	has(t, "stage", out, "staged 2 files, 3.00 MiB in 2.00s", "imagenet@9c1d40e07ab2 is on scratch of n1: /local_nvme/imagenet\n  held by slurm:4711 until ", ": datamove lease drop lease1\n")

	if out, _ := u.wants(0, "stage", "-o", "name", "dataset:imagenet"); out != "/local_nvme/imagenet\n" {
		t.Errorf("%q", out)
	}
	out, _ = u.wants(0, "stage", "-o", "json", "dataset:imagenet")
	var v stageJSON
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Schema != "datamove.stage/v1" || v.Replica.Location != "/local_nvme/imagenet" || v.Lease != nil || v.Report.Files != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	out, _ = u.wants(0, "stage", "--detach", "dataset:imagenet")
	if !strings.HasPrefix(out, "task00000000") {
		t.Errorf("%q", out)
	}
	u.env["SLURM_JOB_ID"] = "7"
	u.wants(0, "stage", "dataset:imagenet", "--ttl", "1h")
	if got := last[*pb.StageRequest](t, s, "Stage"); got.GetHolder() != "slurm:7" || got.GetLabels()["slurm_job"] != "7" {
		t.Errorf("in a Slurm job: %v", got)
	}
	u.wants(0, "stage", "dataset:imagenet", "--label", "slurm_job=8", "--label", "run=a")
	if got := last[*pb.StageRequest](t, s, "Stage").GetLabels(); len(got) != 2 || got["slurm_job"] != "8" || got["run"] != "a" {
		t.Errorf("labels: %v", got)
	}

	s.ends(func(t *pb.Task) {
		t.State, t.ExitCode, t.Error, t.Report = pb.TaskState_TASK_STATE_FAILED, 7, "no room on scratch", reportOf([]error{mover.ErrFull})
	})
	_, said := u.wants(cli.ExitLimit, "stage", "dataset:imagenet")
	has(t, "stage", said, "datamove: stage: create /b/f0: no room\ndatamove: stage: 1 item failed\n")
	for _, f := range []string{"table", "name"} {
		if out, _ := u.wants(cli.ExitLimit, "stage", "-o", f, "dataset:imagenet"); strings.Contains(out, "local_nvme") {
			t.Errorf("what failed is not there: %s", out)
		}
	}
	s.errs["Stage"] = &mover.Error{Op: "find", Location: "dataset:imagenet", Err: mover.ErrNotExist}
	_, said = u.wants(cli.ExitNotExist, "stage", "dataset:imagenet")
	has(t, "unknown", said, "try: datamove dataset list\n")
	delete(s.errs, "Stage")
	for _, args := range []string{"stage", "stage --holder x dataset:y", "stage --wait --detach dataset:y", "stage --ttl soon dataset:y", "stage --pin 2001-01-01 dataset:y"} {
		u.wants(cli.ExitUsage, strings.Fields(args)...)
	}
}

// TestStageALocation finds the replica of what is no dataset by where it is.
func TestStageALocation(t *testing.T) {
	s, u := furnished(t)
	s.ends(func(t *pb.Task) { isDone(t); t.Spec.Target = "scratch:data" })
	whole := pb.ReplicaState_REPLICA_STATE_WHOLE
	s.answers["ListReplicas"] = &pb.ListReplicasResponse{Replicas: []*pb.Replica{{Tier: "scratch", Node: "n1", Location: "scratch:other", State: whole},
		{Tier: "scratch", Node: "n1", Location: "scratch:data", State: whole}, {Tier: "scratch", Node: "n1", Location: "scratch:last", State: whole}}}
	at := func(s int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: s} }
	s.answers["ListLeases"] = &pb.ListLeasesResponse{Leases: []*pb.Lease{{Id: "old", Location: "scratch:data", CreateTime: at(1)}, {Id: "mine", Location: "scratch:data", CreateTime: at(3)},
		{Id: "older", Location: "scratch:data", CreateTime: at(2)}, {Id: "another", Location: "scratch:other", CreateTime: at(4)}}}
	out, _ := u.wants(0, "stage", "/a", "--to", "scratch", "--ttl", "1h", "--holder", "x")
	has(t, "stage", out, "\n/a is on scratch of n1: scratch:data\n", "lease drop mine\n")
}

// TestStagedAlready is a replica that needs no task.
func TestStagedAlready(t *testing.T) {
	s, u := furnished(t)
	s.stage = &pb.StageResponse{Replica: &pb.Replica{Dataset: "imagenet", Digest: digestOf, Tier: "scratch", Location: "/x"},
		Lease: &pb.Lease{Id: "lease2", Holder: "alice", ExpireTime: timestamppb.Now()}}
	out, _ := u.wants(0, "stage", "dataset:imagenet")
	has(t, "stage", out, "imagenet@9c1d40e07ab2 is on scratch: /x\n  held by alice until ", "datamove lease drop lease2\n")
	for _, detach := range []string{"--wait", "--detach"} {
		out, _ = u.wants(0, "stage", detach, "-o", "json", "dataset:imagenet")
		var v stageJSON
		if err := json.Unmarshal([]byte(out), &v); err != nil || v.Lease.ID != "lease2" || v.Report != nil {
			t.Errorf("%+v, %v", v, err)
		}
	}
}

func TestReleaseAndPurge(t *testing.T) {
	s, u := furnished(t)
	s.ends(func(t *pb.Task) { isDone(t); t.Report.Removed = 12 })
	out, _ := u.wants(0, "release", "dataset:imagenet", "--from", "scratch", "--node", "n1")
	has(t, "release", out, "released 12 entries in 2.00s\n")
	if req := last[*pb.ReleaseRequest](t, s, "Release"); req.GetSource() != "dataset:imagenet" || req.GetTier() != "scratch" || req.GetNode() != "n1" {
		t.Errorf("%v", req)
	}
	out, _ = u.wants(0, "purge", "--yes", "scratch:job/x")
	has(t, "purge", out, "purged 12 entries in 2.00s\n")
	u.wants(0, "purge", "--yes", "--root", "--detach", "scratch:")
	if req := last[*pb.PurgeRequest](t, s, "Purge"); req.GetLocation() != "scratch:" {
		t.Errorf("%v", req)
	}
	asked := len(s.asked["Purge"])
	for args, code := range map[string]int{
		"release dataset:imagenet": cli.ExitUsage, "release imagenet --from x": cli.ExitUsage, "release /x --from y": cli.ExitUsage,
		"purge scratch:x": cli.ExitUsage, "purge --yes scratch:": cli.ExitLimit, "purge --yes /scratch": cli.ExitUsage, "purge --yes s3://bkt/x": cli.ExitUsage, "purge --yes scratch:../x": cli.ExitUsage,
	} {
		u.wants(code, strings.Fields(args)...)
	}
	s.errs["Release"] = fmt.Errorf("%w: it is the only copy", mover.ErrRefused)
	_, said := u.wants(cli.ExitLimit, "release", "dataset:imagenet", "--from", "scratch")
	has(t, "release", said, "refused by a limit: it is the only copy\ntry: datamove dataset show imagenet, which names replicas, leases and pins\n")
	if len(s.asked["Purge"]) != asked {
		t.Error("something was purged")
	}
}

func TestDatasetAdd(t *testing.T) {
	s, u := furnished(t)
	s.ends(func(t *pb.Task) {
		isDone(t)
		t.Report.Files, t.Report.Bytes, t.Dataset = 0, 0, "imagenet@"+digestOf
	})
	wd := must.Get(os.Getwd())(t)
	out, _ := u.wants(0, "dataset", "add", "--project", "vision", "imagenet", "x")
	if out != "dataset:imagenet@"+digestOf+" has 1,203 entries, 5.00 GiB\n" {
		t.Errorf("%q", out)
	}
	if req := last[*pb.AddDatasetRequest](t, s, "AddDataset"); req.GetLocation() != wd+"/x" || req.GetName() != "imagenet" || req.GetProject() != "vision" || req.GetIdempotencyKey() == "" {
		t.Errorf("%v", req)
	}
	out, _ = u.wants(0, "dataset", "add", "-o", "json", "imagenet", "x")
	has(t, "json", out, `"dataset": "imagenet@`+digestOf+`"`)
	out, _ = u.wants(0, "dataset", "add", "--detach", "imagenet", "archive:x")
	has(t, "detach", out, "task0000")
	u.wants(cli.ExitUsage, "dataset", "add", "imagenet")
}

func TestDatasetRemove(t *testing.T) {
	s, u := furnished(t)
	s.answers["RemoveDataset"] = &pb.RemoveDatasetResponse{}
	u.wants(cli.ExitUsage, "dataset", "remove", "imagenet") // there is no terminal to ask on
	u.wants(0, "dataset", "remove", "--yes", "imagenet@"+digestOf)
	if req := last[*pb.RemoveDatasetRequest](t, s, "RemoveDataset"); req.GetName() != "imagenet" || req.GetDigest() != digestOf {
		t.Errorf("%v", req)
	}
	s.errs["RemoveDataset"] = fmt.Errorf("%w: by a lease of slurm:4711", mover.ErrHeld)
	_, said := u.wants(cli.ExitConflict, "dataset", "remove", "--yes", "imagenet")
	has(t, "held", said, "held by another run: by a lease of slurm:4711\ntry: datamove dataset show imagenet, which names leases and pins\n")
	u.wants(cli.ExitUsage, "dataset", "remove", "--yes", "a/b")
}

func TestPinsAndLeases(t *testing.T) {
	s, u := furnished(t)
	u.wants(0, "pin", "dataset:imagenet", "--until", "2099-01-31", "--reason", "x")
	if req := last[*pb.PinRequest](t, s, "Pin"); !req.GetUntil().AsTime().Equal(time.Date(2099, 1, 31, 0, 0, 0, 0, time.Local)) || req.GetReason() != "x" {
		t.Errorf("%v", req)
	}
	s.answers["ListPins"] = &pb.ListPinsResponse{Pins: []*pb.PinInfo{{Dataset: "imagenet"}, {Dataset: "imagenet", Tier: "scratch"},
		{Dataset: "imagenet", Digest: digestOf, Tier: "scratch"}, {Dataset: "imagenet", Digest: strings.Repeat("0", 64), Tier: "hot"}}}
	for args, want := range map[string][]string{
		"unpin dataset:imagenet":                                     {"dataset:imagenet ", "dataset:imagenet scratch", "dataset:imagenet@" + digestOf + " scratch", "dataset:imagenet@" + strings.Repeat("0", 64) + " hot"},
		"unpin dataset:imagenet --tier scratch":                      {"dataset:imagenet scratch", "dataset:imagenet@" + digestOf + " scratch"},
		"unpin dataset:imagenet@" + digestOf:                         {"dataset:imagenet@" + digestOf + " scratch"},
		"unpin dataset:imagenet@" + digestOf + " --tier hot -o json": nil,
	} {
		s.asked["Unpin"] = nil
		u.wants(0, strings.Fields(args)...)
		var got []string
		for _, req := range s.asked["Unpin"] {
			got = append(got, req.(*pb.UnpinRequest).GetSource()+" "+req.(*pb.UnpinRequest).GetTier())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s ends %q", args, got)
		}
	}
	s.errs["Unpin"] = fmt.Errorf("unpin: %w", mover.ErrPermission)
	u.wants(cli.ExitPermission, "unpin", "dataset:imagenet")
	u.wants(0, "lease", "drop", "lease1", "lease2")
	if n := len(s.asked["DropLease"]); n != 2 {
		t.Errorf("%d leases were dropped", n)
	}
	for _, args := range []string{"pin dataset:imagenet", "pin imagenet --until 1d", "pin dataset:imagenet --until never", "unpin x"} {
		u.wants(cli.ExitUsage, strings.Fields(args)...)
	}
}
