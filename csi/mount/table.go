package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"datamove.dev/mover"
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

// Of returns the mounts that show an open directory, beside the one by which it was opened.
func Of(dir int) ([]Mount, error) {
	fail := func(err error) ([]Mount, error) {
		return nil, &mover.Error{Op: "look for mounts of", Location: procPath(dir), Err: err}
	}
	path, err := os.Readlink(procPath(dir))
	if err != nil {
		return fail(err)
	}
	id, err := mountID(dir)
	if err != nil {
		return fail(err)
	}
	table, err := Table("")
	if err != nil {
		return fail(err)
	}
	i := slices.IndexFunc(table, func(m Mount) bool { return m.ID == id })
	if i < 0 {
		return fail(fmt.Errorf("%w: its mount is not there any more", mover.ErrChanged))
	}
	by := table[i]
	root := filepath.Join(by.Root, strings.TrimPrefix(path, by.Point))
	return slices.DeleteFunc(table, func(m Mount) bool { return m.ID == id || m.Device != by.Device || m.Root != root }), nil
}

// mountID is by which mount a descriptor was opened.
func mountID(fd int) (int, error) {
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.Atoi(strings.TrimSpace(id))
		}
	}
	return 0, fmt.Errorf("%w: the kernel does not say by which mount a file was opened", mover.ErrUnsupported)
}

// alone reports whether nothing else of the file system of m is mounted.
func alone(m Mount) (bool, error) {
	table, err := Table("")
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(table, func(o Mount) bool { return o.ID != m.ID && o.Device == m.Device }), nil
}
