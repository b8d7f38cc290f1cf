package csi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/csi/kube"
	"datamove.dev/csi/volume"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/dataset/datasetclient"
)

// staging starts a real mover on this node, with the tiers shared and scratch and the datasets train and secret, and lets
// the driver stage with it.
func (r *kubelet) staging() *rig.Cluster {
	r.Helper()
	dir := r.TempDir()
	for _, name := range []string{"train", "secret"} {
		must.Do(r.T, os.MkdirAll(filepath.Join(dir, "shared", name, "sub"), 0o755))
		must.Do(r.T, os.WriteFile(filepath.Join(dir, "shared", name, "sub/file"), []byte(name), 0o644))
	}
	r.shared = filepath.Join(dir, "shared")
	tiers := map[string]config.Tier{
		"scratch": {Level: "hot", Path: rig.ScratchOf(dir, "n1"), Ephemeral: true, NodeLocal: true},
		"shared":  {Level: "warm", Path: r.shared},
	}
	maps.Copy(tiers, r.tiers)
	c := rig.Open(r.T, rig.Options{Dir: dir, Conf: &config.Config{Tiers: tiers}, Accounts: rig.Accounts(r.T), Real: true}, "n1")
	for _, name := range []string{"train", "secret"} {
		c.Add(name, "shared:"+name)
	}
	r.service = c
	m := &datasetclient.Mover{Dial: c.Dial, Node: "n1", Label: "csi-copy"}
	r.Cleanup(func() { must.Do(r.T, m.Close()) })
	r.driver.Staging = &datasetclient.Away{Mover: m, File: filepath.Join(r.TempDir(), "held.json"), Note: Noting(r.driver.Files)}
	r.driver.Config.Grants = append(r.driver.Config.Grants, volume.Grant{Namespaces: []string{"vision"}, Sources: []string{"dataset:train"}})
	return c
}

// leases counts those that hold something on the node.
func (r *kubelet) leases(c *rig.Cluster) (n int) {
	r.Helper()
	for _, err := range c.Leases(r.Context(), &datamovev1.ListLeasesRequest{}) {
		must.Do(r.T, err)
		n++
	}
	return n
}

// TestDataset: a dataset is staged before the pod has it, is read-only, is held as long as a pod has it, and comes
// once for all pods of a node.
func TestDataset(t *testing.T) {
	r := rigged(t)
	client := r.staging()
	v, err := r.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "pvc-train", VolumeCapabilities: []*csi.VolumeCapability{able(csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY)},
		Parameters: map[string]string{"type": "dataset", "dataset": "train", "tier": "scratch"}})
	must.Do(t, err)
	publication := func(pod string) *csi.NodePublishVolumeRequest {
		q := r.publication(v.GetVolume().GetVolumeId(), "vision", pod)
		for name, value := range v.GetVolume().GetVolumeContext() {
			q.VolumeContext[name] = value
		}
		return q
	}
	first, second := publication("first"), publication("second")
	target := r.eventually(first)
	if got, err := os.ReadFile(filepath.Join(target, "sub/file")); err != nil || string(got) != "train" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(target, "new"), nil, 0o644); !errors.Is(err, unix.EROFS) {
		t.Errorf("it can be written: %v", err)
	}
	if out, err := asPod(target, "cat sub/file"); err != nil || out != "train" {
		t.Errorf("a pod reads %q, %v", out, err)
	}
	r.eventually(second)
	if n := r.leases(client); n != 2 {
		t.Errorf("%d leases", n)
	}
	r.unpublished(first)
	r.unpublished(first)
	if n := r.leases(client); n != 1 {
		t.Errorf("%d leases", n)
	}
	if _, err := os.Stat(filepath.Join(second.GetTargetPath(), "sub/file")); err != nil {
		t.Error(err)
	}
	r.unpublished(second)
	if n := r.leases(client); n != 0 {
		t.Errorf("%d leases", n)
	}
}

// dataset is a request for a volume of one, as its claim has it.
func (r *kubelet) dataset(claim, spelled string) *csi.Volume {
	r.Helper()
	v, err := r.CreateVolume(r.Context(), &csi.CreateVolumeRequest{Name: "pvc-" + claim, VolumeCapabilities: []*csi.VolumeCapability{able(csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY)},
		Parameters: map[string]string{"type": "dataset", "dataset": spelled, "tier": "scratch", "csi.storage.k8s.io/pvc/namespace": "vision", "csi.storage.k8s.io/pvc/name": claim}})
	must.Do(r.T, err)
	return v.GetVolume()
}

// reads is what a new pod of a volume reads, and its publication.
func (r *kubelet) reads(v *csi.Volume, pod string) (string, *csi.NodePublishVolumeRequest) {
	r.Helper()
	q := r.publication(v.GetVolumeId(), "vision", pod)
	maps.Copy(q.VolumeContext, v.GetVolumeContext())
	return string(must.Get(os.ReadFile(filepath.Join(r.eventually(q), "sub/file")))(r.T)), q
}

