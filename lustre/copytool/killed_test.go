package copytool_test

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre/copytool"
	"datamove.dev/lustre/copytool/copytest"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

// dying is the kernel as a process has it that is killed at its n-th request of a kind: of all
// that it says from then on nothing arrives.
type dying struct {
	kernel func(fd int, request uint, arg []byte) (int, error)
	at     uint
	n      atomic.Int64 // requests until then
	late   bool         // the MDT has heard that request, and the process no answer
	once   sync.Once
	over   chan struct{}
	dead   atomic.Bool
}

func (d *dying) ioctl(fd int, request uint, arg []byte) (n int, err error) {
	if request == d.at && d.n.Add(-1) == 0 {
		d.dead.Store(true)
		if d.late {
			_, _ = d.kernel(fd, request, arg)
		}
		d.once.Do(func() { close(d.over) })
	}
	if d.dead.Load() {
		return 0, unix.EIO
	}
	return d.kernel(fd, request, arg)
}

// dies serves until the process is killed at its first request of a kind, for what was left to it
// or what begin asks for.
func (b *bed) dies(o copytool.Options, at uint, late bool, begin func()) {
	b.t.Helper()
	d := &dying{kernel: b.Ioctl, at: at, late: late, over: make(chan struct{})}
	d.n.Store(1)
	o.Ioctl = d.ioctl
	over := make(chan error, 1)
	go func() { over <- copytool.New(o).Run(b.t.Context()) }()
	b.Registered()
	begin()
	<-d.over
	b.Killed()
	if err := <-over; err == nil {
		b.t.Error("it ended as if it had been asked to")
	}
}

// TestKilledInWork: what a process had in work that was killed is what the next one goes on
// with, as far as the MDT knows of it still.
//
//safety:1 a copytool that is killed between the removal of a copy and the word about it: the MDT must not believe that the copy is there
func TestKilledInWork(t *testing.T) {
	for _, row := range []struct {
		name      string
		action    uapi.CopyAction
		at        uint
		late      bool
		meanwhile func(b *bed, cookie uint64)
		want      unix.Errno
	}{
		{"an archive that begins", uapi.CopyArchive, uapi.IocCopyStart, false, nil, 0},
		{"an archive in the middle", uapi.CopyArchive, uapi.IocDataVersion, false, nil, 0},
		{"an archive whose copy is in its place", uapi.CopyArchive, uapi.IocCopyEnd, false, nil, 0},
		{"an archive that has ended", uapi.CopyArchive, uapi.IocCopyEnd, true, nil, 0},
		{"a restore that is full", uapi.CopyRestore, uapi.IocCopyEnd, false, nil, 0},
		{"a restore that has ended", uapi.CopyRestore, uapi.IocCopyEnd, true, nil, 0},
		{"a removal whose copy is gone", uapi.CopyRemove, uapi.IocCopyEnd, false, nil, 0},
		{"what was cancelled meanwhile", uapi.CopyArchive, uapi.IocDataVersion, false, func(b *bed, cookie uint64) { b.Cancel(cookie, false) }, unix.ECANCELED},
		{"a file that is gone", uapi.CopyArchive, uapi.IocDataVersion, false, func(b *bed, _ uint64) { b.Unlink(copytest.FID(1)) }, unix.ENOENT},
	} {
		t.Run(row.name, func(t *testing.T) {
			b, o := killable(t)
			f := b.Write(1, []byte("content"))
			var cookie uint64
			b.serves(o, func() {
				if row.action != uapi.CopyArchive {
					b.is(b.Do(uapi.CopyArchive, f)[0], 0, false)
				}
				if row.action == uapi.CopyRestore {
					b.Release(f)
				}
			})
			b.dies(o, row.at, row.late, func() { cookie = b.Do(row.action, f)[0] })
			if row.meanwhile != nil {
				row.meanwhile(b, cookie)
			}
			b.serves(o, func() { b.is(cookie, row.want, false) })
			b.noNotes(o)
			if row.action == uapi.CopyRestore && (b.Released(f) || string(b.Read(f)) != "content") {
				t.Error("the content is not there")
			}
			if _, err := os.Stat(b.folder.at(copytool.Key(copytest.Name, f))); row.want == 0 && (err == nil) == (row.action == uapi.CopyRemove) {
				t.Errorf("its copy: %v", err)
			}
		})
	}
}

// TestKilledWaiting: what had not begun is gone on with, too, and what the MDT has given up is
// left alone.
func TestKilledWaiting(t *testing.T) {
	b, o := killable(t)
	o.Jobs = 1
	var cookies []uint64
	b.dies(o, uapi.IocDataVersion, false, func() {
		cookies = b.Do(uapi.CopyArchive, b.Write(1, []byte("1")), b.Write(2, []byte("2")), b.Write(3, []byte("3")))
	})
	b.Forget(cookies[1])
	b.serves(o, func() {
		b.is(cookies[0], 0, false)
		b.is(cookies[2], 0, false)
	})
	b.noNotes(o)
	if _, err := os.Stat(b.folder.at(copytool.Key(copytest.Name, copytest.FID(2)))); err == nil {
		t.Error("what the MDT has given up was archived")
	}
}

// TestKilledEachTime: an action in which the process was killed three times is handed back: the
// fourth process has a better use.
func TestKilledEachTime(t *testing.T) {
	b, o := killable(t)
	var cookie uint64
	begin := func() { cookie = b.Do(uapi.CopyArchive, b.Write(1, []byte("x")))[0] }
	for range 3 {
		b.dies(o, uapi.IocDataVersion, false, begin)
		begin = func() {}
	}
	b.serves(o, func() { b.is(cookie, unix.EAGAIN, true) })
	b.noNotes(o)
}

// TestNotesSpoilt: a note that is none stops nothing, and is told once.
func TestNotesSpoilt(t *testing.T) {
	b, o := killable(t)
	must.Do(t, os.MkdirAll(o.Mark+".actions", 0o700))
	two := uapi.ActionList{ArchiveID: copytest.Archive, Name: copytest.Name, Items: make([]uapi.ActionItem, 2)}
	for name, content := range map[string][]byte{"empty": nil, "two": two.Encode(), "garbage": []byte("?")} {
		must.Do(t, os.WriteFile(filepath.Join(o.Mark+".actions", name), content, 0o600))
	}
	b.serves(o, func() { b.is(b.Do(uapi.CopyArchive, b.Write(1, []byte("x")))[0], 0, false) })
	b.noNotes(o)
}

// killable is a Lustre without a copytool, and the options of one.
func killable(t *testing.T) (*bed, copytool.Options) {
	t.Helper()
	b := &bed{Lustre: copytest.New(t, t.TempDir()), t: t, folder: &folder{dir: t.TempDir()}}
	return b, copytool.Options{
		Mount: b.Mount, Archives: []uint32{copytest.Archive}, Archive: b.folder, Ioctl: b.Ioctl, Encrypted: b.Encrypted,
		Mark: filepath.Join(t.TempDir(), "registered"),
	}
}

// serves runs a copytool for as long as during takes.
func (b *bed) serves(o copytool.Options, during func()) {
	b.t.Helper()
	tool := &bed{t: b.t, over: make(chan error, 1)}
	tool.start(o)
	b.Registered()
	during()
	must.Tell(b.t, tool.ends())
}

// noNotes tells of notes that are left.
func (b *bed) noNotes(o copytool.Options) {
	b.t.Helper()
	if left, err := os.ReadDir(o.Mark + ".actions"); err != nil || len(left) > 0 {
		b.t.Errorf("notes that are left: %v, %v", left, err)
	}
}
