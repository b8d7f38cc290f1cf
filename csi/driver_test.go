package csi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/csi/mount"
	"datamove.dev/csi/volume"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

// TestLife: a claim becomes a directory that a pod writes, up to its capacity, that grows, is kept in a
// snapshot, restored, and gone in the end.
func TestLife(t *testing.T) {
	r := rigged(t)
	v := r.created(volume.Project, "vision", "home", 20*mib)
	q := r.publication(v.GetVolumeId(), "vision", "train")
	target := r.published(q)
	r.published(q) // the kubelet asks twice
	if n, err := fill(filepath.Join(target, "a"), 40*mib); !errors.Is(err, syscall.EDQUOT) || n > 20*mib {
		t.Errorf("%d, %v", n, err)
	}
	_, err := r.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: v.GetVolumeId(), CapacityRange: &csi.CapacityRange{RequiredBytes: 60 * mib}})
	must.Do(t, err)
	must.Do(t, os.WriteFile(filepath.Join(target, "a"), []byte("kept"), 0o644))
	if n, err := fill(filepath.Join(target, "b"), 30*mib); err != nil {
		t.Errorf("%d, %v", n, err)
	}
	stats, err := r.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: v.GetVolumeId(), VolumePath: target})
	must.Do(t, err)
	if u := stats.GetUsage()[0]; u.GetTotal() != 60*mib || u.GetUsed() < 29*mib || u.GetAvailable() > 31*mib {
		t.Errorf("%v", u)
	}
	s, err := r.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: v.GetVolumeId()})
	must.Do(t, err)
	must.Do(t, os.WriteFile(filepath.Join(target, "a"), []byte("lost"), 0o644))
	again := creation(volume.Project, "vision", "again", 60*mib)
	again.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: s.GetSnapshot().GetSnapshotId()}}}
	restored, err := r.CreateVolume(t.Context(), again)
	must.Do(t, err)
	q2 := r.publication(restored.GetVolume().GetVolumeId(), "vision", "look")
	if got, err := os.ReadFile(filepath.Join(r.published(q2), "a")); err != nil || string(got) != "kept" {
		t.Errorf("%q, %v", got, err)
	}
	r.unpublished(q)
	r.unpublished(q)
	r.unpublished(q2)
	for range 2 {
		_, err = r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()})
		must.Do(t, err)
	}
	_, err = r.NodePublishVolume(t.Context(), q)
	r.refused(err, codes.NotFound)
}

// fill writes to a file until it has n bytes, or is refused.
func fill(path string, n int64) (int64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block := []byte(strings.Repeat("datamove", 8<<10))
	for off := int64(0); off < n; off += int64(len(block)) {
		if _, err := f.WriteAt(block, off); err != nil {
			return off, err
		}
		if err := f.Sync(); err != nil {
			return off, err
		}
	}
	return n, nil
}

