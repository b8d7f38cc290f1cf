package fsclient

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"datamove.dev/csi/fsworker"
	"datamove.dev/csi/mount"
	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
	"datamove.dev/mover"
)

// Files asks hands: of each file system one for what is short, one for what takes longer the more volumes there are, one
// that mounts it, and one for what is taken away there.
type Files struct {
	Pool  *fsworker.Pool
	Limit time.Duration // of a call; 0 means 20 s
	Busy  time.Duration // how long processes can go on in a mount, before it is taken away under them; 0 means 5 s
}

// What is behind the name of a file system in lanes of its own: calls that hang in the file system keep no mount from being taken
// away, and none of them is killed beside a scan, or a mount, that takes long.
const (
	mounting   = " (mount)"
	unmounting = " (unmount)"
	scanning   = " (scan)"
)

// longLimits is how many limits of a call one has that looks at every volume, or mounts a file system.
const longLimits = 10

// call makes one. It is not given up with its caller.
func (f *Files) call(ctx context.Context, lane, method string, args, reply any) error {
	ctx, cancel := f.within(ctx, 1)
	defer cancel()
	return f.Pool.Call(ctx, lane, method, args, reply)
}

// scan makes one that looks at every volume. It has the time for many; that the file system answers at all is seen before, within
// the limit of any call.
func (f *Files) scan(ctx context.Context, s volumestore.Spec, method string, args, reply any) error {
	if _, err := f.Look(ctx, s); err != nil {
		return err
	}
	return f.long(ctx, s.Name+scanning, method, args, reply)
}

func (f *Files) long(ctx context.Context, lane, method string, args, reply any) error {
	ctx, cancel := f.within(ctx, longLimits)
	defer cancel()
	return f.Pool.Call(ctx, lane, method, args, reply)
}

// within is the time of some limits.
func (f *Files) within(ctx context.Context, limits time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), limits*cmp.Or(f.Limit, 20*time.Second))
}

// Hanging says how many processes hang in each file system.
func (f *Files) Hanging() map[string]int {
	all := map[string]int{}
	for lane, n := range f.Pool.Hanging() {
		for _, work := range []string{mounting, unmounting, scanning} {
			lane = strings.TrimSuffix(lane, work)
		}
		all[lane] += n
	}
	return all
}

// Make makes a volume or a snapshot; without a key in its ID, that of its name is taken. With
// Unfilled, its content has to be copied first; Filled is called then. An error may be a *volumestore.TooSmall.
func (f *Files) Make(ctx context.Context, s volumestore.Spec, w volumestore.Wish) (volumestore.Record, *volumestore.Unfilled, error) {
	var m made
	err := f.call(ctx, s.Name, "make", making{s, w, false}, &m)
	if err == nil && m.TooSmall != nil {
		err = m.TooSmall
	}
	return m.Record, m.Unfilled, err
}

// Filled makes a volume after its content was copied.
func (f *Files) Filled(ctx context.Context, s volumestore.Spec, w volumestore.Wish) (volumestore.Record, error) {
	var m made
	err := f.call(ctx, s.Name, "make", making{s, w, true}, &m)
	return m.Record, err
}

// Find returns what is known of a volume.
func (f *Files) Find(ctx context.Context, s volumestore.Spec, id volume.ID) (r volumestore.Record, err error) {
	return r, f.call(ctx, s.Name, "find", of{s, id, ""}, &r)
}

// Remove moves a volume to the trash.
func (f *Files) Remove(ctx context.Context, s volumestore.Spec, id volume.ID, by string) error {
	return f.call(ctx, s.Name, "remove", of{s, id, by}, nil)
}

// Begun is the mark of a volume that was begun, and is not made yet; "" is none.
func (f *Files) Begun(ctx context.Context, s volumestore.Spec, id volume.ID) (mark string, err error) {
	return mark, f.call(ctx, s.Name, "begun", of{s, id, ""}, &mark)
}

// Forsaken lists volumes into which something is copied, and which no call has asked for again.
func (f *Files) Forsaken(ctx context.Context, s volumestore.Spec, now time.Time) (all []volume.ID, err error) {
	return all, f.call(ctx, s.Name, "forsaken", reaping{Spec: s, Now: now}, &all)
}

// Trash lists what was removed and is not gone.
func (f *Files) Trash(ctx context.Context, s volumestore.Spec) (all []volumestore.Removed, err error) {
	return all, f.scan(ctx, s, "trash", s, &all)
}

// Unarchived lists what has to be copied elsewhere before it may go.
func (f *Files) Unarchived(ctx context.Context, s volumestore.Spec) (all []volumestore.Archival, err error) {
	return all, f.scan(ctx, s, "unarchived", s, &all)
}

// Archived says that something removed was copied.
func (f *Files) Archived(ctx context.Context, s volumestore.Spec, name string, now time.Time) error {
	return f.call(ctx, s.Name, "archived", archived{s, name, now}, nil)
}

// Restore brings back what was removed.
func (f *Files) Restore(ctx context.Context, s volumestore.Spec, id volume.ID) (r volumestore.Record, err error) {
	return r, f.call(ctx, s.Name, "restore", of{s, id, ""}, &r)
}

// Expand gives a volume more room.
func (f *Files) Expand(ctx context.Context, s volumestore.Spec, id volume.ID, bytes int64) (r volumestore.Record, err error) {
	return r, f.call(ctx, s.Name, "change", changing{s, id, bytes, nil}, &r)
}

