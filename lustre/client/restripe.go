package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

var _ lustre.Restriper = (*Client)(nil)

// Restripe is lustre.Restriper. The file stays the same: its FID, owner, times and links,
// and a reader that has it open reads on. Its data version is another one, so what is
// archived of it counts as old.
//
// The content is copied to a file that has no name. Both files then exchange their contents.
// Comparing data versions is not enough to do that: a write that a client has in its cache is
// in none, and would be lost. So a guard holds from before the size is asked for and the first
// byte is read until after the exchange:
//
//   - A lease, which other clients do not notice. It is taken of a file that is open nowhere
//     else, and given up in the same step in which contents are exchanged. The server refuses
//     that step when the file was opened since, and the opener finds it as it was.
//   - With Block a group lock: all other reads and writes wait for it, and clients first
//     write what is in their caches. It is released after the
//     exchange, so a write that waited goes to where the content is then. When this process
//     dies the kernel releases the lock. While another process holds a group lock, the wait is
//     in the kernel: ctx does not end it.
func (c *Client) Restripe(ctx context.Context, dir int, base string, to lustre.Layout, o lustre.RestripeOptions) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !isBase(base) {
		return fmt.Errorf("restripe %q: that is no name", base)
	}
	r := restripe{c: c, dir: dir, base: base, progress: o.Progress, file: -1, volatile: -1}
	var ok bool
	if r.k, ok = c.k.(contents); !ok {
		return fmt.Errorf("restripe %q: %w", base, errors.ErrUnsupported)
	}
	defer func() {
		if closed := r.close(); err == nil {
			err = closed
		}
		if err != nil {
			err = fmt.Errorf("restripe %q: %w", base, err)
		}
	}()
	if err := r.open(ctx); err != nil {
		return err
	}
	if o.Block {
		return r.blocking(ctx, to)
	}
	return r.yielding(ctx, to)
}

// restripe is one of them.
type restripe struct {
	c    *Client
	k    contents
	dir  int
	base string

	progress       func(done, size int64) // nil where the caller wants no progress
	file, volatile int                    // descriptors; -1 is none
	stat           unix.Stat_t            // once it is guarded, it holds until the exchange
	project        *uint32                // nil where there are none
}

// open opens the file. One that is released is not restored by that.
func (r *restripe) open(ctx context.Context) (err error) {
	r.file, err = r.k.openat(r.dir, r.base, OpenToAsk, 0)
	if err != nil {
		return err
	}
	if r.stat, err = r.k.fstat(r.file); err != nil {
		return err
	}
	if r.stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("it is no regular file")
	}
	if secret, err := r.k.encrypted(r.file); err != nil {
		return fmt.Errorf("ask whether it is encrypted: %w", err)
	} else if secret {
		return lustre.ErrEncrypted
	}
	if err := r.released(ctx); err != nil {
		return err
	}
	// It has to be asked before a lease is taken: it is answered by opening the file anew,
	// and any open breaks a lease.
	project, err := r.c.Project(ctx, r.file)
	switch {
	case err == nil:
		r.project = &project.ID
	case !errors.Is(err, errors.ErrUnsupported):
		return err
	}
	if err := r.reopen(); err != nil {
		return err
	}
	return r.released(ctx) // from now on it can not be: it is open to write
}

// released is ErrReleased when a read would wait for the archive.
func (r *restripe) released(ctx context.Context) error {
	state, err := r.c.HSM().State(ctx, r.file)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err == nil && state.NeedsRestore():
		return lustre.ErrReleased
	}
	return err
}

// reopen opens the same file to write it.
func (r *restripe) reopen() error {
	asked := r.file
	r.file = -1
	fd, err := r.k.openat(r.dir, r.base, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.Join(err, r.k.close(asked))
	}
	r.file = fd
	if err := r.k.close(asked); err != nil {
		return err
	}
	now, err := r.k.fstat(fd)
	if err == nil && (now.Ino != r.stat.Ino || now.Dev != r.stat.Dev) {
		return fmt.Errorf("another file has its name now: %w", lustre.ErrChanged)
	}
	return err
}

func (r *restripe) close() error {
	var errs []error
	for _, fd := range []int{r.volatile, r.file} {
		if fd >= 0 {
			errs = append(errs, r.k.close(fd))
		}
	}
	return errors.Join(errs...)
}

// yielding holds a lease, and gives it up in the same step in which the contents change
// places: the server refuses that when it was broken.
func (r *restripe) yielding(ctx context.Context, to lustre.Layout) error {
	lease, err := r.c.LeaseToWrite(ctx, r.file)
	if err != nil {
		return err
	}
	err = r.fill(ctx, to, func() error {
		held, err := lease.Held()
		if err == nil && !held {
			err = fmt.Errorf("somebody opened it: %w", lustre.ErrChanged)
		}
		return err
	})
	if err != nil {
		_, released := lease.Release()
		return errors.Join(err, released)
	}
	err = r.swap(uapi.Swap{Flags: uapi.SwapClose, Other: r.volatile})
	// EBUSY is what clients make of an answer that does not say that it was done.
	if errors.Is(err, unix.ESTALE) || errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("somebody opened it: %w: %w", lustre.ErrChanged, err)
	}
	return err
}

