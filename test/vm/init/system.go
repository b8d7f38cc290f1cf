//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/vm/wire"
)

// patience is how long something may take that the kernel does by itself, like
// finding a disk. The processor is emulated, on a host with other things to do.
const patience = 2 * time.Minute

// base mounts what every program expects.
func base() error {
	for _, m := range []wire.Mount{
		{Source: "proc", Target: "/proc", Type: "proc"},
		{Source: "sysfs", Target: "/sys", Type: "sysfs"},
		{Source: "devtmpfs", Target: "/dev", Type: "devtmpfs"},
		{Source: "tmpfs", Target: "/run", Type: "tmpfs"},
		{Source: "tmpfs", Target: "/tmp", Type: "tmpfs", Options: "mode=1777"},
		{Source: "tmpfs", Target: "/dev/shm", Type: "tmpfs", Options: "mode=1777"},
	} {
		if err := mount(m); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"/dev/fd": "/proc/self/fd", "/dev/stdin": "fd/0", "/dev/stdout": "fd/1", "/dev/stderr": "fd/2"} {
		if err := os.Symlink(target, name); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func mount(m wire.Mount) error {
	if err := os.MkdirAll(m.Target, 0o755); err != nil {
		return err
	}
	if strings.HasPrefix(m.Source, "/dev/") {
		if err := appears(m.Source); err != nil {
			return err
		}
	}
	var flags uintptr
	if m.Bind {
		flags = unix.MS_BIND
	}
	if err := unix.Mount(m.Source, m.Target, m.Type, flags, m.Options); err != nil {
		return fmt.Errorf("mount %s (%s) at %s with %q: %w", m.Source, m.Type, m.Target, m.Options, err)
	}
	return nil
}

// load loads modules, whose dependencies come first.
func load(modules []wire.Module) error {
	for _, m := range modules {
		if err := loadOne(m.Path); err != nil && !m.Soft {
			return fmt.Errorf("load %s: %w", m.Path, err)
		}
	}
	return nil
}

func loadOne(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}

// loopback switches the interface lo on; see netdevice(7).
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("switch lo on: %w", err)
	}
	return nil
}

// port opens the virtio port of the given name. Nobody here makes the links that
// udev would make, so it is found as udev does.
func port(name string) (*os.File, error) {
	var found string
	err := until("virtio port "+name, func() bool {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name") // the pattern is good
		for _, file := range names {
			text, err := os.ReadFile(file)
			if err == nil && strings.TrimSpace(string(text)) == name {
				found = "/dev/" + filepath.Base(filepath.Dir(file))
				return true
			}
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	if err := appears(found); err != nil {
		return nil, err
	}
	return os.OpenFile(found, os.O_RDWR, 0)
}

func appears(path string) error {
	return until(path, func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

func until(what string, happened func() bool) error {
	for end := time.Now().Add(patience); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s did not appear within %v", what, patience)
		}
	}
	return nil
}
