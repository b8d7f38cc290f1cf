package csi

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"datamove.dev/csi/nodeproxy"
	"datamove.dev/csi/nodeproxy/relaytest"
	"datamove.dev/csi/volume"
	"datamove.dev/test/must"
)

// clusterOf is a controller, and nodes each with a file system of its own.
type clusterOf struct {
	*kubelet // the controller's sidecars
	nodes    map[string]*kubelet
	fleet    []nodeproxy.Node
}

func clustered(t *testing.T, names ...string) *clusterOf {
	t.Helper()
	authority := relaytest.NewAuthority(t)
	c := &clusterOf{kubelet: rigged(t), nodes: map[string]*kubelet{}}
	for _, name := range names {
		n := rigged(t)
		n.driver.NodeID, n.driver.Mode = name, Node
		c.nodes[name] = n
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		server := n.driver.RelayServer(authority.Keys(t, nodeproxy.NodeName))
		go func() { _ = server.Serve(l) }()
		t.Cleanup(server.Stop)
		c.fleet = append(c.fleet, nodeproxy.Node{Name: name, Address: l.Addr().String()})
	}
	c.driver.Mode, c.driver.NodeID = Controller, ""
	nvme := c.driver.Config.FileSystems["nvme"]
	nvme.Root = filepath.Join(t.TempDir(), "not-here")
	c.driver.Config.FileSystems["nvme"] = nvme
	c.driver.Fleet = &nodeproxy.Clients{Keys: authority.Keys(t, nodeproxy.ControllerName), Nodes: func(context.Context) ([]nodeproxy.Node, error) { return c.fleet, nil }}
	return c
}

// onNodes is a topology.
func onNodes(names ...string) *csi.TopologyRequirement {
	q := &csi.TopologyRequirement{}
	for _, name := range names {
		q.Preferred = append(q.Preferred, &csi.Topology{Segments: map[string]string{NodeTopology: name}})
	}
	return q
}

// TestElsewhere: what is asked of the controller about scratch is done on the node that has it.
func TestElsewhere(t *testing.T) {
	c := clustered(t, "n1", "n2")
	q := creation(volume.Scratch, "vision", "tmp", 20*mib)
	_, err := c.CreateVolume(t.Context(), q)
	c.refused(err, codes.InvalidArgument) // which node is not said
	q.AccessibilityRequirements = onNodes("n2", "n1")
	for range 2 { // the provisioner asks twice
		reply := must.Get(c.CreateVolume(t.Context(), q))(t)
		if got := reply.GetVolume().GetAccessibleTopology()[0].GetSegments()[NodeTopology]; got != "n2" {
			t.Fatalf("it is on %s", got)
		}
	}
	reply, err := c.CreateVolume(t.Context(), q)
	must.Do(t, err)
	id := reply.GetVolume().GetVolumeId()
	project := c.created(volume.Project, "vision", "home", 20*mib)

	// What no node has is refused for good, and with the reason.
	for from, want := range map[string]string{project.GetVolumeId(): "StorageClass of file system lab", "v1:static:lab:team": "the driver did not make it", "v1:dataset::train": "the driver did not make it"} {
		clone := creation(volume.Scratch, "vision", "clone", 20*mib)
		clone.AccessibilityRequirements = onNodes("n1")
		clone.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: from}}}
		_, err = c.CreateVolume(t.Context(), clone)
		if c.refused(err, codes.InvalidArgument); !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}

	// A pod there has it, and what is in it is kept in a snapshot.
	n2 := c.nodes["n2"]
	p := n2.publication(id, "vision", "train")
	p.VolumeCapability = single
	must.Do(t, os.WriteFile(filepath.Join(n2.published(p), "a"), []byte("kept"), 0o644))
	_, err = c.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 40 * mib}})
	must.Do(t, err)
	stats, err := n2.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: p.GetTargetPath()})
	if must.Do(t, err); stats.GetUsage()[0].GetTotal() != 40*mib {
		t.Errorf("%v", stats)
	}
	s, err := c.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: id})
	must.Do(t, err)
	restore := creation(volume.Scratch, "vision", "again", 40*mib)
	restore.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: s.GetSnapshot().GetSnapshotId()}}}
	restore.AccessibilityRequirements = onNodes("n1")
	k := &told{}
	c.driver.Cluster = k
	_, err = c.CreateVolume(t.Context(), restore)
	if c.refused(err, codes.ResourceExhausted); !strings.Contains(err.Error(), "is on node n2") { // which has the scheduler try another node
		t.Error(err)
	}
	if got := k.annotations["again"]; got[selectedNode] != "n2" {
		t.Errorf("the scheduler would choose the same node again: %v", got)
	}
	restore.AccessibilityRequirements = onNodes("n1", "n2")
	again, err := c.CreateVolume(t.Context(), restore)
	must.Do(t, err)

	// Lists have what all have.
	volumes, err := c.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	must.Do(t, err)
	var ids []string
	for _, e := range volumes.GetEntries() {
		ids = append(ids, e.GetVolume().GetVolumeId())
	}
	want := []string{id, again.GetVolume().GetVolumeId(), project.GetVolumeId()}
	slices.Sort(want)
	if !slices.Equal(ids, want) {
		t.Errorf("%v, and not %v", ids, want)
	}
	snapshots, err := c.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{SnapshotId: s.GetSnapshot().GetSnapshotId()})
	if must.Do(t, err); len(snapshots.GetEntries()) != 1 {
		t.Errorf("%v", snapshots)
	}
	if all, err := c.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{}); err != nil || len(all.GetEntries()) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	before, err := c.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: q.GetParameters(), AccessibleTopology: onNodes("n2").GetPreferred()[0]})
	must.Do(t, err)
	other, err := c.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: q.GetParameters(), AccessibleTopology: onNodes("n1").GetPreferred()[0]})
	must.Do(t, err)
	if other.GetAvailableCapacity()-before.GetAvailableCapacity() != 120*mib { // two volumes and a snapshot
		t.Errorf("n1 has %d and n2 %d", other.GetAvailableCapacity(), before.GetAvailableCapacity())
	}

	_, err = c.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: s.GetSnapshot().GetSnapshotId()})
	must.Do(t, err)
	n2.unpublished(p)
	for range 2 {
		_, err = c.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
		must.Do(t, err)
	}
	_, err = n2.NodePublishVolume(t.Context(), p)
	n2.refused(err, codes.NotFound)
}

