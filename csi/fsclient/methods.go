package fsclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/fsworker"
	"datamove.dev/csi/mount"
	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/replicadir"
)

// The calls, as they go over the wire.
type (
	making struct {
		Spec   volumestore.Spec
		Wish   volumestore.Wish
		Filled bool
	}
	made struct {
		Record   volumestore.Record
		Unfilled *volumestore.Unfilled
		TooSmall *volumestore.TooSmall
	}
	of struct {
		Spec volumestore.Spec
		ID   volume.ID
		By   string // why it is removed: the call or routine that removes it
	}
	changing struct {
		Spec       volumestore.Spec
		ID         volume.ID
		Bytes      int64
		Parameters *volume.Parameters
	}
	listing struct {
		Spec volumestore.Spec
		Kind volume.Kind
	}
	listed struct {
		Records []volumestore.Record
		Bad     map[string]string // by key, why
	}
	reaping struct {
		Spec volumestore.Spec
		Now  time.Time
		For  time.Duration
	}
	reaped   struct{ Gone, Left int }
	archived struct {
		Spec volumestore.Spec
		Name string
		Now  time.Time
	}
	attachment struct {
		Spec   volumestore.Spec
		ID     volume.ID
		Path   string // of a directory that the driver did not make
		Target string
		Flags  mount.Flags
		Group  *uint32
		Many   bool
		Staged string
	}
	attached struct{ Otherwise *mount.Otherwise }
	staging  struct {
		Spec   volumestore.Spec
		ID     volume.ID
		Mount  mount.Spec // of the whole file system
		Label  string
		Target string
	}
	detachment struct {
		Target string
		Phase  mount.Phase
		Keep   bool // the target
	}
	noting struct {
		Root, Path string
		Until      time.Time
	}
	mountable struct {
		Mount  mount.Spec
		Target string
	}
)

// Methods are what a hand of the driver can do.
func Methods() map[string]fsworker.Method {
	return map[string]fsworker.Method{
		"make":   fsworker.Typed(makeVolume),
		"find":   fsworker.Typed(find),
		"remove": fsworker.Typed(remove),
		"change": fsworker.Typed(change),
		"stats":  fsworker.Typed(stats),
		"list":   fsworker.Typed(list),
		"reap":   fsworker.Typed(reap),
		"begun": fsworker.Typed(func(ctx context.Context, q of) (string, error) {
			return on(ctx, q.Spec, func(b *volumestore.Base) (string, error) { return b.Begun(ctx, q.ID) })
		}),
		"forsaken": fsworker.Typed(func(ctx context.Context, q reaping) ([]volume.ID, error) {
			return on(ctx, q.Spec, func(b *volumestore.Base) ([]volume.ID, error) { return b.Forsaken(ctx, q.Now) })
		}),
		"trash": fsworker.Typed(func(ctx context.Context, s volumestore.Spec) ([]volumestore.Removed, error) {
			return on(ctx, s, func(b *volumestore.Base) ([]volumestore.Removed, error) { return b.Trash(ctx) })
		}),
		"unarchived": fsworker.Typed(func(ctx context.Context, s volumestore.Spec) ([]volumestore.Archival, error) {
			return on(ctx, s, func(b *volumestore.Base) ([]volumestore.Archival, error) { return b.Unarchived(ctx) })
		}),
		"archived": fsworker.Typed(func(ctx context.Context, q archived) (struct{}, error) {
			return on(ctx, q.Spec, func(b *volumestore.Base) (struct{}, error) { return struct{}{}, b.Archived(ctx, q.Name, q.Now) })
		}),
		"restore": fsworker.Typed(func(ctx context.Context, q of) (volumestore.Record, error) {
			return on(ctx, q.Spec, func(b *volumestore.Base) (volumestore.Record, error) { return b.Restore(ctx, q.ID) })
		}),
		"space":  fsworker.Typed(space),
		"look":   fsworker.Typed(look),
		"attach": fsworker.Typed(attach),
		"mounts": fsworker.Typed(mounts),
		"stage":  fsworker.Typed(stageVolume),
		"detach": fsworker.Typed(detach),
		"mount":  fsworker.Typed(mountSystem),
		"usage":  fsworker.Typed(usage),
		"note":   fsworker.Typed(note),
		"closed": fsworker.Typed(closed),
		"hold":   fsworker.Typed(hold),
		"held":   fsworker.Typed(held),
		"let go": fsworker.Typed(letGo),
	}
}

