package copytool

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// mount is a mounted Lustre.
type mount struct {
	root      *os.File
	ioctl     func(fd int, request uint, arg []byte) (int, error)
	encrypted func(fd int) (bool, error)
}

func openMount(o *Options) (*mount, error) {
	fd, err := again(func() (int, error) {
		return unix.Open(o.Mount, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, fmt.Errorf("open the mount %s: %w", o.Mount, err)
	}
	return &mount{os.NewFile(uintptr(fd), o.Mount), o.Ioctl, o.Encrypted}, nil
}

// rootFID is the root of every Lustre.
var rootFID = lustre.FID{Seq: 0x200000007, OID: 1}

// Made is when the root of a mounted file system was made, by which two of one name are told
// apart; zero where that is not told. What is no Lustre is an error: it may be mounted later.
func Made(mount string, ioctl func(fd int, request uint, arg []byte) (int, error)) (time.Time, error) {
	o := Options{Mount: mount, Ioctl: ioctl}.withDefaults()
	m, err := openMount(&o)
	if err != nil {
		return time.Time{}, err
	}
	defer m.root.Close()
	if _, err := m.ask(nil, uapi.IocFIDToPath, uapi.EncodeFIDToPath(rootFID, 0)); errors.Is(err, unix.ENOTTY) {
		return time.Time{}, fmt.Errorf("%s: it is no Lustre, or not mounted yet: %w", mount, err)
	}
	var st unix.Statx_t
	err = unix.Statx(int(m.root.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return time.Time{}, err
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)).UTC(), nil
}

func again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// ask is an ioctl on an open file, or on the mount when f is nil.
func (m *mount) ask(f *os.File, request uint, arg []byte) (int, error) {
	if f == nil {
		f = m.root
	}
	defer runtime.KeepAlive(f)
	return m.ioctl(int(f.Fd()), request, arg)
}

// delayed has a file of Lustre opened without its layout (O_LOV_DELAY_CREATE, which is
// O_NOCTTY and FASYNC): a new one gets none yet, and a released one is not restored.
const delayed = unix.O_NOCTTY | unix.O_ASYNC

// open opens a file by its FID. Nothing of it changes by that, not even its atime. One that is
// encrypted is refused.
func (m *mount) open(f lustre.FID, flags int) (*os.File, unix.Stat_t, error) {
	name := ".lustre/fid/" + f.Name()
	open := func(flags int) (int, error) {
		return again(func() (int, error) {
			return unix.Openat(int(m.root.Fd()), name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0)
		})
	}
	var st unix.Stat_t
	fd, err := open(flags | unix.O_NOATIME)
	if errors.Is(err, unix.EPERM) { // not ours
		fd, err = open(flags)
	}
	if err != nil {
		return nil, st, fmt.Errorf("open %v: %w", f, err)
	}
	file := os.NewFile(uintptr(fd), f.String())
	if err := m.servable(fd, &st); err != nil {
		return nil, st, errors.Join(fmt.Errorf("%v: %w", f, err), file.Close())
	}
	return file, st, nil
}

// servable says why an open file has no copy.
func (m *mount) servable(fd int, st *unix.Stat_t) error {
	if err := unix.Fstat(fd, st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("it is not a regular file: %w", unix.EINVAL)
	}
	secret, err := m.encrypted(fd)
	if err == nil && secret {
		return errEncrypted
	}
	return err
}

// begin tells that a copy begins. The kernel gives c the data version.
func (m *mount) begin(c *uapi.Copy) error {
	arg := c.Encode()
	if _, err := m.ask(nil, uapi.IocCopyStart, arg); err != nil {
		return fmt.Errorf("begin: %w", gone(err))
	}
	now, err := uapi.DecodeCopy(arg)
	c.DataVersion = now.DataVersion
	return err
}

// end tells that it has ended.
func (m *mount) end(c *uapi.Copy) error {
	if _, err := m.ask(nil, uapi.IocCopyEnd, c.Encode()); err != nil {
		return fmt.Errorf("the end was not accepted: %w", gone(err))
	}
	return nil
}

// progress tells how far it is; an error says that it is not wanted any more.
func (m *mount) progress(p *uapi.Progress) error {
	_, err := m.ask(nil, uapi.IocCopyProgress, p.Encode())
	return gone(err)
}

// gone finds in the answer of an MDT that an action is no longer ours.
func gone(err error) error {
	switch {
	case errors.Is(err, unix.ECANCELED):
		return errCancelled
	case errors.Is(err, unix.ENOENT):
		return errLost
	}
	return err
}

// version is the data version of an open file, with what all clients have written.
func (m *mount) version(f *os.File) (uint64, error) {
	arg := uapi.EncodeDataVersion(uapi.FlushWrites)
	if _, err := m.ask(f, uapi.IocDataVersion, arg); err != nil {
		return 0, fmt.Errorf("data version: %w", err)
	}
	content, _, err := uapi.DecodeDataVersion(arg)
	return content, err
}

// path is where a file is below the mount; "" when it can not be told.
func (m *mount) path(f lustre.FID) string {
	arg := uapi.EncodeFIDToPath(f, 0)
	if _, err := m.ask(nil, uapi.IocFIDToPath, arg); err != nil {
		return ""
	}
	path, _, err := uapi.DecodeFIDToPath(arg)
	if err != nil {
		return ""
	}
	return path
}

// volatileName names a file that has no name: Lustre makes one that ends with its
// descriptor. The MDT to make it on comes first, because contents are swapped on one MDT;
// none is any.
func (m *mount) volatileName(f lustre.FID) string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	mdt := ""
	if index, err := m.ask(nil, uapi.IocFIDToMDT, uapi.AppendFID(nil, f)); err == nil && index >= 0 && index <= 0xffff {
		mdt = fmt.Sprintf("%04X", index)
	}
	return fmt.Sprintf(".\x0c\x13\x14\x12:VOLATILE:%s:%X", mdt, binary.LittleEndian.Uint64(random[:]))
}

// volatile makes the file that a restore fills: it has the owner, the layout and
// the project of the file. It has a FID of its own.
func (m *mount) volatile(of *os.File, f lustre.FID, st *unix.Stat_t) (*os.File, lustre.FID, error) {
	v, err := m.likeLayout(of, f)
	if err != nil {
		return nil, lustre.FID{}, fmt.Errorf("make the file to restore into: %w", err)
	}
	var self lustre.FID
	err = unix.Fchown(int(v.Fd()), int(st.Uid), int(st.Gid))
	if err == nil {
		arg := make([]byte, uapi.FIDSize)
		if _, err = m.ask(v, uapi.IocPathToFID, arg); err == nil {
			self, err = uapi.DecodeFID(arg)
		}
	}
	if err != nil {
		return nil, self, errors.Join(fmt.Errorf("make the file to restore into: %w", err), v.Close())
	}
	m.likeProject(v, of)
	return v, self, nil
}

// likeLayout makes a volatile file with the layout of another one, or where that can not
// be had, with the default.
func (m *mount) likeLayout(of *os.File, f lustre.FID) (*os.File, error) {
	if blob := wantedLayout(of); blob != nil {
		v, err := m.create(m.volatileName(f), delayed)
		if err != nil {
			return nil, err
		}
		if unix.Fsetxattr(int(v.Fd()), layoutXattr, blob, 0) == nil {
			return v, nil
		}
		if err := v.Close(); err != nil { // without a layout it can not be written
			return nil, err
		}
	}
	return m.create(m.volatileName(f), 0)
}

func (m *mount) create(name string, flags int) (*os.File, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(int(m.root.Fd()), name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0o600)
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "volatile"), nil
}

