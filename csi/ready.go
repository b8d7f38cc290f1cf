package csi

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"datamove.dev/csi/volume"
	"datamove.dev/mover"
)

// Probe says whether the sidecars may begin. A node is asked at once: its pods may need another file system than the one that is
// not there. A controller is not, before every file system that it makes volumes on is seen: one that came to a machine
// without them would lead, and fail every call, while another one that has them waits. What hangs later is no reason
// to restart a driver: that is what NodeGetStorageHealth and the metrics say.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(d.Ready())}, nil
}

// Ready is what Probe says.
func (d *Driver) Ready() bool { return d.Mode != Controller || d.ready.Load() }

// BecomeReady looks for the file systems of a controller, until all were seen or ctx is over.
func (d *Driver) BecomeReady(ctx context.Context, every time.Duration) {
	var seen []string
	for {
		missing := false
		for _, name := range slices.Sorted(maps.Keys(d.Config.FileSystems)) {
			if f := d.Config.FileSystems[name]; f.Use != volume.Project || f.Volumes == "" || slices.Contains(seen, name) {
				continue
			}
			_, err := d.Files.Look(ctx, d.spec(name))
			if err == nil || errors.Is(err, mover.ErrTimeout) { // what hangs is mounted
				seen = append(seen, name)
				continue
			}
			missing = true
			d.Logger.WarnContext(ctx, "not ready: the controller has to run where the file systems for projects are", "fileSystem", name, "err", err)
		}
		if !missing {
			d.ready.Store(true)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}
