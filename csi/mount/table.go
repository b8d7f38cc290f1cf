package mount

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/moby/sys/mountinfo"
)

// Mount is one line of the table of mounts of this process.
type Mount struct {
	ID      int
	Device  string // "8:1": what is mounted
	Root    string // which directory of it
	Point   string // where
	Type    string // "lustre"
	Source  string
	Options string // of this mount: "ro,nosuid,nodev"
}

// Same reports whether o shows the same directory. A mount of a directory of an NFS or a Lustre alone says so in its
// source, a bind of others in its root.
func (m Mount) Same(o Mount) bool {
	return m.Device == o.Device && m.Root == o.Root && m.Source == o.Source && m.Type == o.Type
}

// Table returns the mounts at or below a path, in the order in which they were made: those which lie on
// others come later. It asks nothing of the file systems themselves. The path "" is everything.
func Table(path string) ([]Mount, error) {
	filter := mountinfo.FilterFunc(nil)
	if path != "" {
		filter = mountinfo.PrefixFilter(filepath.Clean(path))
	}
	infos, err := mountinfo.GetMounts(filter)
	if err != nil {
		return nil, fmt.Errorf("table of mounts: %w", err)
	}
	table := make([]Mount, len(infos))
	for i, m := range infos {
		table[i] = Mount{m.ID, fmt.Sprintf("%d:%d", m.Major, m.Minor), m.Root, m.Mountpoint, m.FSType, m.Source, m.Options}
	}
	return table, nil
}

// At returns the mount that is on top at exactly that path.
func At(path string) (m Mount, mounted bool, err error) {
	table, err := Table(path)
	if err != nil {
		return Mount{}, false, err
	}
	for _, m := range slices.Backward(table) {
		if m.Point == filepath.Clean(path) {
			return m, true, nil
		}
	}
	return Mount{}, false, nil
}

// alone reports whether nothing else of the file system of m is mounted.
func alone(m Mount) (bool, error) {
	table, err := Table("")
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(table, func(o Mount) bool { return o.ID != m.ID && o.Device == m.Device }), nil
}
