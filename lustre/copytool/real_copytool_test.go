package copytool_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/client"
	"datamove.dev/lustre/copytool"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

// What is called TestReal… runs on a real Lustre with HSM, as root: LUSTRE_MOUNT=/mnt/lustre
// ./copytool.test -test.v -test.run Real (make lustre-test builds it). It serves the archive
// LUSTRE_ARCHIVE, 7 if that is not said, which nobody else may serve; the copies are in a
// temporary folder of this machine. The MDS has to have hsm_control=enabled.

// real is a file on a Lustre whose archive is served here.
type real struct {
	t       *testing.T
	client  *client.Client
	tool    *copytool.Tool
	stop    func()
	folder  *folder
	archive uint32
	ended   chan copytool.Ended
	dir     string
	root    int
	path    string
	id      lustre.FID
}

// mounted is a client of the Lustre, and where that is mounted.
func mounted(t *testing.T) (*client.Client, string) {
	t.Helper()
	mount := os.Getenv("LUSTRE_MOUNT")
	if mount == "" {
		t.Skip("elsewhere: make lustre-test: needs a mounted Lustre: LUSTRE_MOUNT=/mnt/lustre")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	c := must.Get(client.Open(mount))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c, mount
}

// onLustre makes a file, on one MDT or on any.
func onLustre(t *testing.T, mdt int, during func(context.Context, *copytool.Copy) error, content []byte) *real {
	t.Helper()
	c, mount := mounted(t)
	r := &real{t: t, client: c, folder: &folder{dir: t.TempDir(), during: during}, archive: 7, ended: make(chan copytool.Ended, 100)}
	var err error
	if text := os.Getenv("LUSTRE_ARCHIVE"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n == 0 {
			t.Fatalf("LUSTRE_ARCHIVE=%s is not the number of an archive", text)
		}
		r.archive = uint32(n)
	}
	if r.dir, err = os.MkdirTemp(mount, "datamove-hsm-"); err != nil {
		t.Fatal(err)
	}
	made := r.dir
	t.Cleanup(func() { _ = os.RemoveAll(made) })
	if mdt != lustre.AnyTarget {
		r.onMDT(mdt)
	}
	r.serve(mount)
	r.path = filepath.Join(r.dir, "file")
	r.write(content)
	if r.root, err = unix.Open(r.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(r.root) })
	r.id = asked(r, r.client.HSM().ID)
	return r
}

// onMDT has the file made in a directory of an MDT.
func (r *real) onMDT(mdt int) {
	r.t.Helper()
	fd, err := unix.Open(r.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must.Do(r.t, err)
	err = r.client.MakeDir(r.t.Context(), fd, "there", 0o755, lustre.Striping{Count: 1, FirstMDT: mdt})
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		r.t.Fatal(err)
	}
	r.dir = filepath.Join(r.dir, "there")
}

func (r *real) serve(mount string) {
	r.t.Helper()
	r.begin(copytool.Options{Mount: mount})
}

// begin serves until stop, or the end of the test.
func (r *real) begin(o copytool.Options) {
	r.t.Helper()
	o.Archives, o.Archive, o.Progress, o.Told = []uint32{r.archive}, r.folder, 100*time.Millisecond, func(e copytool.Ended) { r.ended <- e }
	r.tool = copytool.New(o)
	ctx, cancel := context.WithCancel(r.t.Context())
	over := make(chan error, 1)
	go func() { over <- r.tool.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		must.Tell(r.t, <-over)
	})
	r.t.Cleanup(r.stop)
	select {
	case err := <-over:
		over <- nil
		if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EAGAIN) {
			r.t.Skip("needs HSM on the MDS: ", err)
		}
		if errors.Is(err, unix.EEXIST) {
			r.t.Skip("needs a mount without another copytool: ", err)
		}
		r.t.Fatal(err)
	case <-time.After(time.Second): // it is registered, or will say why not
	}
}

// asked is the answer to a question about the file. It is open for that long only: what is
// open anywhere is not released. Nothing is restored by it.
func asked[T any](r *real, question func(context.Context, int) (T, error)) T {
	r.t.Helper()
	fd, err := unix.Open(r.path, client.OpenToAsk|unix.O_CLOEXEC, 0)
	if err != nil {
		r.t.Fatal(r.path, err)
	}
	answer, err := question(r.t.Context(), fd)
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		r.t.Fatal(err)
	}
	return answer
}

func (r *real) archived() lustre.Archived {
	r.t.Helper()
	return asked(r, r.client.HSM().State).Archived
}

func (r *real) write(content []byte) {
	r.t.Helper()
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	must.Do(r.t, err)
}

// ask requests an action and waits for its end here.
func (r *real) ask(a lustre.Action) copytool.Ended {
	r.t.Helper()
	r.request(a)
	return r.wait()
}

