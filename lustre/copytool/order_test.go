package copytool_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/copytool"
	"datamove.dev/lustre/copytool/copytest"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

// TestChangesWhileArchived: the old copy stays, the MDT may try again, and not for ever.
func TestChangesWhileArchived(t *testing.T) {
	var b *bed
	var file lustre.FID
	writes := false
	b = serve(t, func(context.Context, *copytool.Copy) error {
		if writes {
			b.Write(file.OID, []byte("new content"))
		}
		return nil
	}, nil)
	file = b.Write(1, []byte("old"))
	b.is(b.Do(uapi.CopyArchive, file)[0], 0, false)
	writes = true
	cookie := b.Do(uapi.CopyArchive, file)[0]
	for range 2 {
		b.is(cookie, unix.EBUSY, true)
		b.Again(cookie) // at once: the MDT does not wait until we are done
	}
	b.is(cookie, unix.EBUSY, false)
	if got, err := os.ReadFile(b.folder.at(copytool.Key(copytest.Name, file))); string(got) != "old" {
		t.Errorf("the copy has %q, %v", got, err)
	}
}

// TestWrittenBefore: what is written between the opening of a file and the beginning of its
// archive is part of the version that the MDT knows, and so of the copy.
func TestWrittenBefore(t *testing.T) {
	var b *bed
	b = serve(t, nil, func(o *copytool.Options) {
		kernel := o.Ioctl
		var once sync.Once
		o.Ioctl = func(fd int, request uint, arg []byte) (int, error) {
			if request == uapi.IocCopyStart {
				once.Do(func() { b.Write(1, []byte("longer than it was")) })
			}
			return kernel(fd, request, arg)
		}
	})
	f := b.Write(1, []byte("short"))
	b.is(b.Do(uapi.CopyArchive, f)[0], 0, false)
	b.Release(f)
	b.is(b.Do(uapi.CopyRestore, f)[0], 0, false)
	if got := b.Read(f); string(got) != "longer than it was" {
		t.Errorf("%q came back", got)
	}
}

// TestBetween: what others do to a file right before the MDT is told of it. The kernel ends the
// action by itself then, and it is heard of no more, by no later process either.
func TestBetween(t *testing.T) {
	for _, row := range []struct {
		name  string
		at    uint
		do    func(b *bed)
		errno unix.Errno
		retry bool
	}{
		{"removed before it begins", uapi.IocCopyStart, func(b *bed) { b.Unlink(copytest.FID(1)) }, unix.ENOENT, true},
		{"written before it ends", uapi.IocCopyEnd, func(b *bed) { b.Write(1, []byte("other")) }, unix.EBUSY, false},
		{"removed before it ends", uapi.IocCopyEnd, func(b *bed) { b.Unlink(copytest.FID(1)) }, unix.ENOENT, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			b, o := killable(t)
			var once sync.Once
			o.Ioctl = func(fd int, request uint, arg []byte) (int, error) {
				if request == row.at {
					once.Do(func() { row.do(b) })
				}
				return b.Ioctl(fd, request, arg)
			}
			b.serves(o, func() { b.is(b.Do(uapi.CopyArchive, b.Write(1, []byte("content")))[0], row.errno, row.retry) })
			b.noNotes(o)
		})
	}
}

// TestWaitsLong: an MDT gives up of what it hears nothing, also of what waits here behind
// others. It hears of that, too; what it has given up, or somebody has cancelled, waits no more.
func TestWaitsLong(t *testing.T) {
	hold := make(chan struct{})
	b := serve(t, func(ctx context.Context, _ *copytool.Copy) error {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return ctx.Err()
	}, func(o *copytool.Options) { o.Jobs = 1 })
	all := b.Do(uapi.CopyArchive, b.Write(1, []byte("long")), b.Write(2, []byte("waits")), b.Write(3, []byte("is cancelled")), b.Write(4, []byte("is given up")))
	for range 3 {
		b.Timeout()
		b.Heard(all...)
	}
	b.Cancel(all[2], false)
	b.is(all[2], unix.ECANCELED, false)
	b.Forget(all[3])
	waitUntil(t, func() bool { return b.ended.Load() == 2 })
	close(hold)
	b.is(all[0], 0, false)
	b.is(all[1], 0, false)
}

// TestGivenUp: an action that the MDT has forgotten replaces no copy, and the copy of
// somebody who was faster stays.
func TestGivenUp(t *testing.T) {
	var b *bed
	b = serve(t, func(_ context.Context, c *copytool.Copy) error {
		b.Forget(copytest.FirstCookie)
		return os.WriteFile(b.folder.at(c.Key), []byte("later copy of another copytool"), 0o600)
	}, func(o *copytool.Options) { o.Progress = time.Hour })
	f := b.Write(1, []byte("earlier"))
	b.Do(uapi.CopyArchive, f)
	waitUntil(t, func() bool { return b.ended.Load() == 1 })
	if got, err := os.ReadFile(b.folder.at(copytool.Key(copytest.Name, f))); string(got) != "later copy of another copytool" {
		t.Errorf("the copy has %q, %v", got, err)
	}
}

