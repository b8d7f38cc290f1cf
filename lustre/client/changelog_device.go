package client

import (
	"context"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// devices are those of change logs.
type devices interface {
	// names returns all there are, of all file systems.
	names() ([]string, error)
	open(name string, mode int) (device, error)
}

// device is the open device of one change log. It comes to its end once, and has to be
// opened again for what was written since.
type device interface {
	setFlags(flags uintptr) error // before the first read
	seek(index uint64) error      // the first record that is wanted
	// read fills p with whole records; 0 is the end. p has room for any record: the end
	// is also what is said when it has not.
	read(ctx context.Context, p []byte) (int, error)
	write(p []byte) error
	close() error
}

// linuxDevices are those of this machine.
type linuxDevices struct{}

// DeviceDir is where the devices are.
const DeviceDir = "/dev"

// DevicePath is the device of the change log of one MDT.
func DevicePath(f lustre.Feed) string { return DeviceDir + "/" + changePrefix + f.Name }

// names lists the directory: a pattern (filepath.Glob) is silent about one that can not be read.
func (linuxDevices) names() (names []string, err error) {
	entries, err := os.ReadDir(DeviceDir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), changePrefix) {
			names = append(names, DeviceDir+"/"+e.Name())
		}
	}
	return names, err
}

func (linuxDevices) open(name string, mode int) (device, error) {
	// Not os.Open: the Go runtime would poll the device at once, and with the first poll
	// begins its reading, before it was told from where.
	fd, err := (linux{}).openat(unix.AT_FDCWD, DeviceDir+"/"+name, mode|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return linuxDevice(fd), nil
}

type linuxDevice int

func (d linuxDevice) setFlags(flags uintptr) error {
	_, err := linux{}.ioctlValue(int(d), uapi.IocChangeFlags, flags)
	return err
}

func (d linuxDevice) seek(index uint64) error {
	_, err := unix.Seek(int(d), int64(index), unix.SEEK_SET)
	return err
}

// pollMillis is how late, in milliseconds, a reading notices that its context is done. A read
// itself waits for the server, and can not be interrupted from here.
const pollMillis = 200

func (d linuxDevice) read(ctx context.Context, p []byte) (int, error) {
	for {
		ready, err := again(func() (int, error) {
			return unix.Poll([]unix.PollFd{{Fd: int32(d), Events: unix.POLLIN}}, pollMillis)
		})
		if err := errors.Join(err, ctx.Err()); err != nil {
			return 0, err
		}
		if ready > 0 {
			return again(func() (int, error) { return unix.Read(int(d), p) })
		}
	}
}

func (d linuxDevice) write(p []byte) error {
	_, err := again(func() (int, error) { return unix.Write(int(d), p) })
	return err
}

func (d linuxDevice) close() error { return unix.Close(int(d)) }
