package client

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// States can be set and cleared by the owner of a file, and are told to anybody.
func TestRealHSMStates(t *testing.T) {
	c, dir := realLustre(t)
	h, ctx := c.HSM(), t.Context()
	path, _ := realFile(t, dir, "data", 10)
	fd := realFD(t, path, OpenToAsk)
	for _, step := range []struct{ set, clear, want lustre.Archived }{
		{0, 0, 0}, {lustre.NoRelease, 0, lustre.NoRelease}, {lustre.NoArchive, lustre.NoRelease, lustre.NoArchive}, {0, lustre.NoArchive, 0},
	} {
		if step.set|step.clear != 0 {
			if err := h.SetState(ctx, fd, step.set, step.clear); err != nil {
				t.Errorf("set %#x, clear %#x: %v", step.set, step.clear, err)
			}
		}
		if s, err := h.State(ctx, fd); err != nil || s.Archived != step.want || s.Doing != lustre.NoAction {
			t.Errorf("set %#x, clear %#x: %+v, %v; want %#x", step.set, step.clear, s, err, step.want)
		}
	}
	id, err1 := h.ID(ctx, fd)
	if fid, err2 := c.FID(ctx, fd); errors.Join(err1, err2) != nil || id != fid {
		t.Errorf("%v, %v; its FID is %v, %v", id, err1, fid, err2)
	}
}

func TestRealHSMRefusals(t *testing.T) {
	c, dir := realLustre(t)
	h, ctx := c.HSM(), t.Context()
	path, _ := realFile(t, dir, "data", 10)
	fd, at := realFDToClose(t, path, OpenToAsk), realFD(t, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	id, err := h.ID(ctx, fd)
	must.Do(t, errors.Join(err, unix.Close(fd)))
	if err := h.Release(ctx, at, "data", 0); !errors.Is(err, errNotReleasable) {
		t.Errorf("release of what has no copy: %v", err)
	}
	if err := h.Request(ctx, at, lustre.Release, 0, []lustre.FID{id}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a request to release what has no copy: %v", err)
	}
	if os.Geteuid() != 0 {
		err := h.Request(ctx, at, lustre.Archive, ArchiveNumber(t), []lustre.FID{id})
		if err != nil && !errors.Is(err, fs.ErrPermission) && !noHSM(err) {
			t.Errorf("a user asks to archive: %v", err)
		}
		if err == nil { // the MDS lets users
			t.Log("a user takes it back: ", h.Request(ctx, at, lustre.Cancel, ArchiveNumber(t), []lustre.FID{id}))
		}
	}
}

// noHSM reports whether an MDS has its coordinator turned off.
func noHSM(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENXIO) }

// What is asked for is told as what is done, until a copytool has done it. Nobody serves the
// archive, so nobody does it, and it is taken back.
func TestRealHSMArchive(t *testing.T) {
	c, dir := realLustre(t)
	needsRoot(t)
	h, ctx, archive := c.HSM(), t.Context(), ArchiveNumber(t)
	at := realFD(t, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	path, data := realFile(t, dir, "data", 100_000)
	fd := realFD(t, path, OpenToAsk)
	id, err := h.ID(ctx, fd)
	must.Do(t, err)
	gone := lustre.FID{Seq: id.Seq, OID: 0xfffffffe}
	err = h.Request(ctx, at, lustre.Archive, archive, []lustre.FID{id, gone})
	if noHSM(err) {
		t.Skip("needs HSM on the MDS: lctl set_param mdt.*.hsm_control=enabled: ", err)
	}
	t.Log("a request for a file, and for one that is gone: ", err)
	becomes := func(done func(s lustre.HSMState) bool) (s lustre.HSMState, ok bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if s, err = h.State(ctx, fd); err != nil {
				t.Fatal(err)
			}
			if done(s) {
				return s, true
			}
		}
		return s, false
	}
	s, ok := becomes(func(s lustre.HSMState) bool { return s.Doing == lustre.Archive || s.Archived.Has(lustre.WholeCopy) })
	if !ok {
		t.Errorf("after an archive was asked for: %+v", s)
	}
	if s.Doing == lustre.Archive {
		err := h.Request(ctx, at, lustre.Cancel, archive, []lustre.FID{id})
		if s, ok = becomes(func(s lustre.HSMState) bool { return s.Doing == lustre.NoAction }); !ok {
			t.Logf("note: a minute after it was taken back: %+v", s) // the coordinator does it in its own time
		}
		if err != nil && !s.Archived.Has(lustre.WholeCopy) { // else it was done first
			t.Errorf("cancel: %v", err)
		}
	}
	if s.Archived.Has(lustre.WholeCopy) {
		t.Logf("note: archive %d is served: its copy is removed; LUSTRE_ARCHIVE names one that is not", archive)
		must.Tell(t, h.Request(ctx, at, lustre.Remove, archive, []lustre.FID{id}))
		if s, ok = becomes(func(s lustre.HSMState) bool { return !s.Archived.Has(lustre.HasCopy) }); !ok {
			t.Errorf("after the removal of the copy was asked for: %+v", s)
		}
	}
	if got := mustRead(t, path); !bytes.Equal(got, data) {
		t.Errorf("%d bytes; want its %d", len(got), len(data))
	}
}
