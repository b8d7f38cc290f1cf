package csi

import (
	"context"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"datamove.dev/test/must"
)

// TestReady: a controller that is where some of its file systems are not lets others go first, and begins later all the same; it says that
// it is not ready until they come. Nodes do not wait.
func TestReady(t *testing.T) {
	r := rigged(t)
	for _, mode := range []Mode{Node, Controller} {
		o := r.driver.Options
		o.Mode = mode
		d := New(o)
		is := func(when string, asked, ready bool) {
			t.Helper()
			reply := must.Get(d.Probe(t.Context(), &csi.ProbeRequest{}))(t)
			if got := reply.GetReady().GetValue(); got != asked || d.Ready() != ready {
				t.Errorf("%s, %s: to be asked %t, ready %t", mode, when, got, d.Ready())
			}
		}
		node := mode == Node
		is("before anything was seen", node, node)
		elsewhere, lab := *o.Config, o.Config.FileSystems["lab"]
		elsewhere.FileSystems = map[string]FileSystem{"lab": lab, "other": {Use: lab.Use, Kind: "lustre", Root: lab.Root, Volumes: "k8s"}, "nvme": {Use: "scratch", Kind: "xfs", Root: "/none", Volumes: "csi"}}
		d.Config = &elsewhere
		look := func(othersFirst time.Duration) {
			ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer stop()
			d.BecomeReady(ctx, time.Millisecond, othersFirst)
		}
		look(time.Hour)
		is("one is missing, and others may go first", node, node)
		look(0)
		is("one is missing for long", true, node)
		d.Config = o.Config
		d.BecomeReady(t.Context(), time.Millisecond, time.Hour)
		is("all are there", true, true)
	}
}
