package copytest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// Ioctl is the kernel, as copytool.Options wants it.
func (l *Lustre) Ioctl(fd int, request uint, arg []byte) (int, error) {
	if request == uapi.IocCopytool {
		l.kuc.Lock()
		defer l.kuc.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.changed.Broadcast()
	if errno := l.refuse[request]; errno != 0 {
		return 0, errno
	}
	errno := unix.ENOTTY
	switch request {
	case uapi.IocCopytool:
		errno = l.register(arg)
	case uapi.IocCopyStart:
		errno = l.start(arg)
	case uapi.IocCopyEnd:
		errno = l.end(arg)
	case uapi.IocCopyProgress:
		errno = l.progress(arg)
	case uapi.IocDataVersion:
		version, err := l.version(fd)
		if err != nil {
			return 0, err
		}
		copy(arg, uapi.AppendFID(nil, lustre.FID{Seq: version})[:8])
		errno = 0
	case uapi.IocPathToFID:
		errno = l.self(fd, arg)
	case uapi.IocFIDToPath:
		errno = l.path(arg)
	case uapi.IocSetTimes:
		errno = l.setTimes(fd, arg)
	case uapi.IocFIDToMDT:
		f, err := uapi.DecodeFID(arg)
		if err != nil {
			return 0, l.wrong("asks for the MDT of %x: %v", arg, err)
		}
		return MDT(f), nil
	}
	if errno != 0 {
		return 0, errno
	}
	return 0, nil
}

func (l *Lustre) register(arg []byte) unix.Errno {
	r, err := uapi.DecodeRegistration(arg)
	if err != nil {
		return l.wrong("registers with %x: %v", arg, err)
	}
	if r.Stop {
		if l.dead {
			l.dead = false
			return unix.ENOENT // the MDT has forgotten it; it was in no group of this kernel
		}
		if l.pipe == nil {
			return unix.ENOENT
		}
		_ = l.pipe.Close()
		l.pipe = nil
		return 0
	}
	if l.dead || l.pipe != nil { // a mount has one copytool
		return unix.EEXIST
	}
	own, err := unix.FcntlInt(uintptr(r.WriteFD), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return l.wrong("registers descriptor %d: %v", r.WriteFD, err)
	}
	flags, err := unix.FcntlInt(uintptr(own), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_NONBLOCK != 0 {
		return l.wrong("what the kernel writes to is not to block (%#x): it would drop actions", flags)
	}
	if int(r.PID) != os.Getpid() {
		return l.wrong("registers process %d", r.PID)
	}
	l.times++
	l.pipe, l.served = os.NewFile(uintptr(own), "actions"), r.Archives
	return 0
}

// Serves are the archives of the copytool that is registered.
func (l *Lustre) Serves() []uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.served
}

// find finds the request of a copy.
func (l *Lustre) find(what string, arg []byte) (*request, uapi.Copy, unix.Errno) {
	c, err := uapi.DecodeCopy(arg)
	if err != nil {
		return nil, c, l.wrong("%s with %x: %v", what, arg, err)
	}
	r := l.requests[c.Item.Cookie]
	switch {
	case r == nil || r.end != nil && r.lost:
		return nil, c, unix.ENOENT // an MDT forgets what has ended
	case r.end != nil:
		return nil, c, l.wrong("%s of %#x, which has ended", what, c.Item.Cookie)
	case c.Item.FID != r.FID && !l.filled(r, c.Item.FID):
		return nil, c, l.wrong("%s of %#x on %v, which is on %v", what, c.Item.Cookie, c.Item.FID, r.FID)
	case r.Action != c.Item.Action:
		return nil, c, l.wrong("%s of a %v as %v", what, r.Action, c.Item.Action)
	}
	return r, c, 0
}

// filled reports whether a restore may be of the volatile file f: it is made known by its end.
func (l *Lustre) filled(r *request, f lustre.FID) bool {
	return r.Action == uapi.CopyRestore && r.started && l.volatile(f) != nil
}

func (l *Lustre) start(arg []byte) unix.Errno {
	r, c, errno := l.find("begins", arg)
	switch {
	case errno != 0:
		return errno
	case r.started:
		return l.wrong("begins %#x twice", r.Cookie)
	case r.cancelled:
		return unix.ECANCELED
	case r.Action == uapi.CopyRestore && l.volatile(c.Item.Data) == nil:
		return l.wrong("restores into %v, which it has not made", c.Item.Data)
	}
	r.started, r.heard = true, true
	if r.Action == uapi.CopyArchive {
		version, err := l.versionOf(r.FID)
		if err != nil { // ll_ioc_copy_start: "on error, the request should be considered as completed"
			c.Errno, c.Flags = uint16(unix.ENOENT), uapi.CopyCompleted|uapi.CopyRetry
			r.end, r.lost = &c, true
			return unix.ENOENT
		}
		r.version, c.DataVersion = version, version
	}
	copy(arg, c.Encode())
	return 0
}

func (l *Lustre) progress(arg []byte) unix.Errno {
	p, err := uapi.DecodeProgress(arg)
	if err != nil {
		return l.wrong("progress %x: %v", arg, err)
	}
	r := l.requests[p.Cookie]
	switch {
	case r == nil || r.end != nil && r.lost:
		return unix.ENOENT
	case p.FID != r.FID:
		return l.wrong("progress of %#x on %v, which is on %v", p.Cookie, p.FID, r.FID)
	case !r.started && p.Extent.Length > 0 || r.end != nil: // of what waits, too, an MDT wants to hear
		return l.wrong("progress of %#x, which is not in work", p.Cookie)
	case r.cancelled:
		return unix.ECANCELED
	case p.Flags&uapi.CopyCompleted != 0:
		return l.wrong("progress that completes %#x", p.Cookie)
	case p.Extent.Length > 0 && p.Extent.Off != r.told:
		return l.wrong("progress of %#x at %d, after %d", p.Cookie, p.Extent.Off, r.told)
	}
	r.told += p.Extent.Length
	r.progressed++
	r.heard = true
	return 0
}

func (l *Lustre) end(arg []byte) unix.Errno {
	r, c, errno := l.find("ends", arg)
	if errno != 0 {
		return errno
	}
	r.end = &c
	switch {
	case c.Errno > mostErrno:
		return unix.EINVAL // it has ended all the same (hsm_cdt_request_completed)
	case c.Errno != 0 || r.Action == uapi.CopyRemove:
		return 0
	case !r.started:
		return l.wrong("ends %#x, which it has not begun", r.Cookie)
	case r.Action == uapi.CopyArchive:
		return l.archived(r, &c)
	}
	return l.restored(r, &c)
}

// mostErrno is CLF_HSM_MAXERROR: records of changes have seven bits for an error.
const mostErrno = 0x7e

// archived believes a copy only when the file is what it was at the beginning. Of a file that
// was written meanwhile the kernel tells the MDT and its caller (ll_ioc_copy_end of
// lustre/llite/dir.c, 2.10 to 2.17; the client that was in Linux did not tell its caller).
func (l *Lustre) archived(r *request, c *uapi.Copy) unix.Errno {
	version, err := l.versionOf(r.FID)
	switch {
	case err != nil:
		r.end.Errno = uint16(unix.ENOENT)
		return unix.ENOENT
	case version != r.version || c.DataVersion != r.version:
		r.end.Errno, r.end.Flags = uint16(unix.EBUSY), uapi.CopyCompleted
		return unix.EBUSY
	case c.Item.FID != r.Data:
		return l.wrong("ends the archive of %v as one of %v", r.Data, c.Item.FID)
	}
	l.files[r.FID].archived, l.ends[r.FID] = true, version
	return 0
}

// restored swaps the contents.
func (l *Lustre) restored(r *request, c *uapi.Copy) unix.Errno {
	v := l.volatile(c.Item.FID)
	if v == nil || v.times == nil {
		return l.wrong("ends a restore with %v, which is none, or has no times", c.Item.FID)
	}
	if MDT(v.fid) != MDT(r.FID) {
		return l.wrong("restores %v into %v: contents change places on one MDT", r.FID, v.fid)
	}
	f, err := os.OpenFile(l.at(r.FID), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil { // a file that is gone has been restored (hsm_cdt_request_completed)
		return 0
	}
	defer f.Close()
	info, err := v.file.Stat()
	if err == nil {
		_, err = io.Copy(f, io.NewSectionReader(v.file, 0, info.Size()))
	}
	mtime := v.times.Mtime
	if err == nil {
		err = os.Chtimes(f.Name(), time.Unix(mtime.Sec, mtime.Nsec), time.Unix(mtime.Sec, mtime.Nsec))
	}
	if err != nil {
		return l.wrong("restore of %v: %v", r.FID, err)
	}
	l.files[r.FID].released = false
	l.ends[r.FID], _ = l.versionOf(r.FID)
	return 0
}

func (l *Lustre) versionOf(f lustre.FID) (uint64, error) {
	file, err := os.Open(l.at(f))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return l.version(int(file.Fd()))
}

// version is another one after each write.
func (l *Lustre) version(fd int) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	v := uint64(st.Size)*1_000_003 + uint64(st.Mtim.Nano())
	if s := l.stateOf(fd); s != nil {
		v += s.writes << 32
	}
	return v, nil
}

// stateOf is what HSM knows of an open file; nil of one without a name.
func (l *Lustre) stateOf(fd int) *state {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil
	}
	f, err := lustre.ParseFID(filepath.Base(name))
	if err != nil {
		return nil
	}
	return l.files[f]
}

