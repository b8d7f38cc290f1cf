package server

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestSocket(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "run", "s")
	l := must.Get(listen("unix://" + path))(t)
	for name, want := range map[string]fs.FileMode{path: fs.ModeSocket | 0o666, filepath.Dir(path): fs.ModeDir | 0o755} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, want)
		}
	}
	if _, err := listen("unix://" + path); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("a second one on a socket that answers: %v", err)
	}
	must.Tell(t, l.Close())
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket was left: %v", err)
	}
}

// abandon leaves a socket where nobody answers, as a kill does.
func abandon(t *testing.T, path string) {
	t.Helper()
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	l.SetUnlinkOnClose(false)
	_ = l.Close()
}

func TestStaleSocket(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	abandon(t, path)
	l := must.Get(listen("unix://" + path))(t)
	defer l.Close()
	if conn, err := net.Dial("unix", path); err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
}

// What is not an abandoned socket is never removed.
func TestOtherFilesStay(t *testing.T) {
	dir := shortDir(t)
	file, link, stale := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "stale")
	must.Do(t, errors.Join(os.WriteFile(file, []byte("precious"), 0o600), os.Mkdir(filepath.Join(dir, "dir"), 0o700), os.Symlink(stale, link)))
	abandon(t, stale)
	for _, name := range []string{"file", "dir", "link"} {
		if _, err := listen("unix://" + filepath.Join(dir, name)); !errors.Is(err, mover.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"file", "dir", "link", "stale"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// A socket that somebody put in place of ours, as the next version does, is not ours
// to remove.
func TestSuccessorStays(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l := must.Get(listen("unix://" + path))(t)
	must.Do(t, os.Rename(path, path+".old"))
	next := must.Get(listen("unix://" + path))(t)
	defer next.Close()
	_ = l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

func TestDirectoryOfOthers(t *testing.T) {
	dir := filepath.Join(shortDir(t), "open")
	must.Do(t, errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)))
	if _, err := listen("unix://" + filepath.Join(dir, "s")); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("a directory that everybody can write: %v", err)
	}
	must.Do(t, os.Chmod(dir, 0o777|fs.ModeSticky))
	l := must.Get(listen("unix://" + filepath.Join(dir, "s")))(t)
	_ = l.Close()
}

func TestAddresses(t *testing.T) {
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	for address, want := range map[string]error{
		"unix://relative": mover.ErrUsage, "/run/s": mover.ErrUsage, "http://127.0.0.1:1": mover.ErrUsage, "tcp://" + taken.Addr().String(): mover.ErrHeld,
	} {
		if _, err := listen(address); !errors.Is(err, want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// When one address can not be opened, the others are closed.
func TestOpenFails(t *testing.T) {
	first := filepath.Join(shortDir(t), "s")
	_, err := Open(Options{
		Listen: []string{"unix://" + first, "unix://" + t.TempDir()}, Rules: func() Rules { return Passing{} },
		Accounts: &accounts{}, Audit: (&records{}).append, Register: (&desk{}).register,
	})
	if !errors.Is(err, mover.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(first); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the first socket was left: %v", err)
	}
	if _, err := Open(Options{Listen: []string{"tcp://127.0.0.1:0"}, Rules: func() Rules { return Passing{} },
		Accounts: &accounts{}, Audit: (&records{}).append, Register: (&desk{}).register}); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("TCP without TLS: %v", err)
	}
}