// TestRemoveGivenUp: what the MDT gave up while it waited here removes nothing: the copy that
// is there by now can be that of a file which has been archived again, and released.
//
//safety:1 a removal that the MDT has given up, while the file was archived anew; an archive with a folder that is not mounted, after a power cut
func TestRemoveGivenUp(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	b := serve(t, func(_ context.Context, c *copytool.Copy) error {
		if c.Size == 4 { // "slow"
			close(begun)
			<-goOn
		}
		return nil
	}, func(o *copytool.Options) { o.Jobs = 1 })
	f, slow := b.Write(1, []byte("content")), b.Write(2, []byte("slow"))
	b.is(b.Do(uapi.CopyArchive, f)[0], 0, false)
	b.Do(uapi.CopyArchive, slow)
	<-begun
	b.Forget(b.Do(uapi.CopyRemove, f)[0])
	b.Release(f)
	close(goOn)
	waitUntil(t, func() bool { return b.ended.Load() == 3 })
	b.is(b.Do(uapi.CopyRestore, f)[0], 0, false)
	if got := b.Read(f); string(got) != "content" {
		t.Errorf("%q came back: its copy was removed", got)
	}
}

// TestCancel: in work and waiting, by a message and by the answer to a progress.
func TestCancel(t *testing.T) {
	for _, message := range []bool{true, false} {
		t.Run(fmt.Sprintf("message %v", message), func(t *testing.T) {
			b := serve(t, func(ctx context.Context, _ *copytool.Copy) error {
				<-ctx.Done()
				return ctx.Err()
			}, func(o *copytool.Options) { o.Jobs = 1 })
			cookies := b.Do(uapi.CopyArchive, b.Write(1, []byte("one")), b.Write(2, []byte("two")))
			b.Progressed(cookies[0], 2)
			if message {
				b.Cancel(cookies[1], true) // waits
				b.is(cookies[1], unix.ECANCELED, false)
			}
			b.Cancel(cookies[0], message)
			b.is(cookies[0], unix.ECANCELED, false)
			b.Send(uapi.ActionList{Name: "lab", Items: []uapi.ActionItem{{Action: uapi.CopyCancel, Cookie: 12345}}}) // nobody knows it
			if !message {
				b.Progressed(cookies[1], 1)
				b.Cancel(cookies[1], true)
				b.is(cookies[1], unix.ECANCELED, false)
			}
		})
	}
}