// blocking holds a group lock on the file; no other process knows of the copy. No data version is asked for while it does:
// the answer would wait for the lock.
func (r *restripe) blocking(ctx context.Context, to lustre.Layout) (err error) {
	source, err := r.c.LockGroup(ctx, r.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Unlock()) }()
	if err := r.fill(ctx, to, func() error { return nil }); err != nil {
		return err
	}
	// No group is named: with one, the exchange would lock both files itself, and be
	// refused by the lock that is held here. Flags that keep times are not known to all
	// versions: the times of the copy were set.
	return r.swap(uapi.Swap{Other: r.volatile})
}

func (r *restripe) swap(s uapi.Swap) error {
	if _, err := r.k.ioctl(r.file, uapi.IocSwapLayouts, uapi.EncodeSwap(s)); err != nil {
		return fmt.Errorf("exchange contents: %w", unsupported(err))
	}
	return nil
}

// fill makes a file that has no name, with the layout, and everything that is in the file.
// still is asked again and again whether it is worth to go on.
func (r *restripe) fill(ctx context.Context, to lustre.Layout, still func() error) (err error) {
	// A process may have written to the file, and closed it again, before it was guarded: the size and
	// times that count are those of now.
	if r.stat, err = r.k.fstat(r.file); err != nil {
		return err
	}
	if r.volatile, err = r.c.Create(ctx, r.dir, r.volatileName(), unix.O_RDWR|unix.O_CLOEXEC, 0o600, to); err != nil {
		return err
	}
	if err := r.exchangeable(); err != nil {
		return err
	}
	if err := r.k.chown(r.volatile, int(r.stat.Uid), int(r.stat.Gid)); err != nil {
		return fmt.Errorf("give the copy to its owner, who pays for it: %w", err)
	}
	if err := r.account(ctx); err != nil {
		return err
	}
	moved := func(done int64) {
		if r.progress != nil {
			r.progress(done, r.stat.Size)
		}
	}
	if err := copyContent(ctx, r.k, r.file, r.volatile, r.stat.Size, still, moved); err != nil {
		return err
	}
	// What the objects say of times is what the file has afterwards.
	if err := r.k.setTimes(r.volatile, r.stat.Atim, r.stat.Mtim); err != nil {
		return fmt.Errorf("set times: %w", err)
	}
	return nil
}

// exchangeable says before anything is copied what a server would refuse after it: with the
// layouts it exchanges what is on OSTs. What is on an MDT stays with the file there.
func (r *restripe) exchangeable() error {
	var onMDT [2]int64
	for i, fd := range []int{r.file, r.volatile} {
		l, err := r.c.readLayout(fd)
		if err != nil && !errors.Is(err, unix.ENODATA) {
			return fmt.Errorf("read its layout: %w", err)
		}
		onMDT[i] = onMDTBytes(&l)
	}
	if is, becomes := onMDT[0], onMDT[1]; becomes != 0 && becomes != is {
		return fmt.Errorf("%w: the first %d bytes are on its MDT, and would have to be %d: only a copy of the file can be so", lustre.ErrNotApplied, is, becomes)
	}
	return nil
}

// onMDTBytes is how much of a file is on its MDT: the first component, if any.
func onMDTBytes(l *lustre.Layout) int64 {
	if len(l.Components) > 0 && l.Components[0].Pattern&lustre.OnMDT != 0 {
		return l.Components[0].End
	}
	return 0
}

// account puts the copy under the project of the file, as far as the directory did not.
func (r *restripe) account(ctx context.Context) error {
	if r.project == nil {
		return nil
	}
	// Its own descriptor is as old as the file, and does not have to be opened anew.
	got, err := ask(ctx, r.k, r.volatile, uapi.IocGetFSXattr, make([]byte, uapi.SizeFSXattr), uapi.DecodeFSXattr)
	if err != nil || got.Project == *r.project {
		return err
	}
	_, err = r.k.ioctl(r.volatile, uapi.IocSetFSXattr, uapi.FSXattr{Project: *r.project}.Encode())
	if err != nil {
		return fmt.Errorf("put the copy under project %d: %w", *r.project, err)
	}
	return nil
}

// volatileName is a name that makes a file without one, on the MDT of the file when that
// is known: only files of one MDT can change contents. LUSTRE_VOLATILE_HDR of
// lustre_user.h, the index of the MDT, and something of its own.
func (r *restripe) volatileName() string {
	index := ""
	b := make([]byte, 4)
	if _, err := r.k.ioctl(r.file, uapi.IocMDTIndex, b); err == nil {
		index = fmt.Sprintf("%04X", uint32(b[0])|uint32(b[1])<<8|uint32(b[2])<<16|uint32(b[3])<<24)
	}
	return fmt.Sprintf("%s:%s:%08X", volatilePrefix, index, rand.Uint32())
}

const volatilePrefix = ".\x0c\x13\x14\x12:VOLATILE"