// layoutXattr has the layout of a file as users may read and set it.
const layoutXattr = "lustre.lov"

// wantedLayout is the layout of a file as a request; nil when there is none to ask for.
func wantedLayout(of *os.File) []byte {
	b := make([]byte, 64<<10) // XATTR_SIZE_MAX
	n, err := again(func() (int, error) { return unix.Fgetxattr(int(of.Fd()), layoutXattr, b) })
	if err != nil {
		return nil
	}
	return requestOf(b[:n])
}

// requestOf makes a request of a stored layout. Of a mirrored file it is that of its first
// mirror: a second one would be behind from the first byte on.
func requestOf(stored []byte) []byte {
	l, err := uapi.DecodeLayout(stored)
	if err != nil || len(l.Components) == 0 {
		return nil
	}
	all := l.Wanted().Components
	var wanted lustre.Layout
	for i := range all {
		if l.Components[i].Mirror() == l.Components[0].Mirror() {
			wanted.Components = append(wanted.Components, all[i])
		}
	}
	blob, err := uapi.EncodeRequest(&wanted)
	if err != nil {
		return nil
	}
	return blob
}

// The project of an open file (struct fsxattr of linux/fs.h).
const (
	iocGetProject = 0x801c581f // FS_IOC_FSGETXATTR
	iocSetProject = 0x401c5820 // FS_IOC_FSSETXATTR
	projectOffset = 12
	projectSize   = 28
)

// likeProject accounts a file to the project of another one, as far as that can be done: a
// restore must not fail because of it.
func (m *mount) likeProject(f, of *os.File) {
	theirs, ours := make([]byte, projectSize), make([]byte, projectSize)
	if _, err := m.ask(of, iocGetProject, theirs); err != nil {
		return
	}
	project := binary.LittleEndian.Uint32(theirs[projectOffset:])
	if _, err := m.ask(f, iocGetProject, ours); err != nil || binary.LittleEndian.Uint32(ours[projectOffset:]) == project {
		return
	}
	binary.LittleEndian.PutUint32(ours[projectOffset:], project)
	_, _ = m.ask(f, iocSetProject, ours)
}

// likeTimes gives a restored file the mode and times of the file that it is the content of.
func (m *mount) likeTimes(f *os.File, st *unix.Stat_t) error {
	if err := unix.Fchmod(int(f.Fd()), st.Mode&0o7777); err != nil {
		return err
	}
	times := uapi.Times{Atime: timeOf(st.Atim), Mtime: timeOf(st.Mtim), Ctime: timeOf(st.Ctim)}
	_, err := m.ask(f, uapi.IocSetTimes, times.Encode())
	return err
}

func timeOf(t unix.Timespec) uapi.Time { return uapi.Time{Sec: t.Sec, Nsec: t.Nsec} }
