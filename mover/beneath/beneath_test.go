package beneath

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

const nothing = unix.Errno(0)

// TestOpen opens what a hostile user could have put in the way.
func TestOpen(t *testing.T) {
	top := t.TempDir()
	root := filepath.Join(top, "root")
	must.Do(t, errors.Join(
		os.MkdirAll(root+"/dir/sub", 0o700), os.Mkdir(top+"/other", 0o700),
		os.WriteFile(root+"/dir/file", []byte("inside"), 0o600), os.WriteFile(top+"/secret", []byte("outside"), 0o600),
		os.Symlink("dir", root+"/in"), os.Symlink("../other", root+"/out"), os.Symlink(root+"/dir", root+"/absolute"),
		os.Symlink("loop", root+"/loop"), os.Symlink("/proc/self/cwd", root+"/magic"), os.Symlink("../../secret", root+"/dir/last"),
		os.Symlink("file", root+"/dir/near"),
	))
	at := must.Get(unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(at)
	for _, test := range []struct {
		path                       string
		flags                      int
		links, noLinks, samemounts unix.Errno
	}{
		{"dir/file", unix.O_RDONLY, 0, 0, 0},
		{".", unix.O_RDONLY | unix.O_DIRECTORY, 0, 0, 0},
		{"./dir/sub/../file", unix.O_RDONLY, 0, 0, 0},
		{"dir", unix.O_PATH | unix.O_DIRECTORY, 0, 0, 0},
		{"in/file", unix.O_RDONLY, 0, unix.ELOOP, unix.ELOOP},
		{"dir/near", unix.O_RDONLY, 0, unix.ELOOP, unix.ELOOP},
		{"dir/near", unix.O_RDONLY | unix.O_NOFOLLOW, unix.ELOOP, unix.ELOOP, unix.ELOOP},
		{"dir/near", unix.O_PATH | unix.O_NOFOLLOW, 0, 0, 0},
		{"..", unix.O_PATH, unix.EXDEV, unix.EXDEV, unix.EXDEV},
		{"../secret", unix.O_RDONLY, unix.EXDEV, unix.EXDEV, unix.EXDEV},
		{"dir/../../secret", unix.O_RDONLY, unix.EXDEV, unix.EXDEV, unix.EXDEV},
		{top + "/secret", unix.O_RDONLY, unix.EXDEV, unix.EXDEV, unix.EXDEV},
		{root + "/dir/file", unix.O_RDONLY, unix.EXDEV, unix.EXDEV, unix.EXDEV},
		{"out", unix.O_PATH, unix.EXDEV, unix.ELOOP, unix.ELOOP},
		{"dir/last", unix.O_RDONLY, unix.EXDEV, unix.ELOOP, unix.ELOOP},
		{"absolute/file", unix.O_RDONLY, unix.EXDEV, unix.ELOOP, unix.ELOOP},
		{"magic", unix.O_PATH, unix.EXDEV, unix.ELOOP, unix.ELOOP},
		{"loop", unix.O_PATH, unix.ELOOP, unix.ELOOP, unix.ELOOP},
		{"none", unix.O_RDONLY, unix.ENOENT, unix.ENOENT, unix.ENOENT},
		{"dir/file/x", unix.O_RDONLY, unix.ENOTDIR, unix.ENOTDIR, unix.ENOTDIR},
		{"", unix.O_RDONLY, unix.ENOENT, unix.ENOENT, unix.ENOENT},
	} {
		for _, rule := range []struct {
			name string
			is   Rule
			want unix.Errno
		}{{"links", Links, test.links}, {"no links", NoLinks, test.noLinks}, {"same mount", SameMount, test.samemounts}} {
			got := tryOpen(t, rule.is, at, test.path, test.flags)
			if got != rule.want {
				t.Errorf("%s, %q with flags %#x: got %v, want %v", rule.name, test.path, test.flags, got, rule.want)
			}
		}
	}
}

// tryOpen opens and closes, and returns the error, which has to be a plain one.
func tryOpen(t *testing.T, r Rule, at int, path string, flags int) unix.Errno {
	t.Helper()
	fd, err := r.Open(at, path, flags)
	if err != nil {
		errno, plain := err.(unix.Errno) //nolint:errorlint // that it is a plain one is what callers compare with
		if !plain || fd != -1 {
			t.Errorf("%q: descriptor %d with %T %v", path, fd, err, err)
		}
		return errno
	}
	defer unix.Close(fd)
	if flags := must.Get(unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0))(t); flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("%q stays open in children", path)
	}
	return nothing
}

// TestMount: only SameMount minds a mount on the way.
func TestMount(t *testing.T) {
	at := must.Get(unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(at)
	for _, test := range []struct {
		rule Rule
		want unix.Errno
	}{{Links, 0}, {NoLinks, 0}, {SameMount, unix.EXDEV}} {
		if got := tryOpen(t, test.rule, at, "proc/sys", unix.O_PATH|unix.O_DIRECTORY); got != test.want {
			t.Errorf("/proc by rule %#x: got %v, want %v", uint64(test.rule), got, test.want)
		}
	}
}

// TestMagic: a link of /proc that leads to what a process has open is followed by no rule.
func TestMagic(t *testing.T) {
	at := must.Get(unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(at)
	if got := tryOpen(t, Links, at, "self/fd", unix.O_PATH|unix.O_DIRECTORY); got != nothing {
		t.Errorf("a link that is none of those: %v", got)
	}
	for _, rule := range []Rule{Links, NoLinks, SameMount} {
		if got := tryOpen(t, rule, at, "self/cwd/beneath.go", unix.O_RDONLY); got != unix.ELOOP {
			t.Errorf("by rule %#x: got %v, want %v", uint64(rule), got, unix.ELOOP)
		}
	}
}

// TestRaces: a signal and a rename that cross the lookup are tried again, a rename not without end.
func TestRaces(t *testing.T) {
	was := openat2
	defer func() { openat2 = was }()
	for _, test := range []struct {
		name  string
		gives func(call int) unix.Errno
		want  unix.Errno
		calls int
	}{
		{"signals", func(call int) unix.Errno {
			if call < 10*tries {
				return unix.EINTR
			}
			return 0
		}, 0, 10*tries + 1},
		{"a rename", func(call int) unix.Errno {
			if call < 3 {
				return unix.EAGAIN
			}
			return 0
		}, 0, 4},
		{"renames for ever", func(int) unix.Errno { return unix.EAGAIN }, unix.EAGAIN, tries + 1},
		{"an old kernel", func(int) unix.Errno { return unix.ENOSYS }, unix.ENOSYS, 1},
	} {
		calls := 0
		openat2 = func(at int, path string, how *unix.OpenHow) (int, error) {
			errno := test.gives(calls)
			calls++
			if errno != 0 {
				return -1, errno
			}
			return was(at, path, how)
		}
		if got := tryOpen(t, NoLinks, unix.AT_FDCWD, ".", unix.O_PATH); got != test.want || calls != test.calls {
			t.Errorf("%s: got %v after %d calls, want %v after %d", test.name, got, calls, test.want, test.calls)
		}
	}
}