// TestPinned: all pods of a claim read the version that was the newest when it was made, whenever they start. One of @latest has the newest at the
// start of each pod. Where a PersistentVolume says no version, a pod has that of the others of its volume.
func TestPinned(t *testing.T) {
	r := rigged(t)
	c := r.staging()
	k := &told{}
	r.driver.Cluster = k
	added := func(content string) string {
		must.Do(t, os.WriteFile(filepath.Join(r.shared, "train/sub/file"), []byte(content), 0o644))
		return c.Add("train", "shared:train")
	}
	digests := map[string]string{"one": added("one")}
	pinned, latest := r.dataset("pinned", "train"), r.dataset("latest", "train@latest")
	written := &csi.Volume{VolumeId: "v1:dataset::train", VolumeContext: map[string]string{"dataset": "train", "tier": "scratch"}}
	for _, v := range []*csi.Volume{pinned, latest, written} {
		k.claims = append(k.claims, kube.Claim{Claim: volume.Claim{Namespace: "vision", Name: v.GetVolumeId()}, Volume: v.GetVolumeId(), Attributes: v.GetVolumeContext()})
	}
	said := func(v *csi.Volume) string {
		must.Do(t, r.driver.annotate(t.Context()))
		return k.annotations[v.GetVolumeId()][version]
	}
	if got := said(pinned); got != digests["one"] {
		t.Errorf("the claim says %q", got)
	}
	if want := "vision/pinned VersionPinned dataset:train@" + digests["one"]; len(k.events) != 1 || !strings.HasPrefix(k.events[0], want) {
		t.Errorf("%q, and not %s", k.events, want)
	}
	_, keeper := r.reads(written, "keeper")
	digests["two"] = added("two")
	for i, row := range []struct {
		what string
		v    *csi.Volume
		want string
	}{
		{"a claim of before", pinned, "one"},
		{"a claim of the newest", latest, "two"},
		{"a volume without a version, of which a pod has one", written, "one"},
		{"a new claim", r.dataset("new", "train"), "two"},
		{"a claim of one version", r.dataset("named", "train@"+digests["one"]), "one"},
	} {
		got, q := r.reads(row.v, fmt.Sprintf("pod-%d", i))
		if got != row.want {
			t.Errorf("%s: %q, and not %q", row.what, got, row.want)
		}
		if staged := fmt.Sprintf("vision/pod-%d Staged dataset:train@%s is on this node", i, digests[row.want]); !slices.Contains(k.events, staged) {
			t.Errorf("%s: %q in %q", row.what, staged, k.events)
		}
		if got := said(row.v); i < 3 && got != digests[row.want] {
			t.Errorf("%s: its claim says %q", row.what, got)
		}
		r.unpublished(q)
	}
	r.unpublished(keeper)
	if got, _ := r.reads(written, "later"); got != "two" {
		t.Errorf("a volume without a version, of which no pod has one: %q", got)
	}
	if got, _ := r.reads(pinned, "later still"); got != "one" {
		t.Errorf("a claim of before: %q", got)
	}
	gone := &csi.Volume{VolumeId: "v1:dataset::gone", VolumeContext: map[string]string{"dataset": "train@" + strings.Repeat("0", 64)}}
	q := r.publication(gone.GetVolumeId(), "vision", "gone")
	maps.Copy(q.VolumeContext, gone.GetVolumeContext())
	if _, err := r.NodePublishVolume(t.Context(), q); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "a new claim") {
		t.Errorf("a version that is not there: %v", err)
	}
	_, err := r.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "pvc-none", VolumeCapabilities: []*csi.VolumeCapability{single}, Parameters: map[string]string{"type": "dataset", "dataset": "none"}})
	r.refused(err, codes.NotFound)
}

