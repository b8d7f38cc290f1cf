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
// not there. A controller that does not see every file system for projects lets others go first: one that came to a machine without
// them would lead, and fail their calls, while another one that has them waits. It begins later all the same, for those that
// are there, and for scratch and datasets. What hangs is no reason to restart a driver: that is what NodeGetStorageHealth and the
// metrics say.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(d.Ready() || d.late.Load())}, nil
}

// Ready reports whether a controller has seen its file systems. Nodes do not wait for that.
func (d *Driver) Ready() bool { return d.Mode != Controller || d.ready.Load() }

// BecomeReady looks for the file systems of a controller, until all were seen or ctx is over. For as long as others go first, it is
// not to be asked.
func (d *Driver) BecomeReady(ctx context.Context, every, othersFirst time.Duration) {
	defer time.AfterFunc(othersFirst, func() { d.late.Store(true) }).Stop()
	seen := map[string]bool{}
	for {
		missing := false
		for _, name := range slices.Sorted(maps.Keys(d.Config.FileSystems)) {
			if f := d.Config.FileSystems[name]; f.Use != volume.Project || f.Volumes == "" || seen[name] {
				continue
			}
			_, err := d.Files.Look(ctx, d.spec(name))
			if seen[name] = err == nil || errors.Is(err, mover.ErrTimeout); !seen[name] { // what hangs is mounted
				missing = true
				d.Logger.WarnContext(ctx, "not ready: a file system for projects is not on the node of this controller", "fileSystem", name, "err", err)
			}
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
