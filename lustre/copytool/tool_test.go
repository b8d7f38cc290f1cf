package copytool_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/abi"
	"datamove.dev/lustre/copytool"
	"datamove.dev/lustre/copytool/copytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folder is an archive of plain files: enough to see what the copytool asks for. The
// command that wires it to the mover has the tests with real ones.
type folder struct {
	dir    string
	during func(ctx context.Context, c *copytool.Copy) error // called half way; nil is not
	infos  sync.Map                                          // key -> copytool.Info
	most   atomic.Int64                                      // movements at one time
	now    atomic.Int64
}

func (f *folder) at(key string) string {
	return filepath.Join(f.dir, strings.ReplaceAll(key, "/", "_"))
}

func (f *folder) enter() func() {
	n := f.now.Add(1)
	for m := f.most.Load(); n > m && !f.most.CompareAndSwap(m, n); m = f.most.Load() {
	}
	return func() { f.now.Add(-1) }
}

func (f *folder) Put(ctx context.Context, c copytool.Copy) error {
	defer f.enter()()
	b, err := io.ReadAll(io.NewSectionReader(c.File, 0, c.Size))
	if err != nil {
		return err
	}
	c.Moved.Add(int64(len(b)) / 2)
	if f.during != nil {
		if err := f.during(ctx, &c); err != nil {
			return err
		}
	}
	c.Moved.Add(int64(len(b)) - int64(len(b))/2)
	if err := c.Mine(ctx); err != nil {
		return err
	}
	f.infos.Store(c.Key, c.Info)
	return os.WriteFile(f.at(c.Key), b, 0o600)
}

func (f *folder) Get(ctx context.Context, c copytool.Copy) error {
	defer f.enter()()
	b, err := os.ReadFile(f.at(c.Key))
	if err != nil {
		return err
	}
	if f.during != nil {
		if err := f.during(ctx, &c); err != nil {
			return err
		}
	}
	c.Moved.Add(int64(len(b)))
	_, err = c.File.Write(b)
	return err
}