// TestOnePodOfADataset: a dataset that is for one pod is not given to a second one; a lease of a user that names a mount as its holder is no pod.
//
//safety:7 two pods for a dataset that is for one, and a lease of a user in the name of a pod
func TestOnePodOfADataset(t *testing.T) {
	r := rigged(t)
	client := r.staging()
	v, err := r.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "pvc-train", VolumeCapabilities: []*csi.VolumeCapability{able(csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER)},
		Parameters: map[string]string{"type": "dataset", "dataset": "train", "tier": "scratch"}})
	must.Do(t, err)
	alone := func(pod string) *csi.NodePublishVolumeRequest {
		q := r.publication(v.GetVolume().GetVolumeId(), "vision", pod)
		q.VolumeCapability = able(csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER)
		maps.Copy(q.VolumeContext, v.GetVolume().GetVolumeContext())
		return q
	}
	q := alone("first")
	r.eventually(q)
	_, err = r.NodePublishVolume(t.Context(), alone("second"))
	r.refused(err, codes.FailedPrecondition)
	id := must.Get(volume.ParseID(v.GetVolume().GetVolumeId()))(t)
	must.Get(client.AcquireLease(rig.As("bob"), &datamovev1.AcquireLeaseRequest{Dataset: "train", Tier: "scratch", Node: "n1", Holder: holder(id, "/"), Ttl: durationpb.New(time.Hour)}))(t)
	r.unpublished(q)
	there := r.driver.Staging
	r.driver.Staging = farther{there}
	_, err = r.NodePublishVolume(t.Context(), alone("second"))
	if r.refused(err, codes.FailedPrecondition); err != nil && !strings.Contains(err.Error(), "one on n2 has it") {
		t.Error(err)
	}
	if n := r.leases(client); n != 1 { // that of the user
		t.Errorf("%d leases", n)
	}
	r.driver.Staging = there
	r.eventually(alone("second"))
}

// farther is a mover of which another node has what is asked for.
type farther struct{ Staging }

func (farther) Elsewhere(context.Context, string, string) (string, error) { return "n2", nil }

// asPod has a user of a pod, who is let in nowhere on the node, do something in a volume.
func asPod(target, command string) (string, error) {
	dir, err := os.Open(target)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	c := exec.Command("sh", "-c", "cd /proc/self/fd/3 && "+command)
	c.Dir, c.ExtraFiles = "/", []*os.File{dir}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	return string(out), err
}

// away is a mover that was there when the pod came, and is not when it goes.
type away struct{ Staging }

func (away) Drop(context.Context, string) error { return mover.ErrUnreachable }

// TestMoverAway: a pod ends without the mover, and its lease is dropped when that is back.
func TestMoverAway(t *testing.T) {
	r := rigged(t)
	client := r.staging()
	there := r.driver.Staging
	q := r.publication("csi-"+strings.Repeat("0123456789abcdef", 4), "vision", "pod")
	maps.Copy(q.VolumeContext, map[string]string{"csi.storage.k8s.io/ephemeral": "true", "dataset": "train", "tier": "scratch"})
	r.eventually(q)
	r.driver.Staging = away{there}
	r.unpublished(q)
	if n := r.leases(client); n != 1 {
		t.Errorf("%d leases", n)
	}
	there.(*datasetclient.Away).Grace = time.Nanosecond
	r.driver.Staging = there
	ctx, stop := context.WithCancel(t.Context())
	kept := make(chan struct{})
	go func() { defer close(kept); r.driver.KeepLeases(ctx) }()
	client.Until("what is held by nobody is let go", func() bool { return r.leases(client) == 0 })
	stop()
	<-kept
}

// TestCoordinatorAway: without the coordinator a pod has what its node had before, whole and of the same version; it stays there until the coordinator has
// heard of the pod, also when the driver is started again meanwhile. What was not granted, and what was removed, no pod has.
//
//safety:5 a removal of a replica that a pod has, of which the coordinator was not told
//safety:7 with TestTenants
func TestCoordinatorAway(t *testing.T) {
	r := rigged(t)
	c := r.staging()
	k := &told{}
	r.driver.Cluster = k
	pinned := r.dataset("pinned", "train")
	digest := must.Get(r.driver.Staging.Newest(t.Context(), "train"))(t)
	_, before := r.reads(pinned, "before")
	r.unpublished(before)
	if n := r.leases(c); n != 0 {
		t.Fatalf("%d leases", n)
	}
	try := func(namespace, pod string) (*csi.NodePublishVolumeRequest, error) {
		q := r.publication(pinned.GetVolumeId(), namespace, pod)
		maps.Copy(q.VolumeContext, pinned.GetVolumeContext())
		_, err := r.NodePublishVolume(t.Context(), q)
		return q, err
	}
	c.Crash()
	_, err := try("audio", "pod")
	r.refused(err, codes.PermissionDenied)
	q, err := try("vision", "pod")
	must.Do(t, err)
	if got := string(must.Get(os.ReadFile(filepath.Join(q.GetTargetPath(), "sub/file")))(t)); got != "train" {
		t.Errorf("%q", got)
	}
	if want := "vision/pod Staged dataset:train@" + digest + " is on this node as it was before; the coordinator can not be reached, and is told of it later"; !slices.Contains(k.events, want) {
		t.Errorf("%q, and not %q", k.events, want)
	}
	again := r.driver.Staging.(*datasetclient.Away)
	r.driver.Staging = &datasetclient.Away{Mover: again.Mover, File: again.File, Note: again.Note}
	c.Start()
	c.Ready("n1")
	purged := func() *datamovev1.Task {
		x, err := c.Purge(t.Context(), &datamovev1.PurgeRequest{Location: "scratch:.datasets/train/" + digest + "/data", Node: "n1"})
		return c.Ends(x, err)
	}
	if x := purged(); x.GetErrorKind() != mover.KindName(mover.ErrHeld) || !strings.Contains(x.GetError(), "a pod of this host has it") {
		t.Errorf("the coordinator does not know of the pod: %v", x)
	}
	if got := c.ReplicasOf("train")["scratch@n1"]; got.GetState() != datamovev1.ReplicaState_REPLICA_STATE_WHOLE || got.GetLevel() == datamovev1.Level_LEVEL_UNSPECIFIED {
		t.Errorf("what was not removed is %v of %v", got, c.ReplicasOf("train"))
	}
	ctx, stop := context.WithCancel(t.Context())
	kept := make(chan struct{})
	go func() { defer close(kept); r.driver.KeepLeases(ctx) }()
	c.Until("the coordinator knows of the pod", func() bool { return r.leases(c) == 1 })
	stop()
	<-kept
	r.unpublished(q)
	if n := r.leases(c); n != 0 {
		t.Errorf("%d leases", n)
	}
	if x := purged(); x.GetState() != datamovev1.TaskState_TASK_STATE_DONE {
		t.Errorf("nobody has it any more: %v", x)
	}
	c.Crash()
	_, err = try("vision", "late")
	r.refused(err, codes.Unavailable) // it was removed
	c.Start()
}

