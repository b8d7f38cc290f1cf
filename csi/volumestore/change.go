package volumestore

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/beneath"
)

// Expand gives a volume another limit of bytes, at once and for pods that have it. It never becomes smaller.
func (b *Base) Expand(ctx context.Context, id volume.ID, bytes int64) (Record, error) {
	return b.change(ctx, id, func(r *Record) { r.Bytes = max(r.Bytes, bytes) })
}

// Modify gives a volume other parameters: its quota, and the layout of files that are made from now on.
func (b *Base) Modify(ctx context.Context, id volume.ID, p volume.Parameters) (Record, error) {
	return b.change(ctx, id, func(r *Record) { r.Parameters = p })
}

// change sets what the changed record says, and then the record. After a kill between the two the next call finds the
// old one, and changes it again.
func (b *Base) change(ctx context.Context, id volume.ID, to func(*Record)) (Record, error) {
	f, err := b.Find(ctx, id)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	r := f.Record
	if to(&r); r == f.Record {
		return r, nil
	}
	err = b.promise(ctx, r.Bytes-f.Record.Bytes, func() error {
		if err := b.limit(ctx, f.data, &r); err != nil {
			return err
		}
		if r.Parameters.Place != f.Record.Parameters.Place {
			if err := b.lay(ctx, f.data, r.Parameters.Place); err != nil {
				return err
			}
		}
		return f.at.write(recordFile, r, true)
	})
	if err != nil {
		return Record{}, err
	}
	return r, nil
}

// Stats is what a volume holds.
type Stats struct {
	TotalBytes, UsedBytes, LeftBytes int64
	TotalFiles, UsedFiles, LeftFiles int64 // 0 where files are not counted
	Doubt                            string
}

// Stats says how full a volume is: by its quota, and never more than the file system has left.
func (b *Base) Stats(ctx context.Context, f *Found) (Stats, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(f.Data(), &st); err != nil {
		return Stats{}, err
	}
	free, unit := lustre.Times(st.Bavail, uint64(st.Bsize)), uint64(st.Bsize)
	quotas := b.handle.System.Quota
	if quotas == nil {
		total := lustre.Times(st.Blocks, unit)
		return Stats{TotalBytes: total, UsedBytes: total - lustre.Times(st.Bfree, unit), LeftBytes: free, Doubt: f.Record.Unenforced}, nil
	}
	q, err := quotas.Quota(ctx, f.Data(), f.Record.project())
	if err != nil {
		return Stats{}, err
	}
	s := Stats{TotalBytes: q.HardBytes, UsedBytes: q.UsedBytes, LeftBytes: free, UsedFiles: q.UsedFiles, TotalFiles: q.HardFiles, Doubt: q.Doubt}
	if left, limited := q.LeftBytes(); limited {
		s.LeftBytes = min(s.LeftBytes, left)
	}
	if left, limited := q.LeftFiles(); limited {
		s.LeftFiles = left
	}
	return s, nil
}

// List returns the records of all volumes, or of all snapshots. One that can not be read is left out and told to bad.
func (b *Base) List(ctx context.Context, k volume.Kind, bad func(key string, err error)) ([]Record, error) {
	home, err := b.in(homeOf(k))
	if err != nil {
		return nil, err
	}
	defer home.close()
	names, err := home.names()
	if err != nil {
		return nil, err
	}
	var all []Record
	for _, key := range names {
		f, err := b.Find(ctx, volume.ID{Kind: k, FileSystem: b.spec.Name, Key: key})
		if err != nil {
			bad(key, err)
			continue
		}
		all = append(all, f.Record)
		f.Close()
	}
	return all, ctx.Err()
}

// Directory opens a directory below the root of the file system that the driver did not make. Those that it made are
// not to be had this way.
func (b *Base) Directory(path string) (int, error) {
	if made := b.spec.Volumes; made != "" && (path == "" || path == made || strings.HasPrefix(path, made+"/") || strings.HasPrefix(made, path+"/")) {
		return -1, &mover.Error{Op: "open", Location: b.spec.Root, Name: path, Err: fmt.Errorf("%w: the volumes of the driver are there", mover.ErrPermission)}
	}
	return openBeneath(dir(b.handle.FD()), cmp.Or(path, "."), unix.O_PATH|unix.O_DIRECTORY, beneath.NoLinks)
}

// Share gives the directory of a volume to the group of a pod, with what will be made in it. What is in it already stays as it is:
// nothing is walked. It keeps the group that its StorageClass says, or none where everybody may do what the group could.
// Of a volume that many have, only the first group becomes that of all.
func (f *Found) Share(group uint32, many bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(f.Data(), &st); err != nil {
		return err
	}
	mode := st.Mode&0o7777 | unix.S_ISGID | 0o070
	switch {
	case f.Record.Parameters.GID != 0, st.Mode&0o007 == 0o007, st.Gid == group && st.Mode&0o7777 == mode:
		return nil
	case many && st.Gid != 0 && st.Gid != group:
		return fmt.Errorf("%w: %s is of group %d, which another pod's fsGroup gave it, and is not given to group %d: pods that share a volume need the same fsGroup, or a StorageClass with a gid",
			mover.ErrConflict, f.Record.ID, st.Gid, group)
	}
	if err := unix.Fchown(f.Data(), -1, int(group)); err != nil {
		return failed("share", f.at, dataDir, err)
	}
	return failed("share", f.at, dataDir, unix.Fchmod(f.Data(), mode))
}
