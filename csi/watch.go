package csi

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"datamove.dev/csi/kube"
	"datamove.dev/csi/volumestore"
)

// volumesEach is after how many looks at the file systems all volumes are looked at, too: that is some questions for each.
const volumesEach = 5

// Watch looks at the file systems, and at the volumes of those that this driver keeps, until ctx is over. What it sees is in the
// metrics, and what changes in events: of the node, and of the claims. It says what the calls of health say, to clusters that do
// not make them yet.
func (d *Driver) Watch(ctx context.Context, every time.Duration) {
	w := &watch{Driver: d, systems: map[string]string{}, volumes: map[string]string{}}
	for n := 0; ; n++ {
		w.lookAtSystems(ctx)
		if n%volumesEach == 0 {
			w.countVolumes(ctx)
		}
		if d.Mode != Node && n%volumesEach == 0 {
			if err := w.lookAtVolumes(ctx); err != nil && ctx.Err() == nil {
				d.Logger.WarnContext(ctx, "the health of volumes is not known", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

// watch remembers what was told.
type watch struct {
	*Driver
	mu      sync.Mutex
	systems map[string]string // why each does not answer, or is full; guarded by mu
	volumes map[string]string // what is wrong with each
}

// lookAtSystems asks all file systems at once: one that hangs keeps no other waiting.
func (w *watch) lookAtSystems(ctx context.Context) {
	var asked sync.WaitGroup
	for name := range w.Config.FileSystems {
		if !w.has(name) {
			continue
		}
		asked.Go(func() {
			s, err := w.Files.Look(ctx, w.spec(name))
			if ctx.Err() != nil {
				return
			}
			w.sawSystem(ctx, name, s, err)
		})
	}
	asked.Wait()
}

// countVolumes reads the records of all volumes that this driver keeps. What a file system does not answer is left as it was:
// that it does not, lookAtSystems says.
func (w *watch) countVolumes(ctx context.Context) {
	var asked sync.WaitGroup
	for name := range w.Config.FileSystems {
		if !w.keeps(name) {
			continue
		}
		asked.Go(func() {
			if s, err := w.Files.Space(ctx, w.spec(name)); err == nil {
				w.Metrics.Volumes(name, s.Volumes, s.GivenBytes)
			}
		})
	}
	asked.Wait()
}

func (w *watch) sawSystem(ctx context.Context, name string, s volumestore.Stats, err error) {
	if err != nil {
		w.Metrics.Down(name)
	} else {
		w.Metrics.FileSystem(name, s.TotalBytes, s.LeftBytes)
	}
	reason, message := wrongWith(name, s, err)
	w.mu.Lock()
	was := w.systems[name]
	w.systems[name] = reason
	w.mu.Unlock()
	if reason == was || w.Cluster == nil || w.Mode == Controller {
		return
	}
	if reason == "" {
		w.Cluster.Tell(ctx, kube.OfNode(w.NodeID), false, "FileSystemHealthy", "file system "+name+" answers and has room")
		return
	}
	w.Cluster.Tell(ctx, kube.OfNode(w.NodeID), true, reason, message)
}

// wrongWith says why a file system can not be used; "" is nothing.
func wrongWith(name string, s volumestore.Stats, err error) (reason, message string) {
	switch {
	case err != nil:
		return silentSystem, err.Error()
	case s.LeftBytes == 0:
		return "FileSystemFull", "file system " + name + " is full"
	}
	return "", ""
}

// lookAtVolumes asks how all volumes are.
func (w *watch) lookAtVolumes(ctx context.Context) error {
	reply, err := w.ControllerListVolumeHealth(ctx, &csi.ControllerListVolumeHealthRequest{})
	if err != nil {
		return err
	}
	now, byReason := map[string]*csi.VolumeHealth_VolumeHealthEntry{}, map[string]int{}
	for _, v := range reply.GetEntries() {
		for _, e := range v.GetHealthStatuses() {
			now[v.GetVolumeId()] = e
			byReason[e.GetReason()]++
		}
	}
	w.Metrics.Ill(byReason)
	var changed []string
	for id, e := range now {
		if w.volumes[id] != e.GetReason() {
			changed = append(changed, id)
		}
	}
	for id := range w.volumes {
		if now[id] == nil {
			changed = append(changed, id)
		}
	}
	if len(changed) == 0 || w.Cluster == nil {
		return nil
	}
	claims, err := w.Cluster.Claims(ctx, Name, "")
	if err != nil {
		return fmt.Errorf("claims: %w", err)
	}
	of := map[string]kube.About{}
	for i := range claims {
		of[claims[i].Volume] = claims[i].About()
	}
	for _, id := range changed {
		if e := now[id]; e != nil {
			w.volumes[id] = e.GetReason()
			w.Cluster.Tell(ctx, of[id], true, e.GetReason(), e.GetMessage())
			continue
		}
		delete(w.volumes, id)
		w.Cluster.Tell(ctx, of[id], false, "VolumeHealthy", "nothing is wrong with the volume any more")
	}
	return nil
}
