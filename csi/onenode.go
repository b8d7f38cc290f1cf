package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"datamove.dev/csi/mount"
	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
	"datamove.dev/mover"
)

// lostAfter is how long a node that holds a volume may say nothing before another one has it: as long as Kubernetes waits for one that does not answer
// (reconcilerMaxWaitForUnmountDuration, kubernetes pkg/controller/volume/attachdetach, 1.36).
const lostAfter = 6 * time.Minute

// heartbeats are what other nodes have said last, and since when this process knows it. Clocks of nodes are not compared.
type heartbeats struct {
	mu   sync.Mutex
	last map[string]heartbeat // by file system and node; guarded by mu
}

type heartbeat struct {
	said  string
	since time.Time
}

// silent is for how long a node has said nothing new, as far as this process knows.
func (h *heartbeats) silent(fileSystem string, of volumestore.Holder, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := fileSystem + " " + of.Node
	if last, known := h.last[key]; known && last.said == of.Beat {
		return now.Sub(last.since)
	}
	if h.last == nil {
		h.last = map[string]heartbeat{}
	}
	h.last[key] = heartbeat{of.Beat, now}
	return 0
}

// otherModes is how a volume goes on that nothing can hold to one node, as one of an administrator, or of an earlier version, which held none: the access modes of a PersistentVolume may be changed.
const otherModes = "have ReadWriteMany or ReadOnlyMany as the first of its access modes (kubectl patch pv NAME -p '{\"spec\":{\"accessModes\":[\"ReadWriteMany\"]}}'), or set volumes"

// onOneNode has this node hold a volume that one node may have at a time, for a pod. Nothing is attached to nodes by Kubernetes: it lets the pods of any nodes have
// the volume. What is on the scratch of a node is on one; a dataset, which is only read, is on one for a single pod only (alone).
func (d *Driver) onOneNode(ctx context.Context, p publication) error {
	if p.many || d.Config.FileSystems[p.id.FileSystem].Use != volume.Project {
		return nil
	}
	others, err := d.Files.Hold(ctx, p.spec, d.NodeID, p.id, p.target)
	if errors.Is(err, mover.ErrUnsupported) {
		return fmt.Errorf("%w: nothing holds %s to one node on file system %s: %s; %s", mover.ErrConflict, p.id, p.spec.Name, err.Error(), otherModes)
	}
	for _, other := range others {
		switch silent := d.beats.silent(p.spec.Name, other, time.Now()); {
		case silent >= lostAfter:
			d.Logger.WarnContext(ctx, "a volume is taken over from a node that says nothing any more", "volume", p.id, "node", other.Node, "for", silent)
			err = errors.Join(err, d.Files.LetGo(ctx, p.spec, other.Node, volumestore.HeldAs(p.id, "")))
		default:
			err = errors.Join(err, fmt.Errorf("%w: %s is for one node at a time, and node %s has it: its pods there have to end, or the driver there has to be silent for %s (now %s)",
				mover.ErrConflict, p.id, mover.Printable(other.Node), lostAfter, silent.Round(time.Second)))
		}
	}
	if err != nil && !d.mountedAt(p.target) {
		err = errors.Join(err, d.Files.LetGo(ctx, p.spec, d.NodeID, volumestore.HeldAs(p.id, p.target)))
	}
	return err
}

// nowhereElse reports if a pod of another node has a dataset that only one pod may have. Its caller holds it already: of two that come at once, at least one sees the other.
func (d *Driver) nowhereElse(ctx context.Context, p publication) error {
	who := holder(p.id, p.target)
	where, err := d.Staging.Elsewhere(ctx, ofVolume(p.id), who)
	if err == nil && where != "" {
		err = fmt.Errorf("%w: %s is for one pod (ReadWriteOncePod), and one on %s has it", mover.ErrConflict, p.id, mover.Printable(where))
	}
	if err != nil && !d.mountedAt(p.target) {
		err = errors.Join(err, d.Staging.Drop(ctx, who))
	}
	return err
}

// mountedAt reports if something is mounted at a target. When that can not be known, it is.
func (d *Driver) mountedAt(target string) bool {
	table, err := d.Mounts("")
	return err != nil || slices.ContainsFunc(table, func(m mount.Mount) bool { return m.Point == target })
}

// KeepHeld says to other nodes that this one lives, as long as it holds volumes, and lets go of those that are not mounted any more, until ctx is over. What
// is mounted the kernel says.
func (d *Driver) KeepHeld(ctx context.Context, every time.Duration) {
	for {
		var all sync.WaitGroup
		for name, f := range d.Config.FileSystems {
			if f.Use == volume.Project && f.Volumes != "" {
				all.Go(func() {
					if err := d.keepHeld(ctx, name); err != nil && ctx.Err() == nil {
						d.Logger.WarnContext(ctx, "other nodes are not told which volumes this one has", "fileSystem", name, "err", err)
					}
				})
			}
		}
		all.Wait()
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		case <-d.freed:
		}
	}
}

func (d *Driver) keepHeld(ctx context.Context, fileSystem string) error {
	spec := d.spec(fileSystem)
	all, err := d.Files.Held(ctx, spec, d.NodeID)
	errs := []error{err}
	for _, h := range all {
		done, err := d.targets.begin(h.Target, "the end of a mount")
		if err != nil { // a call is at it
			continue
		}
		if !d.mountedAt(h.Target) {
			errs = append(errs, d.Files.LetGo(ctx, spec, d.NodeID, h))
		}
		done()
	}
	return errors.Join(errs...)
}

// freeSoon has what is not mounted any more let go without waiting.
func (d *Driver) freeSoon() {
	select {
	case d.freed <- struct{}{}:
	default: // it is known
	}
}