// TestTenants: nobody gets what was made for, or granted to, somebody else.
//
//safety:5/volumes with csi/volumestore TestNotOurs
//safety:6 forged volume IDs, absolute paths, `..`, links, and a directory that is exchanged for a link again and again while it is mounted
//safety:7 volumes, directories and datasets of another namespace, also for a pod without a name
func TestTenants(t *testing.T) {
	r := rigged(t)
	must.Do(t, os.MkdirAll(filepath.Join(r.root, "team/vision/run1"), 0o755))
	must.Do(t, os.MkdirAll(filepath.Join(r.root, "team/audio"), 0o755))
	must.Do(t, os.MkdirAll(filepath.Join(r.root, "shared"), 0o777))
	must.Do(t, os.Symlink("../audio", filepath.Join(r.root, "team/vision/link")))
	v := r.created(volume.Project, "vision", "home", 20*mib)
	for _, row := range []struct {
		what, id, namespace string
		path                string
		want                codes.Code
	}{
		{"a volume of another namespace", v.GetVolumeId(), "audio", "", codes.PermissionDenied},
		{"a volume for a pod that nobody names", v.GetVolumeId(), "", "", codes.PermissionDenied},
		{"a volume of its own", v.GetVolumeId(), "vision", "", codes.OK},
		{"an ID that somebody made up", "v1:project:lab:00000000000000000000000000000000", "vision", "", codes.NotFound},
		{"an ID with a path", "v1:project:lab:../../../../etc", "vision", "", codes.NotFound},
		{"a file system that is not there", "v1:static:other:x", "vision", "team/vision", codes.FailedPrecondition},
		{"a directory that is granted", "v1:static:lab:vision", "vision", "team/vision", codes.OK},
		{"one below it", "v1:static:lab:vision", "vision", "team/vision/run1", codes.OK},
		{"that of another team", "v1:static:lab:vision", "vision", "team/audio", codes.PermissionDenied},
		{"that of another team, by ..", "v1:static:lab:vision", "vision", "team/vision/../audio", codes.InvalidArgument},
		{"that of another team, by a link", "v1:static:lab:vision", "vision", "team/vision/link", codes.PermissionDenied},
		{"an absolute path", "v1:static:lab:vision", "vision", "/etc", codes.InvalidArgument},
		{"the volumes of others", "v1:static:lab:vision", "vision", "k8s", codes.PermissionDenied},
		{"all of it", "v1:static:lab:vision", "vision", "", codes.PermissionDenied},
		{"a directory for another namespace", "v1:static:lab:vision", "audio", "team/vision", codes.PermissionDenied},
		{"one that is not there", "v1:static:lab:vision", "vision", "team/vision/none", codes.NotFound},
	} {
		q := r.publication(row.id, row.namespace, "pod")
		if strings.HasPrefix(row.id, "v1:static") {
			q.VolumeContext["path"] = row.path
		}
		_, err := r.NodePublishVolume(t.Context(), q)
		t.Log(row.what, err)
		r.refused(err, row.want)
		if row.want == codes.OK {
			r.unpublished(q)
		}
	}
	q := r.publication("v1:static:lab:shared", "vision", "reader")
	q.VolumeContext["path"] = "shared"
	if err := os.WriteFile(filepath.Join(r.published(q), "x"), nil, 0o644); !errors.Is(err, unix.EROFS) {
		t.Errorf("a grant to read was taken for one to write: %v", err)
	}
	_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "v1:static:lab:shared"})
	must.Do(t, err)
	if _, err := os.Stat(filepath.Join(r.root, "shared")); err != nil {
		t.Errorf("a directory that was there before was deleted: %v", err)
	}
}

// TestOnePod: a volume that is for one pod is not given to a second one, also of those that the driver did not make, and also when
// both come at once.
//
//safety:7 two pods that come at once for a volume that is for one (ReadWriteOncePod), also for a directory that was there before
func TestOnePod(t *testing.T) {
	r := rigged(t)
	must.Do(t, os.MkdirAll(filepath.Join(r.root, "team/vision"), 0o755))
	v := r.created(volume.Scratch, "vision", "tmp", 20*mib)
	_, err := r.NodePublishVolume(t.Context(), r.publication(v.GetVolumeId(), "vision", "many")) // ReadWriteMany
	r.refused(err, codes.InvalidArgument)
	for _, row := range []struct{ id, path string }{{v.GetVolumeId(), ""}, {"v1:static:lab:vision", "team/vision"}} {
		alone := func(pod string) *csi.NodePublishVolumeRequest {
			q := r.publication(row.id, "vision", pod)
			q.VolumeCapability = able(csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER)
			if row.path != "" {
				q.VolumeContext["path"] = row.path
			}
			return q
		}
		q, second := alone("first"), alone("second")
		r.published(q)
		r.published(q)
		_, err = r.NodePublishVolume(t.Context(), second)
		r.refused(err, codes.FailedPrecondition)
		second.VolumeCapability = able(csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER)
		r.published(second)
		r.unpublished(second)
		r.unpublished(q)
		for range 10 {
			var both sync.WaitGroup
			var got [2]codes.Code
			for i := range got {
				both.Go(func() { got[i] = r.decided(alone(fmt.Sprint("pod", i))) })
			}
			both.Wait()
			if slices.Sort(got[:]); got != [2]codes.Code{codes.OK, codes.FailedPrecondition} {
				t.Errorf("%s: of two that came at once: %v", row.id, got)
			}
			for i := range got {
				r.unpublished(alone(fmt.Sprint("pod", i)))
			}
		}
	}
}

