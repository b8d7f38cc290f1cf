package csi

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/csi/kube"
	"datamove.dev/csi/volume"
	"datamove.dev/test/must"
	"datamove.dev/tiering/dataset/datasetclient"
)

// told remembers what Kubernetes was told.
type told struct {
	mu          sync.Mutex
	events      []string // "vision/train Staged dataset:train is on this node"
	claims      []kube.Claim
	annotations map[string]map[string]string
}

func (c *told) Tell(_ context.Context, a kube.About, bad bool, reason, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if bad {
		reason += "!"
	}
	c.events = append(c.events, strings.Join([]string{a.Namespace + "/" + a.Name, reason, message}, " "))
}

func (c *told) Claims(context.Context, string, string) ([]kube.Claim, error) { return c.claims, nil }

func (c *told) Annotate(_ context.Context, of volume.Claim, annotations map[string]string) error {
	if c.annotations == nil {
		c.annotations = map[string]map[string]string{}
	}
	maps.DeleteFunc(annotations, func(_, value string) bool { return value == "" })
	c.annotations[of.Name] = annotations
	return nil
}

// TestTelling: the events of a pod and the annotations of its claim say what is staged, and what is wrong.
func TestTelling(t *testing.T) {
	r := rigged(t)
	client := r.staging()
	k := &told{}
	r.driver.Cluster = k
	claimed := func(name string) *csi.NodePublishVolumeRequest {
		v, err := r.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "pvc-" + name, VolumeCapabilities: []*csi.VolumeCapability{able(csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY)},
			Parameters: map[string]string{"type": "dataset", "dataset": name, "tier": "scratch"}})
		must.Do(t, err)
		k.claims = append(k.claims, kube.Claim{Claim: volume.Claim{Namespace: "vision", Name: name}, Volume: v.GetVolume().GetVolumeId(), Attributes: v.GetVolume().GetVolumeContext()})
		q := r.publication(v.GetVolume().GetVolumeId(), "vision", "pod-"+name)
		maps.Copy(q.VolumeContext, v.GetVolume().GetVolumeContext())
		return q
	}
	good, bad := claimed("train"), claimed("secret")
	r.driver.Config.Grants = append(r.driver.Config.Grants, volume.Grant{Namespaces: []string{"vision"}, Sources: []string{"dataset:secret"}})
	must.Do(t, r.driver.annotate(t.Context()))
	if len(k.annotations["train"]) != 1 || len(k.annotations["secret"]) != 1 || k.annotations["train"][version] == "" {
		t.Errorf("before anything is staged: %v", k.annotations)
	}
	r.eventually(good)
	must.Do(t, os.RemoveAll(filepath.Join(r.shared, "secret")))
	client.Until("it has failed", func() bool {
		_, err := r.NodePublishVolume(t.Context(), bad)
		return status.Code(err) != codes.Aborted
	})
	if !slices.Contains(k.events, "vision/pod-train Staged dataset:train@"+k.annotations["train"][version]+" is on this node") {
		t.Errorf("%q", k.events)
	}
	if !slices.ContainsFunc(k.events, func(e string) bool {
		return strings.HasPrefix(e, "vision/pod-secret StagingFailed! dataset:secret@"+k.annotations["secret"][version]+": ")
	}) {
		t.Errorf("%q", k.events)
	}
	must.Do(t, r.driver.annotate(t.Context()))
	if got := k.annotations["train"]; len(got) != 2 || got[stagedOn] != "n1" {
		t.Errorf("%v", got)
	}
	if got := k.annotations["secret"]; len(got) != 2 || !strings.HasPrefix(got[problem], "n1: ") {
		t.Errorf("%v", got)
	}
	r.unpublished(good)
	if n := r.leases(client); n != 0 {
		t.Errorf("%d leases", n)
	}
}

// slow is a mover with which everything takes a while.
type slow struct {
	Staging
	calls int // until it goes on
}

func (s *slow) Stage(ctx context.Context, source datasetclient.Source, holder string) (datasetclient.Staged, error) {
	if s.calls--; s.calls >= 0 {
		return datasetclient.Staged{}, &datasetclient.Underway{Task: "t1", Since: time.Now(), How: "half of it is there"}
	}
	return s.Staging.Stage(ctx, source, holder)
}

// TestPatience: a call waits for a dataset as long as the driver has patience and the call has time, and tells how it goes
// when it begins to and when it ends.
func TestPatience(t *testing.T) {
	r := rigged(t)
	r.staging()
	k := &told{}
	r.driver.Cluster, r.driver.Patience = k, time.Minute
	slow := &slow{Staging: r.driver.Staging, calls: 20}
	r.driver.Staging = slow
	q := r.publication("csi-"+strings.Repeat("0123456789abcdef", 4), "vision", "pod")
	maps.Copy(q.VolumeContext, map[string]string{"csi.storage.k8s.io/ephemeral": "true", "dataset": "train", "tier": "scratch"})
	_, err := r.NodePublishVolume(t.Context(), q)
	must.Do(t, err)
	newest := must.Get(r.driver.Staging.Newest(t.Context(), "train"))(t)
	if want := []string{"vision/pod Staging dataset:train: half of it is there (task t1; the pod waits for it for 30m00s at most, its deadline)", "vision/pod Staged dataset:train@" + newest + " is on this node"}; !slices.Equal(k.events, want) {
		t.Errorf("%q", k.events)
	}
	r.unpublished(q)

	slow.calls = 1 << 40
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err = r.NodePublishVolume(soon, q); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
	r.service.Until("the call for which nobody waits is over", func() bool {
		n, _ := r.driver.Busy()
		return n == 0
	})
	q.VolumeContext["deadline"] = "1ns"
	_, err = r.NodePublishVolume(t.Context(), q)
	r.refused(err, codes.DeadlineExceeded)
}
