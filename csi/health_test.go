package csi

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"datamove.dev/csi/kube"
	"datamove.dev/csi/volume"
	"datamove.dev/test/must"
)

// ills are what is listed as not healthy: of each volume, what is wrong.
func (r *kubelet) ills() map[string]string {
	r.Helper()
	reply := must.Get(r.ControllerListVolumeHealth(r.Context(), &csi.ControllerListVolumeHealthRequest{}))(r.T)
	ills := map[string]string{}
	for _, v := range reply.GetEntries() {
		for _, e := range v.GetHealthStatuses() {
			ills[v.GetVolumeId()] = e.GetStatus().String() + " " + e.GetReason()
		}
	}
	return ills
}

// replaced puts another directory where a volume of lab is.
func (r *kubelet) replaced(v *csi.Volume) {
	r.Helper()
	id := must.Get(volume.ParseID(v.GetVolumeId()))(r.T)
	data := filepath.Join(r.root, "k8s/volumes", id.Key, "data")
	must.Do(r.T, os.Rename(data, data+".away"))
	must.Do(r.T, os.Mkdir(data, 0o755))
}

func (r *kubelet) sick(want map[string]string) {
	r.Helper()
	if got := r.ills(); !maps.Equal(got, want) {
		r.Errorf("%v, and not %v", got, want)
	}
}

// TestSilence: what is on a file system, or a node, that does not answer is listed as inaccessible, and hides nothing of the others. Without
// Kubernetes nobody knows what that is: then it is an error.
//
//safety:8 a file system, or a node, that does not answer: its volumes are listed as not accessible, those of the others as they are; a mount that is missing or dead is not healthy
func TestSilence(t *testing.T) {
	c := clustered(t, "n1", "n2")
	k := &told{}
	c.driver.Cluster = k
	claimed := func(id string) string {
		k.claims = append(k.claims, kube.Claim{Volume: id})
		return id
	}
	well, bad := c.created(volume.Project, "vision", "well", 20*mib), c.created(volume.Project, "vision", "bad", 20*mib)
	claimed(well.GetVolumeId())
	claimed(bad.GetVolumeId())
	var scratch []string
	for _, node := range []string{"n1", "n2"} {
		q := creation(volume.Scratch, "vision", node, 20*mib)
		q.AccessibilityRequirements = onNodes(node)
		v := must.Get(c.CreateVolume(t.Context(), q))(t)
		scratch = append(scratch, claimed(v.GetVolume().GetVolumeId()))
	}
	static := claimed("v1:static:gone:team")
	claimed("v1:dataset::0123456789abcdef0123456789abcdef")
	c.sick(nil)
	c.replaced(bad)
	want := map[string]string{bad.GetVolumeId(): "DATA_LOSS DirectoryReplaced"}
	c.sick(want)

	c.driver.Config.FileSystems["gone"] = FileSystem{Use: volume.Project, Kind: "lustre", Root: filepath.Join(t.TempDir(), "none")}
	want[static] = "INACCESSIBLE FileSystemDoesNotAnswer"
	c.sick(want)
	c.fleet[0].Address = "127.0.0.1:1"
	want[scratch[0]] = "INACCESSIBLE NodeDoesNotAnswer"
	c.sick(want)
	c.driver.Cluster = nil
	_, err := c.ControllerListVolumeHealth(t.Context(), &csi.ControllerListVolumeHealthRequest{})
	if err == nil {
		t.Error("nobody knows the volumes that do not answer, and no error says so")
	}
}

// TestMountHealth: where a pod should have a volume and nothing is mounted, the volume is not accessible from the node.
//
//safety:8 with TestSilence
func TestMountHealth(t *testing.T) {
	r := rigged(t)
	v := r.created(volume.Project, "vision", "home", 20*mib)
	q := r.publication(v.GetVolumeId(), "vision", "train")
	health := func(path, want string) {
		t.Helper()
		reply := must.Get(r.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: v.GetVolumeId(), VolumePublishPath: path}))(t)
		var got string
		for _, e := range reply.GetVolumeHealth().GetHealthStatuses() {
			got += e.GetStatus().String() + " " + e.GetReason()
		}
		if got != want {
			t.Errorf("%s: %q, and not %q", path, got, want)
		}
	}
	health("", "")
	health(q.GetTargetPath(), "INACCESSIBLE NotMounted")
	r.published(q)
	health(q.GetTargetPath(), "")
	r.unpublished(q)
	health(q.GetTargetPath(), "INACCESSIBLE NotMounted")
	_, err := r.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: "v1:project:lab:00000000000000000000000000000000"})
	r.refused(err, codes.NotFound)
}
