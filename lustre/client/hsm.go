package client

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// OpenToAsk are the flags with which a file is opened to ask what there is to know of it:
// a released file is not restored by that. Its bytes can not be read so, nor should they
// be. Without a copytool that serves the archive, a reader waits for ever and can not be
// killed.
const OpenToAsk = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_ASYNC | unix.O_CLOEXEC | unix.O_NOFOLLOW

// HSM asks Lustre's HSM, and sends it requests. It can be used by several goroutines.
type HSM struct{ k kernel }

var _ lustre.HSM = HSM{}

// HSM returns what answers for the archive of files.
func (c *Client) HSM() HSM { return HSM{c.k} }

// State returns what is known of an open file and its copy, and what is done with it. A
// file that HSM has never heard of has the zero state.
func (h HSM) State(ctx context.Context, fd int) (lustre.HSMState, error) {
	s, err := ask(ctx, h.k, fd, uapi.IocHSMState, make([]byte, 32), uapi.DecodeHSMState)
	if err != nil {
		return s, fmt.Errorf("state of HSM: %w", err)
	}
	// What is done is not in the state, though there is room for it: a server leaves it
	// empty. It is a second question. Its answer changes nothing of the first one's.
	if a, err := h.Doing(ctx, fd); err == nil {
		s.Doing, s.Running = a.Action, a.Running
	}
	return s, ctx.Err()
}

// Doing is what is done with a file at the moment.
type Doing struct {
	Action      lustre.Action // NoAction
	Running     bool          // a copytool has it; else it waits for one
	Off, Length uint64        // bytes
}

// Doing returns what is done with an open file.
func (h HSM) Doing(ctx context.Context, fd int) (Doing, error) {
	a, err := ask(ctx, h.k, fd, uapi.IocHSMAction, make([]byte, 24), uapi.DecodeHSMAction)
	if err != nil {
		return Doing{}, fmt.Errorf("action of HSM: %w", err)
	}
	return Doing{a.Action, a.Running, a.Extent.Off, a.Extent.Length}, nil
}

// ID returns the FID of an open file.
func (h HSM) ID(ctx context.Context, fd int) (lustre.FID, error) { return fileID(ctx, h.k, fd) }

// Settable are the states that the owner of a file can set and clear. The others follow
// from what HSM does, and only root can set them by hand.
const Settable = lustre.Dirty | lustre.NoRelease | lustre.NoArchive

// SetState sets and clears states of an open file.
func (h HSM) SetState(ctx context.Context, fd int, set, clear lustre.Archived) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := h.k.ioctl(fd, uapi.IocHSMSetState, uapi.EncodeHSMSet(set, clear, 0))
	if errors.Is(err, unix.EPERM) && (set|clear)&^Settable != 0 {
		return fmt.Errorf("set states of HSM: others than dirty, norelease and noarchive are for root: %w", err)
	}
	if err != nil {
		return fmt.Errorf("set states of HSM: %w", unsupported(err))
	}
	return nil
}

// Request asks for an action on files. It is begun, not done, when Request returns: look
// at State. Files of which a server says that they are not there do not keep others from
// being asked for; their errors are joined, and name them.
//
// Files are released one by one. The server releases a file that has a whole copy in the archive,
// did not change since, and is open nowhere, not even here. It compares the data version with that
// of the copy. A caller with a copy of its own, in another location, uses [HSM.Release].
func (h HSM) Request(ctx context.Context, root int, a lustre.Action, archive uint32, files []lustre.FID) error {
	batch := uapi.MaxRequest
	if a == lustre.Release {
		batch = 1 // the client does that by itself, and ends with the first that it can not
	}
	var errs []error
	for len(files) > 0 {
		n := min(batch, len(files))
		if err := h.batch(ctx, root, a, archive, files[:n]); err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil || !h.ofOneFile(err) {
				break // the others would hear the same
			}
		}
		files = files[n:]
	}
	return errors.Join(errs...)
}

// batch sends one request. When it was refused for what one of its files is, each is asked
// for by itself.
func (h HSM) batch(ctx context.Context, root int, a lustre.Action, archive uint32, files []lustre.FID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := h.k.ioctl(root, uapi.IocHSMRequest, uapi.EncodeHSMRequest(uapi.WholeFiles(a, archive, files)))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENODATA) && a == lustre.Restore:
		return nil // it is begun, and readers are told so instead of waiting: hsm.policy=NonBlockingRestore
	case len(files) == 1 || !h.ofOneFile(err):
		return h.requestError(a, files, err)
	}
	var errs []error
	for i := range files {
		if err := h.batch(ctx, root, a, archive, files[i:i+1]); err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil || !h.ofOneFile(err) {
				break
			}
		}
	}
	return errors.Join(errs...)
}