// TestSourceChanges: what is no dataset has no version. Each start of a pod brings what is there then, under pods that run, too, and the claim and each pod are told so.
func TestSourceChanges(t *testing.T) {
	r := rigged(t)
	r.staging()
	k := &told{}
	r.driver.Cluster = k
	r.driver.Config.Grants = append(r.driver.Config.Grants, volume.Grant{Namespaces: []string{"vision"}, Sources: []string{"shared:train"}})
	v := must.Get(r.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "pvc-plain", VolumeCapabilities: []*csi.VolumeCapability{able(csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY)},
		Parameters: map[string]string{"type": "dataset", "source": "shared:train", "tier": "scratch", "csi.storage.k8s.io/pvc/namespace": "vision", "csi.storage.k8s.io/pvc/name": "plain"}}))(t).GetVolume()
	got, first := r.reads(v, "first")
	must.Do(t, os.WriteFile(filepath.Join(r.shared, "train/sub/file"), []byte("changed"), 0o644))
	later, second := r.reads(v, "second")
	again := string(must.Get(os.ReadFile(filepath.Join(first.GetTargetPath(), "sub/file")))(t))
	if got != "train" || later != "changed" || again != "changed" {
		t.Errorf("the pods read %q and %q, and the first one %q then", got, later, again)
	}
	for _, want := range []string{"vision/plain NoVersion! shared:train: it has no version", "vision/first Staged shared:train is on this node as it is there now; it has no version", "vision/second Staged shared:train is on this node as it is there now"} {
		if !slices.ContainsFunc(k.events, func(e string) bool { return strings.HasPrefix(e, want) }) {
			t.Errorf("%q, and nothing of %q", k.events, want)
		}
	}
	r.unpublished(first)
	r.unpublished(second)
}

// eventually publishes as a kubelet does: again and again.
func (r *kubelet) eventually(q *csi.NodePublishVolumeRequest) string {
	r.Helper()
	until(r, func() (*csi.NodePublishVolumeResponse, error) { return r.NodePublishVolume(r.Context(), q) })
	return q.GetTargetPath()
}

// TestDatasetsOfOthers: what nobody granted is neither staged nor mounted, and what a pod describes is a dataset and nothing else.
//
//safety:7 with TestTenants
func TestDatasetsOfOthers(t *testing.T) {
	r := rigged(t)
	client := r.staging()
	inline := func(namespace, name string) *csi.NodePublishVolumeRequest {
		q := r.publication("csi-"+strings.Repeat("0123456789abcdef", 4), namespace, "pod")
		q.VolumeContext["csi.storage.k8s.io/ephemeral"] = "true"
		q.VolumeContext["dataset"] = name
		return q
	}
	for _, row := range []struct {
		namespace, name string
		want            codes.Code
	}{
		{"vision", "secret", codes.PermissionDenied},
		{"audio", "train", codes.PermissionDenied},
		{"", "train", codes.PermissionDenied},
		{"vision", "../../etc", codes.InvalidArgument},
	} {
		_, err := r.NodePublishVolume(t.Context(), inline(row.namespace, row.name))
		r.refused(err, row.want)
	}
	if n := r.leases(client); n != 0 {
		t.Errorf("%d leases", n)
	}
	q := inline("vision", "train")
	q.VolumeContext["tier"] = "scratch"
	r.eventually(q)
	r.unpublished(q)
}
