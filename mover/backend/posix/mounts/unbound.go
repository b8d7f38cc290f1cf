// Package mounts says by which path a mount shows what several mounts show, as bind mounts do.
package mounts

import (
	"path"
	"strings"

	"github.com/moby/sys/mountinfo"

	"datamove.dev/mover"
)

// Unbound are paths, which have no symbolic links, without bind mounts: each as the mount shows it that shows most of its file system. Where mounts can not be
// seen they stay as they are.
func Unbound(paths []string) (all []string) {
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return paths
	}
	for _, p := range paths {
		all = append(all, unbound(p, mounts))
	}
	return all
}

func unbound(real string, mounts []*mountinfo.Info) string {
	at := seenIn(real, mounts)
	if at == nil {
		return real
	}
	inside := path.Join(at.Root, strings.TrimPrefix(real, strings.TrimSuffix(at.Mountpoint, "/")))
	best := at
	for _, m := range mounts {
		same := m.Major == at.Major && m.Minor == at.Minor && mover.Within(strings.Trim(inside, "/"), strings.Trim(m.Root, "/"))
		if same && (len(m.Root) < len(best.Root) || len(m.Root) == len(best.Root) && m.Mountpoint < best.Mountpoint) && seenIn(through(m, inside), mounts) == m {
			best = m
		}
	}
	return through(best, inside)
}

// through is where a mount shows what is in its file system.
func through(m *mountinfo.Info, inside string) string {
	return path.Join(m.Mountpoint, strings.TrimPrefix(inside, strings.TrimSuffix(m.Root, "/")))
}

// seenIn is the mount that a path is in: of several at one place the last one is seen.
func seenIn(real string, mounts []*mountinfo.Info) (at *mountinfo.Info) {
	for _, m := range mounts {
		if mover.Within(strings.Trim(real, "/"), strings.Trim(m.Mountpoint, "/")) && (at == nil || len(m.Mountpoint) >= len(at.Mountpoint)) {
			at = m
		}
	}
	return at
}