func (f *folder) Delete(_ context.Context, key string) error {
	err := os.Remove(f.at(key))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// bed is a copytool that serves a Lustre.
type bed struct {
	*copytest.Lustre
	t      *testing.T
	tool   *copytool.Tool
	folder *folder
	ended  atomic.Int64
	stop   context.CancelFunc
	over   chan error
}

func serve(t *testing.T, during func(context.Context, *copytool.Copy) error, change func(*copytool.Options)) *bed {
	t.Helper()
	b := &bed{Lustre: copytest.New(t, t.TempDir()), t: t, folder: &folder{dir: t.TempDir(), during: during}, over: make(chan error, 1)}
	o := copytool.Options{
		Mount: b.Mount, Archives: []uint32{copytest.Archive}, Archive: b.folder, Ioctl: b.Ioctl,
		Progress: time.Millisecond, Told: func(copytool.Ended) { b.ended.Add(1) },
	}
	if change != nil {
		change(&o)
	}
	b.tool = copytool.New(o)
	ctx, stop := context.WithCancel(t.Context())
	b.stop = stop
	go func() { b.over <- b.tool.Run(ctx) }()
	t.Cleanup(func() { _ = b.ends() })
	b.Registered()
	return b
}

// ends stops the copytool and returns why it ended.
func (b *bed) ends() error {
	b.stop()
	err := <-b.over
	b.over <- err
	return err
}

// is compares the end of an action.
func (b *bed) is(cookie uint64, want unix.Errno, wantRetry bool) {
	b.t.Helper()
	if errno, retry := b.End(cookie); errno != want || retry != wantRetry {
		b.t.Errorf("it ended with %v, retry %v; want %v, %v", errno, retry, want, wantRetry)
	}
}

// TestLifeOfAFile: archive, release, restore, remove; and what the copy knows of the file.
func TestLifeOfAFile(t *testing.T) {
	b := serve(t, nil, nil)
	for n, content := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("striped"), 100_000)} {
		f := b.Write(uint32(n+1), content)
		b.is(b.Do(abi.CopyArchive, f)[0], 0, false)
		b.Release(f)
		if len(content) > 0 && bytes.Equal(b.Read(f), content) {
			t.Error("the released file has its content")
		}
		b.is(b.Do(abi.CopyRestore, f)[0], 0, false)
		if got := b.Read(f); !bytes.Equal(got, content) || b.Released(f) {
			t.Errorf("%d bytes came back of %d", len(got), len(content))
		}
		key := copytool.Key(copytest.Name, f)
		info, _ := b.folder.infos.Load(key)
		if i, ok := info.(copytool.Info); !ok || i.Mode != 0o640 || i.Path != fmt.Sprintf("project/file %d", n+1) || i.Mtime.Sec == 0 {
			t.Errorf("%s: %+v", key, info)
		}
		b.is(b.Do(abi.CopyRemove, f)[0], 0, false)
		if _, err := os.Stat(b.folder.at(key)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the copy is there: %v", err)
		}
	}
	if err := b.ends(); err != nil {
		t.Error(err)
	}
	if n := b.ended.Load(); n != 9 {
		t.Errorf("%d of 9 ends were told", n)
	}
	if left, err := filepath.Glob(filepath.Join(b.Mount, ".*VOLATILE*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// TestEndsOfFailures: what goes wrong, and what the MDT is told of it.
func TestEndsOfFailures(t *testing.T) {
	var b *bed
	var fail atomic.Pointer[error]
	b = serve(t, func(context.Context, *copytool.Copy) error {
		if err := fail.Load(); err != nil {
			return *err
		}
		return nil
	}, nil)
	f := b.Write(1, []byte("content"))
	for _, row := range []struct {
		name  string
		err   error
		errno unix.Errno
		retry bool
	}{
		{"a quota", &copytool.Failure{Errno: unix.EDQUOT, Retry: true, Err: errors.New("full")}, unix.EDQUOT, true},
		{"a kernel's error", &os.PathError{Op: "write", Err: unix.ENOSPC}, unix.ENOSPC, true},
		{"a corrupt copy", fmt.Errorf("restore: %w", &copytool.Failure{Errno: unix.EIO, Err: errors.New("checksum")}), unix.EIO, false},
		{"anything else", errors.New("?"), unix.EIO, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			fail.Store(&row.err)
			b.is(b.Do(abi.CopyArchive, f)[0], row.errno, row.retry)
		})
	}
	fail.Store(nil)
	b.is(b.Do(abi.CopyArchive, copytest.FID(99))[0], unix.ENOENT, false)
	b.is(b.Do(abi.CopyRestore, copytest.FID(99))[0], unix.ENOENT, false)
	b.is(b.Do(abi.CopyRemove, copytest.FID(99))[0], 0, false)
	b.is(b.Do(abi.CopyRestore, f)[0], unix.ENOENT, false) // there is no copy
	if got := b.Read(f); string(got) != "content" {
		t.Errorf("the file has %q", got)
	}
	b.is(b.Do(abi.CopyAction(77), f)[0], unix.EOPNOTSUPP, false)
	b.Refuse(abi.IocCopyStart, unix.EIO)
	b.is(b.Do(abi.CopyArchive, f)[0], unix.EIO, false)
	b.Refuse(abi.IocCopyStart, 0)
	b.is(b.Do(abi.CopyArchive, f)[0], 0, false)
}

// TestOfOthers: what is no regular file, and what is for another archive.
func TestOfOthers(t *testing.T) {
	b := serve(t, nil, nil)
	f := copytest.FID(1)
	if err := unix.Mkfifo(filepath.Join(b.Mount, ".lustre/fid", f.Name()), 0o600); err != nil {
		t.Fatal(err)
	}
	b.is(b.Do(abi.CopyArchive, f)[0], unix.EINVAL, false)
	if got := b.Serves(); len(got) != 1 || got[0] != copytest.Archive {
		t.Errorf("serves %v", got)
	}
	b.Refuse(abi.IocCopyEnd, unix.ENOENT) // that one is not of this MDT's making
	b.Send(abi.ActionList{ArchiveID: 9, Name: copytest.Name, Items: []abi.ActionItem{{Action: abi.CopyArchive, FID: f, Data: f, Cookie: 1}}})
	waitUntil(t, func() bool { return b.ended.Load() == 2 })
}

// waitUntil waits for what nobody tells of.
func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited a minute")
		}
	}
}

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
	b.is(b.Do(abi.CopyArchive, file)[0], 0, false)
	writes = true
	cookie := b.Do(abi.CopyArchive, file)[0]
	for range 2 {
		b.is(cookie, unix.EBUSY, true)
		b.Again(cookie) // at once: the MDT does not wait until we are done
	}
	b.is(cookie, unix.EBUSY, false)
	if got, err := os.ReadFile(b.folder.at(copytool.Key(copytest.Name, file))); string(got) != "old" {
		t.Errorf("the copy has %q, %v", got, err)
	}
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
	b.Do(abi.CopyArchive, f)
	waitUntil(t, func() bool { return b.ended.Load() == 1 })
	if got, err := os.ReadFile(b.folder.at(copytool.Key(copytest.Name, f))); string(got) != "later copy of another copytool" {
		t.Errorf("the copy has %q, %v", got, err)
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
			cookies := b.Do(abi.CopyArchive, b.Write(1, []byte("one")), b.Write(2, []byte("two")))
			b.Progressed(cookies[0], 2)
			if message {
				b.Cancel(cookies[1], true) // waits
				b.is(cookies[1], unix.ECANCELED, false)
			}
			b.Cancel(cookies[0], message)
			b.is(cookies[0], unix.ECANCELED, false)
			b.Send(abi.ActionList{Name: "lab", Items: []abi.ActionItem{{Action: abi.CopyCancel, Cookie: 12345}}}) // nobody knows it
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
	first := b.Do(abi.CopyArchive, slow)
	<-begun
	rest := b.Do(abi.CopyArchive, b.Write(2, []byte("2")), b.Write(3, []byte("3")), b.Write(4, []byte("4")), b.Write(5, []byte("5")))
	rest = append(rest, b.Do(abi.CopyArchive, b.Write(6, []byte("6")))...)
	if err := b.ends(); err != nil {
		t.Error(err)
	}
	for _, cookie := range append(first, rest...) {
		b.is(cookie, unix.EAGAIN, true)
	}
	waiting, working := b.tool.Counts()
	if waiting+working > 0 {
		t.Errorf("%d wait, %d are in work", waiting, working)
	}
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
	b.is(b.Do(abi.CopyArchive, f)[0], 0, false)
	b.Release(f)
	var many []lustre.FID
	for n := range uint32(20) {
		many = append(many, b.Write(100+n, []byte("slow")))
	}
	cookies := b.Do(abi.CopyArchive, many...)
	b.is(b.Do(abi.CopyRestore, f)[0], 0, false)
	once.Do(func() { close(hold) })
	for _, c := range cookies {
		b.is(c, 0, false)
	}
	if most := b.folder.most.Load(); most > 4 {
		t.Errorf("%d at one time", most)
	}
}

