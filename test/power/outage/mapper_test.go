package outage

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// mapped is a disk below the kernel's device mapper, as one target over all of it.
type mapped struct {
	t       *testing.T
	name    string
	sectors uint64
	device  string
}

// Numbers of linux/dm-ioctl.h.
const (
	dmCreate  = 3
	dmRemove  = 4
	dmSuspend = 6
	dmLoad    = 9
	dmMessage = 14

	dmSkipLockFS = 1 << 10
	dmNoFlush    = 1 << 11
)

// dmHead is struct dm_ioctl, and dmSpec struct dm_target_spec.
type dmHead struct {
	Version                      [3]uint32
	DataSize, DataStart, Targets uint32
	Open                         int32
	Flags, Event, _              uint32
	Dev                          uint64
	Name                         [128]byte
	UUID                         [129]byte
	_                            [7]byte
}

type dmSpec struct {
	Start, Sectors uint64
	Status         int32
	Next           uint32
	Type           [16]byte
}

// mapDisk makes a device in front of a disk, with a target and its arguments.
func mapDisk(t *testing.T, name, disk, target string, arguments ...any) *mapped {
	t.Helper()
	f := must.Get(os.Open(disk))(t)
	defer f.Close()
	bytes := must.Get(f.Seek(0, 2))(t)
	m := &mapped{t: t, name: name, sectors: uint64(bytes / 512)}
	m.device = fmt.Sprint("/dev/dm-", unix.Minor(m.do(dmCreate, 0, nil).Dev))
	t.Cleanup(m.remove)
	m.become(target, arguments...)
	return m
}

// become gives the device another target. Whoever writes to it meanwhile waits; what is on
// its way through the old one comes to its end.
func (m *mapped) become(target string, arguments ...any) {
	m.t.Helper()
	spec := dmSpec{Sectors: m.sectors}
	copy(spec.Type[:], target)
	text := fmt.Sprintln(arguments...)
	data := must.Get(binary.Append(nil, binary.NativeEndian, spec))(m.t)
	data = append(append(data, strings.TrimSpace(text)...), 0)
	m.do(dmLoad, 0, append(data, make([]byte, -len(data)&7)...))
	m.do(dmSuspend, dmSkipLockFS|dmNoFlush, nil) // resume, at once: the file system is not asked to be ready
}

// message tells the target something.
func (m *mapped) message(text string) error {
	_, err := m.try(dmMessage, 0, append(append(make([]byte, 8), text...), 0)) // for the target of sector 0
	return err
}

// remove may find it gone.
func (m *mapped) remove() {
	if m.name != "" {
		m.do(dmRemove, 0, nil)
		m.name = ""
	}
}

func (m *mapped) do(number, flags uint32, data []byte) dmHead {
	m.t.Helper()
	h := must.Get(m.try(number, flags, data))(m.t)
	return h
}

// try is one ioctl, with data behind its head.
func (m *mapped) try(number, flags uint32, data []byte) (dmHead, error) {
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return dmHead{}, err
	}
	defer control.Close()
	h := dmHead{Version: [3]uint32{4}, Flags: flags, DataStart: uint32(unsafe.Sizeof(dmHead{}))}
	if number == dmLoad {
		h.Targets = 1
	}
	copy(h.Name[:], m.name)
	h.DataSize = h.DataStart + uint32(len(data))
	b, err := binary.Append(nil, binary.NativeEndian, h)
	if err != nil {
		return h, err
	}
	b = append(b, data...)
	const request = 3<<30 | uint32(unsafe.Sizeof(dmHead{}))<<16 | 0xfd<<8 // _IOWR(DM_IOCTL, ...)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, control.Fd(), uintptr(request|number), uintptr(unsafe.Pointer(&b[0])))
	if errno != 0 {
		return h, fmt.Errorf("device mapper, %s, call %d with %q: %w", m.name, number, data, errno)
	}
	_, err = binary.Decode(b, binary.NativeEndian, &h)
	return h, err
}