func (r *real) request(a lustre.Action) {
	r.t.Helper()
	if err := r.client.HSM().Request(r.t.Context(), r.root, a, r.archive, []lustre.FID{r.id}); err != nil {
		if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EAGAIN) {
			r.t.Skip("needs HSM on the MDS: lctl set_param mdt.*.hsm_control=enabled: ", err)
		}
		r.t.Fatalf("%v: %v", a, err)
	}
}

const notHandedOut = "nothing was handed out in two minutes: is mdt.*.hsm_control enabled on each MDT, and nothing else in its queue (mdt.*.hsm.actions)?"

// handedOut waits until an action has come.
func handedOut(t *testing.T, begun chan struct{}) {
	t.Helper()
	select {
	case <-begun:
	case <-time.After(2 * time.Minute):
		t.Fatal(notHandedOut)
	}
}

func (r *real) wait() copytool.Ended {
	r.t.Helper()
	select {
	case e := <-r.ended:
		return e
	case <-time.After(2 * time.Minute):
		r.t.Fatal(notHandedOut)
		return copytool.Ended{}
	}
}

// state waits until the file is in one.
func (r *real) state(has, hasNot lustre.Archived) {
	r.t.Helper()
	var s lustre.Archived
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if s = r.archived(); s.Has(has) && s&hasNot == 0 {
			return
		}
	}
	r.t.Fatalf("it is %#x; want %#x and not %#x", s, has, hasNot)
}

// reads reads the file, which may have to wait for its content.
func (r *real) reads(want []byte) {
	r.t.Helper()
	got := make(chan []byte, 1)
	go func() {
		b, err := os.ReadFile(r.path)
		must.Tell(r.t, err)
		got <- b
	}()
	select {
	case b := <-got:
		if !bytes.Equal(b, want) {
			r.t.Errorf("%d bytes came back of %d", len(b), len(want))
		}
	case <-time.After(2 * time.Minute):
		r.t.Fatal("the reader waits for two minutes")
	}
}

// TestRealLife: archive, write and archive again, release, restore by reading and by
// request, remove; layout, owner and times of a restored file are what they were. On each
// MDT: contents are swapped on the one of the file.
func TestRealLife(t *testing.T) {
	c, _ := mounted(t)
	targets := must.Get(c.Targets(t.Context(), -1))(t)
	for _, target := range targets {
		if target.Kind == lustre.MDT && target.Inactive == "" {
			t.Run(fmt.Sprintf("MDT%04x", target.Index), func(t *testing.T) { life(t, target.Index) })
		}
	}
}

func life(t *testing.T, mdt int) {
	content := bytes.Repeat([]byte("datamove"), 400_000)
	r := onLustre(t, mdt, nil, content[:1000])
	if e := r.ask(lustre.Archive); e.Err != nil {
		t.Fatal(e.Err)
	}
	r.state(lustre.HasCopy|lustre.WholeCopy, lustre.Dirty)
	r.write(content)
	r.state(lustre.Dirty, 0)
	if e := r.ask(lustre.Archive); e.Err != nil || e.Bytes < int64(len(content)) {
		t.Fatal(e)
	}
	r.state(lustre.WholeCopy, lustre.Dirty)
	info, _ := r.folder.infos.Load(copytool.Key(r.client.Name, r.id))
	if i, ok := info.(copytool.Info); !ok || filepath.Base(i.Path) != "file" {
		t.Errorf("the copy knows %+v", info)
	}
	for _, byReading := range []bool{true, false} {
		r.releaseAndRestore(byReading, content)
	}
	if e := r.ask(lustre.Remove); e.Err != nil {
		t.Fatal(e.Err)
	}
	if left, err := os.ReadDir(r.folder.dir); err != nil || len(left) > 0 {
		t.Errorf("left in the archive: %v, %v", left, err)
	}
}

func (r *real) releaseAndRestore(byReading bool, content []byte) {
	r.t.Helper()
	before, err := os.Stat(r.path)
	must.Do(r.t, err)
	layout, version := asked(r, r.client.Layout), asked(r, r.client.DataVersion)
	must.Do(r.t, r.client.HSM().Release(r.t.Context(), r.root, "file", version))
	r.state(lustre.ReleasedState, 0)
	if byReading {
		r.reads(content)
		if e := r.wait(); e.Err != nil {
			r.t.Error(e.Err)
		}
	} else if e := r.ask(lustre.Restore); e.Err != nil {
		r.t.Error(e.Err)
	}
	r.state(lustre.WholeCopy, lustre.ReleasedState|lustre.Dirty)
	r.reads(content)
	after, err := os.Stat(r.path)
	if err != nil || !after.ModTime().Equal(before.ModTime()) || after.Mode() != before.Mode() || after.Size() != before.Size() {
		r.t.Errorf("it was %v %v %v, and is %v, %v", before.ModTime(), before.Mode(), before.Size(), after, err)
	}
	wanted, now := layout.Wanted(), asked(r, r.client.Layout)
	if differs := lustre.Same(&wanted, &now, 0); differs != "" {
		r.t.Error("its layout: ", differs)
	}
}