// TestElsewhereGone: a node that is down is waited for; one that the cluster has no more took its scratch with it.
//
//safety:5/volumes a node that is down, or a file system that a configuration has lost: their volumes do not count as deleted
func TestElsewhereGone(t *testing.T) {
	c := clustered(t, "n1", "n2")
	q := creation(volume.Scratch, "vision", "tmp", 20*mib)
	q.AccessibilityRequirements = onNodes("n1")
	reply, err := c.CreateVolume(t.Context(), q)
	must.Do(t, err)
	id := reply.GetVolume().GetVolumeId()
	s, err := c.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: id})
	must.Do(t, err)
	was := c.fleet[0].Address
	for _, address := range []string{"", "127.0.0.1:1"} {
		c.fleet[0].Address = address
		_, err = c.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
		c.refused(err, codes.Unavailable)
		_, err = c.CreateVolume(t.Context(), q)
		c.refused(err, codes.Unavailable)
	}
	_, err = c.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	c.refused(err, codes.Unavailable)

	c.fleet = c.fleet[1:]
	_, err = c.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 40 * mib}})
	c.refused(err, codes.NotFound)
	_, err = c.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	must.Do(t, err)
	for _, q := range []*csi.ListSnapshotsRequest{{SnapshotId: s.GetSnapshot().GetSnapshotId()}, {SourceVolumeId: id}} {
		if list, err := c.ListSnapshots(t.Context(), q); err != nil || len(list.GetEntries()) > 0 {
			t.Errorf("%v, %v", list, err)
		}
	}
	_, err = c.CreateVolume(t.Context(), q)
	c.refused(err, codes.ResourceExhausted)

	c.fleet = append(c.fleet, nodeproxy.Node{Name: "n1", Address: was})
	if _, err := c.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id}); err != nil {
		t.Errorf("the node is back, and what it has was removed: %v", err)
	}
}

// TestLocal: by its port, a node gives nothing away but its scratch.
//
//safety:7 with csi/nodeproxy TestTrust
func TestLocal(t *testing.T) {
	c := clustered(t, "n1")
	p := c.nodes["n1"].created(volume.Project, "vision", "home", 20*mib)
	reply := &csi.DeleteVolumeResponse{}
	err := c.driver.Fleet.Ask(t.Context(), c.fleet[0], csi.Controller_DeleteVolume_FullMethodName, &csi.DeleteVolumeRequest{VolumeId: p.GetVolumeId()}, reply)
	c.nodes["n1"].refused(err, codes.FailedPrecondition)
	if _, err := c.nodes["n1"].ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: p.GetVolumeId()}); err != nil {
		t.Errorf("a project was removed by the port of the node: %v", err)
	}
}
