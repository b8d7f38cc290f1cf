package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

// asked opens a file as it is opened for questions.
func asked(t *testing.T, f *fakeFiles, name string) int {
	t.Helper()
	fd := f.openFile(t, name, OpenToAsk)
	t.Cleanup(func() { _ = f.close(fd) })
	return fd
}

func TestHSMLifeOfAFile(t *testing.T) {
	t.Parallel()
	f := newFakeFiles()
	c := newFilesClient(t, f)
	h, ctx := c.HSM(), t.Context()
	f.file(t, "data", "the content")
	quietly := func(ask func(fd int)) { // nothing that is open is released
		fd := f.openFile(t, "data", OpenToAsk)
		ask(fd)
		must.Tell(t, f.close(fd))
	}
	var id lustre.FID
	quietly(func(fd int) {
		var err error
		if id, err = h.ID(ctx, fd); err != nil {
			t.Fatal(err)
		}
	})
	state := func(want lustre.HSMState) {
		t.Helper()
		fd := f.openFile(t, "data", OpenToAsk)
		defer func() { _ = f.close(fd) }()
		if s, err := h.State(ctx, fd); err != nil || s != want {
			t.Errorf("state %+v, %v; want %+v", s, err, want)
		}
	}
	request := func(a lustre.Action) {
		t.Helper()
		must.Tell(t, h.Request(ctx, c.root, a, 0, []lustre.FID{id}))
	}
	state(lustre.HSMState{})
	request(lustre.Archive) // nobody serves the archive yet
	state(lustre.HSMState{Doing: lustre.Archive, ArchiveID: 1})
	f.agent = true
	request(lustre.Archive)
	whole := lustre.HasCopy | lustre.WholeCopy
	state(lustre.HSMState{Archived: whole, ArchiveID: 1})
	set := func(set, clear lustre.Archived) {
		quietly(func(fd int) {
			must.Tell(t, h.SetState(ctx, fd, set, clear))
		})
	}
	set(lustre.NoRelease, 0)
	if err := h.Request(ctx, c.root, lustre.Release, 0, []lustre.FID{id}); !errors.Is(err, errNotReleasable) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("release with norelease: %v", err)
	}
	set(0, lustre.NoRelease)
	quietly(func(int) {
		if err := h.Request(ctx, c.root, lustre.Release, 0, []lustre.FID{id}); !errors.Is(err, unix.EBUSY) {
			t.Errorf("release of what is open: %v", err)
		}
	})
	request(lustre.Release)
	state(lustre.HSMState{Archived: whole | lustre.ReleasedState, ArchiveID: 1})
	request(lustre.Restore)
	state(lustre.HSMState{Archived: whole, ArchiveID: 1})
}

func TestHSMRequestsInBatches(t *testing.T) {
	t.Parallel()
	f := newFakeFiles()
	c := newFilesClient(t, f)
	h, ctx := c.HSM(), t.Context()
	f.agent = true
	var ids []lustre.FID
	for i := range 2*uapi.MaxRequest + 20 {
		ids = append(ids, f.file(t, fmt.Sprint("f", i), "x").fid)
	}
	requests := 0
	serve := f.ioctls[uapi.IocHSMRequest]
	f.ioctls[uapi.IocHSMRequest] = func(h *handle, arg []byte, at []pointer) (int, error) {
		requests++
		return serve(h, arg, at)
	}
	if err := h.Request(ctx, c.root, lustre.Archive, 2, ids); err != nil || requests != 3 {
		t.Errorf("archive %d files: %d requests, %v; want 3", len(ids), requests, err)
	}

	// One of the files is gone: the others are asked for by themselves.
	gone := lustre.FID{Seq: 0xdead, OID: 1}
	ids[60] = gone
	err := h.Request(ctx, c.root, lustre.Release, 2, ids[:60])
	must.Tell(t, err)
	requests = 0
	err = h.Request(ctx, c.root, lustre.Restore, 2, ids)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), gone.String()) || strings.Count(err.Error(), "restore") != 1 {
		t.Errorf("a file that is gone: %v; want it named", err)
	}
	if want := 3 + uapi.MaxRequest; requests != want {
		t.Errorf("%d requests; want %d: each of the second batch by itself", requests, want)
	}
	for n, s := range f.of {
		if s.hsm.NeedsRestore() {
			t.Errorf("%v was not restored", n.fid)
		}
	}

	// Releases end with the first that can not be: they are asked for one by one.
	f.state(f.byFID(ids[3])).hsm.Archived |= lustre.Dirty
	requests = 0
	err = h.Request(ctx, c.root, lustre.Release, 0, ids[:6])
	if !errors.Is(err, errNotReleasable) || !strings.Contains(err.Error(), ids[3].String()) || requests != 6 {
		t.Errorf("six releases, one of a dirty file: %d requests, %v", requests, err)
	}
	if s := f.state(f.byFID(ids[5])).hsm; !s.NeedsRestore() {
		t.Error("a file after the dirty one was not released")
	}
}

