package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/lustre/client"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/tiering/catalog/changefeed"
	"datamove.dev/tiering/catalog/changefeed/inotify"
	"datamove.dev/tiering/catalog/changefeed/lustre"
	"datamove.dev/tiering/catalog/changefeed/s3events"
)

// feedOf makes the feed of changes in a backend. It is a catalogworker.Feeds.
func feedOf(place mover.Backend, dir string, kind *agentv1.FollowFeed) (f changefeed.Feed, end func() error, err error) {
	bucketed, listens := mover.As[s3events.Listener](place)
	queued, queues := mover.As[interface {
		Queue(url string) (*s3.Queue, error)
	}](place)
	switch what := kind.GetKind(); {
	case what == "events" && kind.GetQueue() != "" && queues:
		q, err := queued.Queue(kind.GetQueue())
		return &s3events.Queued{Queue: q}, nil, err
	case what == "events" && listens:
		return &s3events.Feed{Bucket: bucketed}, nil, nil
	case what == "inotify" && !listens:
		return inotify.New(dir, inotify.Options{}), nil, nil
	case what == "changelog" && !listens:
		mount, err := mountOf(dir)
		if err != nil {
			return nil, nil, err
		}
		c, err := client.Open(mount)
		if err != nil {
			return nil, nil, err
		}
		root, err := filepath.Rel(mount, dir)
		if root == "." {
			root = ""
		}
		return &lustre.Feed{Log: lustre.Of(c), Root: root, Reader: kind.GetReader()}, c.Close, err
	}
	return nil, nil, fmt.Errorf("%w: %s has no feed of the kind %q", mover.ErrUnsupported, place, kind.GetKind())
}

// feedReach is what the process of a change log reaches beside its directory. It needs the names at the mount point, which resolves FIDs to
// paths, and the devices of the log, which it finds by their names. It is nothing where there is no Lustre.
func feedReach(dir string) (c sandbox.Confinement) {
	mount, err := mountOf(dir)
	if err != nil {
		return c
	}
	fs, err := client.Open(mount)
	if err != nil {
		return c
	}
	defer fs.Close()
	c.List = []string{mount, client.DeviceDir}
	logs, _ := fs.Changes().Feeds(context.Background()) // without one the process says so
	for _, log := range logs {
		c.Devices = append(c.Devices, client.DevicePath(log))
	}
	return c
}

// mountOf is where the file system of a directory is mounted: the highest directory above it that is on the same one.
func mountOf(dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	var here, above unix.Stat_t
	for err = unix.Stat(dir, &here); err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if err = unix.Stat(filepath.Dir(dir), &above); err != nil || above.Dev != here.Dev {
			break
		}
	}
	if err != nil {
		return "", &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	return dir, nil
}
