package engine

import (
	"path/filepath"

	"datamove.dev/mover/backend/posix/mounts"
)

// Named is an absolute path by which a place is named.
type Named struct {
	Path   string
	Itself bool // a symbolic link at its end is the place, and not what it leads to
}

// RealPaths are paths without symbolic links and bind mounts, as far as they exist and this process may look.
func RealPaths(all []Named) []string {
	var found []string
	for _, n := range all {
		path := filepath.Clean(n.Path)
		if n.Itself {
			found = append(found, filepath.Join(real(filepath.Dir(path)), filepath.Base(path)))
			continue
		}
		found = append(found, real(path))
	}
	return mounts.Unbound(found)
}

// real resolves links as far as the path exists, and this process may look.
func real(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(real(dir), filepath.Base(path))
	}
	return path
}
