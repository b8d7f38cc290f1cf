package csi

import (
	"context"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// TestReady: a controller that is where its file systems are not leaves the work to one that has them, and begins when they come. Nodes do
// not wait.
func TestReady(t *testing.T) {
	r := rigged(t)
	for _, mode := range []Mode{Node, Controller} {
		o := r.driver.Options
		o.Mode = mode
		d := New(o)
		ready := func() bool {
			t.Helper()
			reply, err := d.Probe(t.Context(), &csi.ProbeRequest{})
			must(t, err)
			return reply.GetReady().GetValue()
		}
		if ready() != (mode == Node) {
			t.Errorf("%s: ready is %t before anything was seen", mode, ready())
		}
		elsewhere, both := *o.Config, o.Config.FileSystems["lab"]
		elsewhere.FileSystems = map[string]FileSystem{"lab": both, "other": {Use: both.Use, Kind: "lustre", Root: both.Root, Volumes: "k8s"}, "nvme": {Use: "scratch", Kind: "xfs", Root: "/none", Volumes: "csi"}}
		d.Config = &elsewhere
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		d.BecomeReady(ctx, time.Millisecond)
		stop()
		if ready() != (mode == Node) {
			t.Errorf("%s: ready is %t, and a file system is missing", mode, ready())
		}
		d.Config = o.Config
		if d.BecomeReady(t.Context(), time.Millisecond); !ready() {
			t.Errorf("%s: all is there", mode)
		}
	}
}
