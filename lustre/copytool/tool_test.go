package copytool_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"datamove.dev/lustre/copytool"
	"datamove.dev/lustre/copytool/copytest"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
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
		Mount: b.Mount, Archives: []uint32{copytest.Archive}, Archive: b.folder, Ioctl: b.Ioctl, Encrypted: b.Encrypted,
		Progress: time.Millisecond, Told: func(copytool.Ended) { b.ended.Add(1) },
	}
	if change != nil {
		change(&o)
	}
	b.start(o)
	t.Cleanup(func() { _ = b.ends() })
	b.Registered()
	return b
}

func (b *bed) start(o copytool.Options) {
	b.tool = copytool.New(o)
	ctx, stop := context.WithCancel(b.t.Context())
	b.stop = stop
	go func() { b.over <- b.tool.Run(ctx) }()
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
		b.is(b.Do(uapi.CopyArchive, f)[0], 0, false)
		b.Release(f)
		if len(content) > 0 && bytes.Equal(b.Read(f), content) {
			t.Error("the released file has its content")
		}
		b.is(b.Do(uapi.CopyRestore, f)[0], 0, false)
		if got := b.Read(f); !bytes.Equal(got, content) || b.Released(f) {
			t.Errorf("%d bytes came back of %d", len(got), len(content))
		}
		key := copytool.Key(copytest.Name, f)
		info, _ := b.folder.infos.Load(key)
		if i, ok := info.(copytool.Info); !ok || i.Mode != 0o640 || i.Path != fmt.Sprintf("project/file %d", n+1) || i.Mtime.Sec == 0 {
			t.Errorf("%s: %+v", key, info)
		}
		b.is(b.Do(uapi.CopyRemove, f)[0], 0, false)
		if _, err := os.Stat(b.folder.at(key)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the copy is there: %v", err)
		}
	}
	must.Tell(t, b.ends())
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
		{"one that an MDT has no number for", unix.EKEYREJECTED, unix.EIO, false},
		{"anything else", errors.New("?"), unix.EIO, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			fail.Store(&row.err)
			b.is(b.Do(uapi.CopyArchive, f)[0], row.errno, row.retry)
		})
	}
	fail.Store(nil)
	b.is(b.Do(uapi.CopyArchive, copytest.FID(99))[0], unix.ENOENT, false)
	b.is(b.Do(uapi.CopyRestore, copytest.FID(99))[0], unix.ENOENT, false)
	b.is(b.Do(uapi.CopyRemove, copytest.FID(99))[0], 0, false)
	b.is(b.Do(uapi.CopyRestore, f)[0], unix.ENOENT, false) // there is no copy
	if got := b.Read(f); string(got) != "content" {
		t.Errorf("the file has %q", got)
	}
	b.is(b.Do(uapi.CopyAction(77), f)[0], unix.EOPNOTSUPP, false)
	b.Refuse(uapi.IocCopyStart, unix.EIO)
	b.is(b.Do(uapi.CopyArchive, f)[0], unix.EIO, false)
	b.Refuse(uapi.IocCopyStart, 0)
	b.is(b.Do(uapi.CopyArchive, f)[0], 0, false)
}

// TestEncrypted: what an archive would get of it is open to who reads the archive, and what
// comes back is encrypted for another file.
//
//safety:1 a file that clients encrypt: clear text never becomes its content, nor the content of one key that of another
func TestEncrypted(t *testing.T) {
	b := serve(t, nil, nil)
	f, released := b.Write(1, []byte("secret")), b.Write(2, []byte("copied before"))
	b.is(b.Do(uapi.CopyArchive, released)[0], 0, false)
	b.Release(released)
	b.Encrypt(f)
	b.Encrypt(released)
	b.is(b.Do(uapi.CopyArchive, f)[0], unix.EOPNOTSUPP, false)
	if left, err := os.ReadDir(b.folder.dir); err != nil || len(left) != 1 {
		t.Errorf("the archive has %d copies, want that of the other file: %v", len(left), err)
	}
	b.is(b.Do(uapi.CopyRestore, released)[0], unix.EOPNOTSUPP, false)
	if !b.Released(released) {
		t.Error("it was given a content that it can not read")
	}
	b.is(b.Do(uapi.CopyRemove, released)[0], 0, false)
}

