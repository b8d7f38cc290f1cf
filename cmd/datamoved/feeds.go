package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/lustre/client"
	"datamove.dev/mover"
	"datamove.dev/tiering/feed"
	"datamove.dev/tiering/feed/changelog"
	"datamove.dev/tiering/feed/watch"
)

// feedOf makes the feed of changes in a directory. It is a worker.Feeds.
func feedOf(dir string, kind *agentv1.FollowFeed) (f feed.Feed, end func() error, err error) {
	switch kind.GetKind() {
	case "inotify":
		return watch.New(dir, watch.Options{}), nil, nil
	case "changelog":
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
		return &changelog.Feed{Log: changelog.Of(c), Root: root, Reader: kind.GetReader()}, c.Close, err
	}
	return nil, nil, fmt.Errorf("%w: this program knows no feed of the kind %q", mover.ErrUnsupported, kind.GetKind())
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
