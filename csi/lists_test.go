package csi

import (
	"context"
	"log/slog"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"datamove.dev/csi/volume"
	"datamove.dev/mover"
	"datamove.dev/test/must"
	"datamove.dev/tiering/dataset/datasetclient"
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

// tierWithRoom is a mover that says how much there is.
type tierWithRoom struct {
	Staging
	has  datasetclient.Space
	node string
	err  error
}

func (r tierWithRoom) Space(_ context.Context, s datasetclient.Source) (datasetclient.Space, error) {
	if s != (datasetclient.Source{Location: "dataset:train", Tier: "scratch", Node: r.node}) {
		return datasetclient.Space{}, mover.ErrUsage
	}
	return r.has, r.err
}

// TestCapacityForDataset: a pod that waits for a dataset goes to no node whose tier does not take it, and to any where that is not known.
func TestCapacityForDataset(t *testing.T) {
	d := &Driver{Options: Options{Config: &Config{}, Logger: slog.New(slog.DiscardHandler)}}
	q := &csi.GetCapacityRequest{Parameters: map[string]string{"type": "dataset", "dataset": "train", "tier": "scratch"},
		AccessibleTopology: &csi.Topology{Segments: map[string]string{NodeTopology: "n7"}}}
	for _, row := range []struct {
		what    string
		staging Staging
		want    int64
	}{
		{"without a mover", nil, mostBytes},
		{"there is room", tierWithRoom{node: "n7", has: datasetclient.Space{Bytes: 3 * mib, Room: 4 * mib}}, 4 * mib},
		{"there is none", tierWithRoom{node: "n7", has: datasetclient.Space{Bytes: 5 * mib, Room: 4 * mib}}, 0},
		{"it is there already", tierWithRoom{node: "n7", has: datasetclient.Space{Bytes: 5 * mib, Room: 4 * mib, There: true}}, mostBytes},
		{"how large it is, is not known", tierWithRoom{node: "n7", has: datasetclient.Space{Room: 4 * mib}}, 4 * mib},
		{"how much there is, is not known", tierWithRoom{node: "n7", has: datasetclient.Space{Bytes: 5 * mib, Room: -1}}, mostBytes},
		{"the mover is away", tierWithRoom{node: "n7", err: mover.ErrUnreachable}, mostBytes},
	} {
		d.Staging = row.staging
		c := must.Get(d.GetCapacity(t.Context(), q))(t)
		if c.GetAvailableCapacity() != row.want || fits(c, mostBytes) != (row.want > 0) {
			t.Errorf("%s: %v, want %d", row.what, c, row.want)
		}
	}
}