// TestHSMUnfit: a file whose state does not allow an action does not keep others from theirs, and is not told as a caller who may not ask.
func TestHSMUnfit(t *testing.T) {
	t.Parallel()
	const whole = lustre.HasCopy | lustre.WholeCopy
	for _, row := range []struct {
		action  lustre.Action
		fit     lustre.Archived // of the others
		unfit   lustre.Archived
		archive uint32 // of the request; files are of archive 1
	}{
		{lustre.Archive, 0, lustre.NoArchive, 0},
		{lustre.Archive, 0, whole | lustre.Dirty, 2},
		{lustre.Restore, whole | lustre.ReleasedState, whole | lustre.ReleasedState | lustre.Lost, 0},
		{lustre.Restore, whole | lustre.ReleasedState, whole | lustre.Dirty, 0},
		{lustre.Remove, whole, whole | lustre.ReleasedState, 0},
	} {
		f := newFakeFiles()
		c := newFilesClient(t, f)
		var ids []lustre.FID
		for i := range 3 {
			n := f.file(t, fmt.Sprint("f", i), "x")
			ids = append(ids, n.fid)
			if f.state(n).hsm = (lustre.HSMState{Archived: row.fit, ArchiveID: 1}); i == 1 {
				f.state(n).hsm.Archived = row.unfit
			}
		}
		err := c.HSM().Request(t.Context(), c.root, row.action, row.archive, ids)
		if !errors.Is(err, errUnfit) || !strings.Contains(err.Error(), ids[1].String()) || strings.Contains(err.Error(), ids[2].String()) || strings.Contains(err.Error(), "user_request_mask") {
			t.Errorf("%v of %#x: %v", row.action, row.unfit, err)
		}
		for i, id := range ids {
			if doing := f.state(f.byFID(id)).hsm.Doing; (doing == row.action) != (i != 1) {
				t.Errorf("%v of %#x: file %d: %v is done", row.action, row.unfit, i, doing)
			}
		}
	}
}

