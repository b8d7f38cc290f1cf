package csi

import (
	"context"
	"sync"
	"time"
)

// mountPause is how long a mount that failed is left alone first; then twice as long each time.
const mountPause = time.Second

// KeepMounted mounts the file systems that the configuration has the driver mount, until ctx is over: each until it is there, and
// again when it is not there any more. Calls are answered meanwhile, and one that can not be mounted keeps no other waiting.
func (d *Driver) KeepMounted(ctx context.Context, every time.Duration) {
	var all sync.WaitGroup
	for name, f := range d.Config.FileSystems {
		if f.Mount != nil && d.has(name) {
			all.Go(func() { d.keepMounted(ctx, name, f, every) })
		}
	}
	all.Wait()
}

func (d *Driver) keepMounted(ctx context.Context, name string, f FileSystem, every time.Duration) {
	first := min(mountPause, every)
	next, there := first, false
	for {
		pause := every
		err := d.Files.Mount(ctx, name, f.Mount.spec(), f.Root)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause, next, there = next, min(2*next, every), false
			d.Logger.WarnContext(ctx, "a file system can not be mounted; it is tried again", "fileSystem", name, "after", pause, "err", err)
		case !there:
			next, there = first, true
			d.Logger.InfoContext(ctx, "a file system is mounted", "fileSystem", name, "at", f.Root)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
