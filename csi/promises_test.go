package csi

import (
	"errors"
	"testing"

	"datamove.dev/csi/fsclient"
	"datamove.dev/csi/volume"
	"datamove.dev/mover"
	"datamove.dev/test/must"
	"datamove.dev/tiering/dataset/datasetclient"
)

// TestLeavesPromises: a dataset does not come onto a disk of which volumes were promised what it would take.
func TestLeavesPromises(t *testing.T) {
	r := rigged(t)
	_, err := r.CreateVolume(t.Context(), creation(volume.Scratch, "vision", "large", 1400*mib))
	must.Do(t, err)
	for _, row := range []struct {
		what string
		has  datasetclient.Space
		want error
	}{
		{"beside what was promised", datasetclient.Space{Tier: "by-path", Path: r.root + "/datasets", Bytes: 100 * mib}, nil},
		{"what was promised", datasetclient.Space{Tier: "by-path", Path: r.root + "/datasets", Bytes: 1000 * mib}, mover.ErrFull},
		{"by the name of its tier", datasetclient.Space{Tier: "scratch", Path: "/host", Bytes: 1000 * mib}, mover.ErrFull},
		{"others go for it", datasetclient.Space{Tier: "by-path", Path: r.root, Bytes: 1000 * mib, MayGo: 1000 * mib}, nil},
		{"it is there", datasetclient.Space{Tier: "by-path", Path: r.root, Bytes: 1000 * mib, There: true}, nil},
		{"another disk", datasetclient.Space{Tier: "other", Path: "/elsewhere", Bytes: 1000 * mib}, nil},
	} {
		f := r.driver.Config.FileSystems["nvme"]
		f.Tier = "scratch"
		r.driver.Config.FileSystems["nvme"] = f
		r.driver.Staging = tierWithRoom{has: row.has, node: "n1"}
		err := r.driver.leavesPromises(t.Context(), datasetclient.Source{Location: "dataset:train", Tier: "scratch"})
		if !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", row.what, err, row.want)
		}
		if row.want != nil { // the pod hears it, and the mover is not asked to bring anything
			p := publication{about: volume.Attributes{Source: volume.Source{Location: "dataset:train", Tier: "scratch"}}}
			if _, err := r.driver.staged(t.Context(), p, fsclient.Attachment{}); !errors.Is(err, row.want) {
				t.Errorf("%s, for a pod: %v, want %v", row.what, err, row.want)
			}
		}
	}
}