// TestOfOthers: what is no regular file, and what is for another archive.
func TestOfOthers(t *testing.T) {
	b := serve(t, nil, nil)
	f := copytest.FID(1)
	must.Do(t, unix.Mkfifo(filepath.Join(b.Mount, ".lustre/fid", f.Name()), 0o600))
	b.is(b.Do(uapi.CopyArchive, f)[0], unix.EINVAL, false)
	if got := b.Serves(); len(got) != 1 || got[0] != copytest.Archive {
		t.Errorf("serves %v", got)
	}
	b.Refuse(uapi.IocCopyEnd, unix.ENOENT) // that one is not of this MDT's making
	b.Send(uapi.ActionList{ArchiveID: 9, Name: copytest.Name, Items: []uapi.ActionItem{{Action: uapi.CopyArchive, FID: f, Data: f, Cookie: 1}}})
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

// TestHostileMessages: what can be skipped is; where the next message begins is lost, the
// registration is taken back, and Run can be called again.
//
//safety:8 with TestThousand
func TestHostileMessages(t *testing.T) {
	b := serve(t, nil, nil)
	f := b.Write(1, []byte("x"))
	b.Raw([]byte("\x1c\x19\x02\x00\x63\x00\x08\x00"))                               // a type that is not known, and nothing in it
	b.Raw([]byte("\x1c\x19\x02\x00\x64\x00\x10\x00garbage!"))                       // a list that is none
	bad := uapi.ActionList{ArchiveID: 2, Name: "../../etc", Items: nil}             // leads elsewhere
	b.Send(bad)                                                                     //
	half := uapi.ActionList{ArchiveID: copytest.Archive, Name: copytest.Name}       //
	half.Items = []uapi.ActionItem{{Action: uapi.CopyRemove, FID: f, Data: f}}      // of nobody
	body := half.Encode()                                                           //
	body[4] = 9                                                                     // of nine there is one
	h := uapi.MessageHeader{Transport: 2, Type: uapi.Actions, Length: len(body)}    //
	b.Raw(append(h.Encode(), body...))                                              //
	b.is(b.Do(uapi.CopyArchive, f)[0], 0, false)                                    // it goes on
	b.Raw([]byte("not a message of the kernel"))                                    //
	if err := <-b.over; err == nil || !strings.Contains(err.Error(), "malformed") { //
		t.Errorf("it ended with %v", err)
	}
	go func() { b.over <- b.tool.Run(t.Context()) }()
	b.Registered()
	b.is(b.Do(uapi.CopyRemove, f)[0], 0, false)
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
	if made, err := copytool.Made(t.TempDir(), nil); !errors.Is(err, unix.ENOTTY) || !made.IsZero() {
		t.Errorf("what is no Lustre was made at %v, %v", made, err)
	}
	l := copytest.New(t, t.TempDir())
	if made, err := copytool.Made(l.Mount, l.Ioctl); err != nil || time.Since(made).Abs() > time.Hour {
		t.Errorf("it was made at %v, %v", made, err)
	}
	tool = copytool.New(copytool.Options{Mount: filepath.Join(t.TempDir(), "missing")})
	if err := tool.Run(t.Context()); !errors.Is(err, unix.ENOENT) {
		t.Errorf("no mount: %v", err)
	}
}

// TestKilled: an MDT knows the registration of a process that was killed until it hands
// something out. The next process takes it back when it was one of ours, in the time of this
// kernel; that of somebody else stays.
func TestKilled(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "registered")
	b := serve(t, nil, func(o *copytool.Options) { o.Mark = mark })
	b.is(b.Do(uapi.CopyRemove, copytest.FID(1))[0], 0, false) // it is at work
	ours := must.Get(os.ReadFile(mark))(t)
	again := func(o copytool.Options) error {
		o.Mount, o.Archives, o.Archive, o.Ioctl = b.Mount, []uint32{copytest.Archive}, b.folder, b.Ioctl
		return copytool.New(o).Run(t.Context())
	}
	if err := again(copytool.Options{Mark: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, unix.EEXIST) || !strings.Contains(err.Error(), "another copytool") {
		t.Errorf("beside one that lives: %v", err)
	}
	must.Do(t, b.ends())
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark of one that has ended: %v", err)
	}
	b.Killed()
	for _, no := range []string{"", "another boot\n"} {
		must.Do(t, os.WriteFile(mark, []byte(no), 0o600))
		if err := again(copytool.Options{Mark: mark}); !errors.Is(err, unix.EEXIST) {
			t.Errorf("marked %q: %v", no, err)
		}
	}
	if err := again(copytool.Options{}); !errors.Is(err, unix.EEXIST) {
		t.Errorf("without a mark: %v", err)
	}
	must.Do(t, os.WriteFile(mark, ours, 0o600))
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- copytool.New(copytool.Options{Mount: b.Mount, Archives: []uint32{copytest.Archive}, Archive: b.folder, Ioctl: b.Ioctl, Mark: mark}).Run(ctx)
	}()
	b.Registered()
	b.is(b.Do(uapi.CopyArchive, b.Write(1, []byte("x")))[0], 0, false)
	stop()
	must.Tell(t, <-over)
}