// on opens a file system for one call.
func on[R any](ctx context.Context, s volumestore.Spec, do func(*volumestore.Base) (R, error)) (R, error) {
	b, err := volumestore.Open(ctx, s)
	if err != nil {
		var none R
		return none, reached(err)
	}
	r, err := do(b)
	return r, reached(errors.Join(err, b.Close()))
}

// reached gives the errors of a file system without a live server or program their kind.
func reached(err error) error {
	if mount.Dead(err) {
		return fmt.Errorf("%w: %w", mover.ErrUnreachable, err)
	}
	return err
}

func makeVolume(ctx context.Context, q making) (made, error) {
	return on(ctx, q.Spec, func(b *volumestore.Base) (m made, err error) {
		if q.Wish.ID.Key == "" {
			q.Wish.ID.Key = q.Spec.KeyOf(b.Identity, q.Wish)
		}
		if q.Filled {
			m.Record, err = b.Filled(ctx, q.Wish)
		} else {
			m.Record, err = b.Make(ctx, q.Wish)
		}
		if errors.As(err, &m.Unfilled) || errors.As(err, &m.TooSmall) {
			err = nil
		}
		return m, err
	})
}

func find(ctx context.Context, q of) (volumestore.Record, error) {
	return on(ctx, q.Spec, func(b *volumestore.Base) (volumestore.Record, error) {
		f, err := b.Find(ctx, q.ID)
		if err != nil {
			return volumestore.Record{}, err
		}
		defer f.Close()
		return f.Record, nil
	})
}

func remove(ctx context.Context, q of) (struct{}, error) {
	return on(ctx, q.Spec, func(b *volumestore.Base) (struct{}, error) { return struct{}{}, b.Remove(ctx, q.ID, q.By) })
}

func change(ctx context.Context, q changing) (volumestore.Record, error) {
	return on(ctx, q.Spec, func(b *volumestore.Base) (volumestore.Record, error) {
		if q.Parameters != nil {
			return b.Modify(ctx, q.ID, *q.Parameters)
		}
		return b.Expand(ctx, q.ID, q.Bytes)
	})
}

func stats(ctx context.Context, q of) (volumestore.Stats, error) {
	return on(ctx, q.Spec, func(b *volumestore.Base) (volumestore.Stats, error) {
		f, err := b.Find(ctx, q.ID)
		if err != nil {
			return volumestore.Stats{}, err
		}
		defer f.Close()
		return b.Stats(ctx, f)
	})
}

func list(ctx context.Context, q listing) (listed, error) {
	return on(ctx, q.Spec, func(b *volumestore.Base) (l listed, err error) {
		l.Bad = map[string]string{}
		l.Records, err = b.List(ctx, q.Kind, func(key string, err error) { l.Bad[key] = err.Error() })
		return l, err
	})
}

func reap(ctx context.Context, q reaping) (reaped, error) {
	ctx, cancel := context.WithTimeout(ctx, q.For)
	defer cancel()
	return on(ctx, q.Spec, func(b *volumestore.Base) (r reaped, err error) {
		r.Gone, r.Left, err = b.Reap(ctx, q.Now)
		return r, err
	})
}

func space(ctx context.Context, s volumestore.Spec) (volumestore.Space, error) {
	return on(ctx, s, func(b *volumestore.Base) (volumestore.Space, error) { return b.Space(ctx) })
}

// look is usage of a file system, when it is the one that is meant.
func look(ctx context.Context, s volumestore.Spec) (volumestore.Stats, error) {
	s.Volumes = ""
	return on(ctx, s, func(*volumestore.Base) (volumestore.Stats, error) { return usage(ctx, s.Root) })
}

