package mounts

import (
	"testing"

	"github.com/moby/sys/mountinfo"
)

// TestUnbound: paths that bind mounts give to one place become one.
func TestUnbound(t *testing.T) {
	mounts := []*mountinfo.Info{
		{Mountpoint: "/", Root: "/", Major: 8, Minor: 1},
		{Mountpoint: "/lustre", Root: "/", Major: 0, Minor: 40},
		{Mountpoint: "/proj", Root: "/projects", Major: 0, Minor: 40},
		{Mountpoint: "/shares/lab", Root: "/projects/lab", Major: 0, Minor: 40},
		{Mountpoint: "/mnt/lustre", Root: "/", Major: 0, Minor: 40},
		{Mountpoint: "/lustre/tmp", Root: "/", Major: 0, Minor: 50},
		{Mountpoint: "/home/lost", Root: "/tmp/x", Major: 0, Minor: 40},
		{Mountpoint: "/srv/old", Root: "/", Major: 0, Minor: 60},
		{Mountpoint: "/srv/old", Root: "/new", Major: 0, Minor: 40},
		{Mountpoint: "/pod", Root: "/kubelet/pods/1", Major: 8, Minor: 2},
	}
	for path, want := range map[string]string{
		"/home/ann":        "/home/ann",
		"/lustre/a/b":      "/lustre/a/b",
		"/lustre":          "/lustre",
		"/proj/lab/x":      "/lustre/projects/lab/x",
		"/proj2":           "/proj2",
		"/shares/lab":      "/lustre/projects/lab",
		"/mnt/lustre/a":    "/lustre/a",
		"/lustre/tmp/file": "/lustre/tmp/file",
		"/home/lost/y":     "/mnt/lustre/tmp/x/y", // /lustre/tmp shows something else
		"/srv/old/x":       "/lustre/new/x",
		"/pod/data":        "/pod/data",
	} {
		if got := unbound(path, mounts); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}
