package localfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sysfs is where btrfs tells of mounted file systems: quotas since Linux 5.9, to everybody
// and with what is not accounted yet.
const sysfs = "/sys/fs/btrfs"

// shown reads a group from sysfs. fs.ErrNotExist: it is not told here.
func shown(root, system string, group uint64) (qgroup, error) {
	var g qgroup
	folder := filepath.Join(root, system)
	all := filepath.Join(folder, "qgroups")
	_, err := os.Stat(all)
	if err != nil {
		return g, err
	}
	g.status = statusOn
	for name, flag := range map[string]uint64{"enabled": statusOn, "inconsistent": statusInconsistent} {
		switch n, err := number(all, name); {
		case errors.Is(err, fs.ErrNotExist): // before Linux 6.1
		case err != nil:
			return g, err
		case n == 0:
			g.status &^= flag
		default:
			g.status |= flag
		}
	}
	if mode, err := word(all, "mode"); err == nil && mode == "squota" {
		g.status |= statusSimple
	}
	if n, err := number(folder, "quota_override"); err == nil {
		g.override = n != 0
	}
	if err := g.numbers(filepath.Join(all, fmt.Sprintf("%d_%d", group>>levelShift, group&(1<<levelShift-1)))); err != nil {
		return g, err
	}
	g.around, err = limitsAround(all)
	return g, err
}

// limitsAround reports whether a group of level 1 and up has a limit, beside those that are a
// subvolume's own. Which groups are in it is not told here.
func limitsAround(all string) (bool, error) {
	groups, err := os.ReadDir(all)
	if err != nil {
		return false, err
	}
	for _, group := range groups {
		level, tail, isGroup := strings.Cut(group.Name(), "_")
		if !isGroup || level == "0" || !group.IsDir() {
			continue
		}
		if id, err := strconv.ParseUint(tail, 10, levelShift); level == "1" && err == nil && id >= firstInode {
			continue // see fenceOf
		}
		flags, err := number(filepath.Join(all, group.Name()), "limit_flags")
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it went meanwhile
			return false, err
		}
		if flags != 0 {
			return true, nil
		}
	}
	return false, nil
}

// numbers reads those of one group. Without a folder there is no such group.
func (g *qgroup) numbers(folder string) error {
	for _, n := range []struct {
		name string
		into *uint64
	}{{"referenced", &g.referenced}, {"rsv_data", &g.reserved}, {"limit_flags", &g.limits}, {"max_referenced", &g.maximum}} {
		v, err := number(folder, n.name)
		if errors.Is(err, fs.ErrNotExist) && !g.exists {
			return nil
		}
		if err != nil {
			return err
		}
		g.exists = true
		*n.into = v
	}
	return nil
}

func number(folder, name string) (uint64, error) {
	text, err := word(folder, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(text, 0, 64)
}

func word(folder, name string) (string, error) {
	f, err := os.Open(filepath.Join(folder, name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64))
	return strings.TrimSpace(string(b)), err
}