// decided publishes until the answer is another one than to come again.
func (r *kubelet) decided(q *csi.NodePublishVolumeRequest) codes.Code {
	for {
		_, err := r.NodePublishVolume(r.Context(), q)
		if code := status.Code(err); code != codes.Aborted {
			return code
		}
	}
}

// TestScratchInUse: scratch that a pod has is not deleted, also when the controller asks its node for that.
//
//safety:5/volumes scratch that a pod of its node has is not deleted, by whatever way it is asked for
func TestScratchInUse(t *testing.T) {
	c := clustered(t, "n1")
	q := creation(volume.Scratch, "vision", "tmp", 20*mib)
	q.AccessibilityRequirements = onNodes("n1")
	v, err := c.CreateVolume(t.Context(), q)
	must.Do(t, err)
	n1, id := c.nodes["n1"], v.GetVolume().GetVolumeId()
	p := n1.publication(id, "vision", "train")
	p.VolumeCapability = single
	target := n1.published(p)
	_, err = c.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	if c.refused(err, codes.FailedPrecondition); !strings.Contains(err.Error(), target+" on node n1") {
		t.Error(err)
	}
	n1.unpublished(p)
	for range 2 {
		_, err = c.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
		must.Do(t, err)
	}
}

// TestForgotten: a volume on a file system that a configuration has lost does not count as deleted.
//
//safety:5/volumes with TestElsewhereGone
func TestForgotten(t *testing.T) {
	r := rigged(t)
	v := r.created(volume.Project, "vision", "home", 20*mib)
	all := r.driver.Config.FileSystems
	r.driver.Config.FileSystems = map[string]FileSystem{"nvme": all["nvme"]}
	_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()})
	r.refused(err, codes.FailedPrecondition)
	_, err = r.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: strings.Replace(v.GetVolumeId(), "project", "snapshot", 1)})
	r.refused(err, codes.FailedPrecondition)
	r.driver.Config.FileSystems = all
	r.published(r.publication(v.GetVolumeId(), "vision", "pod"))
}

// TestGroup: a pod's group may write at the top, what is made there is the group's, and what is there is not walked.
func TestGroup(t *testing.T) {
	r := rigged(t)
	q := creation(volume.Scratch, "vision", "tmp", 20*mib)
	q.Parameters["mode"] = "0750"
	v, err := r.CreateVolume(t.Context(), q)
	must.Do(t, err)
	p := r.publication(v.GetVolume().GetVolumeId(), "vision", "pod")
	p.VolumeCapability = able(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)
	p.VolumeCapability.GetMount().VolumeMountGroup = "4711"
	target := r.published(p)
	r.owned(target, 4711, 0o2770)
	must.Do(t, os.WriteFile(filepath.Join(target, "x"), nil, 0o600))
	r.owned(filepath.Join(target, "x"), 4711, 0o600)
	p.VolumeCapability.GetMount().VolumeMountGroup = "root"
	_, err = r.NodePublishVolume(t.Context(), p)
	r.refused(err, codes.InvalidArgument)
}