// TestThousand: a thousand actions at once wait in bounded memory, and all of them are done.
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
		cookies = append(cookies, b.Do(abi.CopyArchive, part...)...)
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
	cookie := b.Do(abi.CopyArchive, f)[0]
	b.Progressed(cookie, 1)
	b.Send(abi.ActionList{ArchiveID: copytest.Archive, Name: copytest.Name, Items: []abi.ActionItem{{Action: abi.CopyArchive, FID: f, Data: f, Cookie: cookie}}})
	b.is(b.Do(abi.CopyRemove, copytest.FID(2))[0], 0, false) // it has been read behind that one
	close(hold)
	b.is(cookie, 0, false)
}

// TestHandedOutAtOnce: an MDT that hands an action out again as soon as it has heard that it
// failed, while its worker is still at it, is not taken to hand it out twice.
func TestHandedOutAtOnce(t *testing.T) {
	var b *bed
	var again sync.Once
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
					b.Again(copytest.FirstCookie)
					b.is(b.Do(abi.CopyRemove, copytest.FID(2))[0], 0, false) // it has been read behind that one
				})
			}
		}
	})
	cookie := b.Do(abi.CopyArchive, b.Write(1, []byte("x")))[0]
	waitUntil(t, func() bool { return tries.Load() == 2 })
	b.is(cookie, 0, false)
}

// TestHostileMessages: what can be skipped is; where the next message begins is lost, the
// registration is taken back, and Run can be called again.
func TestHostileMessages(t *testing.T) {
	b := serve(t, nil, nil)
	f := b.Write(1, []byte("x"))
	b.Raw([]byte("\x1c\x19\x02\x00\x63\x00\x08\x00"))                               // a type that is not known, and nothing in it
	b.Raw([]byte("\x1c\x19\x02\x00\x64\x00\x10\x00garbage!"))                       // a list that is none
	bad := abi.ActionList{ArchiveID: 2, Name: "../../etc", Items: nil}              // leads elsewhere
	b.Send(bad)                                                                     //
	half := abi.ActionList{ArchiveID: copytest.Archive, Name: copytest.Name}        //
	half.Items = []abi.ActionItem{{Action: abi.CopyRemove, FID: f, Data: f}}        // of nobody
	body := half.Encode()                                                           //
	body[4] = 9                                                                     // of nine there is one
	h := abi.MessageHeader{Transport: 2, Type: abi.Actions, Length: len(body)}      //
	b.Raw(append(h.Encode(), body...))                                              //
	b.is(b.Do(abi.CopyArchive, f)[0], 0, false)                                     // it goes on
	b.Raw([]byte("not a message of the kernel"))                                    //
	if err := <-b.over; err == nil || !strings.Contains(err.Error(), "malformed") { //
		t.Errorf("it ended with %v", err)
	}
	go func() { b.over <- b.tool.Run(t.Context()) }()
	b.Registered()
	b.is(b.Do(abi.CopyRemove, f)[0], 0, false)
	b.Raw([]byte("\x1c\x19\x02\x00\x01\x00\x08\x00")) // KUC_MSG_SHUTDOWN
	if err := <-b.over; err == nil {
		t.Error("it ended with no error, and not because it was stopped")
	}
	b.over <- nil
}

// TestNoLustre: what stands in the way of a registration is said.
func TestNoLustre(t *testing.T) {
	tool := copytool.New(copytool.Options{Mount: t.TempDir()})
	if err := tool.Run(t.Context()); !errors.Is(err, unix.ENOTTY) || !strings.Contains(err.Error(), "no Lustre") {
		t.Errorf("no Lustre: %v", err)
	}
	tool = copytool.New(copytool.Options{Mount: filepath.Join(t.TempDir(), "missing")})
	if err := tool.Run(t.Context()); !errors.Is(err, unix.ENOENT) {
		t.Errorf("no mount: %v", err)
	}
}