// ofOneFile reports whether an error can be that of one file among others. A server returns EPERM to a
// caller without the right to ask, and for the first file in a state that does not allow
// the action (mdt_hsm_is_action_compat of lustre/mdt/mdt_coordinator.c). Root may ask.
func (h HSM) ofOneFile(err error) bool {
	for _, one := range []error{unix.ENOENT, unix.ESTALE, unix.EINVAL, unix.EBUSY, errNotReleasable, errUnfit} {
		if errors.Is(err, one) {
			return true
		}
	}
	return errors.Is(err, unix.EPERM) && h.k.privileged()
}

// errUnfit is of a file, too: unfit says what can be the matter.
var errUnfit = errors.New("its state does not allow it")

var unfit = map[lustre.Action]string{
	lustre.Archive: "it has noarchive set, or a copy in another archive",
	lustre.Restore: "it was written since, its copy is lost, or was never whole",
	lustre.Remove:  "its content is in the archive only: restore it first",
}

// errNotReleasable is of a file, other than the EPERM of a caller without the right to ask.
var errNotReleasable = errors.New("it is not archived as it is now, or has norelease set")

// requestError says what a refusal means.
func (h HSM) requestError(a lustre.Action, files []lustre.FID, err error) error {
	what := fmt.Sprintf("%v %v", a, files[0])
	if len(files) > 1 {
		what += fmt.Sprintf(" and %d more", len(files)-1)
	}
	switch {
	case errors.Is(err, unix.EPERM) && a == lustre.Release:
		return fmt.Errorf("%s: %w (or it is another's): %w", what, errNotReleasable, err)
	case errors.Is(err, unix.EPERM) && h.k.privileged():
		return fmt.Errorf("%s: %w: %s: %w", what, errUnfit, unfit[a], err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s: only root may, until the MDS allows owners: lctl set_param mdt.*.hsm.user_request_mask=%v (and group_ and other_ for others): %w", what, a, err)
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: it is open somewhere: %w", what, err)
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENXIO):
		return fmt.Errorf("%s: HSM is not enabled on the MDS: lctl set_param mdt.*.hsm_control=enabled: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, unsupported(err))
}

// Release gives the space of the file base in an open directory back when its content still
// is of a version: that of [Client.DataVersion] when a copy of it was made and verified. It
// is lustre.ErrChanged when it is not. A write between the look and the request is noticed by the
// server, which releases only what is archived as it is.
func (h HSM) Release(ctx context.Context, dir int, base string, version uint64) error {
	fd, err := h.k.openat(dir, base, OpenToAsk, 0)
	if err != nil {
		return fmt.Errorf("release %q: %w", base, err)
	}
	id, archive, err := h.releasable(ctx, fd, version)
	// What is open, here or elsewhere, is not released.
	if err = errors.Join(err, h.k.close(fd)); err != nil {
		return fmt.Errorf("release %q: %w", base, err)
	}
	if id.IsZero() {
		return nil // it is released already
	}
	return h.Request(ctx, dir, lustre.Release, archive, []lustre.FID{id})
}

// releasable is which file a descriptor is of, and of which archive, when it may be
// released; no FID of a file that is.
func (h HSM) releasable(ctx context.Context, fd int, version uint64) (id lustre.FID, archive uint32, err error) {
	s, err := h.State(ctx, fd)
	switch {
	case err != nil || s.NeedsRestore():
		return id, 0, err
	case !s.Archived.Has(lustre.WholeCopy) || s.Archived&(lustre.Dirty|lustre.NoRelease|lustre.Lost) != 0:
		return id, 0, fmt.Errorf("its states are %#x: %w", uint32(s.Archived), errNotReleasable)
	}
	now, err := dataVersion(ctx, h.k, fd, uapi.FlushAll)
	if err == nil && now != version {
		err = fmt.Errorf("content of version %d, and not %d: %w", now, version, lustre.ErrChanged)
	}
	if err != nil {
		return id, 0, err
	}
	id, err = h.ID(ctx, fd)
	return id, s.ArchiveID, err
}

// ask is a request with a struct as its answer.
func ask[T any](ctx context.Context, k kernel, fd int, request uint, arg []byte, decode func([]byte) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if _, err := k.ioctl(fd, request, arg); err != nil {
		return none, unsupported(err)
	}
	return decode(arg)
}