// TestStop: what waits is handed back, in memory and in the pipe; what is in work comes to
// its end, or after a time is handed back, too.
func TestStop(t *testing.T) {
	begun := make(chan struct{}, 10)
	b := serve(t, func(ctx context.Context, c *copytool.Copy) error {
		begun <- struct{}{}
		if c.Size == 4 { // "slow"
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}, func(o *copytool.Options) { o.Jobs, o.Waiting, o.Grace = 2, 2, 50*time.Millisecond })
	slow := b.Write(1, []byte("slow"))
	first := b.Do(uapi.CopyArchive, slow)
	<-begun
	rest := b.Do(uapi.CopyArchive, b.Write(2, []byte("2")), b.Write(3, []byte("3")), b.Write(4, []byte("4")), b.Write(5, []byte("5")))
	rest = append(rest, b.Do(uapi.CopyArchive, b.Write(6, []byte("6")))...)
	must.Tell(t, b.ends())
	for _, cookie := range append(first, rest...) {
		b.is(cookie, unix.EAGAIN, true)
	}
	waiting, working := b.tool.Counts()
	if waiting+working > 0 {
		t.Errorf("%d wait, %d are in work", waiting, working)
	}
}

// TestStopWhileFull: a kernel that waits for room in the pipe takes no registration back. All
// that was handed out comes to an end all the same, as soon as it is to stop.
//
//safety:8 with TestThousand
func TestStopWhileFull(t *testing.T) {
	begun := make(chan struct{}, 1)
	b := serve(t, func(ctx context.Context, _ *copytool.Copy) error {
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}, func(o *copytool.Options) { o.Jobs, o.Waiting, o.Grace = 1, 1, 50*time.Millisecond })
	files := make([]lustre.FID, 700) // a message has up to 64 KiB
	for n := range files {
		files[n] = b.Write(uint32(n), []byte("x"))
	}
	all := b.Do(uapi.CopyArchive, files[0])
	<-begun
	lists := make(chan []uint64)
	for full := false; !full; {
		go func() {
			var some []uint64
			defer func() { lists <- some }()
			some = b.Do(uapi.CopyArchive, files...)
		}()
		for sent := false; !sent && !full; {
			select {
			case some := <-lists:
				all, sent = append(all, some...), true
			case <-time.After(time.Millisecond):
				full = b.Full()
			}
		}
	}
	b.stop()
	all = append(all, <-lists...)
	for _, cookie := range all {
		b.is(cookie, unix.EAGAIN, true)
	}
}

// TestRenews: a coordinator that was restarted has forgotten who was registered. A copytool
// that has heard nothing for long registers again; one that has something to do does not.
func TestRenews(t *testing.T) {
	hold := make(chan struct{})
	b := serve(t, func(context.Context, *copytool.Copy) error { <-hold; return nil }, func(o *copytool.Options) { o.Renew = 5 * time.Millisecond })
	b.RegisteredAgain(3)
	cookie := b.Do(uapi.CopyArchive, b.Write(1, []byte("x")))[0]
	b.Progressed(cookie, 1)
	n := b.Registrations()
	b.Progressed(cookie, 30) // one in a millisecond, about
	if now := b.Registrations(); now != n {
		t.Errorf("in the middle of an action it registered %d times", now-n)
	}
	close(hold)
	b.is(cookie, 0, false)
	b.RegisteredAgain(n + 1)
	b.is(b.Do(uapi.CopyRemove, copytest.FID(1))[0], 0, false)
	must.Tell(t, b.ends())
}

// TestRestoresFirst: a reader does not wait for archives, however many there are.
func TestRestoresFirst(t *testing.T) {
	hold := make(chan struct{})
	var once sync.Once
	b := serve(t, func(_ context.Context, c *copytool.Copy) error {
		if c.Mine != nil && c.Size == 4 {
			<-hold
		}
		return nil
	}, nil)
	defer once.Do(func() { close(hold) })
	f := b.Write(1, []byte("released"))
	b.is(b.Do(uapi.CopyArchive, f)[0], 0, false)
	b.Release(f)
	var many []lustre.FID
	for n := range uint32(20) {
		many = append(many, b.Write(100+n, []byte("slow")))
	}
	cookies := b.Do(uapi.CopyArchive, many...)
	b.is(b.Do(uapi.CopyRestore, f)[0], 0, false)
	once.Do(func() { close(hold) })
	for _, c := range cookies {
		b.is(c, 0, false)
	}
	if most := b.folder.most.Load(); most > 4 {
		t.Errorf("%d at one time", most)
	}
}

// TestThousand: a thousand actions at once wait in bounded memory, and all of them are done.
//
//safety:8 a thousand actions of HSM at once, more than the pipe holds when it is to stop, and messages that are no list of actions
func TestThousand(t *testing.T) {
	b := serve(t, nil, func(o *copytool.Options) { o.Waiting, o.Jobs = 16, 8 })
	var files []lustre.FID
	for n := range uint32(1000) {
		files = append(files, b.Write(n, fmt.Appendf(nil, "content %d", n)))
	}
	highest := 0
	watch, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for watch.Err() == nil {
			waiting, _ := b.tool.Counts()
			highest = max(highest, waiting)
			runtime.Gosched()
		}
	}()
	var cookies []uint64
	for _, part := range [][]lustre.FID{files[:700], files[700:]} { // a message has up to 64 KiB
		cookies = append(cookies, b.Do(uapi.CopyArchive, part...)...)
	}
	for _, c := range cookies {
		b.is(c, 0, false)
	}
	stop()
	<-over
	if most := b.folder.most.Load(); highest > 16 || most > 8 {
		t.Errorf("%d waited in memory, %d were in work", highest, most)
	}
}

// TestHandedOutTwice: an action that is in work is not done twice at the same time.
func TestHandedOutTwice(t *testing.T) {
	hold := make(chan struct{})
	b := serve(t, func(context.Context, *copytool.Copy) error { <-hold; return nil }, nil)
	f := b.Write(1, []byte("x"))
	cookie := b.Do(uapi.CopyArchive, f)[0]
	b.Progressed(cookie, 1)
	b.Send(uapi.ActionList{ArchiveID: copytest.Archive, Name: copytest.Name, Items: []uapi.ActionItem{{Action: uapi.CopyArchive, FID: f, Data: f, Cookie: cookie}}})
	b.is(b.Do(uapi.CopyRemove, copytest.FID(2))[0], 0, false) // it has been read behind that one
	close(hold)
	b.is(cookie, 0, false)
}

// TestHandedOutAtOnce: an MDT that hands an action out again as soon as it has heard that it
// failed, while its worker is still at it, is not taken to hand it out twice.
func TestHandedOutAtOnce(t *testing.T) {
	var b *bed
	var again sync.Once
	told := make(chan struct{})
	fails := errors.New("once")
	var tries atomic.Int64
	b = serve(t, func(context.Context, *copytool.Copy) error {
		if tries.Add(1) == 1 {
			return &copytool.Failure{Errno: unix.EDQUOT, Retry: true, Err: fails}
		}
		return nil
	}, func(o *copytool.Options) {
		o.Told = func(e copytool.Ended) {
			if errors.Is(e.Err, fails) {
				again.Do(func() {
					defer close(told)
					b.Again(copytest.FirstCookie)
					b.is(b.Do(uapi.CopyRemove, copytest.FID(2))[0], 0, false) // it has been read behind that one
				})
			}
		}
	})
	cookie := b.Do(uapi.CopyArchive, b.Write(1, []byte("x")))[0]
	<-told
	waitUntil(t, func() bool { return tries.Load() == 2 })
	b.is(cookie, 0, false)
}