func (l *Lustre) volatile(f lustre.FID) *volatile {
	for _, v := range l.swaps {
		if v.fid == f {
			return v
		}
	}
	return nil
}

// self gives a file that a copytool has made a FID, and takes its name away.
func (l *Lustre) self(fd int, arg []byte) unix.Errno {
	var st unix.Stat_t
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil || filepath.Dir(name) != l.Mount || len(filepath.Base(name)) < 5 || filepath.Base(name)[:5] != ".\x0c\x13\x14\x12" {
		return l.wrong("asks for the FID of %q, %v", name, err)
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = os.Remove(name)
	}
	if err != nil {
		return l.wrong("volatile %q: %v", name, err)
	}
	l.next++
	mdt := strings.Split(filepath.Base(name), ":")[2] // ".^L^S^T^R:VOLATILE:MDT:NUMBER"; one without a number may be on any
	v := &volatile{fid: lustre.FID{Seq: 0x200000bd1, OID: l.next}, file: os.NewFile(uintptr(own), "volatile")}
	if mdt == "0001" {
		v.fid.Seq = secondMDT + 0xbd1
	}
	l.swaps[st.Ino] = v
	copy(arg, uapi.AppendFID(nil, v.fid))
	return 0
}

func (l *Lustre) path(arg []byte) unix.Errno {
	f, err := uapi.DecodeFID(arg)
	if err != nil {
		return l.wrong("asks for a path: %v", err)
	}
	path := l.paths[f]
	if path == "" {
		return unix.ENOENT
	}
	copy(arg[32:], path+"\x00") // behind struct getinfo_fid2path
	return 0
}

func (l *Lustre) setTimes(fd int, arg []byte) unix.Errno {
	var st unix.Stat_t
	times, err := uapi.DecodeTimes(arg)
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if v := l.swaps[st.Ino]; err == nil && v != nil {
		v.times = &times
		return 0
	}
	return l.wrong("sets times of what it has not made: %v", err)
}