// again asks for the archive of a file until it is done. An MDT hands it out again by itself
// only where its policy is not NoRetryAction, which it is after its setup; where it does, a
// request of ours is for nothing.
func (r *real) again() {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if err := r.client.HSM().Request(r.t.Context(), r.root, lustre.Archive, r.archive, []lustre.FID{r.id}); err != nil {
			r.t.Log("asked again: ", err)
		}
		select {
		case e := <-r.ended:
			if e.Err == nil {
				return
			}
			r.t.Log("not yet: ", e.Err)
		case <-time.After(15 * time.Second): // an MDT looks for work every ten (hsm.loop_period)
		}
	}
	r.t.Fatal("it is not archived two minutes after it was written last")
}

// TestRealWrittenMeanwhile: a file that is written while it is archived has no whole copy.
func TestRealWrittenMeanwhile(t *testing.T) {
	var r *real
	var writes atomic.Bool
	r = onLustre(t, lustre.AnyTarget, func(context.Context, *copytool.Copy) error {
		if writes.Load() {
			r.write([]byte("another content"))
		}
		return nil
	}, []byte("content"))
	writes.Store(true)
	e := r.ask(lustre.Archive)
	var f *copytool.Failure
	if !errors.As(e.Err, &f) || f.Errno != unix.EBUSY {
		t.Errorf("it ended with %v", e.Err)
	}
	if s := r.archived(); s.Has(lustre.WholeCopy) {
		t.Errorf("its states are %#x", s)
	}
	writes.Store(false)
	r.again()
	r.state(lustre.WholeCopy, lustre.Dirty)
}

// TestRealKilled: what a process had in work that was killed is done by the next one, whatever the policy of the MDT, and without another request.
func TestRealKilled(t *testing.T) {
	content := []byte("content")
	for name, row := range map[string]struct {
		action lustre.Action
		at     uint
	}{
		"an archive":                            {lustre.Archive, uapi.IocDataVersion},
		"an archive whose copy is in its place": {lustre.Archive, uapi.IocCopyEnd},
		"a restore that is full":                {lustre.Restore, uapi.IocCopyEnd},
		"a removal whose copy is gone":          {lustre.Remove, uapi.IocCopyEnd},
	} {
		t.Run(name, func(t *testing.T) {
			r := onLustre(t, lustre.AnyTarget, nil, content)
			if row.action != lustre.Archive {
				if e := r.ask(lustre.Archive); e.Err != nil {
					t.Fatal(e.Err)
				}
			}
			if row.action == lustre.Restore {
				must.Do(t, r.client.HSM().Release(t.Context(), r.root, "file", asked(r, r.client.DataVersion)))
			}
			mount, mark := r.client.Mount, filepath.Join(t.TempDir(), "registered")
			r.stop()
			d := &dying{kernel: client.Ioctl, at: row.at, over: make(chan struct{})}
			d.n.Store(1)
			r.begin(copytool.Options{Mount: mount, Mark: mark, Ioctl: d.ioctl})
			r.request(row.action)
			handedOut(t, d.over)
			r.stop()
			for len(r.ended) > 0 { // of the dead
				<-r.ended
			}
			r.begin(copytool.Options{Mount: mount, Mark: mark})
			if e := r.wait(); e.Err != nil {
				t.Errorf("it was not taken up: %v", e.Err)
			}
			switch row.action {
			case lustre.Archive:
				r.state(lustre.WholeCopy, lustre.Dirty)
			case lustre.Restore:
				r.state(lustre.WholeCopy, lustre.ReleasedState)
				r.reads(content)
			case lustre.Remove:
				r.state(0, lustre.WholeCopy)
			}
		})
	}
}

// TestRealCancel: an action that is cancelled ends, and the file has no whole copy.
func TestRealCancel(t *testing.T) {
	begun := make(chan struct{})
	var once sync.Once
	r := onLustre(t, lustre.AnyTarget, func(ctx context.Context, _ *copytool.Copy) error {
		once.Do(func() { close(begun) })
		<-ctx.Done()
		return context.Cause(ctx)
	}, []byte("content"))
	r.request(lustre.Archive)
	handedOut(t, begun)
	r.request(lustre.Cancel)
	var f *copytool.Failure
	if e := r.wait(); !errors.As(e.Err, &f) || f.Errno != unix.ECANCELED {
		t.Errorf("it ended with %v", e.Err)
	}
	if s := r.archived(); s.Has(lustre.WholeCopy) {
		t.Errorf("its states are %#x", s)
	}
}
