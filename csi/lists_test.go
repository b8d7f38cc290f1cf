package csi

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"datamove.dev/csi/volume"
	"datamove.dev/test/must"
)

// fits is how the scheduler reads a CSIStorageCapacity for a claim that waits for its first pod.
func fits(c *csi.GetCapacityResponse, bytes int64) bool {
	if most := c.GetMaximumVolumeSize(); most != nil {
		return most.GetValue() >= bytes
	}
	return c.GetAvailableCapacity() >= bytes
}

// What CreateVolume makes the scheduler finds room for, on every node: only scratch is promised, and can be used up.
func TestCapacityIsNoLessThanWhatIsMade(t *testing.T) {
	r := rigged(t)
	for _, row := range []struct {
		what       string
		parameters map[string]string
		bytes      int64
		fits       bool
	}{
		{"a dataset, which takes nothing before a pod wants it", map[string]string{"type": "dataset", "dataset": "train"}, 100 << 40, true},
		{"a project, whose capacity is a limit", map[string]string{"type": "project"}, 100 << 40, true},
		{"scratch that there is", map[string]string{"type": "scratch"}, 100 * mib, true},
		{"more scratch than there is", map[string]string{"type": "scratch"}, 4 << 30, false},
	} {
		for _, node := range []string{"", "n1", "n2"} {
			q := &csi.GetCapacityRequest{Parameters: row.parameters}
			if node != "" {
				q.AccessibleTopology = &csi.Topology{Segments: map[string]string{NodeTopology: node}}
			}
			c := must.Get(r.GetCapacity(t.Context(), q))(t)
			if scratch := row.parameters["type"] == "scratch"; fits(c, row.bytes) != (row.fits && (!scratch || node != "n2")) {
				t.Errorf("%s, on %q: %v", row.what, node, c)
			}
		}
		made := creation(volume.Kind(row.parameters["type"]), "vision", row.what, row.bytes)
		made.Parameters = row.parameters
		if v, err := r.CreateVolume(t.Context(), made); (err == nil) != row.fits {
			t.Errorf("%s: %v, %v", row.what, v, err)
		}
	}
}
