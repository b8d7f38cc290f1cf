package csi

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"datamove.dev/test/must"
)

// TestClosedToSome: a pod with a granted dataset or directory that not every user may read hears who may, and what its securityContext needs. It hears nothing
// where everybody may, or its fsGroup.
func TestClosedToSome(t *testing.T) {
	r := rigged(t)
	c := r.staging()
	k := &told{}
	r.driver.Cluster = k
	team := filepath.Join(r.root, "team/vision")
	must.Do(t, os.MkdirAll(team, 0o755))
	written := &csi.Volume{VolumeId: "v1:static:lab:vision", VolumeContext: map[string]string{"path": "team/vision"}}
	for i, row := range []struct {
		what, path string // what changes, below train; "" is the directory
		mode       os.FileMode
		uid, gid   int
		group      string // fsGroup
		want       string // "" is nothing
	}{
		{"a file that all may read", "sub/file", 0o644, 1000, 2000, "", ""},
		{"a file for its group", "sub/file", 0o640, 1000, 2000, "", "sub/file has mode 0640, owner 1000 and group 2000: a pod reads it with runAsUser: 1000, or supplementalGroups: [2000], or root; or run chmod"},
		{"a file for the group of the pod", "sub/file", 0o640, 1000, 2000, "2000", ""},
		{"a file for another group", "sub/file", 0o640, 1000, 2000, "2001", "supplementalGroups: [2000]"},
		{"a file for its owner", "sub/file", 0o600, 1000, 2000, "2000", "with runAsUser: 1000, or root;"},
		{"a file of root", "sub/file", 0o400, 0, 0, "", "a pod reads it with root;"},
		{"a directory that can be listed and not be entered", "sub", 0o744, 1000, 2000, "", "sub has mode 0744"},
		{"a granted directory that all may read", "", 0o755, 1000, 2000, "", ""},
		{"a granted directory", "", 0o750, 1000, 2000, "", "directory team/vision of file system lab: it has mode 0750, owner 1000 and group 2000: a pod reads it with runAsUser: 1000, or supplementalGroups: [2000], or root; or change its permissions"},
	} {
		at, v := filepath.Join(r.shared, "train", row.path), written
		if row.path == "" {
			at = team
		}
		must.Do(t, os.Chown(at, row.uid, row.gid))
		must.Do(t, os.Chmod(at, row.mode))
		if row.path != "" {
			c.Add("train", "shared:train")
			v = r.dataset("claim-"+string(rune('a'+i)), "train")
		}
		q := r.publication(v.GetVolumeId(), "vision", "pod")
		maps.Copy(q.VolumeContext, v.GetVolumeContext())
		q.VolumeCapability.GetMount().VolumeMountGroup = row.group
		k.events = nil
		r.eventually(q)
		r.unpublished(q)
		said := ""
		for _, e := range k.events {
			if strings.HasPrefix(e, "vision/pod NotForAllUsers ") {
				said += e
			}
		}
		if !strings.Contains(said, row.want) || (said == "") != (row.want == "") {
			t.Errorf("%s: %q, and not %q", row.what, said, row.want)
		}
	}
}
