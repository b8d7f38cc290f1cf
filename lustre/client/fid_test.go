package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

func TestNamesOfAFile(t *testing.T) {
	t.Parallel()
	f := newFakeFiles()
	c := newFilesClient(t, f)
	ctx := t.Context()
	a, b := f.mkdir(t, "a"), f.mkdir(t, "a/b")
	n := f.file(t, "a/one", "x")
	b.children["two"], f.root.children["three"] = n, n
	fd := asked(t, f, "a/one")
	id, err := c.FID(ctx, fd)
	if err != nil || id != n.fid {
		t.Fatalf("FID %v, %v; want %v", id, err, n.fid)
	}
	if paths, err := c.Paths(ctx, id); err != nil || !reflect.DeepEqual(paths, []string{"a/b/two", "a/one", "three"}) {
		t.Errorf("paths %q, %v", paths, err)
	}
	if paths, err := c.Paths(ctx, f.root.fid); err != nil || !reflect.DeepEqual(paths, []string{""}) {
		t.Errorf("paths of the mount itself: %q, %v", paths, err)
	}
	below := *c
	for name, want := range map[string][]string{"a": {"b/two", "one"}, "a/b": {"two"}} { // what is elsewhere is passed by
		below.root = f.openDir(t, name)
		if paths, err := below.Paths(ctx, id); err != nil || !reflect.DeepEqual(paths, want) {
			t.Errorf("paths below %s: %q, %v; want %q", name, paths, err, want)
		}
	}
	links, err := c.Links(ctx, fd)
	if want := []Link{{b.fid, "two"}, {a.fid, "one"}, {f.root.fid, "three"}}; err != nil || !reflect.DeepEqual(links, want) {
		t.Errorf("links %+v, %v; want %+v", links, err, want)
	}
	again, err := c.OpenFID(ctx, id, OpenToAsk)
	must.Do(t, err)
	if got, err := c.FID(ctx, again); err != nil || got != id {
		t.Errorf("opened by its FID it is %v, %v", got, err)
	}
	must.Tell(t, f.close(again))

	for _, gone := range []lustre.FID{{}, {Seq: 0x200000402, OID: 999}} {
		if paths, err := c.Paths(ctx, gone); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("paths of %v: %q, %v", gone, paths, err)
		}
		if _, err := c.OpenFID(ctx, gone, OpenToAsk); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open %v: %v", gone, err)
		}
	}
	f.user = true
	if _, err := c.Paths(ctx, id); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "user_fid2path") {
		t.Errorf("paths for a user: %v; want what to mount with", err)
	}
}

// A server that says something else than a path below the mount is not believed, and one
// that never comes to the last link is not followed for ever.
func TestHostilePaths(t *testing.T) {
	t.Parallel()
	f := newFakeFiles()
	c := newFilesClient(t, f)
	answer, asked := "", 0
	f.ioctls[uapi.IocFIDToPath] = func(_ *handle, arg []byte, _ []pointer) (int, error) {
		asked++
		link := uint32(arg[24]) | uint32(arg[25])<<8 | uint32(arg[26])<<16
		link++
		arg[24], arg[25], arg[26] = byte(link), byte(link>>8), byte(link>>16)
		copy(arg[32:], answer+"\x00")
		return 0, nil
	}
	for _, answer = range []string{"../etc/passwd", "a/../../b", "..", "a\x00b/../..", strings.Repeat("x", uapi.MaxPath)} {
		asked = 0
		paths, err := c.Paths(t.Context(), lustre.FID{Seq: 1})
		if strings.HasPrefix(answer, "a\x00") {
			if err != nil || len(paths) != maxLinks || paths[0] != "a" {
				t.Errorf("%q: %d paths, %v", answer, len(paths), err)
			}
		} else if err == nil {
			t.Errorf("%.20q was believed: %.20q", answer, paths)
		}
		if asked > maxLinks {
			t.Errorf("asked %d times", asked)
		}
	}
	for _, name := range []string{"..", "a/b", "/etc"} {
		f.ioctls[uapi.IocGetParent] = func(_ *handle, arg []byte, _ []pointer) (int, error) {
			copy(arg[24:], name+"\x00")
			return 0, nil
		}
		if links, err := c.Links(t.Context(), c.root); err == nil {
			t.Errorf("the name %q was believed: %v", name, links)
		}
	}
}

func TestLazySize(t *testing.T) {
	t.Parallel()
	f := newFakeFiles()
	c := newFilesClient(t, f)
	ctx := t.Context()
	n := f.file(t, "data", "x")
	fd := asked(t, f, "data")
	if s, err := c.LazySize(ctx, fd); !errors.Is(err, ErrNoSize) {
		t.Errorf("without one: %+v, %v", s, err)
	}
	for _, s := range []struct {
		valid uint16
		want  LazySize
		err   error
	}{
		{uapi.SizeLazy, LazySize{2, 8, false}, nil},
		{uapi.SizeStrict, LazySize{2, 8, true}, nil},
		{uapi.SizeStale, LazySize{}, ErrNoSize},
	} {
		n.xattrs[uapi.LazySizeName] = uapi.EncodeLazySize(uapi.LazySize{Valid: s.valid, Bytes: 2, Blocks: 8})
		if got, err := c.LazySize(ctx, fd); got != s.want || !errors.Is(err, s.err) {
			t.Errorf("valid %d: %+v, %v; want %+v, %v", s.valid, got, err, s.want, s.err)
		}
	}
	n.xattrs[uapi.LazySizeName] = []byte("short")
	if got, err := c.LazySize(ctx, fd); !errors.Is(err, uapi.ErrMalformed) {
		t.Errorf("five bytes: %+v, %v", got, err)
	}
}

func TestAdvice(t *testing.T) {
	t.Parallel()
	f := newFakeFiles()
	c := newFilesClient(t, f)
	f.file(t, "data", "x")
	fd, ctx := asked(t, f, "data"), t.Context()
	must.Tell(t, errors.Join(c.WillRead(ctx, fd, 4096, 8192), c.WillRead(ctx, fd, 1, 0), c.DontNeed(ctx, fd, 5, 1<<63-1)))
	if want := []uapi.Advice{{Kind: uapi.WillRead, Start: 4096, End: 12288}, {Kind: uapi.WillRead, Start: 1, End: 1<<63 - 1}, {Kind: uapi.DontNeed, Start: 5, End: 1<<63 - 1}}; !reflect.DeepEqual(f.advices, want) {
		t.Errorf("%+v; want %+v", f.advices, want)
	}
	for _, bad := range [][2]int64{{-1, 5}, {5, -1}} {
		if err := c.WillRead(ctx, fd, bad[0], bad[1]); err == nil {
			t.Errorf("%d bytes at %d were advised", bad[1], bad[0])
		}
	}
	f.fails[fmt.Sprintf("ioctl %#x", uapi.IocLadvise)] = unix.EOPNOTSUPP
	if err := c.WillRead(ctx, fd, 0, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an old server: %v", err)
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	if err := c.WillRead(stopped, fd, 0, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}