func TestHSMRefusals(t *testing.T) {
	t.Parallel()
	f := newFakeFiles()
	c := newFilesClient(t, f)
	h, ctx := c.HSM(), t.Context()
	id := f.file(t, "data", "x").fid
	ids := []lustre.FID{id, f.file(t, "other", "x").fid}
	fd := asked(t, f, "data")
	request := fmt.Sprintf("ioctl %#x", uapi.IocHSMRequest)

	f.user = true
	if err := h.Request(ctx, c.root, lustre.Archive, 0, ids); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "user_request_mask=archive") {
		t.Errorf("as a user: %v; want what to allow", err)
	}
	if err := h.SetState(ctx, fd, lustre.Lost, 0); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "for root") {
		t.Errorf("a user sets lost: %v", err)
	}
	if err := h.SetState(ctx, fd, lustre.NoArchive, 0); err != nil {
		t.Errorf("a user sets noarchive: %v", err)
	}
	if s, err := h.State(ctx, fd); err != nil || s.Archived != lustre.NoArchive {
		t.Errorf("a user asks: %+v, %v", s, err)
	}
	f.user = false
	for errno, want := range map[error]string{unix.EAGAIN: "hsm_control=enabled", unix.EBUSY: "open somewhere", unix.EIO: "input/output"} {
		f.fails[request] = errno
		if err := h.Request(ctx, c.root, lustre.Remove, 0, ids[:1]); !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want it to say %q", errno, err, want)
		}
	}
	f.fails[request] = unix.ENODATA // what a site says that does not let readers wait
	if err := h.Request(ctx, c.root, lustre.Restore, 0, ids); err != nil {
		t.Errorf("a restore that nobody waits for: %v", err)
	}
	if err := h.Request(ctx, c.root, lustre.Archive, 0, ids); !errors.Is(err, unix.ENODATA) {
		t.Errorf("no data for an archive: %v", err)
	}
	f.fails[request] = unix.ENOTTY
	if err := h.Request(ctx, c.root, lustre.Archive, 0, ids); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("no Lustre: %v", err)
	}
	delete(f.fails, request)
	// A state is known when what is done is not.
	f.fails[fmt.Sprintf("ioctl %#x", uapi.IocHSMAction)] = unix.EAGAIN
	if s, err := h.State(ctx, fd); err != nil || s.Archived != lustre.NoArchive {
		t.Errorf("with no answer of what is done: %+v, %v", s, err)
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	if err := h.Request(stopped, c.root, lustre.Archive, 0, ids); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// What a client has written and keeps to itself is a change, too.
func TestReleaseOfAVersion(t *testing.T) {
	t.Parallel()
	f := newFakeFiles()
	c := newFilesClient(t, f)
	h, ctx := c.HSM(), t.Context()
	f.agent = true
	n := f.file(t, "data", "the content")
	version := func() uint64 {
		t.Helper()
		fd := f.openFile(t, "data", OpenToAsk)
		v, err := c.DataVersion(ctx, fd)
		must.Do(t, errors.Join(err, f.close(fd)))
		return v
	}
	archive := func() {
		t.Helper()
		must.Do(t, h.Request(ctx, c.root, lustre.Archive, 0, []lustre.FID{n.fid}))
	}
	if err := h.Release(ctx, c.root, "data", version()); !errors.Is(err, errNotReleasable) {
		t.Errorf("release of what has no copy: %v", err)
	}
	archive()
	copied := version()
	f.cache(n, 4, "CONTENT")
	if err := h.Release(ctx, c.root, "data", copied); !errors.Is(err, lustre.ErrChanged) || f.state(n).hsm.NeedsRestore() {
		t.Errorf("release after a write: %v; want %v", err, lustre.ErrChanged)
	}
	// The caller's copy is of the new content, that of the archive is not.
	if err := h.Release(ctx, c.root, "data", version()); !errors.Is(err, errNotReleasable) {
		t.Errorf("release of what the archive has not: %v", err)
	}
	f.closed(n)
	archive()
	copied = version()
	for range 2 { // the second time it is released already
		if err := h.Release(ctx, c.root, "data", copied); err != nil || !f.state(n).hsm.NeedsRestore() {
			t.Errorf("release: %v, %+v", err, f.state(n).hsm)
		}
	}
	if err := h.Release(ctx, c.root, "nothing", copied); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("release of nothing: %v", err)
	}
}

// Other file systems do not have the questions.
func TestNoLustre(t *testing.T) {
	t.Parallel()
	file := must.Get(os.CreateTemp(t.TempDir(), ""))(t)
	defer file.Close()
	fd, ctx := int(file.Fd()), t.Context()
	c := &Client{k: linux{}, root: fd}
	_, state := c.HSM().State(ctx, fd)
	_, id := c.FID(ctx, fd)
	_, version := c.DataVersion(ctx, fd)
	_, lease := c.LeaseToWrite(ctx, fd)
	_, group := c.LockGroup(ctx, fd)
	_, paths := c.Paths(ctx, lustre.FID{Seq: 1})
	_, links := c.Links(ctx, fd)
	for name, err := range map[string]error{
		"state": state, "FID": id, "version": version, "lease": lease, "group": group, "paths": paths, "links": links,
		"request": c.HSM().Request(ctx, fd, lustre.Archive, 0, []lustre.FID{{Seq: 1}}), "set": c.HSM().SetState(ctx, fd, lustre.NoArchive, 0),
		"advice": c.WillRead(ctx, fd, 0, 0),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v; want %v", name, err, errors.ErrUnsupported)
		}
	}
	// Nobody is waited for, not even the writer of a pipe, and nobody is followed.
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, unix.Mkfifo(pipe, 0o600))
	if fd, err := c.k.openat(unix.AT_FDCWD, pipe, OpenToAsk, 0); err != nil {
		t.Error(err)
	} else if err := c.k.close(fd); err != nil {
		t.Error(err)
	}
	must.Do(t, os.Symlink(pipe, pipe+"2"))
	if _, err := c.k.openat(unix.AT_FDCWD, pipe+"2", OpenToAsk, 0); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a symbolic link: %v", err)
	}
}