// TestGroupsOfMany: what several pods have at once does not go from one's group to that of the other, and a volume whose owner
// was said, that is everybody's, or that is only read, keeps its group.
func TestGroupsOfMany(t *testing.T) {
	for _, row := range []struct {
		name, mode, gid string
		readOnly        bool
		second          codes.Code // for the second pod; the first is served
		group           uint32
		want            uint32
	}{
		{"the group of the first pod", "0750", "", false, codes.FailedPrecondition, 4711, 0o2770},
		{"a group that the StorageClass says", "0750", "99", false, codes.OK, 99, 0o750},
		{"everybody may write", "1777", "", false, codes.OK, 0, 0o1777},
		{"pods that only read", "0755", "", true, codes.OK, 0, 0o755},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := rigged(t)
			q := creation(volume.Project, "vision", "home", 20*mib)
			q.Parameters["mode"] = row.mode
			if row.gid != "" {
				q.Parameters["gid"] = row.gid
			}
			v := must.Get(r.CreateVolume(t.Context(), q))(t)
			for i, group := range []string{"4711", "4712"} {
				p := r.publication(v.GetVolume().GetVolumeId(), "vision", "of-"+group)
				p.VolumeCapability.GetMount().VolumeMountGroup, p.Readonly = group, row.readOnly
				_, err := r.NodePublishVolume(t.Context(), p)
				r.refused(err, []codes.Code{codes.OK, row.second}[i])
			}
			r.owned(r.published(r.publication(v.GetVolume().GetVolumeId(), "vision", "third")), row.group, row.want)
		})
	}
}

// owned looks at the group and the mode of something.
func (r *kubelet) owned(path string, group, mode uint32) {
	r.Helper()
	var st unix.Stat_t
	must.Do(r.T, unix.Stat(path, &st))
	if st.Gid != group || st.Mode&0o7777 != mode {
		r.Errorf("%s has mode %o and is of group %d", path, st.Mode&0o7777, st.Gid)
	}
}

// TestOptions: what a StorageClass asks for is there, and what it may not ask for is refused.
func TestOptions(t *testing.T) {
	r := rigged(t)
	v := r.created(volume.Project, "vision", "home", 20*mib)
	q := r.publication(v.GetVolumeId(), "vision", "pod")
	q.VolumeCapability = writer("noexec", "noatime")
	m, mounted, err := mount.At(r.published(q))
	must.Do(t, err)
	for _, option := range []string{"noexec", "noatime", "nosuid", "nodev", "rw"} {
		if !mounted || !strings.Contains(m.Options, option) {
			t.Errorf("%s has no %s", m.Options, option)
		}
	}
	for _, option := range []string{"suid", "dev", "bind", "exec"} {
		q.VolumeCapability = writer(option)
		_, err := r.NodePublishVolume(t.Context(), q)
		r.refused(err, codes.InvalidArgument)
	}
	q.VolumeCapability = writer("context=system_u:object_r:container_file_t:s0")
	_, err = r.NodePublishVolume(t.Context(), q)
	r.refused(err, codes.InvalidArgument)
}

// TestPublishedAgain: where a pod has a volume already, the same again is done, the same otherwise is AlreadyExists, and another volume is
// refused.
func TestPublishedAgain(t *testing.T) {
	r := rigged(t)
	q := r.publication(r.created(volume.Project, "vision", "home", 20*mib).GetVolumeId(), "vision", "pod")
	r.published(q)
	r.published(q)
	q.Readonly = true
	_, err := r.NodePublishVolume(t.Context(), q)
	r.refused(err, codes.AlreadyExists)
	q.Readonly, q.VolumeCapability = false, writer("noexec")
	_, err = r.NodePublishVolume(t.Context(), q)
	r.refused(err, codes.AlreadyExists)
	q = r.publication(r.created(volume.Project, "vision", "other", 20*mib).GetVolumeId(), "vision", "pod")
	_, err = r.NodePublishVolume(t.Context(), q)
	r.refused(err, codes.FailedPrecondition)
	r.unpublished(q)
}

// TestManyPublishes: calls that come at once are done, or told to come again, and leave one mount each.
//
//safety:8 a hundred and fifty mounts at once, and with `DATAMOVE_SOAK=1` a thousand; processes that hang in a file system are counted, and no more are given to it
func TestManyPublishes(t *testing.T) {
	r := rigged(t)
	v := r.created(volume.Project, "vision", "home", 20*mib)
	calls := kill.Times(150, 1000)
	targets := calls / 15
	var wait sync.WaitGroup
	for i := range calls {
		wait.Go(func() {
			q := r.publication(v.GetVolumeId(), "vision", fmt.Sprint("pod", i%targets))
			for {
				_, err := r.NodePublishVolume(t.Context(), q)
				if code := codes.Aborted; err == nil || !strings.Contains(err.Error(), code.String()) {
					must.Tell(t, err)
					return
				}
			}
		})
	}
	wait.Wait()
	table, err := mount.Table(r.pods)
	if err != nil || len(table) != targets {
		t.Errorf("%d mounts, %v", len(table), err)
	}
}