// attach mounts a volume at a target.
func attach(ctx context.Context, q attachment) (attached, error) {
	return shown(ctx, q, func(fd int) (a attached, err error) {
		err = mount.Bind(fd, q.Target, q.Flags)
		if errors.As(err, &a.Otherwise) {
			err = nil
		}
		return a, err
	})
}

// mounts are where a volume is mounted.
func mounts(ctx context.Context, q attachment) ([]mount.Mount, error) { return shown(ctx, q, mount.Of) }

// shown opens what pods see of a volume for one call.
func shown[R any](ctx context.Context, q attachment, do func(fd int) (R, error)) (R, error) {
	return on(ctx, q.Spec, func(b *volumestore.Base) (R, error) {
		var none R
		if !q.ID.Ours() {
			fd, err := b.Directory(q.Path)
			if err != nil {
				return none, err
			}
			defer unix.Close(fd)
			return do(fd)
		}
		f, err := b.Find(ctx, q.ID)
		if err != nil {
			return none, err
		}
		defer f.Close()
		if q.Group != nil {
			if err := f.Share(*q.Group, q.Many); err != nil {
				return none, err
			}
		}
		if q.Staged == "" {
			return do(f.Data())
		}
		fd, err := mountOf(f, q.Staged)
		if err != nil {
			return none, err
		}
		defer unix.Close(fd)
		return do(fd)
	})
}

// stageVolume mounts the directory of a volume alone.
func stageVolume(ctx context.Context, q staging) (struct{}, error) {
	return on(ctx, q.Spec, func(b *volumestore.Base) (struct{}, error) {
		f, err := b.Find(ctx, q.ID)
		if err != nil {
			return struct{}{}, err
		}
		defer f.Close()
		m, err := q.Mount.Below(b.Path(q.ID), q.Label)
		if err == nil {
			err = mount.FileSystem(ctx, m, q.Target)
		}
		if err != nil {
			return struct{}{}, err
		}
		fd, err := mountOf(f, q.Target)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, unix.Close(fd)
	})
}

// mountOf opens what is mounted at a target, which has to be the directory of a volume.
func mountOf(f *volumestore.Found, target string) (int, error) {
	fd, err := unix.Open(target, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &mover.Error{Op: "open", Location: target, Err: err}
	}
	if err := f.Is(fd); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func detach(_ context.Context, q detachment) (struct{}, error) {
	if err := mount.Unmount(q.Target, q.Phase); err != nil || q.Keep {
		return struct{}{}, err
	}
	return struct{}{}, mount.RemoveTarget(q.Target)
}

func mountSystem(ctx context.Context, q mountable) (struct{}, error) {
	return struct{}{}, mount.FileSystem(ctx, q.Mount, q.Target)
}

// note keeps a replica of a tier from being removed.
func note(_ context.Context, q noting) (struct{}, error) {
	spot, ok := replicadir.At(q.Root, q.Path)
	if !ok {
		return struct{}{}, fmt.Errorf("%w: %s is no replica that the mover has staged", mover.ErrUnsupported, mover.Printable(q.Path))
	}
	return struct{}{}, reached(spot.Note(q.Until))
}

// usage is what statfs(2) has of a path.
func usage(_ context.Context, path string) (volumestore.Stats, error) {
	var st unix.Statfs_t
	if err := reached(unix.Statfs(path, &st)); err != nil {
		return volumestore.Stats{}, &mover.Error{Op: "look at", Location: path, Err: err}
	}
	size := uint64(st.Bsize)
	s := volumestore.Stats{TotalBytes: lustre.Times(st.Blocks, size), LeftBytes: lustre.Times(st.Bavail, size), TotalFiles: lustre.Times(st.Files, 1), LeftFiles: lustre.Times(st.Ffree, 1)}
	s.UsedBytes, s.UsedFiles = s.TotalBytes-lustre.Times(st.Bfree, size), s.TotalFiles-s.LeftFiles
	return s, nil
}
