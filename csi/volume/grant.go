package volume

import (
	"fmt"
	"slices"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// Grant says which directories and datasets the pods of some namespaces may have. Without a
// grant, access is denied. Grants are checked when a pod gets a volume, and not only when the volume was
// described: the author of the description may be another user.
type Grant struct {
	Namespaces      []string    `yaml:"namespaces"`      // NAME, a beginning with * behind it, or * for everybody
	ServiceAccounts []string    `yaml:"serviceAccounts"` // as Namespaces; none is all
	Directories     []Directory `yaml:"directories"`
	Sources         []string    `yaml:"sources"` // dataset:NAME, dataset:BEGINNING*, s3://BUCKET/PREFIX, TIER:PATH and what is below
}

// Directory is one below the root of a file system, with everything in it.
type Directory struct {
	FileSystem string `yaml:"fileSystem"`
	Path       string `yaml:"path"` // "" is all of it
	ReadOnly   bool   `yaml:"readOnly"`
}

// Grants are all of them.
type Grants []Grant

// Directory reports whether pod may have a directory of a file system, and if it has to be
// mounted read-only.
func (g Grants) Directory(pod Pod, fileSystem, path string) (readOnly bool, err error) {
	found := false
	readOnly = true
	for grant := range g.of(pod) {
		for _, d := range grant.Directories {
			if d.FileSystem == fileSystem && below(path, d.Path) {
				found, readOnly = true, readOnly && d.ReadOnly
			}
		}
	}
	if !found {
		return false, fmt.Errorf("%w: no grant in the driver's configuration gives %s the directory %s of file system %s", mover.ErrPermission, pod, quoted(path), fileSystem)
	}
	return readOnly, nil
}

// Source reports whether pod may have what is at a location.
func (g Grants) Source(pod Pod, source string) error {
	asked, err := location.Parse(source)
	if err != nil {
		return err
	}
	for grant := range g.of(pod) {
		if slices.ContainsFunc(grant.Sources, func(granted string) bool { return covers(granted, asked) }) {
			return nil
		}
	}
	return fmt.Errorf("%w: no grant in the driver's configuration gives %s the source %s", mover.ErrPermission, pod, mover.Printable(source))
}

// of yields the grants for a pod.
func (g Grants) of(pod Pod) func(func(*Grant) bool) {
	return func(yield func(*Grant) bool) {
		for i := range g {
			named := matches(g[i].Namespaces, pod.Namespace) && (len(g[i].ServiceAccounts) == 0 || matches(g[i].ServiceAccounts, pod.ServiceAccount))
			if named && !yield(&g[i]) {
				return
			}
		}
	}
}

// matches reports whether one of the patterns is for name. An empty name gets what
// every name may have, *, and nothing else.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return p == "*" || name != "" && fits(p, name) })
}

// fits reports whether a pattern, which may end in *, is for name.
func fits(pattern, name string) bool {
	if start, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, start)
	}
	return pattern == name
}

// covers reports whether what is granted holds what is asked for.
func covers(granted string, asked location.Location) bool {
	if start, ok := strings.CutPrefix(granted, "dataset:"); ok {
		return asked.IsDataset() && fits(start, asked.Name)
	}
	l, err := location.Parse(granted)
	return err == nil && !l.IsPath() && l.Root() == asked.Root() && below(asked.Below(), l.Below())
}

// below reports whether path is top, or in it. Both are clean.
func below(path, top string) bool {
	return top == "" || path == top || strings.HasPrefix(path, top+"/")
}

// Validate reports what is wrong with a grant.
func (g *Grant) Validate() error {
	if len(g.Namespaces) == 0 {
		return fmt.Errorf("%w: a grant needs namespaces", mover.ErrUsage)
	}
	for _, d := range g.Directories {
		if err := ValidName(d.FileSystem); err != nil {
			return err
		}
		if d.Path != "" && !mover.ValidName(d.Path) {
			return fmt.Errorf("%w: a grant of the directory %s: it has to be relative, without empty, . and .. segments", mover.ErrUsage, quoted(d.Path))
		}
	}
	for _, s := range g.Sources {
		if s == "dataset:*" {
			continue
		}
		l, err := location.Parse(strings.TrimSuffix(s, "*"))
		switch {
		case err != nil:
			return fmt.Errorf("a grant of a source: %w", err)
		case l.IsPath():
			return fmt.Errorf("%w: a grant of the source %s: it has to be a dataset:, an s3:// or a TIER:path", mover.ErrUsage, mover.Printable(s))
		case !l.IsDataset() && strings.HasSuffix(s, "*"):
			return fmt.Errorf("%w: a grant of the source %s: what is below is granted without a *", mover.ErrUsage, mover.Printable(s))
		}
	}
	return nil
}

// String names the pod for people.
func (p Pod) String() string {
	if p.Namespace == "" {
		return "a pod that the kubelet does not name (podInfoOnMount of the CSIDriver has to be true)"
	}
	return "pod " + mover.Printable(p.Namespace+"/"+p.Name)
}