// TestScratchRoom: a node promises no more than it has, and says how much it can.
//
//safety:8 with csi/volumestore TestPromises
func TestScratchRoom(t *testing.T) {
	r := rigged(t)
	capacity := func() int64 {
		c, err := r.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: map[string]string{"type": "scratch"}, AccessibleTopology: &csi.Topology{Segments: map[string]string{NodeTopology: "n1"}}})
		must.Do(t, err)
		return c.GetAvailableCapacity()
	}
	before := capacity()
	if before < 1500*mib || before > 2000*mib {
		t.Fatalf("%d of 2 GiB", before)
	}
	v := r.created(volume.Scratch, "vision", "tmp", 1024*mib)
	if left := capacity(); left != before-1024*mib {
		t.Errorf("%d, and before %d", left, before)
	}
	if got := v.GetAccessibleTopology(); len(got) != 1 || got[0].GetSegments()[NodeTopology] != "n1" {
		t.Errorf("%v", got)
	}
	_, err := r.CreateVolume(t.Context(), creation(volume.Scratch, "vision", "more", 1024*mib))
	r.refused(err, codes.ResourceExhausted)
	elsewhere := creation(volume.Scratch, "vision", "there", 20*mib)
	elsewhere.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{{Segments: map[string]string{NodeTopology: "n2"}}}}
	_, err = r.CreateVolume(t.Context(), elsewhere)
	r.refused(err, codes.ResourceExhausted)
	gone := creation(volume.Scratch, "vision", "restore", 20*mib)
	gone.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: "v1:snapshot:nvme:00000000000000000000000000000000"}}}
	_, err = r.CreateVolume(t.Context(), gone)
	r.refused(err, codes.ResourceExhausted) // the scheduler tries another node; NotFound would be for good
}

// TestNotTakenAway: the kubelet is told that a target is not taken away, and asks again until it is.
func TestNotTakenAway(t *testing.T) {
	r := rigged(t)
	v := r.created(volume.Project, "vision", "home", 20*mib)
	q := r.publication(v.GetVolumeId(), "vision", "train")
	r.published(q)
	r.unpublished(q)
	stray := filepath.Join(q.GetTargetPath(), "stray")
	must.Do(t, os.MkdirAll(stray, 0o750)) // where no mount hides it
	if _, err := r.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: q.GetVolumeId(), TargetPath: q.GetTargetPath()}); err == nil {
		t.Error("the target is there, and is said to be gone")
	}
	must.Do(t, os.Remove(stray))
	r.unpublished(q)
}

// TestBusyMount: a mount in which somebody works is left to them for a while, and then taken away under them.
//
//safety:8 a busy mount is left for some seconds, and then taken away from its users
func TestBusyMount(t *testing.T) {
	r := rigged(t)
	v := r.created(volume.Project, "vision", "home", 20*mib)
	q := r.publication(v.GetVolumeId(), "vision", "train")
	for _, row := range []struct {
		leaves bool
		busy   time.Duration
	}{{true, time.Minute}, {false, time.Millisecond}} {
		r.driver.Files.Busy = row.busy
		inside := must.Get(os.Create(filepath.Join(r.published(q), "a")))(t)
		gone := make(chan error, 1)
		go func() {
			_, err := r.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: q.GetVolumeId(), TargetPath: q.GetTargetPath()})
			gone <- err
		}()
		if row.leaves {
			select {
			case err := <-gone:
				t.Errorf("it was taken away under who worked in it: %v", err)
				gone <- err
			case <-time.After(500 * time.Millisecond):
			}
			must.Do(t, inside.Close())
		}
		must.Do(t, <-gone)
		if !row.leaves {
			if _, err := inside.WriteString("kept"); err != nil {
				t.Errorf("who works in it still can not: %v", err)
			}
			must.Do(t, inside.Close())
		}
	}
}
