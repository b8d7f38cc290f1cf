package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"datamove.dev/mover"
)

// listen opens an address: unix:///path or tcp://host:port.
func listen(address string) (net.Listener, error) {
	l, err := open(address)
	if err != nil {
		return nil, &mover.Error{Op: "listen on", Location: address, Err: err}
	}
	return l, nil
}

func open(address string) (net.Listener, error) {
	if path, is := strings.CutPrefix(address, "unix://"); is {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("%w: the path of a socket begins with /", mover.ErrUsage)
		}
		return openSocket(filepath.Clean(path))
	}
	target, is := strings.CutPrefix(address, "tcp://")
	if !is {
		return nil, fmt.Errorf("%w: want unix:///path or tcp://host:port", mover.ErrUsage)
	}
	return openTCP(target)
}

func openTCP(target string) (net.Listener, error) {
	l, err := net.Listen("tcp", target)
	return l, inUse(err)
}

// inUse makes of an address that is taken an error of kind ErrHeld.
func inUse(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: %w", mover.ErrHeld, err)
	}
	return err
}

// socket is a listener on a unix socket that removes its file, and no other, at the end.
type socket struct {
	*net.UnixListener
	path string
	file fs.FileInfo
}

// openSocket makes a socket that every account can connect to: the kernel names the caller.
func openSocket(path string) (net.Listener, error) {
	if err := makeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	l, err := bind(path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err = removeStale(path); err == nil {
			l, err = bind(path)
		}
	}
	if err != nil {
		return nil, inUse(err)
	}
	s := &socket{UnixListener: l, path: path}
	if s.file, err = os.Lstat(path); err == nil {
		err = os.Chmod(path, 0o666) // the kernel names the caller
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func bind(path string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		l.SetUnlinkOnClose(false) // it would remove whatever has the name by then
	}
	return l, err
}

// makeDir makes the directory of a socket. One in which others can replace files would
// let them answer in our place.
func makeDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { // others have to get through
		return err
	}
	err := os.Mkdir(dir, 0o755) // as above
	if err == nil {
		return os.Chmod(dir, 0o755) // whatever our umask is
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		err = fmt.Errorf("%w: others can replace files in %s (mode %04o), and so the socket: chmod 755",
			mover.ErrPermission, mover.Printable(dir), info.Mode().Perm())
	}
	return err
}

// answerTime is how long a process may take to answer on a socket that is there.
const answerTime = 2 * time.Second

// removeStale removes a socket that an ended process has left.
func removeStale(path string) error {
	was, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if was.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%w: %s is there, and is no socket; it is not touched", mover.ErrConflict, mover.Printable(path))
	}
	conn, err := net.DialTimeout("unix", path, answerTime)
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) { // a process is behind a socket that is only slow, too
		return fmt.Errorf("%w: a server answers there already; is another datamoved running?", mover.ErrHeld)
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(was, now) {
		return fmt.Errorf("%w: another process is making it; is another datamoved starting?", mover.ErrHeld)
	}
	return os.Remove(path)
}

// Close ends the listening and removes the socket.
func (s *socket) Close() error {
	err := s.UnixListener.Close()
	if there, e := os.Lstat(s.path); e == nil && s.file != nil && os.SameFile(there, s.file) {
		err = errors.Join(err, os.Remove(s.path))
	}
	return err
}
