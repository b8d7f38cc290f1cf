package csi

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// beside is the driver of another node, with the same file systems.
func (r *kubelet) beside(node string) *kubelet {
	o := r.driver.Options
	o.NodeID, o.Metrics = node, nil
	n := &kubelet{T: r.T, driver: New(o), root: r.root, pods: filepath.Join(r.pods, node)}
	must.Do(r.T, os.Mkdir(n.pods, 0o755))
	conn, _ := serve(r.T, n.driver)
	n.ControllerClient, n.NodeClient = csi.NewControllerClient(conn), csi.NewNodeClient(conn)
	return n
}

// TestOneNode: a volume whose access mode is for one node is on one at a time, also when the scheduler was not asked, and when the driver there is started again. It
// is free when its last pod there has ended, or when its node has said nothing for long.
//
//safety:7 pods on two nodes for a volume that is for one (ReadWriteOnce, ReadWriteOncePod)
func TestOneNode(t *testing.T) {
	r := rigged(t)
	must.Do(t, os.MkdirAll(filepath.Join(r.root, "team/vision"), 0o755))
	home := r.created(volume.Project, "vision", "home", 20*mib).GetVolumeId()
	n1, n2, n3 := r.beside("n1"), r.beside("n2"), r.beside("n3")
	for _, row := range []struct {
		id, path string
		mode     csi.VolumeCapability_AccessMode_Mode
	}{
		{home, "", csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		{home, "", csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
		{"v1:static:lab:vision", "team/vision", csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	} {
		pod := func(on *kubelet, name string) *csi.NodePublishVolumeRequest {
			q := on.publication(row.id, "vision", name)
			if q.VolumeCapability = able(row.mode); row.path != "" {
				maps.Copy(q.VolumeContext, map[string]string{"path": row.path})
			}
			return q
		}
		refused := func(on *kubelet, by string) {
			t.Helper()
			_, err := on.NodePublishVolume(t.Context(), pod(on, "late"))
			if on.refused(err, codes.FailedPrecondition); err != nil && !strings.Contains(err.Error(), "node "+by+" has it") {
				t.Errorf("%s: %v", row.id, err)
			}
		}
		tended := func(all ...*kubelet) {
			t.Helper()
			for _, n := range all {
				must.Do(t, n.driver.keepHeld(t.Context(), "lab"))
			}
		}
		first, second := pod(n1, "first"), pod(n1, "second")
		n1.published(first)
		n1.published(first)
		refused(n2, "n1")
		n1.published(second) // on the same node
		n1.unpublished(first)
		n1.driver = New(n1.driver.Options) // it remembers nothing
		tended(n1, n2, n3)
		refused(n2, "n1")
		n1.unpublished(second)
		tended(n1)
		there := pod(n2, "there")
		n2.published(there) // and no refused pod holds it
		n2.driver.beats, n3.driver.beats = heartbeats{}, heartbeats{}
		refused(n3, "n2")
		later := func(by time.Duration) {
			for name, last := range n3.driver.beats.last {
				n3.driver.beats.last[name] = heartbeat{last.said, last.since.Add(-by)}
			}
		}
		later(lostAfter - time.Minute)
		refused(n3, "n2")
		tended(n2) // it lives
		later(lostAfter)
		refused(n3, "n2")
		later(lostAfter)
		taken := pod(n3, "taken")
		n3.published(taken)
		refused(n1, "n3")
		n2.unpublished(there)
		n3.unpublished(taken)
		tended(n2, n3)
		for _, n := range []*kubelet{n1, n2, n3} {
			if all := must.Get(n.driver.Files.Held(t.Context(), n.driver.spec("lab"), n.driver.NodeID))(t); len(all) > 0 {
				t.Errorf("%s: %s holds %v", row.id, n.driver.NodeID, all)
			}
		}
	}
	one := func(on *kubelet) error { // for one pod: whether it is on this node the kernel says, which all have here
		q := on.publication(home, "vision", "one")
		q.VolumeCapability = able(csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER)
		return on.driver.onOneNode(t.Context(), must.Get(on.driver.publication(q))(t))
	}
	must.Do(t, one(n1))
	r.refused(toStatus(one(n2)), codes.FailedPrecondition)
	must.Do(t, n1.driver.keepHeld(t.Context(), "lab"))
	must.Do(t, one(n2))
	own := r.beside("n4") // scratch has no other node
	r.driver.Config.Grants = append(r.driver.Config.Grants, volume.Grant{Namespaces: []string{"vision"}, Directories: []volume.Directory{{FileSystem: "nvme", Path: "team/vision"}}})
	for _, n := range []*kubelet{n1, own} {
		q := n.publication("v1:static:nvme:vision", "vision", "own")
		q.VolumeCapability = single
		q.VolumeContext["path"] = "team/vision"
		n.published(q)
		defer n.unpublished(q)
	}
	for mode, want := range map[csi.VolumeCapability_AccessMode_Mode]codes.Code{
		csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER: codes.OK, csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER: codes.FailedPrecondition,
	} {
		r.driver.Config.FileSystems["bare"] = FileSystem{Use: volume.Project, Kind: lustre.IsBtrfs, Root: r.root}
		r.driver.Config.Grants = append(r.driver.Config.Grants, volume.Grant{Namespaces: []string{"vision"}, Directories: []volume.Directory{{FileSystem: "bare", Path: "team/vision"}}})
		q := n1.publication("v1:static:bare:vision", "vision", "bare")
		q.VolumeCapability = able(mode)
		q.VolumeContext["path"] = "team/vision"
		_, err := n1.NodePublishVolume(t.Context(), q)
		if n1.refused(err, want); err == nil {
			n1.unpublished(q)
		} else if !strings.Contains(err.Error(), "kubectl patch pv") {
			t.Errorf("it says not how a volume of before goes on: %v", err)
		}
	}
}

// TestSilentNode: a node is silent from the moment on at which its last word was heard here first.
func TestSilentNode(t *testing.T) {
	h, now := &heartbeats{}, time.Now()
	for _, row := range []struct {
		at   time.Duration
		node string
		beat string
		want time.Duration
	}{
		{0, "n1", "a", 0}, {time.Hour, "n1", "a", time.Hour}, {time.Hour, "n2", "a", 0}, {2 * time.Hour, "n1", "b", 0}, {3 * time.Hour, "n1", "b", time.Hour}, {3 * time.Hour, "n2", "a", 2 * time.Hour},
		{4 * time.Hour, "n1", "", 0},
	} {
		if got := h.silent("lab", volumestore.Holder{Node: row.node, Beat: row.beat}, now.Add(row.at)); got != row.want {
			t.Errorf("%s at %v: %v, and not %v", row.node, row.at, got, row.want)
		}
	}
}
