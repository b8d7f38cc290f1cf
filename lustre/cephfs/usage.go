package cephfs

import (
	"context"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// Tree is what a directory holds, with all that is below it.
type Tree struct {
	Bytes   int64 // lengths of files, whatever they take on OSDs
	Files   int64 // and symbolic links
	Dirs    int64 // without the directory itself
	Changed time.Time
}

// RecursiveUsage asks for what a directory holds: one question, and no walk. It is 5 to 10
// seconds behind. Changed is the latest change of anything below, which a clock of a
// client that goes ahead can set into the future.
func RecursiveUsage(fd int) (Tree, error) {
	var t Tree
	for _, field := range []struct {
		name string
		dst  *int64
	}{{"ceph.dir.rbytes", &t.Bytes}, {"ceph.dir.rfiles", &t.Files}, {"ceph.dir.rsubdirs", &t.Dirs}} {
		n, err := count(fd, field.name)
		if err != nil {
			return Tree{}, failed("usage", fd, err, nil)
		}
		*field.dst = min(n, math.MaxInt64/4) // so that sums stay numbers
	}
	t.Dirs = max(0, t.Dirs-1)
	text, err := get(fd, "ceph.dir.rctime")
	if err != nil {
		return Tree{}, failed("usage", fd, err, nil)
	}
	t.Changed, err = parseTime(text)
	return t, failed("usage", fd, err, nil)
}

// count reads an attribute that is a number.
func count(fd int, name string) (int64, error) {
	text, err := get(fd, name)
	if err != nil {
		return 0, err
	}
	return parseCount(text)
}

// Targets is one, because a client has no right to know more: the data pool, or the whole
// cluster with all copies where there are several pools, or the nearest quota of the root
// of the mount.
func (Client) Targets(ctx context.Context, fd int) ([]lustre.Target, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	var st unix.Statfs_t
	if _, err := again(func() (int, error) { return 0, unix.Fstatfs(fd, &st) }); err != nil {
		return nil, failed("usage", fd, err, nil)
	}
	unit := uint64(max(st.Frsize, 0))
	if unit == 0 {
		unit = uint64(max(st.Bsize, 0))
	}
	target := lustre.Target{Kind: lustre.InPool, Name: "data pools", TotalBytes: lustre.Times(st.Blocks, unit), FreeBytes: lustre.Times(st.Bavail, unit)}
	if target.TotalBytes == 0 {
		target.Inactive = "the cluster does not know how large it is: it has just begun, or its manager (ceph-mgr) is silent"
	}
	return []lustre.Target{target}, nil
}