// Modify gives a volume other parameters.
func (f *Files) Modify(ctx context.Context, s volumestore.Spec, id volume.ID, p volume.Parameters) (r volumestore.Record, err error) {
	return r, f.call(ctx, s.Name, "change", changing{s, id, 0, &p}, &r)
}

// Stats says how full a volume is.
func (f *Files) Stats(ctx context.Context, s volumestore.Spec, id volume.ID) (v volumestore.Stats, err error) {
	return v, f.call(ctx, s.Name, "stats", of{s, id, ""}, &v)
}

// List returns all volumes, or snapshots; and why some could not be read, by their keys.
func (f *Files) List(ctx context.Context, s volumestore.Spec, k volume.Kind) ([]volumestore.Record, map[string]string, error) {
	var l listed
	err := f.scan(ctx, s, "list", listing{s, k}, &l)
	return l.Records, l.Bad, err
}

// Space says how full a file system is, and what its volumes were promised: all their records are read.
func (f *Files) Space(ctx context.Context, s volumestore.Spec) (v volumestore.Space, err error) {
	return v, f.scan(ctx, s, "space", s, &v)
}

// Look says how full a file system is, and nothing of its volumes: every node may ask that often.
func (f *Files) Look(ctx context.Context, s volumestore.Spec) (v volumestore.Stats, err error) {
	return v, f.call(ctx, s.Name, "look", s, &v)
}

// Reap removes what is due in the trash, for half of the limit of a call, and says how much is left.
func (f *Files) Reap(ctx context.Context, s volumestore.Spec, now time.Time) (gone, left int, err error) {
	var r reaped
	err = f.call(ctx, s.Name, "reap", reaping{s, now, cmp.Or(f.Limit, 20*time.Second) / 2}, &r)
	return r.Gone, r.Left, err
}

// Attachment is a volume and where it has to be mounted.
type Attachment struct {
	Spec   volumestore.Spec
	ID     volume.ID
	Path   string // of a directory that the driver did not make, below the root of Spec
	Target string
	Flags  mount.Flags
	Group  *uint32 // that its directory is shared with; nil leaves it as it is
	Many   bool    // other pods may have it, with another group
	Staged string  // where a mount of it alone is; "" takes its directory in the file system
}

// Attach mounts a volume. An error may be a *mount.Otherwise.
func (f *Files) Attach(ctx context.Context, a Attachment) error {
	var r attached
	err := f.call(ctx, a.Spec.Name, "attach", attachment(a), &r)
	if err == nil && r.Otherwise != nil {
		return r.Otherwise
	}
	return err
}

// Mounts returns where a volume is mounted on this node: for pods, and those that others have made of its directory. Target and Flags
// are of no meaning.
func (f *Files) Mounts(ctx context.Context, a Attachment) (all []mount.Mount, err error) {
	a.Group = nil
	return all, f.call(ctx, a.Spec.Name, "mounts", attachment(a), &all)
}

// Stage mounts the directory of a volume alone.
func (f *Files) Stage(ctx context.Context, s volumestore.Spec, id volume.ID, m mount.Spec, label, target string) error {
	return f.call(ctx, s.Name, "stage", staging{s, id, m, label, target}, nil)
}

// Unstage takes away what is mounted at a target, in as many phases as that needs. The target stays.
func (f *Files) Unstage(ctx context.Context, lane, target string) error {
	return f.unmount(ctx, lane, detachment{Target: target, Keep: true})
}

// Detach takes away what is mounted at a target of a file system, in as many phases as that needs, and
// removes the target.
func (f *Files) Detach(ctx context.Context, lane, target string) error {
	return f.unmount(ctx, lane, detachment{Target: target})
}

func (f *Files) unmount(ctx context.Context, lane string, d detachment) error {
	var errs []error
	for _, phase := range mount.Phases {
		d.Phase = phase
		err := f.unmounted(ctx, lane+unmounting, d)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// busyPause is between two looks if a process works in a mount still.
const busyPause = 100 * time.Millisecond

// unmounted is one phase. What is in use is tried again for a while before the next one.
func (f *Files) unmounted(ctx context.Context, lane string, d detachment) error {
	for limit := time.Now().Add(cmp.Or(f.Busy, 5*time.Second)); ; time.Sleep(busyPause) {
		err := f.detach(ctx, lane, d)
		if d.Phase != mount.Plain || !errors.Is(err, mover.ErrHeld) || time.Now().After(limit) {
			return err
		}
	}
}

// detach is one try. The last phase asks no server, and is made whatever hangs: what hangs in it has been taken away, and no
// call for the same mount comes to it again.
func (f *Files) detach(ctx context.Context, lane string, d detachment) error {
	ctx, cancel := f.within(ctx, 1)
	defer cancel()
	if d.Phase == mount.Detach {
		return f.Pool.Alone(ctx, lane, "detach", d, nil)
	}
	return f.Pool.Call(ctx, lane, "detach", d, nil)
}

// Note keeps what is at a path of a tier from being removed until a time; the zero time ends that.
func (f *Files) Note(ctx context.Context, lane, root, path string, until time.Time) error {
	return f.call(ctx, lane, "note", noting{root, path, until}, nil)
}

// Usage says how full the file system of a path is.
func (f *Files) Usage(ctx context.Context, lane, path string) (v volumestore.Stats, err error) {
	return v, f.call(ctx, lane, "usage", path, &v)
}

// Mount mounts a file system of the configuration, if it is not mounted. A client that looks for its servers may take long.
func (f *Files) Mount(ctx context.Context, lane string, m mount.Spec, target string) error {
	return f.long(ctx, lane+mounting, "mount", mountable{m, target}, nil)
}
